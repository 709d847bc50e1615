package storage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
)

// TestFrozenReadsTables: cursors of frozen read the tables beside goleveldb, except if the tables
// would take too much memory or their files cannot be opened twice. In all cases they find the rows
// of that moment, and report that they failed.
func TestFrozenReadsTables(t *testing.T) {
	for name, c := range map[string]struct {
		shared, tables bool
		cache          int
	}{
		"tables":      {true, true, 1 << 20},
		"small cache": {true, false, 0},
		"not shared":  {false, false, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stor, err := lstorage.OpenFile(dir, false)
			if err != nil {
				t.Fatal(err)
			}
			ldb, err := leveldb.Open(stor, nil)
			if err != nil {
				t.Fatal(err)
			}
			d := &levelIndex{ldb: ldb, stor: stor, shared: c.shared, cache: newSecondReadCache(c.cache)}
			put := func(n int, value byte) {
				var b Batch
				for i := range n {
					b.put(fmt.Appendf(nil, "%03d", i), []byte{value})
				}
				if err := errors.Join(d.write(&b, false), d.rotate()); err != nil {
					t.Fatal(err)
				}
			}
			put(100, 1)
			put(50, 2)
			cold := d.frozen(2)
			put(200, 3)
			for i, cur := range cold {
				if _, ok := cur.(tableCursor); ok != c.tables {
					t.Fatalf("cursor %d is a %T", i, cur)
				}
				if !cur.seek([]byte("048")) {
					t.Fatal("no row from 048 on")
				}
				for n := 48; ; n++ {
					want := byte(1)
					if n < 50 {
						want = 2
					}
					if !cur.valid() || !bytes.Equal(cur.key(), fmt.Appendf(nil, "%03d", n)) || !bytes.Equal(cur.value(), []byte{want}) {
						t.Fatalf("row %d: %s %x", n, cur.key(), cur.value())
					}
					if !cur.next() {
						if n != 99 {
							t.Errorf("the last row is %d", n)
						}
						break
					}
				}
				if err := cur.done(); err != nil {
					t.Error(err)
				}
			}
			if c.tables {
				damagedTables(t, d, dir)
			}
			_ = d.close() // it may have seen the damage
		})
	}
}

// damagedTables cuts all tables and expects that a cursor over them fails.
func damagedTables(t *testing.T, d *levelIndex, dir string) {
	t.Helper()
	cur := d.frozen(1)[0]
	names, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if err := os.Truncate(name, 40); err != nil {
			t.Fatal(err)
		}
	}
	if cur.next() {
		t.Error("a row of a damaged table")
	}
	if err := cur.done(); err == nil {
		t.Error("no error of damaged tables")
	}
}
