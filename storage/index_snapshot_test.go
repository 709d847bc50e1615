package storage

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// snapshotCountIndex counts snapshots that are held, and cursors.
type snapshotCountIndex struct {
	index
	held, made, open atomic.Int64
}

type countedHeldSnapshot struct {
	snapshot
	in *snapshotCountIndex
}

type countedHeldCursor struct {
	cursor
	in *snapshotCountIndex
}

func (h *snapshotCountIndex) snapshot() (snapshot, error) {
	s, err := h.index.snapshot()
	h.held.Add(1)
	return countedHeldSnapshot{s, h}, err
}

func (h *snapshotCountIndex) iterate(lo, hi []byte) cursor {
	h.open.Add(1)
	return countedHeldCursor{h.index.iterate(lo, hi), h}
}

func (h *snapshotCountIndex) frozen(n int) []cursor {
	h.open.Add(int64(n))
	out := h.index.frozen(n)
	for i := range out {
		out[i] = countedHeldCursor{out[i], h}
	}
	return out
}

func (s countedHeldSnapshot) release() { s.in.held.Add(-1); s.snapshot.release() }

func (s countedHeldSnapshot) iterate(lo, hi []byte) cursor {
	s.in.made.Add(1)
	s.in.open.Add(1)
	return countedHeldCursor{s.snapshot.iterate(lo, hi), s.in}
}

func (c countedHeldCursor) done() error { c.in.open.Add(-1); return c.cursor.done() }

// TestLoadsShareSnapshot: loads between two advances of the flat head share a snapshot and its
// cursors, and read the state of their block. At the next advance, and when the store is closed,
// snapshots and cursors are released, except those that a reader still uses.
func TestLoadsShareSnapshot(t *testing.T) {
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	g := &Block{Ref: BlockRef{1, hashOf("a")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
	keys := []string{"\x00a", "\x00b", "\x00c", "\x02a"}
	if err := s.Import(g, nil, func(put func(Pair) error) error {
		for _, k := range keys {
			if err := put(Pair{0, []byte(k), []byte("1")}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	count := &snapshotCountIndex{index: s.db}
	s.db = count
	load := func(at BlockRef, want string) {
		for i, k := range keys {
			n := 0
			to := []byte(nil)
			if i+1 < len(keys) {
				to = []byte(keys[i+1])
			}
			if err := s.Load(at, 0, AccountRange{}, []byte(k), to, func(key, value []byte) bool {
				if string(key) != k || string(value) != want {
					t.Errorf("%q = %q after block %v, want %q = %q", key, value, at, k, want)
				}
				n++
				return true
			}); err != nil || n != 1 {
				t.Errorf("%d pairs of %q, %v", n, k, err)
			}
			if v, err := s.ValueAt(at, 0, []byte(k)); err != nil || string(v) != want {
				t.Errorf("%q = %q after block %v, %v, want %q", k, v, at, err, want)
			}
		}
	}
	prev := g.Ref
	for round, value := range []string{"2", "3"} {
		before := count.made.Load()
		for range 50 {
			load(prev, string(rune('1'+round)))
		}
		if made := count.made.Load() - before; made > 2 || count.held.Load() != 1 {
			t.Errorf("%d cursors for loads one behind the other, %d snapshots held", made, count.held.Load())
		}
		var wg sync.WaitGroup
		for range 2 * freeCursors {
			wg.Go(func() { load(prev, string(rune('1'+round))) })
		}
		wg.Wait()
		if n := count.open.Load(); n > freeCursors {
			t.Errorf("%d cursors wait for their next use, want at most %d", n, freeCursors)
		}
		b := &Block{Ref: BlockRef{prev.Height + 1, hashOf(value)}, Prev: prev, Ordinal: uint64(round) + 2, Epoch: g.Epoch, Head: true, Shards: []Shard{{ID: 0}}}
		b.Final = b.Ref
		for _, k := range keys {
			b.Shards[0].Changes = append(b.Shards[0].Changes, Change{Old: []byte(string(rune('1' + round))),
				KeyChanges: primitives.KeyChanges{Key: []byte(k), Changes: []primitives.StateChange{{Value: []byte(value)}}}})
		}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		// A load is running while the flat head advances: it continues as it began.
		first := true
		if err := s.Load(prev, 0, AccountRange{}, nil, nil, func(key, value []byte) bool {
			if first {
				first = false
				if err := s.AdvanceFlatHead(b.Ref, nil); err != nil {
					t.Fatal(err)
				}
			}
			if string(value) != string(rune('1'+round)) {
				t.Errorf("%q = %q in a load that began before a fold", key, value)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if held, open := count.held.Load(), count.open.Load(); held != 0 || open != 0 {
			t.Errorf("%d snapshots and %d cursors are held behind a fold", held, open)
		}
		load(prev, string(rune('1'+round))) // from the history
		prev = b.Ref
	}
	load(prev, "3")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if held, open := count.held.Load(), count.open.Load(); held != 0 || open != 0 {
		t.Errorf("%d snapshots and %d cursors are held by a store that is closed", held, open)
	}
}
