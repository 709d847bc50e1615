package validator

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Limits of catchup: concurrent requests for state parts and blocks, and blocks applied in one
// step. Between steps the actor handles other messages.
const (
	parallelRequests = 4
	blocksPerStep    = 1
)

// continueMoves is a message to self: a request was answered, or the schedule has more work.
type continueMoves struct{ of *Actor }

// Moves publishes the newest Moved. Safe for concurrent use. A nil *Moves means that the tracked
// shards do not change.
type Moves struct{ now atomic.Pointer[Moved] }

// Moved lists the tracked shards and the shards that are being caught up.
type Moved struct {
	Held     []primitives.ShardID
	Incoming []engine.CatchupProgress
	// number of shards that this node began to track and that it ceased to track since its start
	In, Out uint64
}

// Now returns the newest state. nil: the tracked shards do not change, or Begin was not called.
func (m *Moves) Now() *Moved {
	if m == nil {
		return nil
	}
	return m.now.Load()
}

// Begin publishes the tracked shards at a block, before any change.
func (m *Moves) Begin(at *engine.BlockNode) { m.now.CompareAndSwap(nil, &Moved{Held: held(at)}) }

// startSchedule starts the schedule that changes the tracked shards, if there is a Source.
func (a *Actor) startSchedule() {
	if a.o.Source == nil {
		return
	}
	self := a.self
	a.schedule = engine.NewSchedule(a.o.Engine, a.o.Engine.PlanOwn(), a.o.Source)
	a.schedule.Parallel, a.schedule.Blocks = parallelRequests, blocksPerStep
	a.schedule.Go = func(ask func()) {
		go func() {
			ask()
			self(continueMoves{a})
		}()
	}
	a.held, a.movesDue = held(a.o.Engine.Tip()), true
	a.moveShards()
}

func held(at *engine.BlockNode) (out []primitives.ShardID) {
	for i := range at.Shards {
		if at.Shards[i].Held() {
			out = append(out, at.Shards[i].ID)
		}
	}
	return out
}

// moveShards lets the schedule catch up and remove shards. moveShards does so only if the schedule
// may have work, no block is being imported or written, and the flat head is not advancing.
func (a *Actor) moveShards() {
	if a.core == nil || a.schedule == nil || !a.movesDue || !a.core.Idle() || len(a.inFlight) > 0 {
		return
	}
	life := a.o.Life
	life.mutating.Store(true)
	settled, err := a.o.Engine.Settled()
	if err == nil && settled {
		a.movesDue = false
		err = a.schedule.Step()
	}
	life.mutating.Store(false)
	if err != nil {
		a.halt(err)
		return
	}
	if !settled {
		return
	}
	now := held(a.o.Engine.Tip())
	a.publishMoves(now)
	if a.schedule.More() { // handle the messages that are already in the mailbox first
		a.self(continueMoves{a})
	}
	if !slices.Equal(now, a.held) {
		a.o.Log.Infof("the shards whose state this node has changed from %[2]v to %[1]v", now, a.held)
		a.held = now
		a.step(consensus.ShardsChanged{})
	}
}

// publishMoves publishes the shards that are tracked now.
func (a *Actor) publishMoves(now []primitives.ShardID) {
	m := a.o.Moves
	if m == nil {
		return
	}
	next := Moved{Held: now, Incoming: a.schedule.Progress()}
	if was := m.now.Load(); was != nil {
		next.In, next.Out = was.In, was.Out
		for _, id := range now {
			if !slices.Contains(was.Held, id) {
				next.In++
			}
		}
		for _, id := range was.Held {
			if !slices.Contains(now, id) {
				next.Out++
			}
		}
	}
	m.now.Store(&next)
}
