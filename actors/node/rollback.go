package node

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// RevertPoint is a point to which the chain can be rolled back: a block, the pooled transactions,
// and the sandbox clock.
type RevertPoint struct {
	Height primitives.Height
	Hash   primitives.Hash
	state  messages.Snapshot
	clock  messages.Clock
	pools  map[primitives.ShardID]messages.PoolCaptured
}

// rollbackState makes snapshots and rollbacks exclusive. It also holds the data that snapshots and
// rollbacks exchange with the chain's goroutine.
type rollbackState struct {
	turn   chan struct{} // semaphore that admits one snapshot or rollback at a time
	count  atomic.Uint64 // number of rollbacks since the start
	clock  system.Request[messages.CaptureClock, messages.Clock]
	pools  map[primitives.ShardID]system.Request[messages.CapturePool, messages.PoolCaptured]
	target *RevertPoint // target of the running rollback
	// restores are the requests that rolledBack sent to the pools.
	restores []system.Request[messages.RestorePool, messages.PoolRestored]
}

// capture requests the state of the clock and of all pools, on the chain's goroutine, between two
// blocks.
func (n *Node) capture() {
	n.rollbacks.clock = system.NewRequest[messages.CaptureClock, messages.Clock](messages.CaptureClock{})
	n.tell(n.producer, n.rollbacks.clock)
	n.rollbacks.pools = map[primitives.ShardID]system.Request[messages.CapturePool, messages.PoolCaptured]{}
	for _, t := range n.shards.set.Load().list {
		r := system.NewRequest[messages.CapturePool, messages.PoolCaptured](messages.CapturePool{})
		n.rollbacks.pools[t.id] = r
		n.tell(t.mempool, r)
	}
}

// rolledBack informs all actors of a rollback, on the chain's goroutine. The producer comes last,
// so that the producer's requests reach the other actors after the rollback.
func (n *Node) rolledBack(m messages.RolledBack) {
	s := n.rollbacks.target
	n.rollbacks.count.Add(1)
	n.heightCache.forget()
	n.drops.reorganised(m.At.Head)
	n.tell(n.tracker, m)
	head := n.engine.Head()
	_, layout, err := chainView{n.engine}.ChildEpoch(head.Hash)
	// The pooled transactions belong to removed blocks. So the mempools drop them instead of
	// forwarding them.
	if set := n.shards.set.Load(); err == nil && !layout.Equal(set.layout) {
		for _, t := range set.list {
			n.tell(t.mempool, system.NewRequest[messages.RestorePool, messages.PoolRestored](messages.RestorePool{Head: m.At.Head}))
		}
	}
	if err == nil {
		accepted := messages.BlockAccepted{Block: head.Block, Hash: head.Hash, IsHead: true, Final: m.At.Final}
		err = n.shards.setLayout(layout, &accepted)
	}
	if err != nil {
		panic(errors.Join(errors.New("node: set up the shards of a snapshot"), err))
	}
	n.rollbacks.restores = nil
	for _, t := range n.shards.set.Load().list {
		r := system.NewRequest[messages.RestorePool, messages.PoolRestored](
			messages.RestorePool{PoolCaptured: s.pools[t.id], Head: m.At.Head},
		)
		n.rollbacks.restores = append(n.rollbacks.restores, r)
		n.tell(t.mempool, r)
	}
	n.notifyMoved()
	n.tell(n.producer, messages.RestoreClock{Clock: s.clock})
	n.tell(n.producer, m)
}

// TakeSnapshot returns a RevertPoint of the head. Error: producer.ErrShared.
func (n *Node) TakeSnapshot(ctx context.Context) (*RevertPoint, error) {
	return exclusively(ctx, n, func() (*RevertPoint, error) {
		a, err := await(n, n.chain, system.NewRequest[messages.TakeSnapshot, messages.SnapshotTaken](messages.TakeSnapshot{}))
		if err != nil {
			return nil, err
		}
		s := &RevertPoint{Height: a.Height, Hash: a.Hash, state: a.Snapshot,
			pools: map[primitives.ShardID]messages.PoolCaptured{}}
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

// ShareSnapshot returns another RevertPoint of the same block with the same clock, but without
// pooled transactions. The new RevertPoint ends independently of `of`. Error: engine.ErrEnded.
func (n *Node) ShareSnapshot(ctx context.Context, of *RevertPoint) (*RevertPoint, error) {
	return exclusively(ctx, n, func() (*RevertPoint, error) {
		a, err := await(n, n.chain, system.NewRequest[messages.TakeSnapshot, messages.SnapshotTaken](messages.TakeSnapshot{Of: of.state}))
		if err != nil {
			return nil, err
		}
		return &RevertPoint{Height: a.Height, Hash: a.Hash, state: a.Snapshot, clock: of.clock}, nil
	}, n.EndSnapshot)
}

// Engine returns the engine's RevertPoint, for an engine that continues from the block of the
// snapshot.
func (s *RevertPoint) Engine() *engine.RevertPoint { return s.state.(*engine.RevertPoint) }

// Clock returns the state of the clock when the snapshot was taken.
func (s *RevertPoint) Clock() messages.Clock { return s.clock }

// Ended returns whether the chain can no longer be rolled back to the snapshot.
func (s *RevertPoint) Ended() bool { return s.state.Ended() }

// EndSnapshot releases a snapshot.
func (n *Node) EndSnapshot(s *RevertPoint) { n.tell(n.chain, messages.EndSnapshot{Snapshot: s.state}) }

// Rollback rolls the chain, the pools and the clock back to a snapshot. Waits that are open fail.
// Errors: engine.ErrEnded if the snapshot has ended, producer.ErrShared if there are other
// validators.
//
// # Rollback
//
// Problem: a sandbox makes an earlier block the head again within milliseconds. Meanwhile clients
// submit and wait, blocks are being written to disk, and mailboxes contain messages about blocks
// that will be removed.
//
// Invariants:
//   - After Rollback returns, every actor has the state of the snapshot, and readers see its
//     block.
//   - Blocks and chunks that were requested before a rollback are not made after it: each
//     rollback starts a new era, and requests of an earlier era are dropped.
//   - Waits that are open during the rollback end with an error.
//   - Pools are restored after all messages about removed blocks, because the chain's goroutine
//     sends RestorePool to the same mailboxes, after these messages.
//
// Outline:
//
//	producer: gets StandStill and no longer reads the chain
//	chain: waits until no block is being imported or written, rewinds the engine, starts a
//	        new era
//	rolledBack, on the chain's goroutine: txtracker ends the waits; shards get the old
//	        layout and RestorePool; the producer gets its clock and RolledBack
//	Rollback: waits for the replies of the pools
//	on an error: the producer gets GoOn; nothing has changed
//
// Only one snapshot or rollback runs at a time (exclusively).
//
// Rejected: restarting the node on a copy of the store. That takes hundreds of milliseconds and
// closes all connections. Rejected: undoing blocks one by one. The engine keeps the states of
// snapshots in any case.
func (n *Node) Rollback(ctx context.Context, s *RevertPoint) error {
	_, err := exclusively(ctx, n, func() (none struct{}, err error) {
		if _, err := await(n, n.producer,
			system.NewRequest[messages.StandStill, messages.Stopped](messages.StandStill{})); err != nil {
			return none, err
		}
		n.rollbacks.target = s
		back := system.NewRequest[messages.Rollback, messages.SnapshotTaken](messages.Rollback{Snapshot: s.state})
		if _, err = await(n, n.chain, back); err != nil {
			n.tell(n.producer, messages.GoOn{}) // the producer did not get RolledBack
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

// exclusively runs f while no other snapshot or rollback runs, and returns its result. If ctx ends
// first, f continues, and exclusively passes the value of f to lost.
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

// await sends a request and waits for the reply until the node halts or stops. If to is nil, the
// caller has already sent the request.
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

// Clock changes the sandbox clock and returns the state after the change. Errors:
// producer.ErrShared, producer.ErrClock.
func (n *Node) Clock(ctx context.Context, m messages.SetClock) (messages.Clock, error) {
	return askProducer[messages.SetClock, messages.Clock](ctx, n, m)
}

// Production changes when blocks are made and returns the result. Errors: producer.ErrShared,
// producer.ErrProduction.
func (n *Node) Production(ctx context.Context, m messages.SetProduction) (messages.Production, error) {
	p, err := askProducer[messages.SetProduction, messages.Production](ctx, n, m)
	if err == nil {
		n.mode.Store(int32(p.Mode))
	}
	return p, err
}

// Mode returns the current production mode.
func (n *Node) Mode() production.Mode { return production.Mode(n.mode.Load()) }

// Waiting returns the number of transactions in all pools.
func (n *Node) Waiting() (sum int) {
	for _, t := range n.shards.set.Load().list {
		sum += t.pool.Len()
	}
	return sum
}
