package storage

import "sync"

// cache keeps the frames and entries that were read last: a client that looks at a block asks for several of its parts.
type cache struct {
	mu      sync.Mutex
	frames  ring[position, [][]byte]
	entries ring[BlockRef, *entry]
}

const (
	cachedFrames  = 64
	maxCached     = 4 * frameSize // a frame that is larger, for an item that is, is read each time
	cachedEntries = 256
)

// ring is a map that forgets the oldest key.
type ring[K comparable, V any] struct {
	m    map[K]V
	keys []K
	next int
}

func (r *ring[K, V]) add(k K, v V, limit int) {
	if r.m == nil {
		r.m = make(map[K]V)
	}
	if _, ok := r.m[k]; ok {
		r.m[k] = v
		return
	}
	if len(r.keys) < limit {
		r.keys = append(r.keys, k)
	} else {
		delete(r.m, r.keys[r.next])
		r.keys[r.next] = k
		r.next = (r.next + 1) % limit
	}
	r.m[k] = v
}

func (c *cache) frame(at position) ([][]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	items, ok := c.frames.m[at]
	return items, ok
}

func (c *cache) addFrame(at position, items [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames.add(at, items, cachedFrames)
}

func (c *cache) entry(ref BlockRef) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries.m[ref]
}

func (c *cache) addEntry(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.add(e.head.Ref, e, cachedEntries)
}

// clear forgets everything: after a revert or a collection the same names may mean other bytes, or none.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames, c.entries = ring[position, [][]byte]{}, ring[BlockRef, *entry]{}
}
