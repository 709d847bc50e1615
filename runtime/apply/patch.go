package apply

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/state"
)

// A patch is written at the end of the chunk, as in nearcore's apply_state_patch
// (runtime/runtime/src/lib.rs:1806), with the cause Migration. nearcore patches four kinds of
// records. Here all kinds of records can be patched, and records can be removed.
//
// This code skips a change that would make the state inconsistent, because such a change would stop
// the chain in a following block. engine.CheckPatch has already reported such a change to the
// client. Transactions that run between that check and the patch cannot make a checked change
// inconsistent.

// patchQueue appends the patch's delayed receipts to the delayed queue, before the queue is
// accounted for.
func (c *chunk) patchQueue() error {
	for _, r := range c.in.Patch {
		if r, ok := r.(*genesis.DelayedReceiptRecord); ok {
			if err := c.delay(r.Receipt); err != nil {
				return err
			}
		}
	}
	return nil
}

// patch writes all other records.
func (c *chunk) patch() error {
	if len(c.in.Patch) == 0 {
		return nil
	}
	for _, r := range c.in.Patch {
		if err := patchRecord(c.u, r); err != nil {
			return err
		}
	}
	c.u.Commit(primitives.CauseMigration, primitives.Hash{})
	return nil
}

func patchRecord(u *state.TrieUpdate, r genesis.Record) error {
	switch r := r.(type) {
	case *genesis.AccountRecord:
		return patchAccount(u, r)
	case *genesis.DataRecord:
		value := r.Value
		if value == nil {
			value = []byte{}
		}
		u.Set(primitives.AppendContractDataKey(nil, r.AccountID, r.Key), value)
	case *genesis.ContractRecord:
		var a primitives.Account
		if found, err := u.Account(r.AccountID, &a); err != nil || found && !a.IsInitialized() {
			return err // a missing or uninitialized account can have no code
		}
		hash := primitives.HashBytes(r.Code)
		u.SetCode(r.AccountID, hash, r.Code)
		return patchContract(u, r.AccountID, primitives.AccountContract{Kind: primitives.ContractLocal, Hash: hash})
	case *genesis.AccessKeyRecord:
		return patchKey(u, r)
	case *genesis.GasKeyNonceRecord:
		u.SetGasKeyNonce(r.AccountID, r.PublicKey, r.Index, r.Nonce)
	case *genesis.ReceivedDataRecord:
		u.SetReceivedData(r.AccountID, r.DataID, r.Data)
	case *genesis.PostponedReceiptRecord:
		return patchPostponed(u, r.Receipt)
	case *genesis.DelayedReceiptRecord: // patchQueue has written this record
	case *genesis.Removal:
		return patchRemoval(u, r.Of)
	case *genesis.ForkRecord:
		return u.Rebase(r.AccountID, r.Block, r.Keep)
	default:
		panic(fmt.Sprintf("apply: no case for %T", r))
	}
	return nil
}

// patchAccount writes an account. The locked balance never decreases: the account may be a
// validator, and the first block of each epoch expects the validator's stake in the locked balance.
// An initialized account does not become uninitialized.
func patchAccount(u *state.TrieUpdate, r *genesis.AccountRecord) error {
	a := r.Account
	var old primitives.Account
	switch found, err := u.Account(r.AccountID, &old); {
	case err != nil || found && old.IsInitialized() && !a.IsInitialized():
		return err
	case found && a.Locked.Less(old.Locked):
		a.Locked = old.Locked
	}
	u.SetAccount(r.AccountID, &a)
	return nil
}

// patchContract sets the contract field of an account, unless the account is uninitialized.
func patchContract(u *state.TrieUpdate, id primitives.AccountID, to primitives.AccountContract) error {
	var a primitives.Account
	if found, err := u.Account(id, &a); !found || err != nil || a.Contract == to || !a.IsInitialized() {
		return err
	}
	a.Contract = to
	u.SetAccount(id, &a)
	return nil
}

// Waits returns whether the state holds exactly this receipt as a postponed receipt or promise
// yield.
func Waits(u *state.TrieUpdate, r *primitives.Receipt) (bool, error) {
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return false, nil
	}
	var there *primitives.Receipt
	var err error
	if a.Yield {
		if len(a.InputDataIDs) == 1 {
			there, err = u.YieldReceipt(r.ReceiverID, a.InputDataIDs[0])
		}
	} else if has, e := u.HasPostponedReceipt(r.ReceiverID, r.ID); e != nil {
		err = e
	} else if has {
		there, err = u.PostponedReceipt(r.ReceiverID, r.ID)
	}
	return there != nil && bytes.Equal(there.AppendBorsh(nil), r.AppendBorsh(nil)), err
}

// MayWait returns whether a receipt can be stored as a postponed receipt or promise yield. Its id
// must be unused. None of the receipt's inputs may have arrived, be awaited by another receipt, or
// be listed twice. Otherwise two receipts would compete for one input, and the chunk that executes
// the second receipt could not be applied.
func MayWait(u *state.TrieUpdate, r *primitives.Receipt) (bool, error) {
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok || len(a.InputDataIDs) == 0 || a.Yield && len(a.InputDataIDs) != 1 {
		return false, nil
	}
	if taken, err := u.HasPostponedReceipt(r.ReceiverID, r.ID); taken || err != nil {
		return false, err
	}
	for i, id := range a.InputDataIDs {
		if slices.Contains(a.InputDataIDs[:i], id) {
			return false, nil
		}
		if come, err := u.HasReceivedData(r.ReceiverID, id); come || err != nil {
			return false, err
		}
		if _, taken, err := u.PostponedReceiptID(r.ReceiverID, id); taken || err != nil {
			return false, err
		}
		if taken, err := u.HasYieldReceipt(r.ReceiverID, id); taken || err != nil {
			return false, err
		}
	}
	return true, nil
}

// patchPostponed stores a receipt that waits for data, or a yield. It skips receipts that MayWait
// rejects.
func patchPostponed(u *state.TrieUpdate, r *primitives.Receipt) error {
	if may, err := MayWait(u, r); !may || err != nil {
		return err
	}
	a := r.Body.(*primitives.ActionReceipt) // MayWait has checked the type
	if a.Yield {
		u.SetYieldReceipt(r, a.InputDataIDs[0])
		return nil
	}
	for _, id := range a.InputDataIDs {
		u.SetPostponedReceiptID(r.ReceiverID, id, r.ID)
	}
	u.SetPendingDataCount(r.ReceiverID, r.ID, uint32(len(a.InputDataIDs)))
	u.SetPostponedReceipt(r)
	return nil
}

// patchKey writes an access key. patchKey gives a gas key all of its nonces.
func patchKey(u *state.TrieUpdate, r *genesis.AccessKeyRecord) error {
	u.SetAccessKey(r.AccountID, r.PublicKey, &r.AccessKey)
	if r.AccessKey.GasKey == nil {
		return nil
	}
	for i := range r.AccessKey.GasKey.NumNonces {
		switch _, there, err := u.GasKeyNonce(r.AccountID, r.PublicKey, i); {
		case err != nil:
			return err
		case !there:
			u.SetGasKeyNonce(r.AccountID, r.PublicKey, i, 0)
		}
	}
	return nil
}

// patchNonce removes a nonce of a gas key, unless the key exists and uses that nonce.
func patchNonce(u *state.TrieUpdate, r *genesis.GasKeyNonceRecord) error {
	var key primitives.AccessKey
	found, err := u.AccessKey(r.AccountID, r.PublicKey, &key)
	if err != nil || found && key.GasKey != nil && r.Index < key.GasKey.NumNonces {
		return err
	}
	u.RemoveGasKeyNonce(r.AccountID, r.PublicKey, r.Index)
	return nil
}

// patchRemoval removes the state of a record. patchRemoval removes an account together with its
// code, keys and data, and a gas key together with its nonces.
func patchRemoval(u *state.TrieUpdate, r genesis.Record) error {
	switch r := r.(type) {
	case *genesis.AccountRecord:
		var a primitives.Account
		if found, err := u.Account(r.AccountID, &a); !found || err != nil || !a.Locked.IsZero() {
			return err
		}
		_, err := u.RemoveAccount(r.AccountID)
		return err
	case *genesis.DataRecord:
		u.Remove(primitives.AppendContractDataKey(nil, r.AccountID, r.Key))
	case *genesis.ContractRecord:
		u.RemoveCode(r.AccountID)
		return patchContract(u, r.AccountID, primitives.AccountContract{})
	case *genesis.AccessKeyRecord:
		key := primitives.AppendAccessKeyKey(nil, r.AccountID, r.PublicKey)
		var nonces [][]byte
		err := u.Keys(key, func(k []byte) error {
			if len(k) == len(key)+2 { // the key ends with the index of the nonce, which has two bytes
				nonces = append(nonces, k)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, k := range nonces {
			u.Remove(k)
		}
		u.RemoveAccessKey(r.AccountID, r.PublicKey)
	case *genesis.GasKeyNonceRecord:
		return patchNonce(u, r)
	case *genesis.PostponedReceiptRecord, *genesis.ReceivedDataRecord, *genesis.DelayedReceiptRecord, *genesis.Removal, *genesis.ForkRecord:
		panic(fmt.Sprintf("apply: a record of type %T cannot be removed", r))
	default:
		panic(fmt.Sprintf("apply: no case for %T", r))
	}
	return nil
}
