package chain

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// ProveReceipts returns the proofs of a chunk's outgoing receipts: one for each shard of the
// layout, in its order, including shards without receipts.
func ProveReceipts(from primitives.ShardID, receipts []*primitives.Receipt,
	layout primitives.ShardLayout) []primitives.ReceiptProof {
	_, out := ProveOutgoing(from, receipts, layout)
	return out
}

// ProveOutgoing returns OutgoingReceiptsRoot and the proofs of ProveReceipts.
func ProveOutgoing(from primitives.ShardID, receipts []*primitives.Receipt,
	layout primitives.ShardLayout) (primitives.Hash, []primitives.ReceiptProof) {
	groups := GroupReceipts(receipts, layout)
	out := make([]primitives.ReceiptProof, len(groups))
	leaves := make([]primitives.Hash, len(groups))
	for i, g := range groups {
		out[i] = primitives.ReceiptProof{Receipts: g.Receipts, From: from, To: g.ShardID}
		leaves[i] = out[i].Leaf()
	}
	root, paths := primitives.Merklize(leaves)
	for i := range out {
		out[i].Proof = paths[i]
	}
	return root, out
}

// CutChunk returns a chunk as a node receives it that tracks only the shards to of the layout and
// not the chunk's own.
func CutChunk(c *primitives.Chunk, layout primitives.ShardLayout, to []primitives.ShardID) *primitives.Chunk {
	cut := &primitives.Chunk{Hash: c.Hash, Header: c.Header, Proofs: []primitives.ReceiptProof{}}
	for _, p := range ProveReceipts(c.Header.ShardID, c.PrevOutgoingReceipts, layout) {
		if slices.Contains(to, p.To) {
			cut.Proofs = append(cut.Proofs, p)
		}
	}
	return cut
}

// maxProofPath bounds a proof's path: no layout has more than 2^10 shards.
const maxProofPath = 10

// ValidateProofs validates the proofs that came with a chunk's header: they prove the receipts of
// the chunk to the shards that they name, one proof a shard. Errors: InvalidChunk,
// InvalidReceiptsProof.
func ValidateProofs(c *primitives.Chunk) error {
	if c.Hash != c.Header.ChunkHash() {
		return invalidf(InvalidChunk, "the hash does not match the header")
	}
	for i := range c.Proofs {
		p := &c.Proofs[i]
		if p.From != c.Header.ShardID || len(p.Proof) > maxProofPath || !p.Verify(c.Header.PrevOutgoingReceiptsRoot) {
			return invalidf(InvalidReceiptsProof, "the proof of receipts from shard %d to shard %d does not verify", p.From, p.To)
		}
		for k := range i {
			if c.Proofs[k].To == p.To {
				return invalidf(InvalidReceiptsProof, "two proofs to shard %d", p.To)
			}
		}
	}
	return nil
}

// ProofTo returns the proof of a chunk's receipts to a shard. Nil: none.
func ProofTo(c *primitives.Chunk, to primitives.ShardID) *primitives.ReceiptProof {
	i := slices.IndexFunc(c.Proofs, func(p primitives.ReceiptProof) bool { return p.To == to })
	if i < 0 {
		return nil
	}
	return &c.Proofs[i]
}

// Proves returns whether a chunk has proofs to all of these shards.
func Proves(c *primitives.Chunk, to []primitives.ShardID) bool {
	return !slices.ContainsFunc(to, func(id primitives.ShardID) bool { return ProofTo(c, id) == nil })
}
