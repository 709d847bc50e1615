package apply

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// warmBatch is the number of keys that one call of Par looks up.
const warmBatch = 32

// warm prefetches trie nodes.
//
// The problem: a trie that is not resident loads nodes from disk or from a remote chain.
// Transactions and receipts are applied one after the other, so each would wait for its own loads.
//
// Outline: before the chunk is applied, warm looks up the accounts and access keys that its
// transactions and incoming receipts name, in parallel and in sorted order, because neighbours are
// loaded together. Lookups go to the trie below the state update.
//
// Invariants: nothing is recorded, so proofs and outcomes do not depend on prefetching. Errors are
// ignored: the lookup fails again when it is needed, and is reported there. Only keys that are sure
// to be read are named. Contract data is not among them: it is known only when the contract runs.
func (c *chunk) warm() {
	t, ok := c.in.Trie.(state.Warmer)
	if c.in.Par == nil || !ok || !t.Cold() {
		return
	}
	keys := c.named()
	slices.SortFunc(keys, bytes.Compare) // neighbours are loaded together
	keys = slices.CompactFunc(keys, bytes.Equal)
	c.in.Par((len(keys)+warmBatch-1)/warmBatch, func(i int) {
		for _, key := range keys[i*warmBatch : min((i+1)*warmBatch, len(keys))] {
			if _, _, err := t.Lookup(key, nil); err != nil {
				return
			}
		}
	})
}

// named returns the keys of the accounts and access keys that the chunk is sure to read.
func (c *chunk) named() (keys [][]byte) {
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
