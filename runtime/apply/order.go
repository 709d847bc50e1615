package apply

import "github.com/troupe-chain/troupe/primitives"

// OrderIncoming puts the incoming receipts of one block into the order in which a chunk applies the
// receipts. lists has one entry per new chunk of the block, in the block's order. An entry contains
// the receipts that the entry's chunk sends to the shard. The entries are shuffled with the block's
// prev_hash as seed, then joined (nearcore chain/chain/src/chain.rs:3493). lists is not changed.
//
// A shard that applies a chunk takes the receipts of the chunk's block first, then the receipts of
// that block's ancestors, the newest ancestor first. The shard stops at the block that has the
// shard's previous chunk. Each block is ordered by itself.
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
