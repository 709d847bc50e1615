package apply

import "github.com/troupe-chain/troupe/primitives"

// OrderIncoming brings one block's incoming receipts into the order in which they are applied:
// lists has one entry for each new chunk of the block, in the block's order, with what that chunk
// sends to the shard. The entries are shuffled, seeded by the block's prev_hash, and joined
// (nearcore chain/chain/src/chain.rs:3493). lists is left as it was.
//
// A shard that applies a chunk takes this block's receipts, then those of older blocks going back
// to, not including, the block of its previous chunk, each block ordered by itself.
func OrderIncoming(prevHash primitives.Hash, lists [][]*primitives.Receipt) []*primitives.Receipt {
	order := make([]int, len(lists))
	n := 0
	for i := range order {
		order[i] = i
		n += len(lists[i])
	}
	primitives.Shuffle(primitives.NewChaCha20Rng(prevHash), order)
	out := make([]*primitives.Receipt, 0, n)
	for _, i := range order {
		out = append(out, lists[i]...)
	}
	return out
}
