package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// recentHashes is a set of the maxRecentHashes hashes that were added last. Safe for concurrent
// use.
type recentHashes struct {
	mu    sync.Mutex
	known map[primitives.Hash]struct{}
	order []primitives.Hash
}

// maxRecentHashes is enough for the chunks of several blocks, even if this node produces the chunks
// of all shards.
const maxRecentHashes = 1024

func (r *recentHashes) add(hash primitives.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[hash]; ok {
		return
	}
	if r.known == nil {
		r.known = map[primitives.Hash]struct{}{}
	}
	if len(r.order) >= maxRecentHashes {
		delete(r.known, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	r.known[hash] = struct{}{}
	r.order = append(r.order, hash)
}

func (r *recentHashes) has(hash primitives.Hash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[hash]
	return ok
}
