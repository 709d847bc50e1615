package storage

import (
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
	"github.com/troupe-chain/troupe/storage/sstable"
)

// levelIndex is an index on goleveldb.
type levelIndex struct {
	ldb    *leveldb.DB
	stor   lstorage.Storage
	shared bool // true: the index's files may be opened several times at once
	cache  *secondReadCache
	// Bounds of the block cache's capacity in bytes. most 0: the capacity does not change.
	least, most int
	writes      atomic.Uint64 // number of writes since the index was opened
	spare       atomic.Pointer[leveldb.Batch]
}

// Sizes of the index's memory and files. The write buffer is allocated at once, but its pages are
// touched only as it fills, so it costs an idle node no memory. At each flush goleveldb allocates a
// new buffer, and goleveldb frees an unused buffer after half a minute. The block cache grows as
// blocks are read.
const (
	// minimum size of the write buffer in bytes; a large index has a larger buffer (writeBuffer)
	DefaultWriteBuffer = 16 << 20
	maxWriteBuffer     = 64 << 20
	maxLevel0Flushes   = 12
	DefaultBlockCache  = 48 << 20
	tableSize          = 8 << 20
	levelOneSize       = 256 << 20 // in bytes; eight write buffers if that is more
	// Factor of tableSize for level 2 and below, which hold nearly all of a large index.
	largeTable    = 4
	maxOpenTables = 1 << 16 // 2 TB of large tables
	minOpenTables = 200
)

// blockCache returns the size of the block cache for an index that takes size bytes on disk: 3 % of
// that, or `most` if that is less, but not less than `least`. The index blocks and filters of all
// tables take some 2 % of the index. Each lookup reads them, so a smaller cache makes lookups several
// times slower.
func blockCache(size int64, least, most int) int { return max(least, min(int(size/100*3), most)) }

// cacheWrites is the number of writes to the index after which the block cache is fitted to the size
// of the index. An arrival writes 4 MiB at a time.
const cacheWrites = 64

// fitCache fits the capacity of the block cache to the present size of the index. An index that
// grows from nothing during an arrival would otherwise have a small cache until the next start. Small
// changes of the size have no effect.
func (d *levelIndex) fitCache() {
	if d.most == 0 {
		return
	}
	_, size := d.flushes()
	now, want := d.cache.Capacity(), blockCache(size, d.least, d.most)
	if want-now > now/8 || want < now/2 {
		d.cache.SetCapacity(want)
	}
}

// writeBuffer returns the size of the write buffer for an index that takes size bytes on disk. The
// rows of one step are scattered over the key space, so each compaction rewrites most tables of the
// levels that it merges. A larger buffer makes compactions rarer.
func writeBuffer(size int64) int {
	return int(min(max(size/32, DefaultWriteBuffer), maxWriteBuffer))
}

// level0Flushes returns the number of flushes that gather on level 0 before they are compacted into
// level 1. Each flush covers the whole key space, so a compaction rewrites all of level 1. A higher
// number makes compactions rarer. But to load an uncached subtree, each flush must be visited,
// which takes about 4 us, so a lower number makes loads faster.
func level0Flushes(buffer int) int {
	return min(max(maxLevel0Flushes*DefaultWriteBuffer/buffer, 4), maxLevel0Flushes)
}

// levelOne returns the size from which level 1 is compacted into level 2. Each compaction of level
// 0 rewrites all of level 1.
func levelOne(buffer int) int { return max(levelOneSize, 8*buffer) }

// levelOptions returns goleveldb's options. openLevelWith adds the block cache.
func levelOptions(o *Options) *opt.Options {
	gather := level0Flushes(o.WriteBuffer)
	return &opt.Options{
		WriteBuffer:                           o.WriteBuffer,
		OpenFilesCacheCapacity:                openTables(),
		Filter:                                filter.NewBloomFilter(10),
		CompactionTableSize:                   tableSize,
		CompactionTableSizeMultiplierPerLevel: []float64{1, 1, largeTable, largeTable, largeTable, largeTable, largeTable},
		// goleveldb takes this as the size of level 0, and makes each level ten times as large as
		// the level above.
		CompactionTotalSize:    levelOne(o.WriteBuffer) / 10,
		CompactionL0Trigger:    gather,
		WriteL0SlowdownTrigger: 2 * gather,
		WriteL0PauseTrigger:    3 * gather,
		DisableSeeksCompaction: true,
		// Without this option, goleveldb would write a batch larger than the write buffer in a
		// transaction that bypasses the journal and makes a small table. With it, the batch makes
		// the buffer grow once and stays one atomic journal record.
		DisableLargeBatchTransaction: true,
	}
}

func openLevel(stor lstorage.Storage, o *Options, room *DiskSpace) (*levelIndex, error) {
	return openLevelWith(stor, o, levelOptions(o), room)
}

// openLevelReads opens an index that cannot be written. The content of the index's journals is kept
// in memory.
func openLevelReads(stor lstorage.Storage, o *Options, room *DiskSpace) (*levelIndex, error) {
	lo := levelOptions(o)
	lo.ReadOnly = true
	return openLevelWith(stor, o, lo, room)
}

// journalBytes returns the approximate size of an index's journals. Unreadable ones count as zero.
func journalBytes(stor lstorage.Storage) (sum int64) {
	list, _ := stor.List(lstorage.TypeJournal)
	for _, fd := range list {
		r, err := stor.Open(fd)
		if err != nil {
			continue
		}
		if end, err := r.Seek(0, io.SeekEnd); err == nil {
			sum += end
		}
		_ = r.Close()
	}
	return sum
}

func openLevelWith(stor lstorage.Storage, o *Options, lo *opt.Options, room *DiskSpace) (*levelIndex, error) {
	_, shared := stor.(sharedFiles)
	stor = &journalSyncer{Storage: waitingFiles{stor, room}}
	cache := newSecondReadCache(o.BlockCache)
	lo.BlockCacher, lo.BlockCacheCapacity = cache.cacher(), o.BlockCache
	ldb, err := leveldb.Open(stor, lo)
	if err != nil {
		return nil, wrapWrite("open index", err)
	}
	d := &levelIndex{ldb: ldb, stor: stor, shared: shared, cache: cache, least: o.BlockCache}
	if shared { // an index in memory has no use for a large cache of its blocks
		d.most = o.MaxBlockCache
	}
	d.fitCache()
	return d, nil
}

func (d *levelIndex) close() error {
	err := d.ldb.Close()
	if cerr := d.stor.Close(); err == nil {
		err = cerr
	}
	return wrapIndex("close index", err)
}

func (d *levelIndex) get(key []byte) ([]byte, error) {
	v, err := d.ldb.Get(key, nil)
	return v, getError(err)
}

func (d *levelIndex) iterate(lo, hi []byte) cursor {
	return levelCursor{d.ldb.NewIterator(&util.Range{Start: lo, Limit: hi}, nil)}
}

// frozen returns cursors of package sstable if the tables can be opened a second time beside
// goleveldb and the boundaries of their blocks fit into memory. Otherwise it returns goleveldb's
// cursors.
func (d *levelIndex) frozen(n int) (out []cursor) {
	var set *sstable.Set
	if d.shared {
		set = sstable.Current(d.ldb, d.stor, sstable.Limits{Tables: openTables() / 2, IndexBytes: int64(d.cache.Capacity())})
	}
	for range n {
		if set != nil {
			out = append(out, tableCursor{set.Cursor()})
		} else {
			out = append(out, d.iterate(nil, nil))
		}
	}
	if set != nil {
		set.Release()
	}
	return out
}

func (d *levelIndex) write(b *Batch, synced bool) error {
	lb := d.spare.Swap(nil)
	if lb == nil || cap(lb.Dump()) < b.Size()+16 {
		// goleveldb's encoding is as long as ours. But goleveldb reserves a few bytes more than it
		// needs, so without the 16 extra bytes the buffer would be copied.
		lb = leveldb.MakeBatch(b.Size() + 16)
	}
	b.each(func(key, value []byte) {
		if value == nil {
			lb.Delete(key)
		} else {
			lb.Put(key, value)
		}
	})
	err := d.ldb.Write(lb, &opt.WriteOptions{Sync: synced})
	if d.writes.Add(1)%cacheWrites == 0 {
		d.fitCache()
	}
	if cap(lb.Dump()) <= maxKept {
		lb.Reset()
		d.spare.Store(lb)
	}
	return wrapWrite("index write", err)
}

// rotate moves the write buffer into a table. Opening a transaction does that.
func (d *levelIndex) rotate() error {
	tr, err := d.ldb.OpenTransaction()
	if err != nil {
		d.unlock()
		return wrapWrite("index rotate", err)
	}
	tr.Discard()
	return nil
}

// unlock releases goleveldb's writer lock. goleveldb keeps the lock if a transaction fails to
// begin, and Close would then wait for the lock for ever. No other goroutine can hold the lock,
// because writes are serialized.
func (d *levelIndex) unlock() {
	f := reflect.ValueOf(d.ldb).Elem().FieldByName("writeLockC")
	if !f.IsValid() || f.Type() != reflect.TypeFor[chan struct{}]() {
		return // this version of goleveldb has no such channel
	}
	select {
	case <-*(*chan struct{})(unsafe.Pointer(f.UnsafeAddr())):
	default: // the transaction failed before goleveldb took the lock
	}
}

// compact moves all rows to the deepest level in use.
func (d *levelIndex) compact() error {
	err := d.ldb.CompactRange(util.Range{})
	d.fitCache()
	return wrapWrite("index compaction", err)
}

func (d *levelIndex) stats(out *Stats) {
	var l leveldb.DBStats
	if d.ldb.Stats(&l) != nil {
		return
	}
	out.IndexBytes, out.IndexRead, out.LevelTables = l.IOWrite, l.IORead, l.LevelTablesCounts
	// goleveldb counts in 32 bits with a sign: above 2 GiB its number is negative.
	out.CacheBytes, out.CacheCapacity = int(uint32(l.BlockCacheSize)), d.cache.Capacity()
	out.OpenTables, out.DelayCount, out.Delay, out.Paused = l.OpenedTablesCount, int(l.WriteDelayCount), l.WriteDelayDuration, l.WritePaused
	for _, size := range l.LevelSizes {
		out.LevelSizes = append(out.LevelSizes, size)
	}
}

func (d *levelIndex) flushes() (n int, size int64) {
	var l leveldb.DBStats
	if d.ldb.Stats(&l) != nil || len(l.LevelTablesCounts) == 0 {
		return 0, 0
	}
	for _, s := range l.LevelSizes {
		size += s
	}
	return l.LevelTablesCounts[0], size
}

func getError(err error) error {
	switch err {
	case nil:
		return nil
	case leveldb.ErrNotFound:
		return ErrNotFound
	}
	return wrapIndex("index", err)
}

// levelSnapshot is the index at one moment.
type levelSnapshot struct{ s *leveldb.Snapshot }

func (d *levelIndex) snapshot() (snapshot, error) {
	s, err := d.ldb.GetSnapshot()
	if err != nil {
		return nil, wrapIndex("snapshot", err)
	}
	return levelSnapshot{s}, nil
}

func (s levelSnapshot) get(key []byte) ([]byte, error) {
	v, err := s.s.Get(key, nil)
	return v, getError(err)
}

func (s levelSnapshot) iterate(lo, hi []byte) cursor {
	return levelCursor{s.s.NewIterator(&util.Range{Start: lo, Limit: hi}, nil)}
}

func (s levelSnapshot) release() { s.s.Release() }

type levelCursor struct{ it iterator.Iterator }

func (c levelCursor) next() bool           { return c.it.Next() }
func (c levelCursor) seek(key []byte) bool { return c.it.Seek(key) }
func (c levelCursor) key() []byte          { return c.it.Key() }
func (c levelCursor) value() []byte        { return c.it.Value() }
func (c levelCursor) valid() bool          { return c.it.Valid() }

func (c levelCursor) done() error {
	err := c.it.Error()
	c.it.Release()
	return wrapIndex("index scan", err)
}

// tableCursor is a cursor over the tables that the index had when the cursor was made.
type tableCursor struct{ at *sstable.Cursor }

func (c tableCursor) next() bool           { return c.at.Next() }
func (c tableCursor) seek(key []byte) bool { return c.at.Seek(key) }
func (c tableCursor) key() []byte          { return c.at.Key() }
func (c tableCursor) value() []byte        { return c.at.Value() }
func (c tableCursor) valid() bool          { return c.at.Valid() }
func (c tableCursor) done() error          { return wrapIndex("index scan", c.at.Close()) }

// sharedFiles are files of an index that may be opened several times at once.
type sharedFiles struct{ lstorage.Storage }

// journalSyncer syncs a journal before goleveldb begins the next journal. goleveldb itself does not
// sync the old journal, so a synced write to the new journal would be durable while writes in the
// old journal were not.
type journalSyncer struct {
	lstorage.Storage
	mu   sync.Mutex
	last lstorage.Writer
}

// Create creates a file. If the file is a journal, Create first syncs the last journal.
func (s *journalSyncer) Create(fd lstorage.FileDesc) (lstorage.Writer, error) {
	if fd.Type != lstorage.TypeJournal {
		return s.Storage.Create(fd)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		if err := s.last.Sync(); err != nil {
			return nil, err
		}
	}
	w, err := s.Storage.Create(fd)
	s.last = w
	return w, err
}
