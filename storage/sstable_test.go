package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// tableIndex is an index in a folder with small tables, so that there are many on several levels.
func tableIndex(t testing.TB, dir string) *levelIndex {
	t.Helper()
	stor, err := lstorage.OpenFile(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	ldb, err := leveldb.Open(stor, &opt.Options{WriteBuffer: 16 << 10, CompactionTableSize: 8 << 10, CompactionL0Trigger: 6, CompactionTotalSize: 32 << 10, BlockSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	return &levelIndex{ldb: ldb, stor: stor, shared: true, cache: 1 << 20}
}

// tableKey makes keys of several lengths that share long beginnings.
func tableKey(i int) []byte {
	return fmt.Appendf(nil, "%c%s%04d%s", 'a'+i%3, strings.Repeat("x", i%7*40), i, strings.Repeat("y", i%2))
}

// fillTables puts, puts anew and deletes rows, and leaves all in tables.
func fillTables(t testing.TB, d *levelIndex, rng *rand.Rand, steps int) {
	t.Helper()
	for i := range steps {
		var b Batch
		for range 50 {
			key := tableKey(rng.IntN(1500))
			if rng.IntN(4) == 0 {
				b.delete(key)
			} else {
				b.put(key, bytes.Repeat([]byte{byte(i), byte(rng.Uint32())}, rng.IntN(120)))
			}
		}
		if err := d.write(&b, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.rotate(); err != nil {
		t.Fatal(err)
	}
}

// TestTableCursorMatchesGoleveldb: a table cursor finds the same rows as a cursor of goleveldb,
// wherever it is positioned, over tables on several levels with changed and deleted rows. It does
// not see later rows, and its tables exist until it is released.
func TestTableCursorMatchesGoleveldb(t *testing.T) {
	dir := t.TempDir()
	d := tableIndex(t, dir)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 4 {
		fillTables(t, d, rng, 60+60*round)
		snap, err := d.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		cold := d.frozen(2)
		if _, ok := cold[0].(*tableCursor); !ok {
			t.Fatalf("round %d: not by tables", round)
		}
		fillTables(t, d, rng, 100) // which merges tables that are looked into from here on
		sameRows(t, rng, cold[0], snap.iterate(nil, nil))
		sameRows(t, rng, cold[1], snap.iterate(nil, nil))
		before, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cold {
			if err := c.done(); err != nil {
				t.Fatal(err)
			}
		}
		snap.release()
		if len(before) < 20 {
			t.Errorf("round %d: only %d tables", round, len(before))
		}
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

// countedTables counts reads of its files.
type countedTables struct {
	lstorage.Storage
	reads atomic.Int64
}

type countedReader struct {
	lstorage.Reader
	in *countedTables
}

func (s *countedTables) Open(fd lstorage.FileDesc) (lstorage.Reader, error) {
	r, err := s.Storage.Open(fd)
	return countedReader{r, s}, err
}

func (r countedReader) ReadAt(p []byte, off int64) (int, error) {
	r.in.reads.Add(1)
	return r.Reader.ReadAt(p, off)
}

// TestTableSeekReadsOneBlock: if all tables are on one level, a seek reads one block, or two if the
// key is between them, however many tables there are.
func TestTableSeekReadsOneBlock(t *testing.T) {
	d := tableIndex(t, t.TempDir())
	rng := rand.New(rand.NewPCG(7, 8))
	fillTables(t, d, rng, 300)
	if err := d.compact(); err != nil {
		t.Fatal(err)
	}
	count := &countedTables{Storage: d.stor}
	d.stor = count
	c := d.frozen(1)[0]
	for c.next() { // opens all
	}
	if n := len(c.(*tableCursor).runs[0].tables); n < 4 || len(c.(*tableCursor).runs) != 1 {
		t.Fatalf("%d tables in %d runs", n, len(c.(*tableCursor).runs))
	}
	count.reads.Store(0)
	const seeks = 1000
	for range seeks {
		c.seek(tableKey(rng.IntN(1500)))
	}
	if n := count.reads.Load(); n > seeks*3/2 {
		t.Errorf("%d reads for %d seeks", n, seeks)
	}
	if err := c.done(); err != nil {
		t.Error(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

// sameRows compares two cursors.
func sameRows(t *testing.T, rng *rand.Rand, got, want cursor) {
	t.Helper()
	defer func() {
		if err := want.done(); err != nil {
			t.Error(err)
		}
	}()
	same := func(where string, a, b bool) bool {
		if a != b || a != got.valid() {
			t.Fatalf("%s: %v, want %v", where, a, b)
		}
		if a && (!bytes.Equal(got.key(), want.key()) || !bytes.Equal(got.value(), want.value())) {
			t.Fatalf("%s: %q %x, want %q %x", where, got.key(), got.value(), want.key(), want.value())
		}
		return a
	}
	n := 0
	for same("walk", got.next(), want.next()) {
		n++
	}
	if n < 500 {
		t.Errorf("only %d rows", n)
	}
	for range 2000 {
		key := tableKey(rng.IntN(1600))
		if rng.IntN(3) == 0 {
			key = append(key[:rng.IntN(len(key))], byte(rng.Uint32()))
		}
		where := fmt.Sprintf("from %q", key)
		for ok, i := same(where, got.seek(key), want.seek(key)), 0; ok && i < rng.IntN(60); i++ {
			ok = same(where, got.next(), want.next())
		}
	}
}

// TestTableCursorsAreBounded: goleveldb's cursors are used if tables would take too much memory or
// their files cannot be opened twice. A cursor returns an error if a file is damaged or missing.
func TestTableCursorsAreBounded(t *testing.T) {
	dir := t.TempDir()
	d := tableIndex(t, dir)
	fillTables(t, d, rand.New(rand.NewPCG(3, 4)), 200)
	for name, change := range map[string]func(){
		"small cache": func() { d.cache = 1 << 10 },
		"not shared":  func() { d.cache, d.shared = 1<<20, false },
	} {
		t.Run(name, func(t *testing.T) {
			change()
			c := d.frozen(1)[0]
			if _, ok := c.(*tableCursor); ok {
				t.Error("by tables")
			}
			if !c.next() {
				t.Error("no row")
			}
			if err := c.done(); err != nil {
				t.Error(err)
			}
		})
	}
	d.shared, d.cache = true, 1<<20
	cold := d.frozen(3)
	var names []string // of the files they read: others are about to be removed
	for _, run := range cold[0].(*tableCursor).set.runs {
		for _, x := range run {
			names = append(names, filepath.Join(dir, fmt.Sprintf("%06d.ldb", x.num)))
		}
	}
	for i, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			err = os.Remove(name)
		case 1:
			err = os.WriteFile(name, raw[:len(raw)/2], 0o644)
		default:
			raw[len(raw)-60] ^= 0xff
			err = os.WriteFile(name, raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range cold {
		for c.next() {
		}
		if c.seek([]byte("b")) {
			t.Error("a cursor that has failed goes on")
		}
		if err := c.done(); err == nil {
			t.Error("no error")
		}
	}
	_ = d.close() // it may have seen the damage
}

// FuzzTableBlock: whatever a block contains, every walk over it ends, and no seek finds a key below
// the one that is looked for.
func FuzzTableBlock(f *testing.F) {
	f.Add([]byte("\x00\x09\x01a\x01\x00\x00\x00\x00\x00\x00\x00v\x00\x00\x00\x00\x01\x00\x00\x00"), []byte("a"))
	f.Add([]byte("\x00\x00\x00\x00\x01\x00\x00\x00"), []byte(""))
	f.Fuzz(func(t *testing.T, block, key []byte) {
		var c blockCursor
		if c.reset(block) != nil {
			return
		}
		for n := 0; ; n++ {
			more, err := c.next()
			if err != nil || !more {
				break
			}
			if c.user(); n > len(block) {
				t.Fatal("a walk without end")
			}
		}
		if ok, err := c.seek(key); ok && err == nil && bytes.Compare(c.user(), key) < 0 {
			t.Fatalf("%q is below %q", c.user(), key)
		}
	})
}

// bytesReader is a table's file in memory.
type bytesReader struct{ *bytes.Reader }

func (bytesReader) Close() error { return nil }

// oneTable is a storage of one file.
type oneTable struct {
	lstorage.Storage
	b []byte
}

func (s oneTable) Open(lstorage.FileDesc) (lstorage.Reader, error) {
	return bytesReader{bytes.NewReader(s.b)}, nil
}

// TestTableIndexMemoryIsBounded: an index block whose keys share a prefix, which goleveldb never
// writes, does not take more memory than its bound.
func TestTableIndexMemoryIsBounded(t *testing.T) {
	var block []byte
	entry := func(shared, own int) {
		for _, n := range []int{shared, own, 2} {
			block = binary.AppendUvarint(block, uint64(n))
		}
		block = append(append(block, make([]byte, own)...), 0, 0)
	}
	entry(0, 1<<20)
	for range 1000 {
		entry(1<<20, 0)
	}
	block = append(block, 0, 0, 0, 0, 1, 0, 0, 0)
	footer := binary.AppendUvarint([]byte{0, 0, 0}, uint64(len(block)))
	file := append(block, make([]byte, blockTrailer)...)
	file = append(append(file, append(footer, make([]byte, tableFooter-len(tableMagic)-len(footer))...)...), tableMagic...)
	x := &tableFile{num: 1}
	if err := x.open(oneTable{b: file}); !errors.Is(err, errTable) {
		t.Error(err)
	}
	if n := cap(x.keys); n > 4*maxTableBlock {
		t.Errorf("%d bytes of keys of a block of %d", n, len(block))
	}
}

// FuzzTable: whatever a table's file has, a cursor over it ends.
func FuzzTable(f *testing.F) {
	dir := f.TempDir()
	d := tableIndex(f, dir)
	fillTables(f, d, rand.New(rand.NewPCG(5, 6)), 8)
	if err := d.close(); err != nil {
		f.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	raw, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, []byte("b"))
	f.Fuzz(func(t *testing.T, file, key []byte) {
		set := &tableSet{stor: oneTable{b: file}, runs: [][]*tableFile{{{num: 1}}}, pin: func() {}}
		c := set.cursor()
		for range 1000 {
			if !c.next() {
				break
			}
		}
		if c.seek(key) && bytes.Compare(c.key(), key) < 0 {
			t.Fatalf("%q is below %q", c.key(), key)
		}
		if err := c.done(); err != nil && !errors.Is(err, errTable) && c.valid() {
			t.Fatal(err)
		}
	})
}
