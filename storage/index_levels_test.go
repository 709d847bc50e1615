package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// tables returns how many tables each level of the index has.
func tables(s *Store) []int {
	var now Stats
	s.db.stats(&now)
	return now.LevelTables
}

// TestImportEndsWithIndexAtRest: in whatever order an import writes its rows, all tables are on one
// level afterwards and no compaction is due. An import that fits into the write buffer leaves no
// tables.
func TestImportEndsWithIndexAtRest(t *testing.T) {
	for _, n := range []int{10, 150_000} {
		o := testOptions()
		s, err := OpenMemory(NewMemDisk(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		genesis := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf(0), Head: true, Shards: []Shard{{ID: 0}}}
		order := rand.New(rand.NewPCG(1, 1)).Perm(n)
		err = s.Import(genesis, nil, func(put func(Pair) error) error {
			for _, i := range order {
				if err := put(Pair{0, fmt.Append([]byte{0}, i), fmt.Append(nil, hashOf(i))}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		used := 0
		for _, tables := range tables(s) {
			if tables > 0 {
				used++
			}
		}
		if want := min(n/1000, 1); used != want || used > 0 && tables(s)[0] > 0 {
			t.Errorf("%d rows: tables on the levels %v, want %d level with any, none of them on the first", n, tables(s), want)
		}
		for i := 0; i < n; i += 97 {
			v, err := s.ValueAt(genesis.Ref, 0, fmt.Append([]byte{0}, i))
			if err != nil || string(v) != fmt.Sprint(hashOf(i)) {
				t.Fatalf("row %d = %s, %v", i, v, err)
			}
		}
	}
}

// TestJournalHasBoundedSteps: a journal has at most half as many steps as step numbers are kept,
// however small the steps are. So a start detects each lost step.
func TestJournalHasBoundedSteps(t *testing.T) {
	o := testOptions()
	o.WriteBuffer = 1 << 20
	s, err := OpenMemory(NewMemDisk(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	sum := func() (n int) {
		for _, k := range tables(s) {
			n += k
		}
		return n
	}
	before := sum()
	for range 2*journalSteps + 1 {
		var batch Batch
		if err := s.step(&batch); err != nil {
			t.Fatal(err)
		}
	}
	if made := sum() - before; made != 2 {
		t.Errorf("%d steps made %d tables, want 2", 2*journalSteps+1, made)
	}
}

// TestBlockCacheFollowsIndexSize: a large index has a block cache for the index blocks and filters of
// all its tables, within the bound. A configured size is not changed.
func TestBlockCacheFollowsIndexSize(t *testing.T) {
	for _, x := range []struct {
		size        int64
		least, most int
		want        int
	}{
		{0, 48 << 20, 1 << 30, 48 << 20},
		{1_000_000_000, 48 << 20, 1 << 30, 48 << 20},
		{20_000_000_000, 48 << 20, 1 << 30, 600_000_000},
		{20_000_000_000, 700_000_000, 1 << 30, 700_000_000},
		{100_000_000_000, 48 << 20, 1 << 30, 1 << 30},
		{100_000_000_000, 1 << 20, 0, 1 << 20},
	} {
		if got := blockCache(x.size, x.least, x.most); got != x.want {
			t.Errorf("%+v: block cache %d", x, got)
		}
	}
	s, err := Open(t.TempDir(), Options{Identity: testIdentity, BlockCache: 5 << 20, MaxBlockCache: 9 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.o.BlockCache; got != 5<<20 {
		t.Errorf("the block cache of an empty index has %d bytes, want 5 MiB", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBlockCacheGrowsWithRunningIndex: the block cache of an index that grows from nothing grows with
// it, during the writes and after an import, and Stats has the present capacity. After a restart it
// has the same size. The cache of an index in memory, and one without MaxBlockCache, do not grow.
func TestBlockCacheGrowsWithRunningIndex(t *testing.T) {
	const least, most = 64 << 10, 4 << 20
	random := rand.NewChaCha8([32]byte{})
	fill := func(s *Store, writes int) {
		t.Helper()
		for range writes {
			var b Batch
			for range 64 {
				row := make([]byte, 1<<10) // which does not compress
				_, _ = random.Read(row)
				b.put(append([]byte{0xff}, row[:32]...), row)
			}
			if err := s.db.write(&b, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	// goleveldb compacts at its own times: until then the rows are in the write buffer.
	grown := func(s *Store) int {
		t.Helper()
		for range 40 {
			fill(s, cacheWrites)
			if s.Stats().CacheCapacity > least {
				break
			}
		}
		return s.Stats().CacheCapacity
	}
	o := Options{Identity: testIdentity, BlockCache: least, MaxBlockCache: most, WriteBuffer: 1 << 20, NoSync: true, NoCompression: true}
	dir := t.TempDir()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if now := s.Stats().CacheCapacity; now != least {
		t.Errorf("the cache of an empty index has %d bytes, want %d", now, least)
	}
	if now := grown(s); now <= least || now > most {
		t.Errorf("the cache of an index that grew has %d bytes, want more than %d", now, least)
	}
	if err := s.db.compact(); err != nil {
		t.Fatal(err)
	}
	_, size := s.db.flushes()
	now, want := s.Stats().CacheCapacity, blockCache(size, least, most)
	if now < want*7/8 || now > want*2 {
		t.Errorf("after a compaction the cache of an index of %d bytes has %d bytes, want %d", size, now, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	if now := s.Stats().CacheCapacity; now < want*7/8 || now > want*2 {
		t.Errorf("after a restart the cache has %d bytes, want %d", now, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fixed := o
	fixed.MaxBlockCache = 0
	onDisk, err := Open(t.TempDir(), fixed)
	if err != nil {
		t.Fatal(err)
	}
	inMemory, err := OpenMemory(NewMemDisk(), o)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"without MaxBlockCache": onDisk, "in memory": inMemory} {
		for range 3 {
			fill(s, cacheWrites)
		}
		if err := s.db.compact(); err != nil {
			t.Fatal(err)
		}
		if now := s.Stats().CacheCapacity; now != least {
			t.Errorf("%s: the cache has %d bytes, want %d", name, now, least)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWriteBufferFollowsIndexSize: the write buffer follows the size of the index, within bounds,
// unless it is configured.
func TestWriteBufferFollowsIndexSize(t *testing.T) {
	for size, want := range map[int64]int{0: 16 << 20, 512 << 20: 16 << 20, 1 << 30: 32 << 20, 2 << 30: 64 << 20, 1 << 40: 64 << 20} {
		if got := writeBuffer(size); got != want {
			t.Errorf("%d bytes: write buffer %d, want %d", size, got, want)
		}
	}
	for buffer, want := range map[int]int{8 << 10: 12, DefaultWriteBuffer: 12, 32 << 20: 6, maxWriteBuffer: 4, 1 << 30: 4} {
		if got := level0Flushes(buffer); got != want {
			t.Errorf("flushes of %d bytes: %d gather, want %d", buffer, got, want)
		}
	}
	// Level 1 must be small in an index of gigabytes, so that most of the index is below it.
	// Otherwise each compaction of level 0 would rewrite the whole index.
	for buffer, want := range map[int]int64{DefaultWriteBuffer: 256 << 20, maxWriteBuffer: 512 << 20} {
		o := levelOptions(&Options{WriteBuffer: buffer})
		if one, two := o.GetCompactionTotalSize(1), o.GetCompactionTotalSize(2); one > want || one < want-10 || two < 9*one {
			t.Errorf("levels of %d and %d bytes, want %d and ten times that", one, two, want)
		}
	}
	dir := t.TempDir()
	for _, o := range []Options{{Identity: testIdentity}, {Identity: testIdentity, WriteBuffer: 1 << 20}} {
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		want := o.WriteBuffer
		if want == 0 {
			want = DefaultWriteBuffer
		}
		if got := s.o.WriteBuffer; got != want {
			t.Errorf("write buffer %d, want %d", got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
