package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// recent remembers the hashes that were added last. Safe from any goroutine.
type recent struct {
	mu    sync.Mutex
	known map[primitives.Hash]struct{}
	order []primitives.Hash
}

// maxRecent is some blocks' worth of chunks, with every shard this node's.
const maxRecent = 1024

func (r *recent) add(hash primitives.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[hash]; ok {
		return
	}
	if r.known == nil {
		r.known = map[primitives.Hash]struct{}{}
	}
	if len(r.order) >= maxRecent {
		delete(r.known, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	r.known[hash] = struct{}{}
	r.order = append(r.order, hash)
}

func (r *recent) has(hash primitives.Hash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.known[hash]
	return ok
}
