package node

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/shard"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// shards are the shards with actors. The chain's goroutine changes the set when the layout
// changes; any goroutine reads it.
type shards struct {
	n   *Node
	set atomic.Pointer[shardSet]
}

// shardSet is immutable.
type shardSet struct {
	layout primitives.ShardLayout // of the next block
	list   []*trackedShard        // shards with actors: those of the layout, and older ones
}

type trackedShard struct {
	id   primitives.ShardID
	pool *mempool.Status
	pid  *actor.PID
	// mempool and producer are children of pid.
	mempool, producer *actor.PID
	// first height at which the head's branch lacks the shard; 0: it has it. Owned by the chain's
	// goroutine
	gone primitives.Height
}

// find returns the shard with this id, or nil.
func (s *shardSet) find(id primitives.ShardID) *trackedShard {
	i := slices.IndexFunc(s.list, func(t *trackedShard) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return s.list[i]
}

// of returns the shard of an account in the next block.
func (s *shardSet) of(account primitives.AccountID) *trackedShard {
	return s.find(s.layout.ShardOf(account))
}

// layoutChanged is the request that tells a mempool.
type layoutChanged = system.Request[messages.LayoutChanged, messages.PoolMoved]

// setLayout switches to the shard layout after a block. New shards get actors. Mempools with
// other accounts than before forward transactions before any chunk is requested: otherwise a
// transaction that arrives at the new pool would run before pending ones with lower nonces,
// which could then never run. It does nothing while the layout stays.
func (s *shards) setLayout(layout primitives.ShardLayout, m *messages.BlockAccepted) error {
	old := s.set.Load()
	if old != nil && layout.Equal(old.layout) {
		return nil
	}
	set := &shardSet{layout: layout}
	if old != nil {
		set.list = slices.Clone(old.list)
	}
	for _, id := range layout.ShardIDs() {
		if t := set.find(id); t != nil { // another branch had a shard of this id
			t.gone = 0
			continue
		}
		t, err := s.spawn(id)
		if err != nil {
			return err
		}
		set.list = append(set.list, t)
	}
	s.publish(set)
	if old == nil {
		return nil
	}
	var leaving []layoutChanged
	for _, t := range set.list {
		if !layout.Has(t.id) && t.gone == 0 {
			t.gone = m.Height() + 1
		}
		if old.find(t.id) == nil { // transactions of a branch that lost may belong to it
			s.n.tell(t.pid, messages.BlockImported{BlockAccepted: m})
			continue
		}
		before, err := engine.Accounts(old.layout, t.id)
		now, err2 := engine.Accounts(layout, t.id)
		if err != nil || err2 != nil || before != now {
			r := system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{})
			leaving = append(leaving, r)
			s.n.tell(t.pid, r)
		}
	}
	s.awaitMoved(leaving)
	return nil
}

// awaitMoved waits until pools have forwarded transactions. A failed pool has none any more; a
// slow one is not waited for.
func (s *shards) awaitMoved(leaving []layoutChanged) {
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	for _, r := range leaving {
		select {
		case <-r.Answer():
		case <-s.n.ended:
			return
		case <-limit.C:
			return
		}
	}
}

// publish makes a set visible.
func (s *shards) publish(set *shardSet) {
	s.set.Store(set)
	fronts := make([]*mempool.Status, len(set.list))
	for i, t := range set.list {
		fronts[i] = t.pool
	}
	s.n.wakeup.SetPools(fronts)
}

// retire ends the actors of shards that no branch can have any more, since a block of a layout
// without them is final. What is in their mailboxes and their mempools' is handled first.
func (s *shards) retire(final primitives.Height) {
	old := s.set.Load()
	past := func(t *trackedShard) bool { return t.gone != 0 && t.gone <= final }
	if !slices.ContainsFunc(old.list, past) {
		return
	}
	set := &shardSet{layout: old.layout}
	for _, t := range old.list {
		if past(t) {
			s.n.tell(t.pid, shard.Retire{})
		} else {
			set.list = append(set.list, t)
		}
	}
	s.publish(set)
}

// spawn starts a shard's actors.
func (s *shards) spawn(id primitives.ShardID) (*trackedShard, error) {
	n, k := s.n, s.n.spawner
	name, address := fmt.Sprintf("shards/%d", id), n.rpc.GetAddress()
	t := &trackedShard{id: id, pool: mempool.NewStatus(n.wakeup),
		mempool: actor.NewPID(address, name+"/"+shard.MempoolName), producer: actor.NewPID(address,
			name+"/"+shard.ChunkProducerName)}
	producer := k.props("chunk-producer", func() actor.Actor {
		return shard.NewChunkProducer(n.engine, shard.Out{
			Make: func(m messages.MakeChunk) {
				n.tracer.mark(m.Transactions, chosen)
				n.tell(n.chain, m)
			},
			More:   func(m mempool.Page) { n.tell(t.mempool, m) },
			Chosen: func(m messages.ChunkChosen) { n.tell(t.mempool, m) },
		}, n.o.Log)
	})
	ready := make(chan struct{})
	var once sync.Once
	again := false
	pool := k.props("mempool", func() actor.Actor {
		a := mempool.New(n.mempool(t, again, func() { once.Do(func() { close(ready) }) }))
		again = true
		return a
	})
	err := s.awaitEnded(name)
	if err != nil {
		return t, err
	}
	if t.pid, err = k.spawn("shard", name, onlyOnce(shard.New(func(m messages.ChunkApplied) {
		n.tracer.applying(t.id, m.Block, true)
		n.tell(n.chain, m)
	}, producer, pool))); err == nil {
		<-ready // submissions go straight to the mempool
	}
	return t, err
}

// endLimit is how long an actor may take to end if its name is needed again.
const endLimit = 10 * time.Second

// awaitEnded waits for an ending actor of a shard that exists again, on another branch or after
// a rollback. No other goroutine spawns shard actors.
func (s *shards) awaitEnded(name string) error {
	registry := s.n.root.ActorSystem().ProcessRegistry
	for limit := time.Now().Add(endLimit); ; time.Sleep(time.Millisecond) {
		if _, there := registry.GetLocal(name); !there {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("node: actor %s has not ended within %v", name, endLimit)
		}
	}
}

// apply sends a chunk to its shard. A branch that is not canonical may have a shard that the
// head's layout lacks.
func (s *shards) apply(id primitives.ShardID, m messages.ApplyChunk) {
	set := s.set.Load()
	t := set.find(id)
	if t == nil {
		var err error
		if t, err = s.spawn(id); err != nil {
			panic(err)
		}
		t.gone = m.Height
		s.publish(&shardSet{layout: set.layout, list: append(slices.Clone(set.list), t)})
	}
	s.n.tracer.applying(id, m.Block, false)
	s.n.tell(t.pid, m)
}

// produce requests a chunk. If the pool is empty there is nothing to choose and the chain is
// asked directly. A shard that is gone is requested only by a producer that is behind; its
// answer would be dropped.
func (s *shards) produce(m messages.ProduceChunk) {
	t := s.set.Load().find(m.ShardID)
	switch {
	case t == nil:
	case m.Empty || t.pool.Idle():
		s.n.tell(s.n.chain, messages.MakeChunk{Parent: m.Parent, Shard: m.Shard, ShardID: m.ShardID, Producer: m.Producer,
			Era: m.Era})
	default:
		s.n.tell(t.pid, m)
	}
}

// PoolBytes returns the sum of the sizes of the transactions in all pools.
func (n *Node) PoolBytes() (sum uint64) {
	for _, t := range n.shards.set.Load().list {
		sum += uint64(max(t.pool.Bytes(), 0)) + uint64(max(t.pool.HeldBytes(), 0))
	}
	return sum
}
