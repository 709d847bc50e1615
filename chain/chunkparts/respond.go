package chunkparts

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// encodedChunk is a stored chunk that was encoded again to answer requests. It is cached because
// each peer requests only a few parts.
type encodedChunk struct {
	hash     primitives.Hash
	parts    []*primitives.ChunkPart // parts by number; nil: not computed yet
	receipts map[primitives.ShardID]primitives.ReceiptProof
	bytes    uint64 // size of parts and receipts in bytes
}

// respond answers a request from the entry. If the chunk has no entry, respond uses the stored
// partial chunk, or else encodes the stored chunk again. Requests are short and unsigned, so a peer
// could cause much work with them. Therefore respond first removes duplicates and nonexistent parts
// and shards. It computes only the requested data.
func (p *Pool) respond(q *primitives.ChunkRequest) *primitives.ChunkResponse {
	a := &primitives.ChunkResponse{ChunkHash: q.ChunkHash}
	ords, shards := slices.Clone(q.Ords), slices.Clone(q.Shards)
	slices.Sort(ords)
	slices.Sort(shards)
	ords, shards = slices.DeleteFunc(slices.Compact(ords),
		func(ord uint64) bool { return ord >= uint64(p.rs.TotalParts()) }), slices.Compact(shards)
	take := func(parts []*primitives.ChunkPart, receipts map[primitives.ShardID]primitives.ReceiptProof) {
		ords = slices.DeleteFunc(ords, func(ord uint64) bool {
			found := ord < uint64(len(parts)) && parts[ord] != nil
			if found {
				a.Parts = append(a.Parts, *parts[ord])
			}
			return found
		})
		shards = slices.DeleteFunc(shards, func(s primitives.ShardID) bool {
			r, found := receipts[s]
			if found {
				a.Receipts = append(a.Receipts, r)
			}
			return found
		})
	}
	if e := p.entries[q.ChunkHash]; e != nil && len(ords)+len(shards) > 0 {
		take(e.parts, e.receipts)
		if id, known := p.chain.Epoch(e.header.PrevBlockHash); known {
			shards = p.existingShards(id, shards)
		}
	}
	if len(ords)+len(shards) > 0 {
		// A node that tracks the shard has stored a partial chunk with all parts and receipts.
		if kept := p.chain.StoredPartial(q.ChunkHash); kept != nil {
			take(p.indexByNumber(kept))
		} else if x := p.encodeStored(q.ChunkHash, ords, shards); x != nil {
			take(x.parts, x.receipts)
		}
	}
	slices.SortFunc(a.Parts, func(x, y primitives.ChunkPart) int { return int(x.Ord) - int(y.Ord) })
	slices.SortFunc(a.Receipts, func(x, y primitives.ReceiptProof) int { return int(x.To) - int(y.To) })
	return a
}

// existingShards removes the shards that the epoch's layout does not contain.
func (p *Pool) existingShards(id primitives.EpochID, shards []primitives.ShardID) []primitives.ShardID {
	layout, err := p.chain.Layout(id)
	return slices.DeleteFunc(shards, func(s primitives.ShardID) bool { return err != nil || !layout.Has(s) })
}

func (p *Pool) indexByNumber(c *primitives.PartialChunk) ([]*primitives.ChunkPart, map[primitives.ShardID]primitives.ReceiptProof) {
	parts, receipts := make([]*primitives.ChunkPart, p.rs.TotalParts()), map[primitives.ShardID]primitives.ReceiptProof{}
	for i := range c.Parts {
		if x := &c.Parts[i]; x.Ord < uint64(len(parts)) {
			parts[x.Ord] = x
		}
	}
	for _, r := range c.Receipts {
		receipts[r.To] = r
	}
	return parts, receipts
}

// encodeStored returns the requested parts and proofs of a stored chunk. encodeStored takes the
// parts and proofs from the cache or computes them. encodeStored returns nil if the chunk is not
// stored.
func (p *Pool) encodeStored(hash primitives.Hash, ords []uint64, shards []primitives.ShardID) *encodedChunk {
	x := &encodedChunk{hash: hash}
	if i := slices.IndexFunc(p.encoded, func(c *encodedChunk) bool { return c.hash == hash }); i >= 0 {
		x = p.encoded[i]
		copy(p.encoded[1:i+1], p.encoded[:i])
		p.encoded[0] = x
		if (x.parts != nil || len(ords) == 0) && (x.receipts != nil || len(shards) == 0) {
			return x
		}
	}
	c := p.chain.Stored(hash)
	if c == nil {
		return nil
	}
	if c.Proofs != nil { // the chunk is stored without its body
		x.receipts = map[primitives.ShardID]primitives.ReceiptProof{}
		for _, r := range c.Proofs {
			x.receipts[r.To] = r
		}
		return x
	}
	id, known := p.chain.Epoch(c.Header.PrevBlockHash)
	if !known || len(ords)+len(p.existingShards(id, slices.Clone(shards))) == 0 {
		return nil
	}
	layout, err := p.chain.Layout(id)
	if err != nil {
		return nil
	}
	if x.receipts == nil && len(shards) > 0 {
		x.receipts = map[primitives.ShardID]primitives.ReceiptProof{}
		for _, r := range chain.ProveReceipts(c.Header.ShardID, c.PrevOutgoingReceipts, layout) {
			x.receipts[r.To] = r
		}
		x.bytes += c.Header.EncodedLength
	}
	if x.parts == nil && len(ords) > 0 {
		body, err := chain.EncodeBody(&c.ChunkBody, p.rs)
		if err != nil || body.Root != c.Header.EncodedMerkleRoot || body.Length != c.Header.EncodedLength {
			return nil
		}
		paths := body.Tree.Paths()
		x.parts = make([]*primitives.ChunkPart, len(body.Parts))
		for i, part := range body.Parts {
			x.parts[i] = &primitives.ChunkPart{Ord: uint64(i), Part: part, Proof: paths[i]}
			x.bytes += uint64(len(part))
		}
	}
	p.cacheEncoded(x)
	return x
}

// cacheEncoded moves an encoded chunk to the front of the cache and evicts the least recently used
// ones.
func (p *Pool) cacheEncoded(x *encodedChunk) {
	if len(p.encoded) == 0 || p.encoded[0] != x {
		p.encoded = slices.Insert(p.encoded, 0, x)
	}
	bytes := uint64(0)
	for i, c := range p.encoded {
		if bytes += c.bytes; i == maxEncodedChunks || i > 0 && bytes > maxEncodedBytes {
			p.encoded = slices.Delete(p.encoded, i, len(p.encoded))
			return
		}
	}
}
