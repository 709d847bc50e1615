package storage

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// countedIndex counts the steps of cursors over Undo.
type countedIndex struct {
	index
	steps int
}

func (c *countedIndex) snapshot() (snapshot, error) {
	s, err := c.index.snapshot()
	return countedSnapshot{s, c}, err
}

type countedSnapshot struct {
	snapshot
	in *countedIndex
}

func (s countedSnapshot) iterate(lo, hi []byte) cursor {
	cur := s.snapshot.iterate(lo, hi)
	if lo[0] == undo.id {
		return countedCursor{cur, s.in}
	}
	return cur
}

type countedCursor struct {
	cursor
	in *countedIndex
}

func (c countedCursor) next() bool           { c.in.steps++; return c.cursor.next() }
func (c countedCursor) seek(key []byte) bool { c.in.steps++; return c.cursor.seek(key) }

// historyStore returns a store with a chain of four blocks. The second block changes all keys, the
// third and the fourth only the last key. The flat head has passed the fourth block, so the state
// after the third (old) is historical.
func historyStore(t testing.TB, keys int) (s *Store, old BlockRef) {
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	name := func(i int) []byte { return fmt.Appendf([]byte{byte(primitives.ColAccount)}, "user%07d", i) }
	refs := []BlockRef{{}, {1, hashOf("history", 1)}}
	g := &Block{Ref: refs[1], Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
	if err := s.Import(g, nil, func(put func(Pair) error) error {
		for i := range keys {
			if err := put(Pair{0, name(i), []byte("1")}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for h := primitives.Height(2); h <= 4; h++ {
		refs = append(refs, BlockRef{h, hashOf("history", h)})
		b := &Block{Ref: refs[h], Prev: refs[h-1], Ordinal: uint64(h), Epoch: g.Epoch, Head: true, Final: refs[h-1], Shards: []Shard{{ID: 0}}}
		if h == 4 {
			b.Final = refs[4]
		}
		first := keys - 1
		if h == 2 {
			first = 0
		}
		for i := first; i < keys; i++ {
			x := Change{KeyChanges: primitives.KeyChanges{Key: name(i)}, Old: fmt.Append(nil, h-1)}
			x.Changes = []primitives.StateChange{{Value: fmt.Append(nil, h)}}
			b.Shards[0].Changes = append(b.Shards[0].Changes, x)
		}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AdvanceFlatHead(refs[4], nil); err != nil {
		t.Fatal(err)
	}
	return s, refs[3]
}

// first returns the first pair of the accounts.
func first(t testing.TB, s *Store, at BlockRef) (key, value string) {
	if err := s.Scan(at, 0, AccountRange{}, []byte{0}, []byte{1}, func(k, v []byte) bool {
		key, value = string(k), string(v)
		return false
	}); err != nil {
		t.Fatal(err)
	}
	return key, value
}

// TestFirstHistoricalPairReadsLittle: reading the first pair of a range at a historical block costs
// no more if later keys of the range have a long history, because the rows of later keys are not
// read.
func TestFirstHistoricalPairReadsLittle(t *testing.T) {
	const keys = 500
	s, old := historyStore(t, keys)
	counted := &countedIndex{index: s.db}
	s.db = counted
	if key, value := first(t, s, old); key != "\x00user0000000" || value != "2" {
		t.Errorf("first pair %q = %q, want that of the first account, of block 2", key, value)
	}
	if got, want := counted.steps, 4; got > want {
		t.Errorf("%d steps in the history of %d keys, want at most %d", got, keys, want)
	}
	var last string
	n := 0
	if err := s.Scan(old, 0, AccountRange{}, []byte{0}, []byte{1}, func(k, v []byte) bool {
		last = string(v)
		n++
		return true
	}); err != nil || n != keys || last != "3" {
		t.Errorf("%d pairs, the last %q, %v, want %d and block 3's", n, last, err, keys)
	}
}

// betweenIndex does something before one of the first looks at the index.
type betweenIndex struct {
	index
	look, at int
	do       func()
}

func (b *betweenIndex) step() {
	if b.look++; b.look == b.at {
		b.do()
	}
}

func (b *betweenIndex) get(key []byte) ([]byte, error) { b.step(); return b.index.get(key) }
func (b *betweenIndex) iterate(lo, hi []byte) cursor   { b.step(); return b.index.iterate(lo, hi) }
func (b *betweenIndex) snapshot() (snapshot, error) {
	b.step()
	s, err := b.index.snapshot()
	return betweenSnapshot{s, b}, err
}

type betweenSnapshot struct {
	snapshot
	in *betweenIndex
}

func (s betweenSnapshot) get(key []byte) ([]byte, error) { s.in.step(); return s.snapshot.get(key) }
func (s betweenSnapshot) iterate(lo, hi []byte) cursor {
	s.in.step()
	return s.snapshot.iterate(lo, hi)
}

// TestLoadReadsOneVersionOfState: a load reads one version of the state, at whatever moment of the
// load the flat head advances, also if it passes a shard split.
func TestLoadReadsOneVersionOfState(t *testing.T) {
	before := map[string]string{"\x00a": "1", "\x00b": "1", "\x00c": "1", "\x02b": "1", "\x07": "1", "\x0d": "1"}
	for point := 1; ; point++ {
		s, err := OpenMemory(NewMemDisk(), testOptions())
		if err != nil {
			t.Fatal(err)
		}
		g := &Block{Ref: BlockRef{1, hashOf("a")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
		if err := s.Import(g, nil, func(put func(Pair) error) error {
			for k, v := range before {
				if err := put(Pair{0, []byte(k), []byte(v)}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		change := func(key string, value []byte) Change {
			x := Change{KeyChanges: primitives.KeyChanges{Key: []byte(key), Changes: []primitives.StateChange{{Value: value}}}}
			if old, ok := before[key]; ok {
				x.Old = []byte(old)
			}
			return x
		}
		b := &Block{Ref: BlockRef{2, hashOf("b")}, Prev: g.Ref, Ordinal: 2, Epoch: g.Epoch, Head: true, Splits: []Split{{0, 1, 2}}}
		b.Final = b.Ref
		b.Shards = []Shard{
			{ID: 1, Changes: []Change{change("\x00a", []byte("2")), change("\x07", []byte("2")), change("\x0d", nil)}},
			{ID: 2, Changes: []Change{change("\x00b", nil), change("\x00bb", []byte("2")), change("\x02b", []byte("2"))}},
		}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		between := &betweenIndex{index: s.db, at: point, do: func() {
			if err := s.AdvanceFlatHead(b.Ref, nil); err != nil {
				t.Fatal(err)
			}
		}}
		s.db = between
		got := map[string]string{}
		if err := s.Load(g.Ref, 0, AccountRange{}, nil, nil, func(k, v []byte) bool {
			got[string(k)] = string(v)
			return true
		}); err != nil || !maps.Equal(got, before) {
			t.Errorf("fold before look %d: %q, %v, want %q", point, got, err, before)
		}
		_ = s.Close()
		if between.look < point {
			if point < 3 {
				t.Fatalf("only %d looks", point)
			}
			return
		}
	}
}

// BenchmarkFirstHistoricalPair measures reading the first pair of a range at an old block, for
// several numbers of keys in the range.
func BenchmarkFirstHistoricalPair(b *testing.B) {
	for _, keys := range []int{1000, 10_000, 100_000} {
		s, old := historyStore(b, keys)
		b.Run(fmt.Sprintf("op=first/keys=%d", keys), func(b *testing.B) {
			for b.Loop() {
				first(b, s, old)
			}
		})
	}
}

// sizedIndex knows its largest batch.
type sizedIndex struct {
	index
	largest int
}

func (s *sizedIndex) write(b *Batch, synced bool) error {
	s.largest = max(s.largest, b.Size())
	return s.index.write(b, synced)
}

// TestFlatHeadWritesSplitInPieces: an advance past a shard split writes the frontiers of the child
// shards in pieces, so that no batch grows with the size of the state. What an interrupted advance
// left is removed. The parent shard's frontier is removed when the parent is collected.
func TestFlatHeadWritesSplitInPieces(t *testing.T) {
	const rows = 20_000
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	frontierOf := func(shard primitives.ShardID, from, to int) (out []FrontierChange) {
		for i := from; i < to; i++ {
			path := []byte{byte(i >> 16 & 15), byte(i >> 12 & 15), byte(i >> 8 & 15), byte(i >> 4 & 15), byte(i & 15)}
			out = append(out, FrontierChange{Shard: shard, FrontierNode: FrontierNode{uint8(i * 3 / rows), path, hashOf(shard, i), uint64(i)}})
		}
		return out
	}
	same := func(shard primitives.ShardID, want []FrontierChange) {
		t.Helper()
		n := 0
		for level := range uint8(4) {
			if err := s.Frontier(shard, level, nil, func(x FrontierNode) bool {
				if n < len(want) && !reflect.DeepEqual(x, want[n].FrontierNode) {
					t.Errorf("row %d of shard %d is %+v, want %+v", n, shard, x, want[n])
				}
				n++
				return !t.Failed()
			}); err != nil {
				t.Fatal(err)
			}
		}
		if n != len(want) {
			t.Errorf("%d rows of shard %d, want %d", n, shard, len(want))
		}
	}
	g := &Block{Ref: BlockRef{1, hashOf("a")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
	whole := frontierOf(0, 0, rows)
	if err := s.Import(g, slices.Values(whole), func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b := &Block{Ref: BlockRef{2, hashOf("b")}, Prev: g.Ref, Ordinal: 2, Epoch: g.Epoch, Head: true, Splits: []Split{{0, 1, 2}},
		Shards: []Shard{{ID: 1}, {ID: 2}}}
	b.Final = b.Ref
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
	if err := copyFrontier(s.db, b.Splits, frontierOf(1, rows, rows+10)); err != nil { // and then the power was cut
		t.Fatal(err)
	}
	left, right := frontierOf(1, 0, rows/2), frontierOf(2, rows/2, rows)
	sized := &sizedIndex{index: s.db}
	s.db = sized
	if err := s.AdvanceFlatHead(b.Ref, append(append([]FrontierChange{}, left...), right...)); err != nil {
		t.Fatal(err)
	}
	if sized.largest > historyBatch+4096 {
		t.Errorf("a batch of %d bytes for %d rows, want at most %d", sized.largest, rows, historyBatch)
	}
	same(0, whole)
	same(1, left)
	same(2, right)
	c := collection{s: s}
	sized.largest = 0
	if err := c.shards(2); err != nil {
		t.Fatal(err)
	}
	if got := max(sized.largest, c.batch.Size()); got > historyBatch+4096 {
		t.Errorf("a batch of %d bytes to remove %d rows, want at most %d", got, rows, historyBatch)
	}
	if err := s.step(&c.batch); err != nil {
		t.Fatal(err)
	}
	same(0, nil)
	same(2, right)
}
