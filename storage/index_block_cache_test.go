package storage

import (
	"testing"

	lcache "github.com/syndtr/goleveldb/leveldb/cache"
)

// block is one that counts what is freed.
type freedBlock struct{ freed *int }

func (b freedBlock) Release() { *b.freed++ }

// TestBlockIsCachedFromSecondRead: a block is cached from its second read on, but a table's index
// at once. A block that is read only once evicts neither.
func TestBlockIsCachedFromSecondRead(t *testing.T) {
	freed := 0
	c := lcache.NewCache(newSecondReadCache(1 << 20))
	read := func(table, offset uint64, size int) {
		h := c.Get(table, offset, func() (int, lcache.Value) { return size, freedBlock{&freed} })
		h.Release()
	}
	has := func(table, offset uint64) bool {
		h := c.Get(table, offset, nil)
		if h == nil {
			return false
		}
		h.Release()
		return true
	}
	read(1, 0, typicalBlock)
	if has(1, 0) || freed != 1 {
		t.Error("a block is cached after one read")
	}
	read(1, 0, typicalBlock)
	if !has(1, 0) || freed != 1 {
		t.Error("gone after two reads")
	}
	read(1, 1<<20, largeBlock)
	if !has(1, 1<<20) {
		t.Error("an index is not kept")
	}
	for i := range uint64(100_000) {
		read(2+i%7, i*typicalBlock, typicalBlock)
	}
	if !has(1, 0) || !has(1, 1<<20) {
		t.Error("pushed out by what was read once")
	}
	if freed < 99_000 {
		t.Errorf("%d of 100,000 that were read once are freed", freed)
	}
	if size := c.Size(); size > 1<<20 {
		t.Errorf("%d bytes in a cache of 1 MiB", size)
	}
}

// TestBlockCacheTakesNewCapacity: a cache that grows keeps its blocks and then caches more of them. A
// cache that shrinks evicts blocks at once.
func TestBlockCacheTakesNewCapacity(t *testing.T) {
	freed := 0
	cacher := newSecondReadCache(1 << 20)
	c := lcache.NewCache(cacher)
	readTwice := func(from, to uint64) {
		for range 2 {
			for i := from; i < to; i++ {
				c.Get(1, i*typicalBlock, func() (int, lcache.Value) { return typicalBlock, freedBlock{&freed} }).Release()
			}
		}
	}
	readTwice(0, 100)
	before := c.Size()
	if cacher.SetCapacity(64 << 20); cacher.Capacity() != 64<<20 || c.Size() != before || before < 90*typicalBlock {
		t.Errorf("after it has grown to %d: %d bytes, before %d", cacher.Capacity(), c.Size(), before)
	}
	if n := len(*cacher.seen.Load()); n < 64<<20/typicalBlock {
		t.Errorf("%d tags for %d blocks", n, 64<<20/typicalBlock)
	}
	for i := uint64(0); i < 8000; i += 100 { // some blocks share a tag
		readTwice(i, i+100)
	}
	if size := c.Size(); size < 16<<20 {
		t.Errorf("%d bytes in a cache of 64 MiB after two reads of 32 MiB", size)
	}
	if cacher.SetCapacity(1 << 20); c.Size() > 1<<20 {
		t.Errorf("%d bytes in a cache that shrank to 1 MiB", c.Size())
	}
}
