package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// DumpState calls each for the records of accounts (nil: all), as of the block at height (nil: the
// head).
func (s sandboxControl) DumpState(ctx context.Context, accounts []primitives.AccountID, height *uint64,
	each func(genesis.Record) error) (at view.At, err error) {
	at = view.At{Height: s.Engine.Head().Height(), Hash: s.Engine.Head().Hash}
	if height != nil {
		h := primitives.Height(*height)
		hash, err := s.store.HashAt(h)
		if errors.Is(err, storage.ErrNotFound) || h > at.Height {
			return at, &view.SandboxError{Reason: fmt.Sprintf("there is no block at height %d; the head is at %d", h, at.Height)}
		}
		if err != nil {
			return at, err
		}
		at = view.At{Height: h, Hash: hash}
	}
	err = s.Engine.EachRecord(ctx, at.Hash, accounts, each)
	if errors.Is(err, storage.ErrGone) {
		return at, &view.SandboxError{Reason: err.Error()}
	}
	return at, err
}

// LoadState replaces the state of accounts by records.
func (s sandboxControl) LoadState(ctx context.Context, records []genesis.Record) error {
	if err := s.checkExclusive(); err != nil {
		return err
	}
	patch, err := s.restOf(ctx, records)
	if err != nil {
		return err
	}
	for i, r := range patch {
		patch[i] = &genesis.Removal{Of: r}
	}
	_, _, err = s.Node.PatchState(ctx, append(patch, records...))
	return sandboxError(ctx, err)
}

// restOf returns keys, code and data that are in the state but not in records, for accounts with an
// Account record in records.
func (s sandboxControl) restOf(ctx context.Context, records []genesis.Record) (others []genesis.Record, err error) {
	whole := []primitives.AccountID{}
	there := map[string]bool{}
	for _, r := range records {
		if a, ok := r.(*genesis.AccountRecord); ok {
			whole = append(whole, a.AccountID)
		}
		there[nameOf(r)] = true
	}
	if len(whole) > 0 {
		err = s.Engine.EachRecord(ctx, s.Engine.Head().Hash, whole, func(r genesis.Record) error {
			if name := nameOf(r); name != "" && !there[name] {
				others = append(others, r)
			}
			return nil
		})
	}
	return others, err
}

// nameOf returns a name for a record that can be removed on its own. The name is empty for a record
// that can only be removed together with its account.
func nameOf(r genesis.Record) string {
	switch r := r.(type) {
	case *genesis.ContractRecord:
		return fmt.Sprintf("code %s", r.AccountID)
	case *genesis.DataRecord:
		return fmt.Sprintf("data %s %x", r.AccountID, r.Key)
	case *genesis.AccessKeyRecord:
		return fmt.Sprintf("key %s %s", r.AccountID, r.PublicKey)
	case *genesis.GasKeyNonceRecord:
		return fmt.Sprintf("nonce %s %s %d", r.AccountID, r.PublicKey, r.Index)
	case *genesis.AccountRecord, *genesis.PostponedReceiptRecord, *genesis.ReceivedDataRecord, *genesis.DelayedReceiptRecord, *genesis.Removal,
		*genesis.ForkRecord:
	}
	return ""
}

// Deal sets an account's balance of a token.
func (s sandboxControl) Deal(ctx context.Context, token, account primitives.AccountID, amount primitives.Balance) error {
	if err := s.checkExclusive(); err != nil {
		return err
	}
	r, err := s.Engine.Deal(ctx, token, account, amount)
	if errors.Is(err, engine.ErrDeal) {
		return &view.SandboxError{Reason: err.Error()}
	}
	if err != nil {
		return sandboxError(ctx, err)
	}
	return s.PatchState(ctx, []genesis.Record{r})
}

// Impersonate sets the accounts whose transactions need no signature.
func (s sandboxControl) Impersonate(accounts []primitives.AccountID, all bool) error {
	if err := s.checkExclusive(); err != nil {
		return err
	}
	s.checker.AllowUnsigned(accounts, all)
	return nil
}
