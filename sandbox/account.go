package sandbox

import (
	"context"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Account is an account id with a key. It does not belong to a world: it can sign in the world that
// created it and in all worlds that continue from there.
type Account struct {
	ID  primitives.AccountID
	Key primitives.SecretKey
}

// Near returns the account "near", which exists in the genesis and holds most of the tokens.
func Near() *Account { return Named("near") }

// Named returns the account of that id with the key that Create gives it. It does not create the
// account.
func Named(id primitives.AccountID) *Account {
	return &Account{id, primitives.SecretKeyFromSeed(primitives.ED25519, string(id))}
}

// Create creates an account with an amount and one full access key, that of Named. If an account
// with this key exists already, it returns that and changes nothing.
func (w *World) Create(ctx context.Context, id primitives.AccountID, amount primitives.Balance) (*Account, error) {
	a := Named(id)
	// storage_usage of an account with one full access key (nearcore: 100 for the account, 40 for a
	// key, and the lengths 33 and 9 of key and value).
	record := &genesis.AccountRecord{AccountID: id, Account: primitives.Account{Amount: amount, StorageUsage: 182}}
	key := &genesis.AccessKeyRecord{AccountID: id, PublicKey: a.Key.PublicKey().Handle()}
	if err := w.realm.Backend().PatchState(ctx, []genesis.Record{record, key}); err != nil {
		return nil, fmt.Errorf("sandbox: create %s: %w", id, err)
	}
	return a, nil
}

// Balance returns the liquid balance of an account at the head. Refunds for transactions that Send
// has completed are included.
func (w *World) Balance(id primitives.AccountID) (b primitives.Balance, err error) {
	s, err := w.realm.Backend().State(view.BlockRef{Kind: view.RefOptimistic}, id)
	if err != nil {
		return b, err
	}
	defer s.Release()
	var a primitives.Account
	there, err := s.Account(id, &a)
	if err == nil && !there {
		err = fmt.Errorf("sandbox: account %s does not exist", id)
	}
	return a.Amount, err
}

// nonce returns the next nonce of a key. Without the key it is that of the account if this is
// uninitialized.
func (w *World) nonce(a *Account) (primitives.Nonce, error) {
	key := a.Key.PublicKey()
	s, err := w.realm.Backend().State(view.BlockRef{Kind: view.RefOptimistic}, a.ID)
	if err != nil {
		return 0, err
	}
	defer s.Release()
	var k primitives.AccessKey
	there, err := s.AccessKey(a.ID, key.Handle(), &k)
	if err != nil {
		return 0, err
	}
	if !there {
		var account primitives.Account
		if found, err := s.Account(a.ID, &account); err != nil {
			return 0, err
		} else if found && !account.IsInitialized() { // only the next nonce is valid
			return account.BootstrapNonce + 1, nil
		}
		return 0, fmt.Errorf("sandbox: account %s has no key %v", a.ID, key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := signer{a.ID, key}
	n := max(k.Nonce, w.nonces[at]) + 1
	w.nonces[at] = n
	return n, nil
}
