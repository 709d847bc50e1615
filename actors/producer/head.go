package producer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// ErrStopped rejects requests after block production has stopped.
var ErrStopped = errors.New("producer: the node is stopping")

// head is the block to build on, with the collected approvals, chunks and endorsements for its
// child.
type head struct {
	hash      primitives.Hash
	height    primitives.Height
	final     primitives.Height
	epoch     primitives.EpochID // epoch of the child block
	approvers []chain.Approver
	sole      bool // true: all approvers are validators of this node
	shards    []shard
	making    primitives.Height // height of the child block that the chain actor is making; 0: none
	next      primitives.Height // lowest height that this node may give the child block; 0: the height after the head
	empty     bool              // true: the chunks of the child block must have no transactions
}

// shard is the collected data for one shard's chunk in the head's child.
type shard struct {
	id primitives.ShardID
	// chunk producer if it is a validator of this node; empty: another node's validator produces
	// the chunk
	producer primitives.AccountID
	assigned []chain.Assigned // chunk validators that are assigned to the chunk
	asked    bool             // true: the chunk was requested
	chunk    *primitives.Chunk
	signed   []primitives.Signature // endorsements by index in assigned; empty: none yet
}

// isOwn returns whether this node has the validator's key.
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

// approvers returns the validators that approve children of a block, and whether all of them are
// validators of this node.
func (a *Actor) approvers(hash primitives.Hash) (list []chain.Approver, sole bool) {
	list = must(a.o.Chain.Approvers(hash))
	for _, v := range list {
		if !a.isOwn(v.AccountID, v.PublicKey) {
			return list, false
		}
	}
	return list, true
}

// setHead makes e the block to build on.
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
	a.doomslug.Tip(h.hash, h.height, h.final, a.now())
	if !h.sole {
		a.askChunks()
	}
}

// askChunks requests the head's chunks that this node produces and has not requested yet. The
// producer makes chunks without transactions itself, on several goroutines: a request to a mempool
// would cost two messages for each shard and block.
func (a *Actor) askChunks() {
	var idle []primitives.ShardIndex
	for i := range a.head.shards {
		s := &a.head.shards[i]
		if s.producer == "" || s.asked || a.missesChunk(s.id) {
			continue
		}
		s.asked = true
		if a.head.empty || a.o.Demand.IsIdle(s.id) {
			idle = append(idle, primitives.ShardIndex(i))
			continue
		}
		a.o.Out.ProduceChunk(messages.ProduceChunk{
			Parent: a.head.hash, Shard: primitives.ShardIndex(i), ShardID: s.id, Producer: s.producer, Era: a.era,
		})
	}
	parallel.Do(len(idle), func(k int) { a.emptyChunk(idle[k]) })
}

// emptyChunk makes and endorses the chunk of a shard without transactions. It changes only the
// shard's data, so it may run for several shards at once. If the head is on a branch that was
// removed, emptyChunk makes no chunk: a message about the new head follows.
func (a *Actor) emptyChunk(i primitives.ShardIndex) {
	s, began := &a.head.shards[i], a.now()
	c, err := a.o.Chain.NewChunk(a.head.hash, i, nil, a.o.Keys[s.producer])
	if errors.Is(err, engine.ErrOrphan) {
		return
	}
	s.chunk = must(c, err)
	a.o.Times.Add(engine.ProduceChunkTime, a.now()-began, strconv.FormatUint(uint64(s.id), 10))
	a.endorse(s)
}

// askAgain requests a missing chunk again, because the mempool of the shard has failed and may have
// lost the request.
func (a *Actor) askAgain(id primitives.ShardID) {
	if a.head == nil || a.stopped {
		return
	}
	for i := range a.head.shards {
		if s := &a.head.shards[i]; s.id == id && s.asked && s.chunk == nil {
			s.asked = false
			a.askChunks()
			a.advance()
			return
		}
	}
}

// chunk takes a chunk for the child of the head, and endorses that chunk.
func (a *Actor) chunk(i primitives.ShardIndex, c *primitives.Chunk) {
	h := a.head
	if c.Header.PrevBlockHash != h.hash || int(i) >= len(h.shards) || h.shards[i].chunk != nil {
		return
	}
	h.shards[i].chunk = c
	a.endorse(&h.shards[i])
	a.advance()
}

// endorse endorses a shard's chunk for each of this node's validators.
func (a *Actor) endorse(s *shard) {
	for k := range s.assigned {
		if v := &s.assigned[k]; a.isOwn(v.AccountID, v.PublicKey) {
			s.signed[k] = a.o.Keys[v.AccountID].Sign(primitives.ChunkEndorsementBytes(s.chunk.Hash))
		}
	}
}

// complete returns whether the shard has a chunk with enough endorsements.
func (s *shard) complete() bool {
	return s.chunk != nil && chain.EndorsedEnough(s.assigned, func(i int) bool { return s.signed[i] != "" })
}

// isComplete returns whether each shard has a chunk with enough endorsements, or must miss it.
func (a *Actor) isComplete() bool {
	for i := range a.head.shards {
		if s := &a.head.shards[i]; !s.complete() && !a.missesChunk(s.id) {
			return false
		}
	}
	return true
}

// make requests the next block if this node is its producer and enough approvals and chunks have
// arrived. make returns the time at which to call it again, or 0 if the next call must wait for a
// message.
func (a *Actor) make(now int64) (wait int64) {
	h := a.head
	if h.making != 0 || a.reorg.isPending() {
		return 0
	}
	complete := a.isComplete()
	for height := max(h.height+1, h.next); height <= a.doomslug.LargestReady(); height++ {
		p := must(a.o.Chain.BlockProducer(h.hash, height))
		if !a.isOwn(p.AccountID, p.PublicKey) {
			continue
		}
		if h.sole && !complete {
			if ready, _ := a.doomslug.Ready(height, true, now); ready {
				a.askChunks()
				complete = a.isComplete()
			}
			if !complete {
				return 0
			}
		}
		ready, until := a.doomslug.Ready(height, complete, now)
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
		Approvals: a.doomslug.Approvals(height, h.approvers),
	}
	for i := range h.shards {
		if s := &h.shards[i]; s.complete() && !a.missesChunk(s.id) {
			m.Chunks[i], m.Endorsements[i] = s.chunk, s.signed
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
