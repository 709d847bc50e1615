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
