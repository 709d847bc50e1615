package apply

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// warmBatch is how many keys one call of Par looks up.
const warmBatch = 32

// warm looks up the accounts and keys that the chunk's transactions and receipts name, side by
// side, before they are applied one after the other: where the trie has to load them they would
// wait for each. Nothing is recorded, and what fails does so again in its turn.
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

// named are the keys of the accounts and access keys that are sure to be read.
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
