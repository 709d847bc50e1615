package sandbox

import (
	"context"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Account is an account with a key of it. It is of no world: where it has been made, and in all
// that go on from there, it may sign.
type Account struct {
	ID  primitives.AccountID
	Key primitives.SecretKey
}

// Near is the account "near", which is there from the beginning and has most of what there is.
func Near() *Account { return Named("near") }

// Named is the account that Create makes of that name.
func Named(id primitives.AccountID) *Account {
	return &Account{id, primitives.SecretKeyFromSeed(primitives.ED25519, string(id))}
}

// Create makes an account with an amount and one key, which is that of Named, or gives one that is
// there both.
func (w *World) Create(ctx context.Context, id primitives.AccountID, amount primitives.Balance) (*Account, error) {
	a := Named(id)
	// storage_usage: what the protocol counts for an account and a full access key (nearcore: 100,
	// and 40 with the key's 33 and the value's 9).
	record := &genesis.AccountRecord{AccountID: id, Account: primitives.Account{Amount: amount, StorageUsage: 182}}
	key := &genesis.AccessKeyRecord{AccountID: id, PublicKey: a.Key.PublicKey().Handle()}
	if err := w.realm.Backend().PatchState(ctx, []genesis.Record{record, key}); err != nil {
		return nil, fmt.Errorf("sandbox: create %s: %w", id, err)
	}
	return a, nil
}

// Balance is what an account has at the head, without its stake. Refunds of what Send has returned
// from are in it.
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

// nonce is the next one of a key.
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
		return 0, fmt.Errorf("sandbox: account %s has no key %v", a.ID, key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := signer{a.ID, key}
	n := max(k.Nonce, w.nonces[at]) + 1
	w.nonces[at] = n
	return n, nil
}
