package chunkparts

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// coded is what was made of a stored chunk for others, of whom each asks for a part or two.
type coded struct {
	hash     primitives.Hash
	parts    []*primitives.ChunkPart // nil: nobody has asked for any
	receipts map[primitives.ShardID]primitives.ReceiptProof
	bytes    uint64
}

// answer gives what is here, else what was kept of the chunk, else, where nothing was kept, what the stored chunk codes to. A request is short and nobody has
// signed it: what no chunk has is not looked for, and nothing is made that is not asked for.
func (p *Pool) answer(q *primitives.ChunkRequest) *primitives.ChunkResponse {
	a := &primitives.ChunkResponse{ChunkHash: q.ChunkHash}
	ords, shards := slices.Clone(q.Ords), slices.Clone(q.Shards)
	slices.Sort(ords)
	slices.Sort(shards)
	ords, shards = slices.DeleteFunc(slices.Compact(ords), func(ord uint64) bool { return ord >= uint64(p.rs.TotalParts()) }), slices.Compact(shards)
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
			shards = p.exist(id, shards)
		}
	}
	if len(ords)+len(shards) > 0 {
		if kept := p.chain.StoredPartial(q.ChunkHash); kept != nil { // who holds the shard has kept all of it
			take(p.byPlace(kept))
		} else if x := p.recode(q.ChunkHash, ords, shards); x != nil {
			take(x.parts, x.receipts)
		}
	}
	slices.SortFunc(a.Parts, func(x, y primitives.ChunkPart) int { return int(x.Ord) - int(y.Ord) })
	slices.SortFunc(a.Receipts, func(x, y primitives.ReceiptProof) int { return int(x.To) - int(y.To) })
	return a
}

// exist are those shards that an epoch has.
func (p *Pool) exist(id primitives.EpochID, shards []primitives.ShardID) []primitives.ShardID {
	layout, err := p.chain.Layout(id)
	return slices.DeleteFunc(shards, func(s primitives.ShardID) bool { return err != nil || !layout.Has(s) })
}

func (p *Pool) byPlace(c *primitives.PartialChunk) ([]*primitives.ChunkPart, map[primitives.ShardID]primitives.ReceiptProof) {
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

// recode makes parts and proofs of a stored chunk again, those that are asked for, unless they were made lately; nil: there is none.
func (p *Pool) recode(hash primitives.Hash, ords []uint64, shards []primitives.ShardID) *coded {
	x := &coded{hash: hash}
	if i := slices.IndexFunc(p.coded, func(c *coded) bool { return c.hash == hash }); i >= 0 {
		x = p.coded[i]
		copy(p.coded[1:i+1], p.coded[:i])
		p.coded[0] = x
		if (x.parts != nil || len(ords) == 0) && (x.receipts != nil || len(shards) == 0) {
			return x
		}
	}
	c := p.chain.Stored(hash)
	if c == nil {
		return nil
	}
	if c.Proofs != nil { // without its body
		x.receipts = map[primitives.ShardID]primitives.ReceiptProof{}
		for _, r := range c.Proofs {
			x.receipts[r.To] = r
		}
		return x
	}
	id, known := p.chain.Epoch(c.Header.PrevBlockHash)
	if !known || len(ords)+len(p.exist(id, slices.Clone(shards))) == 0 {
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
	p.keep(x)
	return x
}

// keep remembers what was made, and forgets what was asked for longest ago.
func (p *Pool) keep(x *coded) {
	if len(p.coded) == 0 || p.coded[0] != x {
		p.coded = slices.Insert(p.coded, 0, x)
	}
	bytes := uint64(0)
	for i, c := range p.coded {
		if bytes += c.bytes; i == maxCoded || i > 0 && bytes > maxCodedBytes {
			p.coded = slices.Delete(p.coded, i, len(p.coded))
			return
		}
	}
}
