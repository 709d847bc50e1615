package engine

import (
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// DefaultMainResults is how many results of main transitions are kept for each shard (nearcore chunk_validation.rs NUM_WITNESS_RESULT_CACHE_ENTRIES).
const DefaultMainResults = 20

// mainKey names a main transition: the shard of the chunk that a witness proves, and the block with the shard's last new chunk.
type mainKey struct {
	shard primitives.ShardUID
	block primitives.Hash
}

// mainResults caches what main transitions of witnesses lead to, under the keys and with the size of nearcore's MainStateTransitionCache. A chunk behind a
// block in which the shard's chunk was missing has the main transition of the missing chunk's witness. nearcore reads neither the state nor the code that
// the second witness shows for it, so this node must not either: else it would refuse chunks that each nearcore endorses.
//
// Only a transition that was applied on a proven state and led to the state that its witness names is put, so a hit never accepts what applying would
// refuse but for the proof itself. All that nearcore checks on a hit is checked: see replay and checkForm. Safe for concurrent use.
type mainResults struct {
	most   int // of each shard; at most 0: none is kept
	mu     sync.Mutex
	shards map[primitives.ShardUID]*shardMains
}

// shardMains are the results of a shard, the least recently used first.
type shardMains struct {
	list []mainResult
	used primitives.Height // the last final height when one was put
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

// get returns a copy of the extra and the receipts that were put under a key.
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

// put keeps a result and drops the least recently used one of the shard if there are too many. It drops shards that are not in the layout and have not been
// used since the block that is final now became so: they were split, and no chunk of theirs can come any more.
func (m *mainResults) put(k mainKey, extra *chain.ChunkExtra, outgoing []*primitives.Receipt, layout primitives.ShardLayout, final primitives.Height) {
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
