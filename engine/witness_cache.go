package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// witnessCache keeps transitions until their witnesses are built. Transitions that are not in the
// cache are computed again. The size of the cache is bounded. The cache evicts the oldest
// transitions first. Safe for concurrent use.
type witnessCache struct {
	store   *storage.Store
	chain   transitionChain
	account primitives.AccountID // Options.ProofsFor

	limit  int64 // maximum of size; 0: the cache keeps nothing
	mu     sync.Mutex
	kept   map[proofKey]*Transition
	order  []proofKey  // keys of kept, oldest first
	size   int64       // bytes of the kept transitions
	saved  atomic.Bool // the store has a transitions row (witness_store.go)
	wanted atomic.Bool // the last imported block has a transition that must be kept
}

// transitionChain is what witnessCache reads of the engine. All methods are safe for concurrent use.
type transitionChain interface {
	Epochs(func(*epoch.Manager) error) error
	Transitions(prev primitives.Hash, shard primitives.ShardID) (main *Transition, implicit []*Transition, err error)
	childrenOf(primitives.Hash) []*BlockNode
}

func newWitnessCache(chain transitionChain, o *Options) *witnessCache {
	return &witnessCache{store: o.Store, chain: chain, account: o.ProofsFor, limit: o.ProofBytes}
}

// childrenOf returns the children of a block in memory, in any order.
func (e *Engine) childrenOf(block primitives.Hash) (out []*BlockNode) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, x := range e.entries {
		if x.Header().PrevHash == block {
			out = append(out, x)
		}
	}
	return out
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

// keep adds a transition. While the cache exceeds the limit, keep evicts the oldest transition.
// keep ignores a transition that alone exceeds the limit.
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

// forget drops the transitions of blocks that were removed from the chain.
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

// prune drops the transitions that no descendant of a final block needs. Such transitions are, for
// each shard, the transitions before the shard's newest chunk as of the final block.
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
		if !known { // the shard belongs to another layout
			from = least
		}
		old := p.kept[key].Height < from
		if old {
			p.drop(key)
		}
		return old
	})
}
