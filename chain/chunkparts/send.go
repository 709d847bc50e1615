package chunkparts

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// producers are the block producers of the epoch behind prev, and of the next, each once; next are the latter.
func (p *Pool) producers(id primitives.EpochID, prev primitives.Hash) (all, next []primitives.AccountID, err error) {
	this, err := p.factsOf(id)
	if err != nil {
		return nil, nil, err
	}
	following, err := p.chain.NextEpoch(prev)
	if err != nil {
		return nil, nil, err
	}
	then, err := p.factsOf(following)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range slices.Concat(this.producers, then.producers) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all, then.producers, nil
}

// made gives the parts of an own chunk to their owners, and the receipts that it brings to who makes chunks of the shards that they go to: also the block
// producers of the next epoch, who hold those already (nearcore shards_manager_actor.rs:2150).
func (p *Pool) made(out *Out, m *Made) error {
	h := &m.Chunk.Header
	id, known := p.chain.Epoch(h.PrevBlockHash)
	if !known {
		return ErrUnknown
	}
	facts, err := p.factsOf(id)
	if err != nil {
		return err
	}
	all, next, err := p.producers(id, h.PrevBlockHash)
	if err != nil {
		return err
	}
	of := map[primitives.AccountID][]primitives.ChunkPart{}
	own := *h
	e := p.know(m.Chunk.Hash, &own)
	for i, path := range m.Body.Tree.Paths() {
		x := &primitives.ChunkPart{Ord: uint64(i), Part: m.Body.Parts[i], Proof: path}
		of[facts.owners[i]] = append(of[facts.owners[i]], *x)
		e.put(x, m.Body.Tree[0][i])
	}
	proofs := m.Body.Receipts
	if proofs == nil {
		proofs = chain.ProveReceipts(h.ShardID, m.Chunk.PrevOutgoingReceipts, facts.layout)
	}
	for _, r := range proofs {
		e.receipts[r.To] = r
	}
	for _, to := range all {
		if to == p.me {
			continue
		}
		c := &primitives.PartialChunk{Header: *h, Parts: of[to]}
		for _, r := range proofs {
			if p.chain.Cares(to, h.PrevBlockHash, r.To) {
				c.Receipts = append(c.Receipts, r)
			}
		}
		if len(c.Parts) > 0 || slices.Contains(next, to) {
			out.Send = append(out.Send, Send{to, c})
		}
	}
	e.signed, e.ready = true, true
	out.Ready = append(out.Ready, e.header)
	p.done(out, e, m.Chunk, facts.own)
	return nil
}

// Brings tells whether accounts are all given as many parts of a chunk as make its body before it is in a block: by its maker, or by others who pass theirs on, as
// passOn does. Nobody else has the body before he asks for it, behind the block.
func (p *Pool) Brings(h *primitives.ChunkHeader, accounts []primitives.AccountID) (bool, error) {
	id, known := p.chain.Epoch(h.PrevBlockHash)
	if !known {
		return false, ErrUnknown
	}
	facts, err := p.factsOf(id)
	if err != nil {
		return false, err
	}
	all, _, err := p.producers(id, h.PrevBlockHash)
	if err != nil {
		return false, err
	}
	next, err := p.chain.Producer(id, h.ShardID, h.HeightCreated+1)
	if err != nil {
		return false, err
	}
	for _, a := range accounts {
		cares := slices.Contains(all, a) && p.chain.Cares(a, h.PrevBlockHash, h.ShardID)
		if a != p.me && facts.parts[a] < p.rs.DataParts() && !cares && a != next.AccountID {
			return false, nil
		}
	}
	return true, nil
}

// passOn gives own parts, when they come first, to the block producers of this epoch and the next that hold the shard, and to who makes its next chunk. A
// Sparing one gives nothing to those whose own parts, which they have from its maker, are as many as make the body, as in a network of three or four.
func (p *Pool) passOn(out *Out, e *entry, id primitives.EpochID, fresh []primitives.ChunkPart) error {
	if p.me == "" || len(fresh) == 0 {
		return nil
	}
	facts, err := p.factsOf(id)
	if err != nil {
		return err
	}
	var own []primitives.ChunkPart
	for _, x := range fresh {
		if facts.owners[x.Ord] == p.me {
			own = append(own, x)
		}
	}
	if len(own) == 0 {
		return nil
	}
	h, prev := e.header, e.header.PrevBlockHash
	if _, known := p.chain.Epoch(prev); !known {
		prev = p.head.Hash
	}
	all, _, err := p.producers(id, prev)
	if err != nil {
		return err
	}
	to := slices.DeleteFunc(all, func(a primitives.AccountID) bool {
		return a == p.me || p.isSpared(facts, a) || !p.chain.Cares(a, prev, h.ShardID)
	})
	next, err := p.chain.Producer(id, h.ShardID, h.HeightCreated+1)
	if err != nil {
		return err
	}
	if next.AccountID != p.me && !slices.Contains(to, next.AccountID) && !p.isSpared(facts, next.AccountID) {
		to = append(to, next.AccountID)
	}
	if len(to) == 0 {
		return nil
	}
	f := primitives.NewChunkForward(h, own)
	for _, a := range to {
		out.Send = append(out.Send, Send{a, f})
	}
	return nil
}
