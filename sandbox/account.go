package sandbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Account is an account id with a key. An Account is not bound to one world: it can sign in the
// world that created it and in all worlds that continue from that world. A zero Key signs nothing;
// see World.Impersonate.
type Account struct {
	ID  primitives.AccountID
	Key primitives.SecretKey
}

// Near returns the account "near", which exists in the genesis and holds most of the tokens.
func Near() *Account { return Named("near") }

// Named returns the account with that id and the key that Create gives it. Named does not create
// the account. The key is derived from the id, so the key is no secret.
func Named(id primitives.AccountID) *Account {
	return &Account{id, primitives.TestKey(id)}
}

// KeyFile returns the account's keys as JSON with account_id, public_key and secret_key. Other
// tools read such a file: near-cli, near-api-js, `troupe --key`. Key.String() is the text of the
// secret key alone.
func (a *Account) KeyFile() []byte {
	return (&primitives.KeyFile{AccountID: a.ID, SecretKey: a.Key}).MarshalIndent()
}

// Create creates an account with a balance and one full access key, the key of Named. If the
// account exists, the account gets this balance and this key, and keeps its contract, its data and
// its existing keys.
func (w *World) Create(ctx context.Context, id primitives.AccountID, amount primitives.Balance) (*Account, error) {
	if _, err := primitives.ParseAccountID(string(id)); err != nil {
		return nil, fmt.Errorf("sandbox: create %q: %w", id, err)
	}
	return w.endow(ctx, id, &amount)
}

// AddKey gives an account that exists the key of Named, without a transaction.
func (w *World) AddKey(ctx context.Context, id primitives.AccountID) (*Account, error) {
	return w.endow(ctx, id, nil)
}

// endow gives an account the key of Named. If amount is not nil, endow also sets the balance.
func (w *World) endow(ctx context.Context, id primitives.AccountID, amount *primitives.Balance) (*Account, error) {
	a := Named(id)
	key := a.Key.PublicKey().Handle()
	s, err := w.state(view.BlockRef{}, id)
	if err != nil {
		return nil, w.wrap(err, "create %s", id)
	}
	account := primitives.Account{StorageUsage: primitives.AccountStorage}
	exists, err := s.Account(id, &account)
	hasKey := false
	if err == nil && exists {
		hasKey, err = s.AccessKey(id, key, new(primitives.AccessKey))
	}
	s.Release()
	switch {
	case err != nil:
		return nil, w.wrap(err, "create %s", id)
	case !exists && amount == nil:
		return nil, fmt.Errorf("sandbox: add a key to %s: %w", id, ErrNoAccount)
	}
	if amount != nil {
		account.Amount = *amount
	}
	var records []genesis.Record
	if !hasKey { // otherwise the nonce of the key would decrease
		account.StorageUsage += primitives.FullAccessKeyStorage
		records = append(records, &genesis.AccessKeyRecord{AccountID: id, PublicKey: key})
	}
	records = slices.Insert(records, 0, genesis.Record(&genesis.AccountRecord{AccountID: id, Account: account}))
	if err := w.chain.Backend().PatchState(ctx, records); err != nil {
		return nil, w.wrap(err, "create %s", id)
	}
	return a, nil
}

// Account returns an account at the head. Method Account returns ErrNoAccount if the account does
// not exist.
func (w *World) Account(id primitives.AccountID) (primitives.Account, error) {
	return w.account(view.BlockRef{}, id)
}

// AccountAt does the same as Account after the block at a height.
func (w *World) AccountAt(height primitives.Height, id primitives.AccountID) (primitives.Account, error) {
	return w.account(view.BlockRef{Kind: view.RefHeight, Height: height}, id)
}

// Balance returns the liquid balance of an account at the head. The refunds of a transaction are
// included once Send or Call has returned.
func (w *World) Balance(id primitives.AccountID) (primitives.Balance, error) {
	a, err := w.Account(id)
	return a.Amount, err
}

// BalanceAt does the same as Balance after the block at a height.
func (w *World) BalanceAt(height primitives.Height, id primitives.AccountID) (primitives.Balance, error) {
	a, err := w.AccountAt(height, id)
	return a.Amount, err
}

func (w *World) account(at view.BlockRef, id primitives.AccountID) (a primitives.Account, err error) {
	s, err := w.state(at, id)
	if err != nil {
		return a, w.wrap(err, "read account %s", id)
	}
	defer s.Release()
	exists, err := s.Account(id, &a)
	if err == nil && !exists {
		err = ErrNoAccount
	}
	return a, w.wrap(err, "read account %s", id)
}

// state returns the state of an account's shard after a block.
func (w *World) state(at view.BlockRef, id primitives.AccountID) (view.State, error) {
	if w.chain.Ended() {
		return nil, ErrEnded
	}
	return w.chain.Backend().State(at, id)
}

// signing returns the public key and the nonce for an account's next transaction. If the account
// does not have the key because it is uninitialized, the nonce is the account's own nonce.
func (w *World) signing(a *Account) (key primitives.PublicKey, nonce primitives.Nonce, err error) {
	s, err := w.state(view.BlockRef{}, a.ID)
	if err != nil {
		return "", 0, err
	}
	defer s.Release()
	if a.Key.IsZero() {
		if key, err = anyKey(s, a.ID); err != nil {
			return "", 0, err
		}
	} else {
		key = a.Key.PublicKey()
	}
	var k primitives.AccessKey
	there, err := s.AccessKey(a.ID, key.Handle(), &k)
	if err != nil {
		return "", 0, err
	}
	if !there {
		var account primitives.Account
		found, err := s.Account(a.ID, &account)
		switch {
		case err != nil:
			return "", 0, err
		case !found:
			return "", 0, fmt.Errorf("account %s: %w", a.ID, ErrNoAccount)
		case !account.IsInitialized(): // only the next nonce is valid
			return key, account.BootstrapNonce + 1, nil
		}
		return "", 0, fmt.Errorf("account %s, key %v: %w", a.ID, key, ErrNoKey)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := signer{a.ID, key}
	nonce = max(k.Nonce, w.nonces[at]) + 1
	w.nonces[at] = nonce
	return key, nonce, nil
}

// maxKeys is the maximum number of an account's keys that anyKey examines.
const maxKeys = 1000

// anyKey returns a full access key of an account.
func anyKey(s view.State, id primitives.AccountID) (primitives.PublicKey, error) {
	keys, _, err := s.AccessKeys(id, "", maxKeys)
	if err != nil {
		return "", err
	}
	for i := range keys {
		if key, ok := keys[i].Handle.FullKey(); ok && keys[i].AccessKey.IsFullAccess() && keys[i].AccessKey.GasKey == nil {
			return key, nil
		}
	}
	return "", fmt.Errorf("account %s has no full access key; AddKey gives it one: %w", id, ErrNoKey)
}
