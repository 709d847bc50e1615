package storage

import (
	"math/bits"
	"sync/atomic"

	lcache "github.com/syndtr/goleveldb/leveldb/cache"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// secondReadCache is goleveldb's block cache with an admission rule: a block is cached from its
// second read on. In a large state nearly every block is read only once, to load a trie subtree
// that then stays in memory. Caching such blocks would cost heap and evict blocks that may be read
// again. Safe for concurrent use.
type secondReadCache struct {
	lcache.Cacher
	seen atomic.Pointer[[]atomic.Uint32] // tag of the last block read, by the hash of the block's table and offset
}

// Sizes of blocks in bytes, and the least number of tags.
const (
	typicalBlock = 4 << 10 // typical size of an uncompressed block in bytes
	// A block of at least this size is a table's index or filter. Every read of the table needs
	// that block, so the block is cached at its first read.
	largeBlock = 32 << 10
	minSeen    = 1 << 10
)

func newSecondReadCache(capacity int) *secondReadCache {
	c := &secondReadCache{Cacher: lcache.NewLRU(capacity)}
	c.fitTags(capacity)
	return c
}

// cacher makes goleveldb use the cache. goleveldb's file cache has another cacher.
func (c *secondReadCache) cacher() opt.Cacher {
	return &opt.CacherFunc{NewFunc: func(int) lcache.Cacher { return c }}
}

// fitTags makes as many tags as blocks fit into the cache. New tags are free, so each block needs
// two further reads.
func (c *secondReadCache) fitTags(capacity int) {
	n := max(minSeen, 1<<bits.Len(uint(capacity/typicalBlock)))
	if old := c.seen.Load(); old == nil || len(*old) != n {
		tags := make([]atomic.Uint32, n)
		c.seen.Store(&tags)
	}
}

// SetCapacity changes the capacity in bytes. A smaller cache evicts blocks at once.
func (c *secondReadCache) SetCapacity(capacity int) {
	c.fitTags(capacity)
	c.Cacher.SetCapacity(capacity)
}

// Promote is called for each block that is read. A block that is not passed on to goleveldb's cache
// is freed when its reader is done.
func (c *secondReadCache) Promote(n *lcache.Node) {
	if n.Size() < largeBlock && !c.seenBefore(n.NS(), n.Key()) {
		return
	}
	c.Cacher.Promote(n)
}

// seenBefore returns whether a block is the last block that was read in its slot. In any case it
// then stores the block in that slot.
func (c *secondReadCache) seenBefore(table, offset uint64) bool {
	h := (table*0x9e3779b97f4a7c15 ^ offset) * 0xd6e8feb86659fd93
	seen := *c.seen.Load()
	at, tag := &seen[h>>32&uint64(len(seen)-1)], uint32(h)|1 // |1, because tag 0 marks a free slot
	if at.Load() == tag {
		return true
	}
	at.Store(tag)
	return false
}
