package apply

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/state"
)

// A patch is written behind all that a chunk does, as nearcore's apply_state_patch (runtime/runtime/src/lib.rs:1806), with the cause
// migration. Beyond nearcore's four kinds of records all kinds can be patched, and what a record names be removed. What would make the
// state contradict itself, and stop the chain later, is not done: who asks is told before, see engine.CheckPatch, and a transaction in
// between changes nothing of that.

// patchQueue puts a patch's delayed receipts behind the shard's queue, before that is counted.
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

// patch writes the rest.
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
		hash := primitives.HashBytes(r.Code)
		u.SetCode(r.AccountID, hash, r.Code)
		return patchContract(u, r.AccountID, primitives.AccountContract{Kind: primitives.ContractLocal, Hash: hash})
	case *genesis.AccessKeyRecord:
		u.SetAccessKey(r.AccountID, r.PublicKey, &r.AccessKey)
	case *genesis.GasKeyNonceRecord:
		u.SetGasKeyNonce(r.AccountID, r.PublicKey, r.Index, r.Nonce)
	case *genesis.ReceivedDataRecord:
		u.SetReceivedData(r.AccountID, r.DataID, r.Data)
	case *genesis.PostponedReceiptRecord:
		return patchPostponed(u, r.Receipt)
	case *genesis.DelayedReceiptRecord: // in the queue already
	case *genesis.Removal:
		return patchRemoval(u, r.Of)
	default:
		panic(fmt.Sprintf("apply: no case for %T", r))
	}
	return nil
}

// patchAccount writes an account. What is locked never becomes less: it may be a validator's, whose stake each epoch's first block looks
// for.
func patchAccount(u *state.TrieUpdate, r *genesis.AccountRecord) error {
	a := r.Account
	var old primitives.Account
	switch found, err := u.Account(r.AccountID, &old); {
	case err != nil:
		return err
	case found && a.Locked.Less(old.Locked):
		a.Locked = old.Locked
	}
	u.SetAccount(r.AccountID, &a)
	return nil
}

// patchContract sets what an account says of its code.
func patchContract(u *state.TrieUpdate, id primitives.AccountID, to primitives.AccountContract) error {
	var a primitives.Account
	if found, err := u.Account(id, &a); !found || err != nil || a.Contract == to {
		return err
	}
	a.Contract = to
	u.SetAccount(id, &a)
	return nil
}

// patchPostponed stores a receipt that waits for data, or a yield. One that waits for nothing is left out.
func patchPostponed(u *state.TrieUpdate, r *primitives.Receipt) error {
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return nil
	}
	if a.Yield {
		if len(a.InputDataIDs) == 1 {
			u.SetYieldReceipt(r, a.InputDataIDs[0])
		}
		return nil
	}
	var missing []primitives.Hash
	for _, id := range a.InputDataIDs {
		switch there, err := u.HasReceivedData(r.ReceiverID, id); {
		case err != nil:
			return err
		case !there:
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for _, id := range missing {
		u.SetPostponedReceiptID(r.ReceiverID, id, r.ID)
	}
	u.SetPendingDataCount(r.ReceiverID, r.ID, uint32(len(missing)))
	u.SetPostponedReceipt(r)
	return nil
}

// patchRemoval takes out what a record names: with an account its code, keys and data, with a gas key its nonces.
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
			if len(k) == len(key)+2 { // the index
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
		u.RemoveGasKeyNonce(r.AccountID, r.PublicKey, r.Index)
	case *genesis.PostponedReceiptRecord, *genesis.ReceivedDataRecord, *genesis.DelayedReceiptRecord, *genesis.Removal:
		panic(fmt.Sprintf("apply: a %T can't be removed", r))
	default:
		panic(fmt.Sprintf("apply: no case for %T", r))
	}
	return nil
}
