package storage

import (
	"bytes"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// longStore returns a store with a chain of the given number of blocks, in epochs of ten, each with
// changes, outcomes and receipts. The flat head has advanced in several steps and has passed all
// blocks.
func longStore(t testing.TB, o Options, disk *MemDisk, blocks, keys int) (s *Store, refs []BlockRef) {
	s, err := OpenMemory(disk, o)
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) []byte { return append([]byte{byte(primitives.ColAccount)}, hashOf("name", i).String()...) }
	refs = []BlockRef{{1, hashOf("long", 1)}}
	if err := s.Import(&Block{Ref: refs[0], Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}, nil, func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	last := map[string][]byte{}
	for h := primitives.Height(2); len(refs) < blocks; h++ {
		prev := refs[len(refs)-1]
		ref := BlockRef{h, hashOf("long", h)}
		refs = append(refs, ref)
		var rows Batch
		if h%10 == 0 { // the first of its epoch
			for _, c := range []*Column[primitives.EpochID, Raw]{EpochInfo, EpochLightClientBlock} {
				row := Raw{byte(h)}
				c.Put(&rows, hashOf("epoch", h/10-1), &row)
			}
		}
		b := &Block{Puts: &rows, Ref: ref, Prev: prev, Ordinal: uint64(h), Epoch: hashOf("epoch", h/10), Head: true, Final: ref}
		sh := Shard{ID: 0, Extra: []byte("extra"), Chunk: &Chunk{Hash: hashOf("chunk", h), Header: []byte("header")}}
		for i := range keys {
			k := string(key((int(h)*31 + i*7) % (16 * keys)))
			c := Change{KeyChanges: primitives.KeyChanges{Key: []byte(k)}, Old: last[k]}
			last[k] = hashOf("value", h, i).AppendBorsh(nil)
			c.Changes = []primitives.StateChange{{Value: last[k]}}
			sh.Changes = append(sh.Changes, c)
			id := hashOf("id", h, i)
			sh.Outcomes = append(sh.Outcomes, Outcome{ID: id, Value: id[:]})
			sh.Outgoing = append(sh.Outgoing, Receipt{ID: hashOf("receipt", h, i), Value: id[:]})
			loose := hashOf("loose", h, i)
			sh.Chunk.Transactions = append(sh.Chunk.Transactions, Transaction{Hash: loose, Value: loose[:]})
		}
		slices.SortFunc(sh.Changes, func(a, b Change) int { return bytes.Compare(a.Key, b.Key) })
		b.Shards = []Shard{sh}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		if h%4 == 0 {
			if err := s.AdvanceFlatHead(ref, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, refs
}

// collectAll collects until there is no more; it returns the number of calls.
func collectAll(t testing.TB, s *Store) (calls int) {
	for more := true; more; calls++ {
		done, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 62, MaxHeights: 20})
		if err != nil {
			t.Fatal(err)
		}
		if more = done.More; done.Tail > done.Stop {
			t.Errorf("collected up to %d, the target is %d", done.Tail, done.Stop)
		}
	}
	return calls
}

// historyRows counts the rows of history by their height.
func historyRows(t testing.TB, s *Store) (by [4]map[primitives.Height]int) {
	by[0] = map[primitives.Height]int{}
	if err := undo.Scan(s.db, nil, nil, func(key []byte, _ undoValue) bool {
		k, ok := parseUndoKey(key)
		if !ok {
			t.Fatalf("Undo: key %x", key)
		}
		by[0][k.height]++
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []*Column[placeKey, Nothing]{places, receiptPlaces, txPlaces} {
		by[i+1] = map[primitives.Height]int{}
		if err := c.Scan(s.db, nil, nil, func(key []byte, _ Nothing) bool {
			p, ok := parsePointer(key[8:])
			if !ok {
				t.Fatalf("%s: key %x", c.name, key)
			}
			by[i+1][p.height]++
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	return by
}

// TestCollectReadsNoRecords: garbage collection works where no byte of the log can be read. It
// leaves no row of history below the bucket of the tail, and all rows above it.
func TestCollectReadsNoRecords(t *testing.T) {
	o, disk := testOptions(), NewMemDisk()
	o.BucketHeights = 7
	const blocks = 201
	s, refs := longStore(t, o, disk, blocks, 12)
	for i, by := range historyRows(t, s) {
		if len(by) < blocks-10 {
			t.Fatalf("column %x has rows of %d heights", bucketColumns()[i], len(by))
		}
	}
	saved := map[string][]byte{}
	for name, f := range disk.files {
		saved[name] = slices.Concat(f.pages...)
		for _, page := range f.pages {
			for i := range page {
				page[i] ^= 0x5a
			}
		}
	}
	s.cache.clear()
	if calls := collectAll(t, s); calls < 5 {
		t.Errorf("%d calls", calls)
	}
	for name, f := range disk.files {
		for i, page := range f.pages {
			copy(page, saved[name][i*pageSize:])
		}
	}
	tail := s.Tip().Tail
	if tail < blocks-40 {
		t.Fatalf("tail %d", tail)
	}
	first := (*s.buckets.Load())[0]
	if low := receiptsTail(tail); first > low || low-first > blocks/3+10 {
		t.Errorf("the first era begins at %d, the tail is %d", first, tail)
	}
	for i, by := range historyRows(t, s) {
		for h := range by {
			if h < first {
				t.Errorf("column %x has %d rows of height %d, the first era begins at %d", bucketColumns()[i], by[h], h, first)
			}
		}
		for h := tail; h < blocks-4; h++ {
			if by[h] == 0 {
				t.Errorf("column %x has no rows of height %d", bucketColumns()[i], h)
			}
		}
	}
	for e := primitives.Height(0); e < blocks/10; e++ {
		id := hashOf("epoch", e)
		if _, err := EpochInfo.Get(s.Reader(), id); err != nil {
			t.Errorf("what epoch %d was: %v", e, err)
		}
		_, err := EpochLightClientBlock.Get(s.Reader(), id)
		if kept := err == nil; kept != (10*e >= tail) || err != nil && !errors.Is(err, ErrNotFound) {
			t.Errorf("light client's view of epoch %d, which begins at %d: %v; the tail is %d", e, 10*e, err, tail)
		}
	}
	check := func() {
		t.Helper()
		for _, ref := range refs[1 : blocks-5] {
			for _, find := range []func(primitives.Hash) ([]Place, error){s.Find().Outcome, s.Find().Receipt, s.Find().Transaction} {
				for _, kind := range []string{"id", "receipt", "loose"} {
					got, err := find(hashOf(kind, ref.Height, 3))
					if kind == "receipt" && ref.Height+1 == tail {
						continue
					}
					if err != nil || ref.Height < tail && len(got) > 0 {
						t.Fatalf("%s of height %d: %v, %v", kind, ref.Height, got, err)
					}
				}
			}
			if ref.Height+1 == tail { // the tail's chunk has brought it
				if got, err := s.Find().Receipt(hashOf("receipt", ref.Height, 3)); err != nil || len(got) != 1 || got[0].Block.Ref() != ref {
					t.Fatalf("receipt sent below the tail: %v, %v", got, err)
				}
			}
			if got, err := s.Find().Outcome(hashOf("id", ref.Height, 3)); ref.Height >= tail && (err != nil || len(got) != 1 || got[0].Block.Ref() != ref) {
				t.Fatalf("outcome of height %d: %v, %v", ref.Height, got, err)
			}
		}
	}
	check()
	_ = s.Close()
	s, err := OpenMemory(disk, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	check()
}

// TestBucketCountGrowsLogarithmically: without collection the number of history buckets grows with
// the logarithm of the chain's length.
func TestBucketCountGrowsLogarithmically(t *testing.T) {
	o := testOptions()
	o.BucketHeights = 4
	s, _ := longStore(t, o, NewMemDisk(), 900, 1)
	defer func() { _ = s.Close() }()
	if n := len(*s.buckets.Load()); n < 8 || n > 30 {
		t.Errorf("%d history buckets of 900 heights", n)
	}
}

// BenchmarkCollect removes a chain of 2,000 blocks.
func BenchmarkCollect(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		o := testOptions()
		o.WriteBuffer, o.SegmentSize, o.BucketHeights = 1<<20, 1<<20, 200
		s, _ := longStore(b, o, NewMemDisk(), 2000, 100)
		before := cpuTime(b)
		b.StartTimer()
		collectAll(b, s)
		if err := s.Close(); err != nil { // waits for compactions
			b.Fatal(err)
		}
		b.ReportMetric(float64(cpuTime(b)-before)/1e6, "cpu-ms/op")
	}
}

// BenchmarkFindOutcome looks an ID up in a folder with four history buckets.
func BenchmarkFindOutcome(b *testing.B) {
	o := testOptions()
	o.BucketHeights, o.WriteBuffer, o.SegmentSize = 2000/4, 1<<20, 1<<20
	s, _ := longStore(b, o, NewMemDisk(), 2000, 100)
	defer func() { _ = s.Close() }()
	i, before := 0, cpuTime(b)
	for b.Loop() {
		i++
		if got, err := s.Find().Outcome(hashOf("id", 2+i%1990, i%100)); err != nil || len(got) != 1 {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/1e3/float64(i), "cpu-us/op")
}

// cpuTime is the processor time of this process in nanoseconds.
func cpuTime(t testing.TB) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// TestCollectKeepsBlocksFromHeight: GCOptions.From keeps the blocks from a height on, however many
// epochs old they are. They are removed once the bound is gone.
func TestCollectKeepsBlocksFromHeight(t *testing.T) {
	s, refs := longStore(t, Options{WriteBuffer: 1 << 20}, NewMemDisk(), 99, 3)
	defer func() { _ = s.Close() }()
	collect := func(from, want primitives.Height) {
		t.Helper()
		for more := true; more; {
			done, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, From: from, Before: 1 << 62, MaxHeights: 20})
			if err != nil {
				t.Fatal(err)
			}
			more = done.More
		}
		if tail := s.Tip().Tail; tail != want {
			t.Errorf("from %d on: the tail is %d, want %d", from, tail, want)
		}
	}
	collect(35, 35)
	if _, err := s.BlockByHash(refs[35].Hash); err != nil {
		t.Error(err)
	}
	collect(20, 35)
	collect(90, 69) // the last block before the third epoch from the end
	collect(0, 69)
}
