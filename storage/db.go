package storage

import (
	"bytes"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Reader is what columns read from: the database or a snapshot of it.
type Reader interface {
	get(key []byte) ([]byte, error) // fresh memory; ErrNotFound
	iterate(lo, hi []byte) *cursor  // keys in [lo, hi); nil hi: to the end; release it
}

// db is the index: ordered keys on goleveldb.
type db struct {
	ldb  *leveldb.DB
	stor lstorage.Storage
}

// Sizes of the index's memory. The write buffer is reserved at once but touched only as it fills, so an idle node pays
// nothing for it; goleveldb allocates it anew at each flush and frees the spare after half a minute. The cache grows as
// blocks are read.
const (
	DefaultWriteBuffer = 16 << 20
	DefaultBlockCache  = 48 << 20
	tableSize          = 8 << 20
	levelOneSize       = 256 << 20
	openTables         = 200 // file descriptors; a table is 8 MiB. No demand on ulimit
)

func openDB(stor lstorage.Storage, o *Options) (*db, error) {
	if err := checkIndex(stor); err != nil {
		return nil, err
	}
	stor = &journalSyncer{Storage: stor}
	ldb, err := leveldb.Open(stor, &opt.Options{
		WriteBuffer:            o.WriteBuffer,
		BlockCacheCapacity:     o.BlockCache,
		OpenFilesCacheCapacity: openTables,
		Filter:                 filter.NewBloomFilter(10),
		CompactionTableSize:    tableSize,
		CompactionTotalSize:    levelOneSize,
		// Every flush covers the whole key space, so a merge of level 0 rewrites level 1: let several flushes gather.
		CompactionL0Trigger:    12,
		WriteL0SlowdownTrigger: 24,
		WriteL0PauseTrigger:    36,
		DisableSeeksCompaction: true,
		// A batch above the write buffer would otherwise become a table without passing the journal, in a transaction that
		// merges with nothing. With this it grows the buffer instead, once, and stays one atomic journal record.
		DisableLargeBatchTransaction: true,
	})
	if err != nil {
		return nil, wrapWrite("open index", err)
	}
	return &db{ldb: ldb, stor: stor}, nil
}

func (d *db) close() error {
	err := d.ldb.Close()
	if cerr := d.stor.Close(); err == nil {
		err = cerr
	}
	return wrapIndex("close index", err)
}

func (d *db) get(key []byte) ([]byte, error) {
	v, err := d.ldb.Get(key, nil)
	return v, getError(err)
}

func (d *db) iterate(lo, hi []byte) *cursor {
	return newCursor(d.ldb.NewIterator(&util.Range{Start: lo, Limit: hi}, nil))
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

// snapshot is the database at one moment; release it.
type snapshot struct{ s *leveldb.Snapshot }

func (d *db) snapshot() (*snapshot, error) {
	s, err := d.ldb.GetSnapshot()
	if err != nil {
		return nil, wrapIndex("snapshot", err)
	}
	return &snapshot{s}, nil
}

func (s *snapshot) get(key []byte) ([]byte, error) {
	v, err := s.s.Get(key, nil)
	return v, getError(err)
}

func (s *snapshot) iterate(lo, hi []byte) *cursor {
	return newCursor(s.s.NewIterator(&util.Range{Start: lo, Limit: hi}, nil))
}

func (s *snapshot) release() { s.s.Release() }

// cursor walks keys upwards. Key and value are valid until the next step.
type cursor struct {
	it iterator.Iterator
}

func newCursor(it iterator.Iterator) *cursor { return &cursor{it} }

func (c *cursor) next() bool           { return c.it.Next() }
func (c *cursor) seek(key []byte) bool { return c.it.Seek(key) }
func (c *cursor) key() []byte          { return c.it.Key() }
func (c *cursor) value() []byte        { return c.it.Value() }
func (c *cursor) valid() bool          { return c.it.Valid() }

// done releases the cursor and returns the error that ended it, if one did.
func (c *cursor) done() error {
	err := c.it.Error()
	c.it.Release()
	return wrapIndex("index scan", err)
}

// Batch gathers writes that are applied together.
type Batch struct {
	b leveldb.Batch
	n int // bytes of keys and values
}

func (b *Batch) put(key, value []byte) {
	b.b.Put(key, value)
	b.n += len(key) + len(value)
}

func (b *Batch) delete(key []byte) {
	b.b.Delete(key)
	b.n += len(key)
}

// Len returns the number of writes, Size their bytes.
func (b *Batch) Len() int { return b.b.Len() }

// Size returns the bytes of all keys and values.
func (b *Batch) Size() int { return b.n }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.b.Reset(); b.n = 0 }

func (d *db) write(b *Batch, sync bool) error {
	return wrapWrite("index write", d.ldb.Write(&b.b, &opt.WriteOptions{Sync: sync}))
}

// PrefixEnd returns the first key behind all keys with that prefix; nil: there is none.
func PrefixEnd(p []byte) []byte {
	end := bytes.Clone(p)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
