package engine

import (
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// DefaultMainResults is the number of results that mainResults caches for each shard. The number
// equals nearcore's NUM_WITNESS_RESULT_CACHE_ENTRIES (chunk_validation.rs).
const DefaultMainResults = 20

// mainKey identifies a main transition. shard is the shard of the witness's chunk. block is the
// block with the shard's newest chunk.
type mainKey struct {
	shard primitives.ShardUID
	block primitives.Hash
}

// mainResults caches the results of main transitions, with the keys and the capacity of nearcore's
// MainStateTransitionCache. If no block includes a chunk, the shard's next chunk has the same main
// transition. nearcore then ignores the state and code in the second chunk's witness. This node
// must do the same. Otherwise it would refuse chunks that all nearcore nodes endorse.
//
// mainResults stores a result only if this node computed the result on a proven state and the
// result equals the result in the witness. So the only effect of a cached result is that the proof
// in the second witness is not checked. Everything else that nearcore checks is still checked
// (replay, checkForm). Safe for concurrent use.
type mainResults struct {
	most   int // maximum number of results per shard; negative: no result is cached
	mu     sync.Mutex
	shards map[primitives.ShardUID]*shardMains
}

// shardMains are the results of one shard, the least recently used first.
type shardMains struct {
	list []mainResult
	used primitives.Height // height of the final block when the last result was put
}

type mainResult struct {
	block    primitives.Hash
	extra    chain.ChunkExtra
	outgoing []*primitives.Receipt
}

func newMainResults(most int) *mainResults {
	if most == 0 {
		most = DefaultMainResults
	}
	return &mainResults{most: most, shards: map[primitives.ShardUID]*shardMains{}}
}

// get returns copies of the cached chunk extra and outgoing receipts of a transition. ok is false
// if the result is not cached.
func (m *mainResults) get(k mainKey) (extra *chain.ChunkExtra, outgoing []*primitives.Receipt, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shards[k.shard]
	if s == nil {
		return nil, nil, false
	}
	i := slices.IndexFunc(s.list, func(r mainResult) bool { return r.block == k.block })
	if i < 0 {
		return nil, nil, false
	}
	r := s.list[i]
	s.list = append(slices.Delete(s.list, i, i+1), r)
	return &r.extra, slices.Clip(r.outgoing), true
}

// put stores a result. If the shard has more than m.most results, put evicts the least recently
// used result. put also drops the results of shards that are not in the layout and had no put since
// the current final block. Such shards were split and get no more chunks.
func (m *mainResults) put(
	k mainKey,
	extra *chain.ChunkExtra,
	outgoing []*primitives.Receipt,
	layout primitives.ShardLayout,
	final primitives.Height,
) {
	if m.most < 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shards[k.shard]
	if s == nil {
		s = new(shardMains)
		m.shards[k.shard] = s
	}
	s.used = max(s.used, final)
	s.list = slices.DeleteFunc(s.list, func(r mainResult) bool { return r.block == k.block })
	if len(s.list) >= m.most {
		s.list = slices.Delete(s.list, 0, len(s.list)-m.most+1)
	}
	s.list = append(s.list, mainResult{k.block, *extra, outgoing})
	uids := layout.ShardUIDs()
	for uid, x := range m.shards {
		if x.used < final && !slices.Contains(uids, uid) {
			delete(m.shards, uid)
		}
	}
}
