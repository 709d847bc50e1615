package sstable

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
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// database is a goleveldb database with its storage.
type database struct {
	*leveldb.DB
	stor lstorage.Storage
}

// plenty are limits that the databases of these tests do not reach.
var plenty = Limits{Tables: 1 << 10, IndexBytes: 1 << 20}

// openDatabase opens a database in a folder with small tables, so that there are many on several
// levels.
func openDatabase(t testing.TB, dir string) *database {
	t.Helper()
	stor, err := lstorage.OpenFile(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	db, err := leveldb.Open(stor, &opt.Options{WriteBuffer: 16 << 10, CompactionTableSize: 8 << 10, CompactionL0Trigger: 6, CompactionTotalSize: 32 << 10, BlockSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	return &database{db, stor}
}

func (d *database) close() error { return errors.Join(d.DB.Close(), d.stor.Close()) }

// cursors returns n cursors over the present tables.
func (d *database) cursors(t testing.TB, n int) (out []*Cursor) {
	t.Helper()
	set := Current(d.DB, d.stor, plenty)
	if set == nil {
		t.Fatal("no set of the present tables")
	}
	for range n {
		out = append(out, set.Cursor())
	}
	set.Release()
	return out
}

// tableKey makes keys of several lengths that share long beginnings.
func tableKey(i int) []byte {
	return fmt.Appendf(nil, "%c%s%04d%s", 'a'+i%3, strings.Repeat("x", i%7*40), i, strings.Repeat("y", i%2))
}

// fillTables puts, puts anew and deletes rows, and leaves all in tables.
func fillTables(t testing.TB, d *database, rng *rand.Rand, steps int) {
	t.Helper()
	for i := range steps {
		var b leveldb.Batch
		for range 50 {
			key := tableKey(rng.IntN(1500))
			if rng.IntN(4) == 0 {
				b.Delete(key)
			} else {
				b.Put(key, bytes.Repeat([]byte{byte(i), byte(rng.Uint32())}, rng.IntN(120)))
			}
		}
		if err := d.Write(&b, nil); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := d.OpenTransaction() // moves the write buffer into a table
	if err != nil {
		t.Fatal(err)
	}
	tr.Discard()
}

// TestCursorMatchesGoleveldb: a cursor finds the same rows as a cursor of goleveldb,
// wherever it is positioned, over tables on several levels with changed and deleted rows. It does
// not see later rows, and its tables exist until it is released.
func TestCursorMatchesGoleveldb(t *testing.T) {
	dir := t.TempDir()
	d := openDatabase(t, dir)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 4 {
		fillTables(t, d, rng, 60+60*round)
		snap, err := d.GetSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		cold := d.cursors(t, 2)
		fillTables(t, d, rng, 100) // which merges tables that are looked into from here on
		sameRows(t, rng, cold[0], snap.NewIterator(nil, nil))
		sameRows(t, rng, cold[1], snap.NewIterator(nil, nil))
		before, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cold {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		snap.Release()
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

// TestSeekReadsOneBlock: if all tables are on one level, a seek reads one block, or two if the
// key is between them, however many tables there are.
func TestSeekReadsOneBlock(t *testing.T) {
	d := openDatabase(t, t.TempDir())
	rng := rand.New(rand.NewPCG(7, 8))
	fillTables(t, d, rng, 300)
	if err := d.CompactRange(util.Range{}); err != nil {
		t.Fatal(err)
	}
	count := &countedTables{Storage: d.stor}
	d.stor = count
	c := d.cursors(t, 1)[0]
	for c.Next() { // opens all
	}
	if n := len(c.runs[0].tables); n < 4 || len(c.runs) != 1 {
		t.Fatalf("%d tables in %d runs", n, len(c.runs))
	}
	count.reads.Store(0)
	const seeks = 1000
	for range seeks {
		c.Seek(tableKey(rng.IntN(1500)))
	}
	if n := count.reads.Load(); n > seeks*3/2 {
		t.Errorf("%d reads for %d seeks", n, seeks)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

// sameRows compares two cursors.
func sameRows(t *testing.T, rng *rand.Rand, got *Cursor, want iterator.Iterator) {
	t.Helper()
	defer func() {
		want.Release()
		if err := want.Error(); err != nil {
			t.Error(err)
		}
	}()
	same := func(where string, a, b bool) bool {
		if a != b || a != got.Valid() {
			t.Fatalf("%s: %v, want %v", where, a, b)
		}
		if a && (!bytes.Equal(got.Key(), want.Key()) || !bytes.Equal(got.Value(), want.Value())) {
			t.Fatalf("%s: %q %x, want %q %x", where, got.Key(), got.Value(), want.Key(), want.Value())
		}
		return a
	}
	n := 0
	for same("walk", got.Next(), want.Next()) {
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
		for ok, i := same(where, got.Seek(key), want.Seek(key)), 0; ok && i < rng.IntN(60); i++ {
			ok = same(where, got.Next(), want.Next())
		}
	}
}

// TestNoSetBeyondLimits: there is no set if the tables would take too much memory or too many files.
func TestNoSetBeyondLimits(t *testing.T) {
	d := openDatabase(t, t.TempDir())
	if Current(d.DB, d.stor, plenty) != nil {
		t.Error("a set of no tables")
	}
	fillTables(t, d, rand.New(rand.NewPCG(3, 4)), 200)
	for name, limits := range map[string]Limits{
		"memory": {Tables: plenty.Tables, IndexBytes: 1 << 10},
		"files":  {Tables: 3, IndexBytes: plenty.IndexBytes},
	} {
		if Current(d.DB, d.stor, limits) != nil {
			t.Errorf("a set beyond the limit of %s", name)
		}
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

// TestCursorReportsDamage: a cursor returns an error if a file is damaged or missing.
func TestCursorReportsDamage(t *testing.T) {
	dir := t.TempDir()
	d := openDatabase(t, dir)
	fillTables(t, d, rand.New(rand.NewPCG(3, 4)), 200)
	cold := d.cursors(t, 3)
	var names []string // of the files they read: others are about to be removed
	for _, run := range cold[0].set.runs {
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
		for c.Next() {
		}
		if c.Seek([]byte("b")) {
			t.Error("a cursor that has failed goes on")
		}
		if err := c.Close(); err == nil {
			t.Error("no error")
		}
	}
	_ = d.close() // it may have seen the damage
}

// FuzzBlock: whatever a block contains, every walk over it ends, and no seek finds a key below
// the one that is looked for.
func FuzzBlock(f *testing.F) {
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

// TestIndexMemoryIsBounded: an index block whose keys share a prefix, which goleveldb never
// writes, does not take more memory than its bound.
func TestIndexMemoryIsBounded(t *testing.T) {
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
	file = append(append(file, append(footer, make([]byte, footerSize-len(magic)-len(footer))...)...), magic...)
	x := &table{num: 1}
	if err := x.open(oneTable{b: file}); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if n := cap(x.keys); n > 4*maxBlock {
		t.Errorf("%d bytes of keys of a block of %d", n, len(block))
	}
}

// FuzzTable: whatever a table's file has, a cursor over it ends.
func FuzzTable(f *testing.F) {
	dir := f.TempDir()
	d := openDatabase(f, dir)
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
		set := &Set{stor: oneTable{b: file}, runs: [][]*table{{{num: 1}}}, pin: func() {}}
		c := set.Cursor()
		for range 1000 {
			if !c.Next() {
				break
			}
		}
		if c.Seek(key) && bytes.Compare(c.Key(), key) < 0 {
			t.Fatalf("%q is below %q", c.Key(), key)
		}
		if err := c.Close(); err != nil && !errors.Is(err, ErrMalformed) && c.Valid() {
			t.Fatal(err)
		}
	})
}
