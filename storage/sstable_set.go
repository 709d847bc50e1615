package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// tableSet is the set of goleveldb's tables at one moment. Its cursors are made for reading a few
// rows at a place that was not read before. goleveldb's own cursors have three layers, use its
// block cache, and allocate memory for each block. The cursors here read one block of each sorted
// run of tables, into memory of their own. They do not see rows that were in no table at that
// moment.
type tableSet struct {
	stor lstorage.Storage
	runs [][]*tableFile // sorted lists of tables with disjoint key ranges, in ascending order
	pin  func()         // permits goleveldb to remove the tables; called once at the end
	uses atomic.Int32
}

// tableFile is one table. Its index is read when a cursor first needs it.
type tableFile struct {
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
	tableFooter     = 48
	tableMagic      = "\x57\xfb\x80\x8b\x24\x75\x47\xdb"
	blockTrailer    = 5
	keyTrailer      = 8       // number of bytes after each key: put or delete, and the sequence number
	maxTableBlock   = 8 << 20 // maximum size of a block in bytes; only the block of a table's index exceeds about 4 KiB
	tableIndexRatio = 40      // approximate ratio of a table's size to the size of its separators in memory
)

var errTable = errors.New("a table file of the index is malformed")

// parseTables parses goleveldb's list of tables by level.
func parseTables(list string) (runs [][]*tableFile, size int64, count int) {
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
		if t := (&tableFile{num: num}); level == 0 { // tables of level 0 overlap, so each is a run of its own
			runs = append(runs, []*tableFile{t})
		} else {
			runs[len(runs)-1] = append(runs[len(runs)-1], t)
		}
		size, count = size+bytes, count+1
	}
	return slices.DeleteFunc(runs, func(r []*tableFile) bool { return len(r) == 0 }), size, count
}

// use counts a user of the set.
func (s *tableSet) use() *tableSet {
	s.uses.Add(1)
	return s
}

// done ends a use. The last one closes the tables.
func (s *tableSet) done() {
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
func (s *tableSet) open(t *tableFile) error {
	t.once.Do(func() { t.err = t.open(s.stor) })
	return t.err
}

func (t *tableFile) open(stor lstorage.Storage) (err error) {
	if t.file, err = stor.Open(lstorage.FileDesc{Type: lstorage.TypeTable, Num: t.num}); err != nil {
		return err
	}
	size, err := t.file.Seek(0, 2)
	if err != nil {
		return err
	}
	var footer [tableFooter]byte
	if size < tableFooter {
		return errTable
	}
	if _, err := t.file.ReadAt(footer[:], size-tableFooter); err != nil {
		return err
	}
	if string(footer[tableFooter-len(tableMagic):]) != tableMagic {
		return errTable
	}
	_, rest, ok := cutPlace(footer[:])
	index, _, ok2 := cutPlace(rest)
	if !ok || !ok2 {
		return errTable
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
func (t *tableFile) bound(raw, unpacked *[]byte) error {
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
func (t *tableFile) readIndex(block []byte) error {
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
			return errTable
		}
		// Keys of an index block share no prefix. In a damaged block they may, so bound the memory.
		if t.keys = append(t.keys, it.user()...); len(t.keys) > maxTableBlock {
			return errTable
		}
		t.ends = append(t.ends, uint32(len(t.keys)))
		t.blocks = append(t.blocks, at)
	}
}

// boundary returns the separator of a block.
func (t *tableFile) boundary(block int) []byte {
	from := uint32(0)
	if block > 0 {
		from = t.ends[block-1]
	}
	return t.keys[from:t.ends[block]]
}

// find returns the first block that may contain a key at or above key, or the number of blocks.
func (t *tableFile) find(key []byte) int {
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
	if m <= 0 || length > maxTableBlock {
		return p, nil, false
	}
	return blockPlace{at, uint32(length)}, b[n+m:], true
}
