package storage

import (
	"errors"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// cache keeps the frames, entries and outcome trees that were read last. A client reads several
// parts of the same block, and clients that waited for one block ask for the same parts at the same
// time. With the cache each part is read only once.
type cache struct {
	mu      sync.Mutex
	frames  ring[position, [][]byte]
	reading map[position]*frameRead
	entries ring[BlockRef, *entry]
	trees   ring[treeKey, *outcomeTree]
}

// frameRead is a frame that is being read from the log.
type frameRead struct {
	done  chan struct{}
	items [][]byte
	err   error
}

// treeKey names the outcomes of a shard by the record that holds them.
type treeKey struct {
	at    position
	shard primitives.ShardID
}

// outcomeTree is a Merkle tree that is built by the first reader that needs it.
type outcomeTree struct {
	once sync.Once
	of   primitives.MerkleTree
	err  error
}

const (
	// cachedFrames frames take 8 MiB. A client reads about fifty frames of a block with a thousand
	// transactions and of the block after it.
	cachedFrames  = 256
	maxCached     = 4 * frameSize // maximum size of a cached frame in bytes
	cachedEntries = 256
	cachedTrees   = 32
)

// errNotRead is the error of readers that waited for a read that panicked.
var errNotRead = errors.New("storage: a read that several callers share has failed; try again")

// ring is a map that evicts the oldest key.
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

// frame returns the items of a frame. frame calls read, unless another goroutine is already reading
// the frame: in that case it waits for the other goroutine's result. If keep is set, the items are
// cached.
func (c *cache) frame(at position, keep bool, read func() ([][]byte, error)) ([][]byte, error) {
	c.mu.Lock()
	if items, ok := c.frames.m[at]; ok {
		c.mu.Unlock()
		return items, nil
	}
	if r := c.reading[at]; r != nil {
		c.mu.Unlock()
		<-r.done
		return r.items, r.err
	}
	r := &frameRead{done: make(chan struct{}), err: errNotRead}
	if c.reading == nil {
		c.reading = map[position]*frameRead{}
	}
	c.reading[at] = r
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		if c.reading[at] == r { // not equal if the cache was cleared meanwhile
			delete(c.reading, at)
			if r.err == nil && keep {
				c.frames.add(at, r.items, cachedFrames)
			}
		}
		c.mu.Unlock()
		close(r.done)
	}()
	r.items, r.err = read()
	return r.items, r.err
}

// tree returns the slot of a tree, which the first reader fills.
func (c *cache) tree(k treeKey) *outcomeTree {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.trees.m[k]
	if t == nil {
		t = new(outcomeTree)
		c.trees.add(k, t, cachedTrees)
	}
	return t
}

// dropTree removes a tree that could not be built, so that the next reader tries again.
func (c *cache) dropTree(k treeKey, t *outcomeTree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trees.m[k] == t {
		c.trees.m[k] = new(outcomeTree)
	}
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

// clear empties the cache, because after a rewind or a garbage collection the positions may hold
// different bytes than before, or none.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames, c.entries, c.trees = ring[position, [][]byte]{}, ring[BlockRef, *entry]{}, ring[treeKey, *outcomeTree]{}
	c.reading = nil
}
