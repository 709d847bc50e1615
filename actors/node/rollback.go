package node

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// RevertPoint is what the chain may go back to: a block, what waited in the pools, and the clock.
type RevertPoint struct {
	Height primitives.Height
	Hash   primitives.Hash
	state  messages.Snapshot
	clock  messages.Clock
	pools  map[primitives.ShardID]messages.PoolCaptured
}

// rollbackState has one at a time take a snapshot or go back, and holds what the chain's goroutine needs for it.
type rollbackState struct {
	turn  chan struct{}
	clock system.Request[messages.CaptureClock, messages.Clock]
	pools map[primitives.ShardID]system.Request[messages.CapturePool, messages.PoolCaptured]
	target  *RevertPoint // where the chain is going
	// restores are what the pools have been asked then.
	restores []system.Request[messages.RestorePool, messages.PoolRestored]
}

// capture asks who makes blocks and all pools what they have, on the chain's goroutine, between two blocks.
func (n *Node) capture() {
	n.rollbacks.clock = system.NewRequest[messages.CaptureClock, messages.Clock](messages.CaptureClock{})
	n.tell(n.producer, n.rollbacks.clock)
	n.rollbacks.pools = map[primitives.ShardID]system.Request[messages.CapturePool, messages.PoolCaptured]{}
	for _, t := range n.shards.set.Load().list {
		r := system.NewRequest[messages.CapturePool, messages.PoolCaptured](messages.CapturePool{})
		n.rollbacks.pools[t.id] = r
		n.tell(t.pid, r)
	}
}

// rolledBack tells everybody, on the chain's goroutine. Who makes blocks hears of it last, so that what he asks for comes after.
func (n *Node) rolledBack(m messages.RolledBack) {
	s := n.rollbacks.target
	n.heightCache.forget()
	n.drops.reorganised(m.At.Head)
	n.tell(n.tracker, m)
	head := n.engine.Head()
	_, layout, err := chainView{n.engine}.ChildEpoch(head.Hash)
	if set := n.shards.set.Load(); err == nil && !layout.Equal(set.layout) { // what waits is of the blocks that are gone: no pool sends it on
		for _, t := range set.list {
			n.tell(t.pid, system.NewRequest[messages.RestorePool, messages.PoolRestored](messages.RestorePool{Head: m.At.Head}))
		}
	}
	if err == nil {
		accepted := messages.BlockAccepted{Block: head.Block, Hash: head.Hash, IsHead: true, Final: m.At.Final}
		err = n.shards.setLayout(layout, &accepted)
	}
	if err != nil {
		panic(errors.Join(errors.New("node: shards of a snapshot"), err))
	}
	n.rollbacks.restores = nil
	for _, t := range n.shards.set.Load().list {
		r := system.NewRequest[messages.RestorePool, messages.PoolRestored](messages.RestorePool{PoolCaptured: s.pools[t.id], Head: m.At.Head})
		n.rollbacks.restores = append(n.rollbacks.restores, r)
		n.tell(t.pid, r)
	}
	n.notifyMoved()
	n.tell(n.producer, messages.RestoreClock{Clock: s.clock})
	n.tell(n.producer, m)
}

// TakeSnapshot keeps the way back to the head. producer.ErrShared.
func (n *Node) TakeSnapshot(ctx context.Context) (*RevertPoint, error) {
	return exclusively(ctx, n, func() (*RevertPoint, error) {
		a, err := await(n, n.chain, system.NewRequest[messages.TakeSnapshot, messages.SnapshotTaken](messages.TakeSnapshot{}))
		if err != nil {
			return nil, err
		}
		s := &RevertPoint{Height: a.Height, Hash: a.Hash, state: a.Snapshot, pools: map[primitives.ShardID]messages.PoolCaptured{}}
		if s.clock, err = await(n, nil, n.rollbacks.clock); err == nil {
			for id, r := range n.rollbacks.pools {
				if s.pools[id], err = await(n, nil, r); err != nil {
					break
				}
			}
		}
		if err != nil {
			n.EndSnapshot(s)
			return nil, err
		}
		return s, nil
	}, n.EndSnapshot)
}

// ShareSnapshot takes a snapshot of the block of another one, with its clock and without its pools, which ends by itself. engine.ErrEnded.
func (n *Node) ShareSnapshot(ctx context.Context, of *RevertPoint) (*RevertPoint, error) {
	return exclusively(ctx, n, func() (*RevertPoint, error) {
		a, err := await(n, n.chain, system.NewRequest[messages.TakeSnapshot, messages.SnapshotTaken](messages.TakeSnapshot{Of: of.state}))
		if err != nil {
			return nil, err
		}
		return &RevertPoint{Height: a.Height, Hash: a.Hash, state: a.Snapshot, clock: of.clock}, nil
	}, n.EndSnapshot)
}

// Engine is the engine's part of it, for a child of the engine.
func (s *RevertPoint) Engine() *engine.RevertPoint { return s.state.(*engine.RevertPoint) }

// Clock is what time blocks had then.
func (s *RevertPoint) Clock() messages.Clock { return s.clock }

// Ended tells whether there is no way back any more.
func (s *RevertPoint) Ended() bool { return s.state.Ended() }

// EndSnapshot gives up a snapshot.
func (n *Node) EndSnapshot(s *RevertPoint) { n.tell(n.chain, messages.EndSnapshot{Snapshot: s.state}) }

// GoBack makes a snapshot's block the head again, with the pools and the clock of then. Who waits for what has never been by then is told
// so. engine.ErrEnded, producer.ErrShared.
func (n *Node) Rollback(ctx context.Context, s *RevertPoint) error {
	_, err := exclusively(ctx, n, func() (none struct{}, err error) {
		if _, err := await(n, n.producer, system.NewRequest[messages.StandStill, messages.Stopped](messages.StandStill{})); err != nil {
			return none, err
		}
		n.rollbacks.target = s
		if _, err = await(n, n.chain, system.NewRequest[messages.Rollback, messages.SnapshotTaken](messages.Rollback{Snapshot: s.state})); err != nil {
			n.tell(n.producer, messages.GoOn{}) // it has heard of nothing else
			return none, err
		}
		for _, r := range n.rollbacks.restores {
			if _, err := await(n, nil, r); err != nil {
				return none, err
			}
		}
		return none, nil
	}, func(struct{}) {})
	return err
}

// statusInTurn runs f when nobody else does so, and returns what it does, unless ctx ends before: then f goes on, and lost gets what it returns.
func exclusively[T any](ctx context.Context, n *Node, f func() (T, error), lost func(T)) (none T, err error) {
	if err := n.refuseRequests(); err != nil {
		return none, err
	}
	select {
	case n.rollbacks.turn <- struct{}{}:
	case <-n.haltedCh():
		return none, n.haltedErr()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result)
	n.goBackground("snapshot", func() {
		v, err := f()
		<-n.rollbacks.turn
		select {
		case done <- result{v, err}:
		case <-ctx.Done():
			if err == nil {
				lost(v)
			}
		}
	})
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// await asks, unless to is nil because that has been done, and waits for the answer until the node halts.
func await[Q, A any](n *Node, to *actor.PID, r system.Request[Q, A]) (none A, err error) {
	if to != nil {
		n.tell(to, r)
	}
	select {
	case a := <-r.Answer():
		if err := n.refuseRequests(); a.Err != nil && err != nil {
			return none, err
		}
		return a.Value, a.Err
	case <-n.haltedCh():
		return none, n.haltedErr()
	case <-n.ended:
		return none, n.refuseRequests()
	}
}

// Clock sets and tells what time blocks have. producer.ErrShared, ErrClock.
func (n *Node) Clock(ctx context.Context, m messages.SetClock) (messages.Clock, error) {
	return askProducer[messages.SetClock, messages.Clock](ctx, n, m)
}

// Production sets and tells when blocks are made. producer.ErrShared, ErrProduction.
func (n *Node) Production(ctx context.Context, m messages.SetProduction) (messages.Production, error) {
	p, err := askProducer[messages.SetProduction, messages.Production](ctx, n, m)
	if err == nil {
		n.mode.Store(int32(p.Mode))
	}
	return p, err
}

// Mode is when blocks are made.
func (n *Node) Mode() production.Mode { return production.Mode(n.mode.Load()) }

// Waiting is how many transactions all pools have.
func (n *Node) Waiting() (sum int) {
	for _, t := range n.shards.set.Load().list {
		sum += t.pool.Len()
	}
	return sum
}
