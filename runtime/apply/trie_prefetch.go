package apply

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// prefetchBatch is the number of keys that one call of Par looks up.
const prefetchBatch = 32

// prefetch prefetches trie nodes.
//
// The problem: a trie that is not resident loads nodes from disk or from a remote chain.
// Transactions and receipts are applied one after the other, so each transaction or receipt would
// wait for its own loads.
//
// Outline: before the chunk is applied, prefetch looks up the accounts and access keys that its
// transactions and incoming receipts name. prefetch looks these keys up in parallel, and in sorted
// order, because neighbours are loaded together. Lookups go to the trie below the state update.
//
// Invariants: nothing is recorded, so proofs and outcomes do not depend on prefetching. Errors
// are ignored: the lookup fails again when Apply needs the value, and Apply reports the error
// then. Only keys that are sure to be read are looked up. Keys of contract data are not looked
// up, because they are known only when the contract runs.
func (c *chunk) prefetch() {
	t, ok := c.in.Trie.(state.Warmer)
	if c.in.Par == nil || !ok || !t.Cold() {
		return
	}
	keys := c.prefetchKeys()
	slices.SortFunc(keys, bytes.Compare) // so that neighbouring keys are loaded together
	keys = slices.CompactFunc(keys, bytes.Equal)
	c.in.Par((len(keys)+prefetchBatch-1)/prefetchBatch, func(i int) {
		for _, key := range keys[i*prefetchBatch : min((i+1)*prefetchBatch, len(keys))] {
			if _, _, err := t.Lookup(key, nil); err != nil {
				return
			}
		}
	})
}

// prefetchKeys returns the keys of the accounts and access keys that the chunk is sure to read.
func (c *chunk) prefetchKeys() (keys [][]byte) {
	own := func(id primitives.AccountID) bool { return c.in.Layout.ShardOf(id) == c.in.Block.ShardID }
	for i := range c.in.Transactions {
		tx := &c.in.Transactions[i].Transaction
		keys = append(keys, primitives.AppendAccountKey(nil, tx.SignerID), primitives.AppendAccessKeyKey(nil, tx.SignerID, tx.PublicKey.Handle()))
		if tx.ReceiverID != tx.SignerID && own(tx.ReceiverID) {
			keys = append(keys, primitives.AppendAccountKey(nil, tx.ReceiverID))
		}
	}
	for _, r := range c.in.Incoming {
		keys = append(keys, primitives.AppendAccountKey(nil, r.ReceiverID))
	}
	return keys
}
