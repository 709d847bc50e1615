package node

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/shard"
	core "github.com/troupe-chain/troupe/chain/mempool"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// shards are the tracked shards. The chain's goroutine changes the set, at a change of layout; anybody reads it.
type shards struct {
	n   *Node
	set atomic.Pointer[shardSet]
}

// shardSet does not change.
type shardSet struct {
	layout primitives.ShardLayout // of the next block
	list   []*tracked             // all that have an actor: those of the layout, and older ones
}

type tracked struct {
	id   primitives.ShardID
	pool *mempool.Pool
	pid  *actor.PID
}

func (s *shardSet) find(id primitives.ShardID) *tracked {
	i := slices.IndexFunc(s.list, func(t *tracked) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return s.list[i]
}

// of returns the shard of an account in the next block.
func (s *shardSet) of(account primitives.AccountID) *tracked {
	return s.find(s.layout.ShardOf(account))
}

// adopt goes over to a layout: new shards get actors, and the transactions of shards that are gone go to those that follow.
func (s *shards) adopt(layout primitives.ShardLayout) error {
	old := s.set.Load()
	ids := layout.ShardIDs()
	if old != nil && layout.Equal(old.layout) {
		return nil
	}
	set := &shardSet{layout: layout}
	if old != nil {
		set.list = slices.Clone(old.list)
	}
	for _, id := range ids {
		if set.find(id) != nil {
			continue
		}
		t, err := s.track(id)
		if err != nil {
			return err
		}
		set.list = append(set.list, t)
	}
	s.set.Store(set)
	pools := make([]*mempool.Pool, len(set.list))
	for i, t := range set.list {
		pools[i] = t.pool
	}
	s.n.fresh.SetPools(pools)
	for _, t := range set.list {
		if !slices.Contains(ids, t.id) {
			t.pool.Drain(func(tx *primitives.SignedTransaction, base primitives.Height) {
				_, _ = set.of(tx.SignerID).pool.Add(tx, base) // a full pool drops it, as it drops a new one
			})
		}
	}
	return nil
}

// track starts a shard's actors.
func (s *shards) track(id primitives.ShardID) (*tracked, error) {
	n, k := s.n, s.n.kit
	overtook := n.overtook
	if n.o.Mode != production.Instant { // the next block is not there in a moment, and what waits is sorted by then
		overtook = nil
	}
	t := &tracked{id: id, pool: mempool.New(core.New(n.o.Mempool, n.engine.Chain().ValidityPeriod, n.o.Seed), n.fresh, overtook)}
	mine := func(tx *primitives.SignedTransaction) bool { return s.set.Load().of(tx.SignerID) == t }
	producer := k.props("chunk-producer", func() actor.Actor {
		return shard.NewChunkProducer(n.engine, t.pool, func(m messages.MakeChunk) { n.tell(n.chain, m) }, n.dropped, n.o.Log)
	})
	pool := func(produce messages.Sender[messages.ProduceChunk]) *actor.Props {
		return k.props("mempool", func() actor.Actor {
			return mempool.NewActor(id, t.pool, mine, n.baseHeight, mempool.Out{ProduceChunk: produce, Dropped: n.dropped})
		})
	}
	var err error
	t.pid, err = k.spawn("shard", fmt.Sprintf("shards/%d", id),
		shard.New(func(m messages.ChunkApplied) { n.tell(n.chain, m) }, producer, pool))
	return t, err
}

// apply sends a chunk to its shard. A branch that is not canonical may have a shard that the head's layout lacks.
func (s *shards) apply(id primitives.ShardID, m messages.ApplyChunk) {
	set := s.set.Load()
	t := set.find(id)
	if t == nil {
		var err error
		if t, err = s.track(id); err != nil {
			panic(err)
		}
		s.set.Store(&shardSet{layout: set.layout, list: append(slices.Clone(set.list), t)})
	}
	s.n.tell(t.pid, m)
}

// produce asks a shard for a chunk.
func (s *shards) produce(m messages.ProduceChunk) { s.n.tell(s.set.Load().find(m.ShardID).pid, m) }
