package engine

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Stage is the phase of a catchup.
type Stage uint8

// The stages, in the order of a catchup.
const (
	StageHeader Stage = iota // the state header is requested
	StageParts               // state parts are being fetched
	StageBlocks              // blocks after the state are being applied
)

// CatchupProgress is the progress of a running catchup.
type CatchupProgress struct {
	Shard       primitives.ShardID
	Stage       Stage
	Point       primitives.Height // height of the sync point
	Here, Total uint64            // number of stored parts, number of all parts
	At          primitives.Height // height of the block that the state has reached; 0: the state is incomplete
}

// Progress returns the progress of all running catchups, ascending by shard id. The caller runs on
// the engine's goroutine.
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

// catchupPosition contains what a step can change in a catchup. Step compares the position before
// and after to detect progress.
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

// More returns whether the last Step advanced a catchup. If so, another Step may advance the
// catchup at once, without waiting for a peer or for a block.
func (s *Schedule) More() bool { return s.more }

// Settled returns whether a Schedule can step without waiting for the disk. It can if all imported
// blocks are persisted and returned by Stored, and the flat head is not being updated. If an update
// has ended, Settled finishes the update. The caller runs on the engine's goroutine.
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

// Scheduled returns Options.Scheduled.
func (e *Engine) Scheduled() bool { return e.o.Scheduled }

// PlanOwn returns the plan of this node. The plan holds the shards that Options.Tracks selects, and
// the shards for which an account of Options.Assigned produces chunks.
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

// startsWithShard returns whether a node that starts at the genesis block holds the shard from the
// start.
func (e *Engine) startsWithShard(genesis *BlockNode, id primitives.ShardID) (bool, error) {
	first, err := e.epochs.EpochIDFromPrev(genesis.Hash)
	if err != nil {
		return false, err
	}
	return e.wantsShard(e.epochs, first, genesis.Hash, genesis.Layout, id)
}

// wantsShard returns whether this node holds a shard of layout in the epoch `of` or in the epoch
// after it: Options.Tracks selects the shard, or an account of Options.Assigned produces its chunks.
// parent is a block whose children belong to the epoch `of`. The caller may use m.
func (e *Engine) wantsShard(m *epoch.Manager, of primitives.EpochID, parent primitives.Hash, layout primitives.ShardLayout,
	id primitives.ShardID) (bool, error) {
	if e.tracks(layout, id) {
		return true, nil
	}
	for _, a := range e.o.Assigned {
		cares, err := m.CaresAboutShard(of, a, id)
		if err == nil && !cares {
			cares, err = m.CaresAboutShardNextEpoch(parent, a, id)
		}
		if err != nil || cares {
			return cares, err
		}
	}
	return false, nil
}

// handedOver returns whether the shard has a new chunk in the epoch of the block `at`. If so, this
// epoch's producers have the shard's state, and this node may drop the state. Otherwise this node
// may be the only node that has the state.
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
