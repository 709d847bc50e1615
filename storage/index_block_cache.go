package storage

import (
	"math/bits"
	"sync/atomic"

	lcache "github.com/syndtr/goleveldb/leveldb/cache"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// secondReadCache is goleveldb's cache of blocks, but one that keeps a block from its second read on: of a large state nearly all blocks are read
// once, for a subtree that lies in memory from then on, and each that is kept costs a piece of the heap and pushes out one that may be read again.
type secondReadCache struct {
	lcache.Cacher
	seen []atomic.Uint32 // which block was read last, of those that share a place
}

// Of what is read.
const (
	typicalBlock = 4 << 10  // bytes, unpacked
	largeBlock   = 32 << 10 // from here on it is a table's index or filter, which each read of the table wants: kept at once
	minSeen      = 1 << 10
)

var secondReadCacher = &opt.CacherFunc{NewFunc: newSecondReadCache}

func newSecondReadCache(capacity int) lcache.Cacher {
	places := max(minSeen, 1<<bits.Len(uint(capacity/typicalBlock)))
	return &secondReadCache{lcache.NewLRU(capacity), make([]atomic.Uint32, places)}
}

// Promote is called with each block that is read. One that is not passed on is freed when who reads it is done.
func (c *secondReadCache) Promote(n *lcache.Node) {
	if n.Size() < largeBlock && !c.seenBefore(n.NS(), n.Key()) {
		return
	}
	c.Cacher.Promote(n)
}

// seenBefore tells whether a block is the last that was read of its place, and makes it that.
func (c *secondReadCache) seenBefore(table, offset uint64) bool {
	h := (table*0x9e3779b97f4a7c15 ^ offset) * 0xd6e8feb86659fd93
	at, tag := &c.seen[h>>32&uint64(len(c.seen)-1)], uint32(h)|1 // never zero, which nobody has been at
	if at.Load() == tag {
		return true
	}
	at.Store(tag)
	return false
}
