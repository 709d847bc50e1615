package engine

import (
	"github.com/troupe-chain/troupe/primitives"
)

// Stage is how far a shard on its way in has come.
type Stage uint8

// The stages, in their order.
const (
	StageHeader Stage = iota // it is asked what its state is
	StageParts               // parts of that come
	StageBlocks              // what the blocks behind did in it is done
)

// CatchupProgress is a shard on its way in.
type CatchupProgress struct {
	Shard       primitives.ShardID
	Stage       Stage
	Point       primitives.Height // at whose state it comes in
	Here, Total uint64            // parts
	At          primitives.Height // the block after which its state is here; 0: none
}

// Progress tells of each shard on its way in, by id. It belongs to the engine's goroutine.
func (s *Schedule) Progress() (out []CatchupProgress) {
	for _, id := range s.CatchingUp() {
		c := s.catchups[id]
		x := CatchupProgress{Shard: id, Point: c.point.Height, Total: c.total, Here: c.received.Load()}
		switch {
		case c.header == nil:
		case c.session == nil || c.session.block == nil:
			x.Stage = StageParts
		default:
			x.Stage, x.At, x.Here = StageBlocks, c.session.At().Height, c.total
		}
		out = append(out, x)
	}
	return out
}

// catchupPosition is what a step can change of a shard on its way in.
type catchupPosition struct {
	coming, header, joined, asked bool
	at                            primitives.Height
}

func (c *catchup) position() (p catchupPosition) {
	if c == nil {
		return p
	}
	p = catchupPosition{coming: true, header: c.header != nil, joined: c.session != nil, asked: c.reply != nil}
	if p.joined {
		p.at = c.session.At().Height
	}
	return p
}

// More tells whether the last step has taken a shard further, so that the next one may do more without an answer or a block.
func (s *Schedule) More() bool { return s.more }

// Settled tells whether a schedule may step without waiting: all adopted blocks are on disk and were told, and no fold runs. It takes over a fold that
// has ended. It belongs to the engine's goroutine.
func (e *Engine) Settled() (bool, error) {
	if e.flatHeadUpdate != nil {
		select {
		case err := <-e.flatHeadUpdate.done:
			if err := e.finishFlatHeadUpdate(err); err != nil {
				return false, err
			}
		default:
			return false, nil
		}
	}
	return e.InFlight() == 0 && e.Tip() == e.Head(), nil
}

// Scheduled tells whether shards come in and go while the engine runs.
func (e *Engine) Scheduled() bool { return e.o.Scheduled }

// PlanOwn is the plan of a node: the shards that Options.Tracks says, and those of which the accounts of Options.Assigned make chunks.
func (e *Engine) PlanOwn() Plan {
	var plans []Plan
	for _, a := range e.o.Assigned {
		plans = append(plans, e.PlanOf(a))
	}
	return func(at *BlockNode, shard primitives.ShardID) (now, next bool) {
		if e.tracks(at.Layout, shard) {
			return true, true
		}
		for _, p := range plans {
			n, x := p(at, shard)
			now, next = now || n, next || x
		}
		return now, next
	}
}

// startsWithShard tells whether a node begins with a shard of the genesis.
func (e *Engine) startsWithShard(genesis *BlockNode, id primitives.ShardID) (bool, error) {
	if e.tracks(genesis.Layout, id) {
		return true, nil
	}
	for _, a := range e.o.Assigned {
		first, err := e.epochs.EpochIDFromPrev(genesis.Hash)
		if err != nil {
			return false, err
		}
		cares, err := e.epochs.CaresAboutShard(first, a, id)
		if err == nil && !cares {
			cares, err = e.epochs.CaresAboutShardNextEpoch(genesis.Hash, a, id)
		}
		if err != nil || cares {
			return cares, err
		}
	}
	return false, nil
}

// handedOver tells whether a shard has a new chunk in the epoch of a block, so that who makes its chunks now has it: where this node does not, it may let go of it. Else
// nobody might have it any more.
func (e *Engine) handedOver(at *BlockNode, id primitives.ShardID) bool {
	index, err := at.Layout.Index(id)
	if err != nil {
		return false
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	made, err := e.epochs.EpochIDFromPrev(at.Block.Body.Chunks[index].PrevBlockHash)
	return err == nil && made == at.Header().EpochID
}
