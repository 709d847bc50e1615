package producer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// This file injects faults into a sandbox: missing chunks and reorganisations. On a real chain,
// failures of validators cause these faults.

// Errors of injected faults.
var (
	// ErrMiss rejects a MissChunks with an unknown shard or too many blocks.
	ErrMiss = errors.New("producer: chunks cannot be omitted")
	// ErrFork rejects a Reorganise that is not possible now or reaches too far back.
	ErrFork = errors.New("producer: the chain cannot be reorganised")
)

// reorg is a Reorganise request that has not been answered yet.
type reorg struct {
	blocks   uint64
	at       primitives.Height // height of the first block that makes the branch canonical; 0: not requested yet
	replaced []messages.BlockAt
	reply    func(messages.Reorganised, error)
}

// isPending returns whether the reorganisation has not begun. Until it begins, no block is made.
func (f *reorg) isPending() bool { return f != nil && f.at == 0 }

// missChunks sets which shards get no new chunks, and for how many of the next blocks.
func (a *Actor) missChunks(m system.Request[messages.MissChunks, messages.ChunksMissed]) {
	q := &m.Question
	err := a.requireSole()
	ids := q.Shards
	if err == nil && ids == nil {
		for i := range a.head.shards {
			ids = append(ids, a.head.shards[i].id)
		}
	}
	for _, id := range ids {
		if err == nil && !slices.ContainsFunc(a.head.shards, func(s shard) bool { return s.id == id }) {
			err = fmt.Errorf("%w: there is no shard %d", ErrMiss, id)
		}
	}
	if err == nil && q.Blocks > production.MaxMine {
		err = fmt.Errorf("%w: the number of blocks is %d, the limit is %d", ErrMiss, q.Blocks, uint64(production.MaxMine))
	}
	if err != nil {
		m.Reply(messages.ChunksMissed{}, err)
		return
	}
	left := map[primitives.ShardID]uint64{}
	for id, n := range a.missLeft {
		left[id] = n
	}
	for _, id := range ids {
		if left[id] = q.Blocks; q.Blocks == 0 {
			delete(left, id)
		}
	}
	a.missLeft = left // replace the map, because the reply shares the old one
	m.Reply(messages.ChunksMissed{Left: left}, nil)
	a.advance()
}

// missesChunk returns whether the next block must have no new chunk in the shard.
func (a *Actor) missesChunk(id primitives.ShardID) bool { return a.missLeft[id] > 0 && a.head.sole }

// countMissed updates missLeft for the block that was just requested.
func (a *Actor) countMissed() {
	if len(a.missLeft) == 0 || !a.head.sole {
		return
	}
	left := map[primitives.ShardID]uint64{}
	for id, n := range a.missLeft {
		if n > 1 {
			left[id] = n - 1
		}
	}
	a.missLeft = left
}

// reorganise starts a branch that replaces the head and as many of its ancestors as requested.
func (a *Actor) reorganise(m system.Request[messages.Reorganise, messages.Reorganised]) {
	err := a.requireSole()
	switch {
	case err != nil:
	case a.reorg != nil:
		err = fmt.Errorf("%w: another reorganisation is in progress", ErrFork)
	case m.Question.Blocks == 0:
		err = fmt.Errorf("%w: the number of blocks to revert is 0, must be at least 1", ErrFork)
	case a.forward.target > 0:
		err = fmt.Errorf("%w: a fast-forward is in progress", ErrFork)
	}
	if err != nil {
		m.Reply(messages.Reorganised{}, err)
		return
	}
	a.reorg = &reorg{blocks: m.Question.Blocks, reply: m.Reply}
	a.startBranch()
}

func (a *Actor) refuseReorg(why error) {
	if f := a.reorg; f != nil {
		a.reorg = nil
		f.reply(messages.Reorganised{}, why)
	}
}

// startBranch begins a requested reorganisation once no block is being made or written. It makes
// the branch's base the head and approves a child of the base that is higher than the previous
// head. That child's chunks are empty. When the child is imported, the transactions of the replaced
// blocks return to the pools, and the chunks after it include these transactions first.
func (a *Actor) startBranch() {
	f := a.reorg
	if a.stopped || !f.isPending() || a.head == nil || a.head.making != 0 || len(a.followed) > 0 {
		return
	}
	head := a.o.Chain.Head()
	base, gone, err := a.ancestor(head, f.blocks)
	var sole bool
	if err == nil {
		if _, sole = a.approvers(base.Hash); !sole {
			err = ErrShared
		}
	}
	if err != nil {
		a.refuseReorg(err)
		a.advance()
		return
	}
	f.at, f.replaced = head.Height()+1, gone
	approvers, _ := a.approvers(base.Hash)
	a.setHead(base, a.o.Chain.Final().Height, approvers, sole)
	a.head.next, a.head.empty = f.at, true
	now := a.now()
	a.vote(a.doomslug.SkipTo(f.at, now), now)
	a.askChunks()
	a.advance()
}

// ancestor returns the n-th ancestor of head and the blocks above it, newest first. The children of
// head and of the ancestor must have the same shard layout. Error: ErrFork.
func (a *Actor) ancestor(head *engine.BlockNode, n uint64) (*engine.BlockNode, []messages.BlockAt, error) {
	final := a.o.Chain.Final().Height
	_, layout, err := a.o.Chain.ChildEpoch(head.Hash)
	at, gone := head, []messages.BlockAt(nil)
	for err == nil && uint64(len(gone)) < n {
		if at.Height() <= final {
			return nil, nil, fmt.Errorf("%w: %d blocks cannot be reverted, only the %d after block %d are not final", ErrFork, n,
				len(gone), final)
		}
		gone = append(gone, messages.BlockAt{Height: at.Height(), Hash: at.Hash})
		if at = a.o.Chain.Imported(at.Header().PrevHash); at == nil {
			return nil, nil, fmt.Errorf("%w: %d blocks cannot be reverted, block %d has no stored parent", ErrFork, n, gone[len(gone)-1].Height)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	_, then, err := a.o.Chain.ChildEpoch(at.Hash)
	if err == nil && !then.Equal(layout) {
		err = fmt.Errorf("%w: %d blocks cannot be reverted, the shard layout changed in them", ErrFork, n)
	}
	return at, gone, err
}
