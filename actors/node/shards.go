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

// shards are the shards that have actors. The chain's goroutine changes the set when the shard
// layout changes; any goroutine may read it.
type shards struct {
	n   *Node
	set atomic.Pointer[shardSet]
}

// shardSet is immutable.
type shardSet struct {
	layout primitives.ShardLayout // layout of the next block
	list   []*shardActors         // every shard of the layout, tracked or not, and older shards whose actors still run
}

// shardActors are the actors of one shard.
type shardActors struct {
	id   primitives.ShardID
	pool *mempool.Status
	pid  *actor.PID
	// mempool and producer are the children of pid.
	mempool, producer *actor.PID
	// gone is the lowest height at which the head's branch lacks the shard. gone is 0 if the branch
	// has the shard. Only the chain's goroutine uses gone.
	gone primitives.Height
}

// find returns the shard with an id, or nil.
func (s *shardSet) find(id primitives.ShardID) *shardActors {
	i := slices.IndexFunc(s.list, func(t *shardActors) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return s.list[i]
}

// of returns the shard of an account in the next block.
func (s *shardSet) of(account primitives.AccountID) *shardActors {
	return s.find(s.layout.ShardOf(account))
}

// layoutChanged is the request that makes a mempool forward transactions.
type layoutChanged = system.Request[messages.LayoutChanged, messages.PoolMoved]

// setLayout switches to the shard layout after a block. New shards get actors. Mempools forward the
// transactions of accounts that moved to another shard, before any chunk is requested. Otherwise a
// transaction that arrives at the new pool could be included before transactions with lower nonces,
// and that would make the transactions with lower nonces invalid. If the layout is unchanged,
// setLayout does nothing.
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
		if t := set.find(id); t != nil { // the shard already has actors, because it exists on another branch
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
		if old.find(t.id) == nil { // m.Returned may contain transactions of this new shard
			s.n.tell(t.mempool, messages.BlockImported{BlockAccepted: m})
			continue
		}
		before, err := engine.Accounts(old.layout, t.id)
		now, err2 := engine.Accounts(layout, t.id)
		if err != nil || err2 != nil || before != now {
			r := system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{})
			leaving = append(leaving, r)
			s.n.tell(t.mempool, r)
		}
	}
	s.awaitMoved(leaving)
	return nil
}

// awaitMoved waits until the mempools have forwarded their transactions, at most endLimit in total.
// awaitMoved does not wait for a mempool that has failed, because it has no transactions left.
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

// publish makes a set the current one for readers.
func (s *shards) publish(set *shardSet) {
	s.set.Store(set)
	fronts := make([]*mempool.Status, len(set.list))
	for i, t := range set.list {
		fronts[i] = t.pool
	}
	s.n.wakeup.SetPools(fronts)
}

// retire ends the actors of shards that no branch can contain any more, because a block whose
// layout lacks them is final. Before they end, the shard actor and its mempool handle the messages
// in their mailboxes.
func (s *shards) retire(final primitives.Height) {
	old := s.set.Load()
	past := func(t *shardActors) bool { return t.gone != 0 && t.gone <= final }
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

// spawn starts the actors of a shard.
func (s *shards) spawn(id primitives.ShardID) (*shardActors, error) {
	n, k := s.n, s.n.spawner
	name, address := fmt.Sprintf("shards/%d", id), n.rpc.GetAddress()
	t := &shardActors{id: id, pool: mempool.NewStatus(n.wakeup),
		mempool: actor.NewPID(address, name+"/"+shard.MempoolName), producer: actor.NewPID(address,
			name+"/"+shard.ChunkProducerName)}
	producer := k.props("chunk-producer", func() actor.Actor {
		return shard.NewChunkProducer(n.engine, n.o.Keys, shardSender{n, t}, n.o.ChooseLimit, &n.production, n.o.Log)
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
		<-ready // afterwards, submissions go to the mempool directly
	}
	return t, err
}

// endLimit is the maximum wait for an actor to end before a new actor gets the same name.
const endLimit = 10 * time.Second

// awaitEnded waits until no actor has this name. A shard may exist again on another branch or after
// a rollback, and its actors get the same names. Only the chain's goroutine spawns shard actors.
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

// apply sends a chunk to its shard's actor. A block of a side branch may have a shard that the
// head's layout lacks; in that case apply creates an actor for the shard.
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

// produce requests a chunk with transactions. It drops a request for a shard that no longer exists:
// the producer is behind the chain and would drop the chunk.
func (s *shards) produce(m messages.ProduceChunk) {
	if t := s.set.Load().find(m.ShardID); t != nil {
		s.n.tell(t.mempool, m)
	}
}

// isIdle returns whether a shard's pool has no transaction for the next chunk.
func (s *shards) isIdle(id primitives.ShardID) bool {
	t := s.set.Load().find(id)
	return t != nil && t.pool.Idle()
}

// PoolBytes returns the sum of the sizes of the transactions in all pools. Transactions that wait
// for compilation count twice.
func (n *Node) PoolBytes() (sum uint64) {
	for _, t := range n.shards.set.Load().list {
		sum += uint64(max(t.pool.Bytes(), 0)) + uint64(max(t.pool.HeldBytes(), 0))
	}
	return sum
}
