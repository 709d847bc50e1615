package chunkparts

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// reassemble decodes the body and stores all parts and receipt proofs in the entry. It returns nil
// if the producer signed parts that do not decode to a chunk. If the body encodes to exactly the
// signed parts, Chunk.Whole is set to the chunk's hash. Otherwise validation must encode the body
// again, and will find that the parts differ from the signed parts.
func (p *Pool) reassemble(e *entry, layout primitives.ShardLayout) *primitives.Chunk {
	parts, whole := p.decodeParts(e)
	if parts == nil {
		return nil
	}
	leaves := slices.Clone(e.leaves)
	for i, x := range e.parts {
		if x == nil {
			leaves[i] = primitives.PartLeaf(parts[i])
		}
	}
	h, tree := e.header, primitives.NewMerkleTree(leaves)
	raw := slices.Concat(parts[:p.rs.DataParts()]...)
	c := &primitives.Chunk{Hash: e.hash, Header: *h}
	if tree.Root() != h.EncodedMerkleRoot || h.EncodedLength > uint64(len(raw)) ||
		borsh.UnmarshalWithin(raw[:h.EncodedLength], &c.ChunkBody, borsh.RoomFor(len(raw))) != nil {
		return nil
	}
	outgoing, proofs := chain.ProveOutgoing(h.ShardID, c.PrevOutgoingReceipts, layout)
	if outgoing != h.PrevOutgoingReceiptsRoot || chain.TxRoot(c.Transactions) != h.TxRoot {
		return nil
	}
	for i, path := range tree.Paths() {
		e.put(&primitives.ChunkPart{Ord: uint64(i), Part: parts[i], Proof: path}, leaves[i])
	}
	for _, r := range proofs {
		e.receipts[r.To] = r
	}
	primitives.Encoded(&c.ChunkBody, func(b []byte) {
		rest := raw[h.EncodedLength:]
		if whole && bytes.Equal(b, raw[:h.EncodedLength]) && !slices.ContainsFunc(rest, func(x byte) bool { return x != 0 }) {
			c.Whole = c.Hash
		}
	})
	return c
}

// decodeParts restores all parts from the present ones. parts is nil if the present parts do not
// decode. whole is true if each present part equals the restored part of its number.
func (p *Pool) decodeParts(e *entry) (parts [][]byte, whole bool) {
	parts, needed := make([][]byte, len(e.parts)), p.rs.DataParts()
	for i, x := range e.parts {
		if x != nil && needed > 0 {
			parts[i] = x.Part
			needed--
		}
	}
	if p.rs.Reconstruct(parts, e.header.EncodedLength) == nil && !slices.ContainsFunc(e.parts, func(x *primitives.ChunkPart) bool {
		return x != nil && !bytes.Equal(x.Part, parts[x.Ord])
	}) {
		return parts, true
	}
	// the signed parts are not a codeword: decode them as nearcore does
	parts = make([][]byte, len(e.parts))
	for i, x := range e.parts {
		if x != nil {
			parts[i] = x.Part
		}
	}
	if p.rs.Reconstruct(parts, e.header.EncodedLength) != nil {
		return nil, false
	}
	return parts, false
}
