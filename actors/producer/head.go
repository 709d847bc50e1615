package producer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// ErrStopped means that no more blocks are made.
var ErrStopped = errors.New("producer: stopped")

// head is the tip with what has come for its child.
type head struct {
	hash      primitives.Hash
	height    primitives.Height
	final     primitives.Height
	epoch     primitives.EpochID // of the child
	approvers []chain.Approver
	sole      bool // all approvers are this node's
	shards    []shard
	making    primitives.Height // height of the block requested from the chain; 0: none
	next      primitives.Height // target of skipped heights; 0: none
	empty     bool              // the child's chunks must have no transactions
}

// shard is what has come for a shard's chunk on the head.
type shard struct {
	id       primitives.ShardID
	producer primitives.AccountID // one of this node's, or empty
	assigned []chain.Assigned
	asked    bool // the chunk was requested
	chunk    *primitives.Chunk
	signed   []primitives.Signature   // by index in assigned
	early    []messages.ChunkEndorsed // for a chunk that has not come; at most one for each assigned validator
}

// isOwn returns whether the key of a validator is this node's.
func (a *Actor) isOwn(account primitives.AccountID, key primitives.PublicKey) bool {
	k, ok := a.o.Keys[account]
	return ok && k.PublicKey() == key
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Errorf("producer: %w", err))
	}
	return v
}

// approvers returns the approvers of a block, and whether all of them are this node's.
func (a *Actor) approvers(hash primitives.Hash) (list []chain.Approver, sole bool) {
	list = must(a.o.Chain.Approvers(hash))
	for _, v := range list {
		if !a.isOwn(v.AccountID, v.PublicKey) {
			return list, false
		}
	}
	return list, true
}

// setHead starts over on a tip.
func (a *Actor) setHead(e *engine.BlockNode, final primitives.Height, approvers []chain.Approver, sole bool) {
	h := &head{hash: e.Hash, height: e.Height(), final: final, approvers: approvers, sole: sole}
	epoch, layout, err := a.o.Chain.ChildEpoch(e.Hash)
	h.epoch = must(epoch, err)
	for _, id := range layout.ShardIDs() {
		s := shard{id: id, assigned: must(a.o.Chain.ChunkValidators(e, id))}
		s.signed = make([]primitives.Signature, len(s.assigned))
		if p := must(a.o.Chain.ChunkProducer(e.Hash, id)); a.isOwn(p.AccountID, p.PublicKey) {
			s.producer = p.AccountID
		}
		h.shards = append(h.shards, s)
	}
	a.head = h
	a.tracker.Tip(h.hash, h.height, h.final, a.now())
	if !h.sole {
		a.askChunks()
	}
	parked := a.parked
	a.parked = nil
	for _, m := range parked {
		a.Handle(m)
	}
}

// askChunks requests the chunks that this node produces.
func (a *Actor) askChunks() {
	for i := range a.head.shards {
		s := &a.head.shards[i]
		if s.producer == "" || s.asked || a.missesChunk(s.id) {
			continue
		}
		s.asked = true
		a.o.Out.ProduceChunk(messages.ProduceChunk{
			Parent: a.head.hash, Shard: primitives.ShardIndex(i), ShardID: s.id, Producer: s.producer, Era: a.era, Empty: a.head.empty,
		})
	}
}

// askAgain requests a missing chunk again: its mempool has failed, perhaps with the request.
func (a *Actor) askAgain(id primitives.ShardID) {
	if a.head == nil || a.stopped {
		return
	}
	for i := range a.head.shards {
		if s := &a.head.shards[i]; s.id == id && s.asked && s.chunk == nil {
			s.asked = false
			a.askChunks()
		}
	}
}

// park keeps a message that is ahead of the head.
func (a *Actor) park(m any) {
	if len(a.parked) < MaxParked {
		a.parked = append(a.parked, m)
	}
}

// chunk handles a chunk on the head. This node's validators endorse chunks that it has made.
func (a *Actor) chunk(i primitives.ShardIndex, c *primitives.Chunk, made bool) {
	h := a.head
	if c.Header.PrevBlockHash != h.hash || int(i) >= len(h.shards) || h.shards[i].chunk != nil {
		return
	}
	s := &h.shards[i]
	s.chunk = c
	if made {
		for k := range s.assigned {
			if v := &s.assigned[k]; a.isOwn(v.AccountID, v.PublicKey) {
				a.endorse(s, k)
			}
		}
	}
	early := s.early
	s.early = nil
	for _, m := range early {
		a.endorsed(m)
	}
	a.advance()
}

// endorse signs a shard's chunk with the key of its k-th assigned validator.
func (a *Actor) endorse(s *shard, k int) {
	v, hash := &s.assigned[k], s.chunk.Hash
	key := a.o.Keys[v.AccountID]
	s.signed[k] = key.Sign(primitives.ChunkEndorsementBytes(hash))
	if a.o.Out.Endorsement == nil || a.head.sole {
		return
	}
	e := &primitives.ChunkEndorsement{ChunkHash: hash, Signature: s.signed[k],
		Metadata: primitives.ChunkEndorsementMetadata{
			AccountID: v.AccountID, ShardID: s.id, EpochID: a.head.epoch, HeightCreated: s.chunk.Header.HeightCreated,
		}}
	e.MetadataSignature = key.Sign(e.Metadata.AppendBorsh(nil))
	a.o.Out.Endorsement(messages.EndorsementMade{Endorsement: e})
}

// endorsed handles a validator's endorsement of a chunk on the head.
func (a *Actor) endorsed(m messages.ChunkEndorsed) {
	e, h := m.Endorsement, a.head
	switch created := e.Metadata.HeightCreated; {
	case created > h.height+1 && created-h.height <= 5: // as nearcore does
		a.park(m)
		return
	case created != h.height+1:
		return
	}
	for i := range h.shards {
		s := &h.shards[i]
		if s.id != e.Metadata.ShardID {
			continue
		}
		for k := range s.assigned {
			v := &s.assigned[k]
			if v.AccountID != e.Metadata.AccountID || s.signed[k] != "" {
				continue
			}
			if s.chunk == nil {
				if !slices.ContainsFunc(s.early, func(x messages.ChunkEndorsed) bool {
					return x.Endorsement.Metadata.AccountID == v.AccountID
				}) {
					s.early = append(s.early, m)
				}
				return
			}
			if s.chunk.Hash != e.ChunkHash || !a.o.Verify(e.Signature, primitives.ChunkEndorsementBytes(e.ChunkHash),
				v.PublicKey) {
				return
			}
			s.signed[k] = e.Signature
			a.advance()
			return
		}
	}
}

// complete returns whether a shard's chunk can be included.
func (s *shard) complete() bool {
	return s.chunk != nil && chain.EndorsedEnough(s.assigned, func(i int) bool { return s.signed[i] != "" })
}

// make requests the next block if it is this node's and everything for it is there. It returns
// when to try again, or 0 if time alone changes nothing.
func (a *Actor) make(now int64) (wait int64) {
	h := a.head
	if h.making != 0 || a.reorg.isPending() {
		return 0
	}
	complete := true
	for i := range h.shards {
		complete = complete && (h.shards[i].complete() || a.missesChunk(h.shards[i].id))
	}
	for height := max(h.height+1, h.next); height <= a.tracker.LargestReady(); height++ {
		p := must(a.o.Chain.BlockProducer(h.hash, height))
		if !a.isOwn(p.AccountID, p.PublicKey) {
			continue
		}
		if h.sole && !complete {
			if ready, _ := a.tracker.Ready(height, true, now); ready {
				a.askChunks()
			}
			return 0
		}
		ready, until := a.tracker.Ready(height, complete, now)
		if !ready {
			if until > 0 && (wait == 0 || until < wait) {
				wait = until
			}
			continue
		}
		a.propose(height, p.AccountID)
		return 0
	}
	return wait
}

func (a *Actor) propose(height primitives.Height, producer primitives.AccountID) {
	h := a.head
	h.making = height
	passed := uint64(0)
	if h.next == height {
		passed = a.skippedTime(height - h.height - 1)
	}
	m := messages.MakeBlock{
		Parent: h.hash, Height: height, Timestamp: a.clock.blockTime(a.o.Chain.Imported(h.hash).Header().Timestamp,
			passed), Producer: producer, Era: a.era,
		Chunks: make([]*primitives.Chunk, len(h.shards)), Endorsements: make([][]primitives.Signature, len(h.shards)),
		Approvals: a.tracker.Approvals(height, h.approvers),
	}
	for i := range h.shards {
		if s := &h.shards[i]; s.complete() && !a.missesChunk(s.id) {
			m.Chunks[i], m.Endorsements[i] = s.chunk, slices.Clone(s.signed) // further ones may come
		}
	}
	if h.sole {
		m.Mocks = a.mocks
	}
	if h.sole && !slices.Contains(m.Chunks, nil) {
		m.Patch = a.takePatches(height)
	}
	a.countMissed()
	a.o.Out.MakeBlock(m)
}
