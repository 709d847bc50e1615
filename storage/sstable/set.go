package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// Set is the set of goleveldb's tables at one moment. The caller of Current and each cursor use it.
// goleveldb keeps the tables until the last use has ended. Safe for concurrent use.
type Set struct {
	stor lstorage.Storage
	runs [][]*table // sorted lists of tables with disjoint key ranges, in ascending order
	pin  func()     // permits goleveldb to remove the tables; called once at the end
	uses atomic.Int32
}

// Limits bound the tables of a set.
type Limits struct {
	Tables     int   // maximum number of tables, each of which is an open file
	IndexBytes int64 // approximate maximum memory of the separators of all tables, in bytes
}

// Current returns the present tables of a database, with one use that the caller ends by
// Set.Release. It opens the files in stor, the database's storage, which must permit that a file is
// opened several times at once. Current returns nil if there is no table, if the tables exceed the
// limits, or if goleveldb removes tables at this moment. Rows in the write buffer are in no table:
// the caller rotates the buffer first.
func Current(db *leveldb.DB, stor lstorage.Storage, limits Limits) *Set {
	for range 3 { // retry, because tables may be removed before an iterator holds them
		now, ok := list(db)
		if !ok {
			return nil
		}
		runs, size, count := now.tables()
		if count == 0 || count > limits.Tables || size/indexRatio > limits.IndexBytes {
			return nil
		}
		pin := db.NewIterator(nil, nil)
		if pin.Error() == nil && now.isCurrent(db) {
			return (&Set{stor: stor, runs: runs, pin: pin.Release}).use()
		}
		pin.Release()
	}
	return nil
}

// table is one table. The table's index is read when a cursor first needs the index.
type table struct {
	num  int64
	once sync.Once
	err  error
	file lstorage.Reader

	// keys has a separator for each block: a key at or above the block's last key, and for the last
	// block exactly that key. Separators are stored without goleveldb's trailer.
	keys   []byte
	ends   []uint32 // offset in keys at which each separator ends
	blocks []blockPlace
}

// blockPlace is the position of a block in its table. The length excludes the block's trailer.
type blockPlace struct {
	at     uint64
	length uint32
}

// Format of goleveldb's tables.
const (
	footerSize   = 48
	magic        = "\x57\xfb\x80\x8b\x24\x75\x47\xdb"
	blockTrailer = 5
	keyTrailer   = 8       // number of bytes after each key: put or delete, and the sequence number
	maxBlock     = 8 << 20 // maximum size of a block in bytes; only the block of a table's index exceeds about 4 KiB
	indexRatio   = 40      // approximate ratio of a table's size to the size of its separators in memory
)

// tablesProperty is goleveldb's name of the list of its tables by level, as text.
const tablesProperty = "leveldb.sstables"

// ErrMalformed means that a file is not a table as goleveldb writes it.
var ErrMalformed = errors.New("a table file of the index is malformed")

// parseTables parses goleveldb's list of tables by level.
func parseTables(list string) (runs [][]*table, size int64, count int) {
	level := 0
	for line := range strings.Lines(list) {
		if n, err := fmt.Sscanf(line, "--- level %d ---", &level); err == nil && n == 1 {
			if level > 0 {
				runs = append(runs, nil)
			}
			continue
		}
		var num, bytes int64
		if n, err := fmt.Sscanf(line, "%d:%d", &num, &bytes); err != nil || n != 2 {
			continue
		}
		if t := (&table{num: num}); level == 0 { // tables of level 0 overlap, so each is a run of its own
			runs = append(runs, []*table{t})
		} else {
			runs[len(runs)-1] = append(runs[len(runs)-1], t)
		}
		size, count = size+bytes, count+1
	}
	return slices.DeleteFunc(runs, func(r []*table) bool { return len(r) == 0 }), size, count
}

// use counts a user of the set.
func (s *Set) use() *Set {
	s.uses.Add(1)
	return s
}

// Release ends a use. The end of the last use closes the tables.
func (s *Set) Release() {
	if s.uses.Add(-1) > 0 {
		return
	}
	for _, run := range s.runs {
		for _, t := range run {
			if t.file != nil {
				_ = t.file.Close() // an error is ignored: the file was only read
			}
		}
	}
	s.pin()
}

// open reads a table's index, once.
func (s *Set) open(t *table) error {
	t.once.Do(func() { t.err = t.open(s.stor) })
	return t.err
}

func (t *table) open(stor lstorage.Storage) (err error) {
	if t.file, err = stor.Open(lstorage.FileDesc{Type: lstorage.TypeTable, Num: t.num}); err != nil {
		return err
	}
	size, err := t.file.Seek(0, 2)
	if err != nil {
		return err
	}
	var footer [footerSize]byte
	if size < footerSize {
		return ErrMalformed
	}
	if _, err := t.file.ReadAt(footer[:], size-footerSize); err != nil {
		return err
	}
	if string(footer[footerSize-len(magic):]) != magic {
		return ErrMalformed
	}
	_, rest, ok := cutPlace(footer[:])
	index, _, ok2 := cutPlace(rest)
	if !ok || !ok2 {
		return ErrMalformed
	}
	var raw, unpacked []byte
	block, err := index.read(t.file, &raw, &unpacked)
	if err != nil {
		return err
	}
	if err := t.readIndex(block); err != nil {
		return err
	}
	return t.bound(&raw, &unpacked)
}

// bound replaces the separator of a table's last block by the table's last key. goleveldb chooses a
// short separator there, which may be much greater than the last key, and even lie above the keys
// of many following tables.
func (t *table) bound(raw, unpacked *[]byte) error {
	n := len(t.blocks)
	if n == 0 {
		return nil
	}
	block, err := t.blocks[n-1].read(t.file, raw, unpacked)
	if err != nil {
		return err
	}
	var it blockCursor
	if err := it.reset(block); err != nil {
		return err
	}
	for more := true; more; {
		if more, err = it.next(); err != nil {
			return err
		}
	}
	if len(it.key) > 0 {
		t.keys = append(t.keys[:len(t.keys)-len(t.boundary(n-1))], it.user()...)
		t.ends[n-1] = uint32(len(t.keys))
	}
	return nil
}

// readIndex reads separators and positions of the blocks.
func (t *table) readIndex(block []byte) error {
	var it blockCursor
	if err := it.reset(block); err != nil {
		return err
	}
	for {
		more, err := it.next()
		if err != nil || !more {
			return err
		}
		at, _, ok := cutPlace(it.value)
		if !ok {
			return ErrMalformed
		}
		// Keys of an index block share no prefix. In a damaged block keys may share prefixes, so
		// bound the memory.
		if t.keys = append(t.keys, it.user()...); len(t.keys) > maxBlock {
			return ErrMalformed
		}
		t.ends = append(t.ends, uint32(len(t.keys)))
		t.blocks = append(t.blocks, at)
	}
}

// boundary returns the separator of a block.
func (t *table) boundary(block int) []byte {
	from := uint32(0)
	if block > 0 {
		from = t.ends[block-1]
	}
	return t.keys[from:t.ends[block]]
}

// find returns the first block that may contain a key at or above key, or the number of blocks.
func (t *table) find(key []byte) int {
	lo, hi := 0, len(t.blocks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bytes.Compare(t.boundary(mid), key) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// cutPlace decodes the position of a block.
func cutPlace(b []byte) (p blockPlace, rest []byte, ok bool) {
	at, n := binary.Uvarint(b)
	if n <= 0 {
		return p, nil, false
	}
	length, m := binary.Uvarint(b[n:])
	if m <= 0 || length > maxBlock {
		return p, nil, false
	}
	return blockPlace{at, uint32(length)}, b[n+m:], true
}
