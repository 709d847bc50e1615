package sstable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// textOf returns the listing of a database's tables from goleveldb's text.
func textOf(t testing.TB, db *leveldb.DB) listing {
	t.Helper()
	text, err := db.GetProperty(tablesProperty)
	if err != nil {
		t.Fatal(err)
	}
	return listing{text: text}
}

// TestVersionListsTablesOfText: the tables that are read from goleveldb's memory are those of its
// text, in the same order. This release of goleveldb has the fields that they are read from.
func TestVersionListsTablesOfText(t *testing.T) {
	d := openDatabase(t, t.TempDir())
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 4 {
		fillTables(t, d, rng, 20+100*round)
		if err := d.CompactRange(util.Range{}); err != nil { // no compaction runs afterwards
			t.Fatal(err)
		}
		fillTables(t, d, rng, 3)
		l, ok := list(d.DB)
		if !ok || !l.read {
			t.Fatal("goleveldb's version has other fields than this package expects: adapt version.go")
		}
		runs, size, count := l.tables()
		if !l.isCurrent(d.DB) { // a compaction was due
			continue
		}
		text := textOf(t, d.DB)
		if !text.isText(d.DB) {
			continue
		}
		wantRuns, wantSize, wantCount := text.tables()
		if count == 0 || size != wantSize || count != wantCount || !reflect.DeepEqual(numbers(runs), numbers(wantRuns)) {
			t.Errorf("round %d: %d tables of %d bytes: %v; want %d of %d: %v", round, count, size, numbers(runs), wantCount,
				wantSize, numbers(wantRuns))
		}
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if set := Current(d.DB, d.stor, plenty); set != nil {
		t.Error("a closed database has a set of tables")
	}
}

// isText returns whether goleveldb's text is still that of the listing.
func (l listing) isText(db *leveldb.DB) bool {
	text, err := db.GetProperty(tablesProperty)
	return err == nil && text == l.text
}

func numbers(runs [][]*table) (out [][]int64) {
	for _, run := range runs {
		var nums []int64
		for _, t := range run {
			nums = append(nums, t.num)
		}
		out = append(out, nums)
	}
	return out
}

// TestListingEndsWithNextTable: a listing is current until goleveldb makes a table. That holds for
// the listing from goleveldb's memory and for its text.
func TestListingEndsWithNextTable(t *testing.T) {
	d := openDatabase(t, t.TempDir())
	flush := func() {
		t.Helper()
		tr, err := d.OpenTransaction()
		if err != nil {
			t.Fatal(err)
		}
		tr.Discard()
	}
	put := func(key string) {
		t.Helper()
		if err := d.Put([]byte(key), []byte("value"), nil); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	flush()
	l, ok := list(d.DB)
	text := textOf(t, d.DB)
	if put("b"); !ok || !l.isCurrent(d.DB) || !text.isText(d.DB) {
		t.Error("a row in the write buffer ends the listing")
	}
	if flush(); l.isCurrent(d.DB) || text.isText(d.DB) {
		t.Error("a new table does not end the listing")
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

// manyTables returns a database in memory with about n small tables.
func manyTables(b *testing.B, n int) *leveldb.DB {
	b.Helper()
	const value = 600
	db, err := leveldb.Open(lstorage.NewMemStorage(), &opt.Options{WriteBuffer: 64 << 20, CompactionTableSize: value,
		BlockSize: value, Compression: opt.NoCompression, OpenFilesCacheCapacity: 64, DisableSeeksCompaction: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	for round := range 2 { // the second table overlaps the first, so that both are split
		var rows leveldb.Batch
		for i := range n {
			rows.Put(fmt.Appendf(nil, "\x00\x01\xfe%029d", i), bytes.Repeat([]byte{byte(round)}, value))
		}
		if err := db.Write(&rows, nil); err != nil {
			b.Fatal(err)
		}
		if err := db.CompactRange(util.Range{}); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

// BenchmarkTables measures how long it takes to learn the present tables: from goleveldb's memory,
// and from its text. An index of 1 TB has some 32,000 tables.
func BenchmarkTables(b *testing.B) {
	for _, n := range []int{1000, 8000, 32_000} {
		db := manyTables(b, n)
		for _, of := range []string{"memory", "text"} {
			b.Run(fmt.Sprintf("tables=%d/of=%s", n, of), func(b *testing.B) {
				b.ReportAllocs()
				count := 0
				for b.Loop() {
					l, ok := list(db)
					if !ok || !l.read {
						b.Fatal("no version")
					}
					if of == "text" {
						l = textOf(b, db)
					}
					_, _, count = l.tables()
				}
				b.ReportMetric(float64(count), "tables")
			})
		}
		b.Run(fmt.Sprintf("tables=%d/of=stats", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var s leveldb.DBStats
				if err := db.Stats(&s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
