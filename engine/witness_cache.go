package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// witnessCache keeps transitions until the witnesses that show them are made. What it drops is made again if somebody asks: it is bounded
// in bytes, and what no block that may still come needs goes first. Safe from any goroutine.
type witnessCache struct {
	limit  int64 // bytes; 0: nobody asks
	mu     sync.Mutex
	kept   map[proofKey]*Transition
	order  []proofKey // oldest first
	size   int64
	saved  atomic.Bool // there is a row of them, see witness_store.go
	wanted atomic.Bool // of the block that was begun last somebody asks for some
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

// collectBlock takes a transition, unless nobody asks or it alone is too large.
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

// dropBelowFlatHead drops what blocks have that are gone.
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

// prune drops what no descendant of a final block needs: of each shard what came before its last new chunk there.
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
		if !known { // of another layout
			from = least
		}
		old := p.kept[key].Height < from
		if old {
			p.drop(key)
		}
		return old
	})
}
