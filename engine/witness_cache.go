package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// witnessCache keeps transitions until their witnesses are made. A dropped one is computed again on
// demand. It is bounded in bytes and drops first what no future block needs. Safe for concurrent
// use.
type witnessCache struct {
	limit  int64 // bytes; 0: keep nothing
	mu     sync.Mutex
	kept   map[proofKey]*Transition
	order  []proofKey // oldest first
	size   int64
	saved  atomic.Bool // the store has a row of transitions, see witness_store.go
	wanted atomic.Bool // some proof of the last begun block is wanted
}

type proofKey struct {
	block primitives.Hash
	shard primitives.ShardID
}

func (p *witnessCache) get(block primitives.Hash, shard primitives.ShardID) *Transition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept[proofKey{block, shard}]
}

// keep adds a transition unless it alone exceeds the limit.
func (p *witnessCache) keep(t *Transition) {
	key, n := proofKey{t.Block, t.Shard}, t.size()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.limit || p.kept[key] != nil {
		return
	}
	if p.kept == nil {
		p.kept = map[proofKey]*Transition{}
	}
	p.kept[key] = t
	p.order = append(p.order, key)
	p.size += n
	for p.size > p.limit {
		p.drop(p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
}

func (p *witnessCache) drop(key proofKey) {
	p.size -= p.kept[key].size()
	delete(p.kept, key)
}

// forget drops the transitions of removed blocks.
func (p *witnessCache) forget(blocks []primitives.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.order) == 0 {
		return
	}
	gone := map[primitives.Hash]bool{}
	for _, hash := range blocks {
		gone[hash] = true
	}
	p.order = slices.DeleteFunc(p.order, func(key proofKey) bool {
		if gone[key.block] {
			p.drop(key)
		}
		return gone[key.block]
	})
}

// prune drops what no descendant of a final block needs: for each shard, what precedes its last new
// chunk there.
func (p *witnessCache) prune(final *BlockNode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.order) == 0 {
		return
	}
	needed, least := map[primitives.ShardID]primitives.Height{}, final.Height()
	for i, c := range final.Block.Body.Chunks {
		needed[final.Shards[i].ID] = c.HeightIncluded
		least = min(least, c.HeightIncluded)
	}
	p.order = slices.DeleteFunc(p.order, func(key proofKey) bool {
		from, known := needed[key.shard]
		if !known { // a shard of another layout
			from = least
		}
		old := p.kept[key].Height < from
		if old {
			p.drop(key)
		}
		return old
	})
}
