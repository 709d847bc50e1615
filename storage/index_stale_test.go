package storage

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestStaleReaderIsRenewed: a large index is read through stale cursors, which do not visit later
// flushes. The cursors are renewed when these flushes have been compacted, or when too many reads
// found changed data. They are released with the store.
func TestStaleReaderIsRenewed(t *testing.T) {
	o, disk := testOptions(), NewMemDisk()
	o.StaleReadSize = 1
	s, err := OpenMemory(disk, o)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 3000
	key := func(i int) []byte { return fmt.Appendf(nil, "\x00%06d", i) }
	value := func(i int) string { return fmt.Sprint(hashOf(i), hashOf("more", i)) }
	g := &Block{Ref: BlockRef{1, hashOf("a")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
	if err := s.Import(g, nil, func(put func(Pair) error) error {
		for i := range rows {
			if err := put(Pair{0, key(i), []byte(value(i))}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s.StaleReader() != nil {
		t.Error("an import leaves an index of before, with tables that it has merged")
	}
	if s, err = OpenMemory(reopened(t, s, disk), o); err != nil {
		t.Fatal(err)
	}
	count := &snapshotCountIndex{index: s.db}
	s.db = count
	s.stale.renew(s.db, s.steps) // with cursors that are counted
	read := func(i int) (got string, ok bool) {
		x := s.StaleReader()
		if x == nil {
			return "", false
		}
		if err := x.Load(0, AccountRange{}, key(i), key(i+1), func(k, v []byte) bool {
			if string(k) != string(key(i)) {
				t.Errorf("key %q, want %q", k, key(i))
			}
			got = string(v)
			return true
		}); err != nil {
			t.Error(err)
		}
		x.Done(got == value(i))
		return got, true
	}
	prev, height := g.Ref, primitives.Height(1)
	fold := func(i int, v string) {
		height++
		b := &Block{Ref: BlockRef{height, hashOf(height)}, Prev: prev, Ordinal: uint64(height), Epoch: g.Epoch, Head: true, Shards: []Shard{{ID: 0,
			Changes: []Change{{Old: []byte("was"), KeyChanges: primitives.KeyChanges{Key: key(i), Changes: []primitives.StateChange{{Value: []byte(v)}}}}}}}}
		b.Final = b.Ref
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		if err := s.AdvanceFlatHead(b.Ref, []FrontierChange{{FrontierNode: FrontierNode{0, key(i), hashOf(v), 7}}}); err != nil {
			t.Fatal(err)
		}
		prev = b.Ref
	}
	for i := range 40 { // fewer than there are steps between two
		fold(i, "new")
		if v, ok := read(i); !ok || v != value(i) {
			t.Fatalf("row %d = %q, %v: not as before", i, v, ok)
		}
	}
	if v, err := s.ValueAt(prev, 0, key(7)); err != nil || string(v) != "new" {
		t.Fatalf("row 7 = %q, %v", v, err)
	}
	// The write buffer was rotated after the first step, so later writes are not in the memory that
	// the cursors read.
	if now := tables(s); now[0] == 0 {
		t.Errorf("tables on the levels %v: the first step stays in memory", now)
	}
	var held []*StaleReader // while all are in use the index itself is read
	for x := s.StaleReader(); x != nil; x = s.StaleReader() {
		held = append(held, x)
	}
	if len(held) != staleCursors {
		t.Errorf("%d readers at once, want %d", len(held), staleCursors)
	}
	made := s.stale.step
	for i := range staleSample { // in vain
		held[i%len(held)].index.mu.Lock()
		held[i%len(held)].index.misses++
		held[i%len(held)].index.mu.Unlock()
	}
	for i := range staleMinSteps + 1 {
		fold(100+i, "newer")
	}
	if s.stale.step == made {
		t.Fatal("it stays as it is, though all that is read there has changed")
	}
	for _, x := range held {
		if err := x.Frontier(0, 0, key(7), func(FrontierNode) bool { t.Error("an entry that was not there then"); return true }); err != nil {
			t.Error(err)
		}
		x.Done(true)
	}
	if v, ok := read(7); !ok || v != "new" {
		t.Errorf("row 7 = %q, %v behind a new beginning", v, ok)
	}
	found := false
	x := s.StaleReader()
	if err := x.Frontier(0, 0, key(7), func(e FrontierNode) bool { found = e.Hash == hashOf("new"); return true }); err != nil || !found {
		t.Errorf("the entry of row 7 is not there, %v", err)
	}
	x.Done(true)
	if made = s.stale.step; s.stale.now.outdated() {
		t.Error("poor behind its first reads")
	}
	s.stale.maxFlushes = 1 << 10 // as if as many flushes had been merged
	for i := range staleMinSteps + 1 {
		fold(300+i, "newest")
	}
	if s.stale.step == made {
		t.Error("it stays as it is, though what was flushed has been merged")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if open := count.open.Load(); open != 0 {
		t.Errorf("%d cursors of a store that is closed", open)
	}
	if s.StaleReader() != nil {
		t.Error("a reader of a store that is closed")
	}
}

func TestCloseAfterFailedRotateReturns(t *testing.T) {
	disk := newStrictDisk(1)
	s, err := open(disk, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	var batch Batch
	if err := s.step(&batch); err != nil {
		t.Fatal(err)
	}
	disk.fail(1, errIO)
	if err := s.db.rotate(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("rotate on a disk that fails: %v", err)
	}
	closed := make(chan struct{})
	go func() { _ = s.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close does not return")
	}
}

func TestSmallIndexHasNoStaleReader(t *testing.T) {
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for range 3 * staleMinSteps {
		var batch Batch
		if err := s.step(&batch); err != nil {
			t.Fatal(err)
		}
	}
	if s.StaleReader() != nil || len(tables(s)) > 0 {
		t.Errorf("tables on the levels %v", tables(s))
	}
}
