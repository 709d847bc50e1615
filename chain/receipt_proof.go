package chain

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// ProveReceipts returns the proofs of a chunk's outgoing receipts: one for each shard, by shard
// index in layout. A shard without receipts has a proof, too.
func ProveReceipts(from primitives.ShardID, receipts []*primitives.Receipt,
	layout primitives.ShardLayout) []primitives.ReceiptProof {
	_, out := ProveOutgoing(from, receipts, layout)
	return out
}

// ProveOutgoing returns the root that OutgoingReceiptsRoot returns, and the proofs that
// ProveReceipts returns.
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

// CutChunk returns a chunk in the form in which it is sent to a node that does not track the
// chunk's shard: without the body, but with the proofs of the receipts to the shards in to, which
// that node tracks.
func CutChunk(c *primitives.Chunk, layout primitives.ShardLayout, to []primitives.ShardID) *primitives.Chunk {
	cut := &primitives.Chunk{Hash: c.Hash, Header: c.Header, Proofs: []primitives.ReceiptProof{}}
	for _, p := range ProveReceipts(c.Header.ShardID, c.PrevOutgoingReceipts, layout) {
		if slices.Contains(to, p.To) {
			cut.Proofs = append(cut.Proofs, p)
		}
	}
	return cut
}

// maxProofPath is the maximum length of a proof's path. No layout has more than 2^10 shards.
const maxProofPath = 10

// ValidateProofs checks that each proof in c proves receipts of this chunk to the shard given in
// the proof, and that no shard has two proofs. Errors: InvalidChunk, InvalidReceiptsProof.
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

// ProofTo returns the proof in c of the receipts to a shard, or nil if there is none.
func ProofTo(c *primitives.Chunk, to primitives.ShardID) *primitives.ReceiptProof {
	i := slices.IndexFunc(c.Proofs, func(p primitives.ReceiptProof) bool { return p.To == to })
	if i < 0 {
		return nil
	}
	return &c.Proofs[i]
}

// Proves returns whether c has a proof for each of these shards.
func Proves(c *primitives.Chunk, to []primitives.ShardID) bool {
	return !slices.ContainsFunc(to, func(id primitives.ShardID) bool { return ProofTo(c, id) == nil })
}
