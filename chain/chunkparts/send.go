package chunkparts

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// producers returns block producers without duplicates. next contains the producers of the epoch
// after that of a block on prev. all contains the producers of next and of the epoch id. The caller
// must not change them.
func (p *Pool) producers(id primitives.EpochID, prev primitives.Hash) (all, next []primitives.AccountID, err error) {
	this, err := p.epochDataOf(id)
	if err != nil {
		return nil, nil, err
	}
	following, err := p.chain.NextEpoch(prev)
	if err != nil {
		return nil, nil, err
	}
	then, err := p.epochDataOf(following)
	if err != nil {
		return nil, nil, err
	}
	pair := [2]primitives.EpochID{id, following}
	if all, ok := p.unions[pair]; ok {
		return all, then.producers, nil
	}
	for _, a := range slices.Concat(this.producers, then.producers) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	p.unions[pair] = all
	return all, then.producers, nil
}

// distribute sends the parts of a chunk that this node produced to their owners. Each block
// producer also gets the receipts to the shards whose chunks it produces in this epoch or the next,
// because it tracks these shards already (nearcore shards_manager_actor.rs:2150).
func (p *Pool) distribute(out *Out, m *Made) error {
	h := &m.Chunk.Header
	id, known := p.chain.Epoch(h.PrevBlockHash)
	if !known {
		return ErrUnknown
	}
	facts, err := p.epochDataOf(id)
	if err != nil {
		return err
	}
	all, next, err := p.producers(id, h.PrevBlockHash)
	if err != nil {
		return err
	}
	of := map[primitives.AccountID][]primitives.ChunkPart{}
	own := *h
	e := p.entryFor(m.Chunk.Hash, &own, nil)
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
	var at *primitives.PartialChunkAnchor
	if facts.anchored {
		parent, err := p.chain.Parent(h.PrevBlockHash)
		if err != nil {
			return err
		}
		at = &primitives.PartialChunkAnchor{PrevPrevBlock: parent, EpochID: id}
	}
	trackers := make([][]primitives.AccountID, len(proofs))
	for i := range proofs {
		trackers[i], _ = p.trackersOf(h.PrevBlockHash, proofs[i].To)
	}
	for _, to := range all {
		if to == p.me {
			continue
		}
		c := &primitives.PartialChunk{Header: *h, Parts: of[to], Anchor: at}
		for i, r := range proofs {
			if slices.Contains(trackers[i], to) {
				c.Receipts = append(c.Receipts, r)
			}
		}
		if len(c.Parts) > 0 || slices.Contains(next, to) {
			out.Send = append(out.Send, Send{to, c})
		}
	}
	e.signed, e.ready = true, true
	out.Ready = append(out.Ready, e.header)
	p.finish(out, e, m.Chunk, facts.own)
	return nil
}

// Brings returns whether each account receives enough parts to restore a chunk's body before a
// block includes the chunk. The parts come from the producer or from forwards (forwardOwn). If the
// result is false, some account must request the body after the block has arrived. Errors:
// ErrUnknown if the chunk's previous block is unknown.
func (p *Pool) Brings(h *primitives.ChunkHeader, accounts []primitives.AccountID) (bool, error) {
	id, known := p.chain.Epoch(h.PrevBlockHash)
	if !known {
		return false, ErrUnknown
	}
	facts, err := p.epochDataOf(id)
	if err != nil {
		return false, err
	}
	all, _, err := p.producers(id, h.PrevBlockHash)
	if err != nil {
		return false, err
	}
	next, err := p.nextProducer(id, h)
	if err != nil {
		return false, err
	}
	trackers, _ := p.trackersOf(h.PrevBlockHash, h.ShardID)
	for _, a := range accounts {
		cares := slices.Contains(all, a) && slices.Contains(trackers, a)
		if a != p.me && facts.parts[a] < p.rs.DataParts() && !cares && a != next.AccountID {
			return false, nil
		}
	}
	return true, nil
}

// forwardOwn forwards the own parts in fresh. The receivers are the block producers of this epoch
// and the next epoch that track the shard, and the producer of the shard's next chunk. A Sparing
// pool omits validators that own enough parts to restore the body. In a network of three or four
// validators, all own enough.
func (p *Pool) forwardOwn(out *Out, e *entry, id primitives.EpochID, fresh []primitives.ChunkPart) error {
	if p.me == "" || len(fresh) == 0 {
		return nil
	}
	facts, err := p.epochDataOf(id)
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
	trackers, _ := p.trackersOf(prev, h.ShardID)
	var to []primitives.AccountID
	for _, a := range all {
		if a != p.me && !p.hasDataParts(facts, a) && slices.Contains(trackers, a) {
			to = append(to, a)
		}
	}
	next, err := p.nextProducer(id, h)
	if err != nil {
		return err
	}
	if next.AccountID != p.me && !slices.Contains(to, next.AccountID) && !p.hasDataParts(facts, next.AccountID) {
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

// nextProducer returns the producer of the shard's chunk on the block that includes chunk h. This
// producer gets the forwarded parts too. If the chunk's previous block is known, that block is the
// anchor of the next chunk and determines its producer (nearcore 2.14.0-rc.1
// shards_manager_actor.rs, send_partial_encoded_chunk_to_chunk_trackers).
func (p *Pool) nextProducer(id primitives.EpochID, h *primitives.ChunkHeader) (primitives.ValidatorStake, error) {
	if _, known := p.chain.Epoch(h.PrevBlockHash); known {
		return p.chain.Following(id, h.PrevBlockHash, h.ShardID, h.HeightCreated+1)
	}
	return p.chain.Producer(id, h.ShardID, h.HeightCreated+1)
}
