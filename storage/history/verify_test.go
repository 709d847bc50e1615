package history

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"

	"github.com/troupe-chain/troupe/storage"
)

// TestVerifyFindsDamage: an intact store passes, also an empty one and one that is open for reading
// only. A changed byte, a missing row, and a wrong row of the index are found.
func TestVerifyFindsDamage(t *testing.T) {
	list := testChain(t, 12)
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{SegmentSize: 4000})
	verify := func(s *Store) (Verified, error) { return s.Verify(t.Context(), func(int64, int64) {}) }
	if v, err := verify(s); err != nil || v != (Verified{}) {
		t.Errorf("an empty store: %+v, %v", v, err)
	}
	appendAll(t, s, list)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Verify(ended, func(int64, int64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{ReadOnly: true})
	var done, all int64
	v, err := s.Verify(t.Context(), func(d, a int64) {
		if d <= done {
			t.Errorf("progress %d after %d", d, done)
		}
		done, all = d, a
	})
	if want := (Verified{Blocks: 12, IDs: 36}); err != nil || v != want || done != all || all != s.Stats().Bytes {
		t.Errorf("%+v, %v, progress %d of %d; want %+v", v, err, done, all, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(s); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
	x, y := list[4], list[5]
	height := func(n int) []byte {
		return binary.BigEndian.AppendUint64([]byte{rowHeight}, uint64(list[n].Block.Header.Height))
	}
	row := func(kind byte, id []byte) []byte { return append([]byte{kind}, id...) }
	chunk, _ := x.NewChunk(3)
	for name, c := range map[string]struct {
		hurt func(*leveldb.DB) error
		want string
	}{
		"a missing height":      {func(db *leveldb.DB) error { return db.Delete(height(5), nil) }, "names"},
		"no lowest height":      {func(db *leveldb.DB) error { return db.Delete(height(0), nil) }, "has 11 blocks"},
		"no highest height":     {func(db *leveldb.DB) error { return db.Delete(height(11), nil) }, "names"},
		"a missing hash":        {func(db *leveldb.DB) error { return db.Delete(row(rowBlock, x.Hash[:]), nil) }, "by its hash"},
		"a missing chunk":       {func(db *leveldb.DB) error { return db.Delete(row(rowChunk, chunk[:]), nil) }, "the chunk of shard 3"},
		"a missing transaction": {func(db *leveldb.DB) error { return db.Delete(row(rowTransaction, x.Shards[0].Outcomes[0].ID[:]), nil) }, "outcome"},
		"a missing receipt":     {func(db *leveldb.DB) error { return db.Delete(row(rowReceipt, x.Shards[0].Outcomes[1].ID[:]), nil) }, "outcome"},
		"the row of another": {func(db *leveldb.DB) error {
			v, err := db.Get(row(rowBlock, y.Hash[:]), nil)
			return errors.Join(err, db.Put(row(rowBlock, x.Hash[:]), v, nil))
		}, "by its hash"},
		"the record of another": {func(db *leveldb.DB) error {
			v, err := db.Get(height(5), nil)
			return errors.Join(err, db.Put(height(4), v, nil))
		}, "of height"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, dir)
			db, err := leveldb.OpenFile(filepath.Join(dir, indexName), nil)
			if err == nil {
				err = errors.Join(c.hurt(db), db.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, dir, Options{})
			defer func() { _ = s.Close() }()
			if _, err := verify(s); !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("a changed byte", func(t *testing.T) {
		dir := copyDir(t, dir)
		names, err := filepath.Glob(filepath.Join(dir, logName, "*.seg"))
		if err != nil || len(names) < 2 {
			t.Fatal(names, err)
		}
		b, err := os.ReadFile(names[1])
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-3] ^= 1
		if err := os.WriteFile(names[1], b, 0o600); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, dir, Options{})
		defer func() { _ = s.Close() }()
		if _, err := verify(s); !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%v", err)
		}
	})
}
