package storage

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// stalledChain stores blocks of which none becomes final but by the last one.
func stalledChain(t *testing.T, s *Store, c *benchChain, blocks, transfers int) (all []*Block) {
	t.Helper()
	g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: c.epoch, Head: true}
	if err := s.Import(g, nil, func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	c.last = g.Ref
	for n := range blocks {
		b := c.block(transfers)
		b.Final = BlockRef{}
		if n == blocks-1 {
			b.Final = c.last
		}
		c.last = b.Ref
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// inMemory counts the bodies of blocks that the store holds.
func inMemory(s *Store) (n int) {
	for _, p := range s.tree.sorted() {
		if p.body.Load() != nil {
			n++
		}
	}
	return n
}

// scanned checks how much a scan reads of the blocks above the flat head, wherever the scanned
// block is: one item for each pair that it yields, and no whole record.
func scanned(t *testing.T, s *Store, all []*Block) {
	t.Helper()
	last := map[string][]byte{} // of all keys that were changed up to a block
	for n, b := range all {
		for _, ch := range b.Shards[0].Changes {
			last[string(ch.Key)] = ch.Last()
		}
		if n%300 != 100 {
			continue
		}
		before := s.Stats()
		got, limit := map[string][]byte{}, 20
		err := s.Scan(b.Ref, 0, AccountRange{}, nil, nil, func(key, value []byte) bool {
			if want := last[string(key)]; string(want) != string(value) {
				t.Errorf("block %d: key %x is %x, want %x", n, key, value, want)
			}
			got[string(key)] = value
			return len(got) < limit
		})
		if err != nil || len(got) != limit {
			t.Fatalf("block %d: %d pairs, %v", n, len(got), err)
		}
		now := s.Stats()
		if now.PendingRecords != before.PendingRecords {
			t.Errorf("block %d: %d whole records were read for %d pairs", n, now.PendingRecords-before.PendingRecords, limit)
		}
		if changes := now.PendingChanges - before.PendingChanges; changes > uint64(limit) {
			t.Errorf("block %d: %d changes were read for %d pairs", n, changes, limit)
		}
		ended := errors.New("ended")
		asked := 0
		ask := func() error { asked++; return ended }
		n := 0
		if err := s.ScanUntil(ask, b.Ref, 0, AccountRange{}, nil, nil, func(_, _ []byte) bool { n++; return true }); len(last) > 2*stopCheckEvery && (!errors.Is(err, ended) || n > stopCheckEvery) || asked > 1 {
			t.Errorf("a scan that is acked to end after %d pairs: %v, %d pairs, asked %d times", stopCheckEvery, err, n, asked)
		}
	}
}

// TestStalledFinalityKeepsNewestInMemory: of the blocks that wait for finality only the newest are
// in memory, before and after a restart. To find what an older block did, the store reads about one
// record. An advance of the flat head reads each older block once.
func TestStalledFinalityKeepsNewestInMemory(t *testing.T) {
	const blocks, transfers, warm = 1500, 4, 32
	dir := t.TempDir()
	o := Options{Identity: testIdentity, NoSync: true, ResidentBlocks: warm}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := &benchChain{rng: rand.New(rand.NewPCG(1, 2)), accounts: 2000, zipf: 1, old: map[string][]byte{}, epoch: hashOf("epoch")}
	all := stalledChain(t, s, c, blocks, transfers)
	check := func(what string) {
		t.Helper()
		if n := inMemory(s); n > warm {
			t.Fatalf("%s: %d bodies in memory, %d are to be", what, n, warm)
		}
		if st := s.Stats(); st.Pending != blocks || st.PendingBytes > warm*transfers*2000 {
			t.Fatalf("%s: %d blocks with %d bytes", what, st.Pending, st.PendingBytes)
		}
		rows, runs, has := 0, len(s.tree.evicted.runs), 0
		for _, r := range s.tree.evicted.runs {
			rows += len(r.rows)
		}
		for _, b := range all[:blocks-warm] {
			has += 2*len(b.Shards[0].Outcomes) + len(b.Shards[0].Outgoing) + 1
		}
		if rows > has || runs > 7*5 {
			t.Fatalf("%s: %d rows in %d runs, for %d ids and keys", what, rows, runs, has)
		}
		before, asked := s.bodyCache.reads, 0
		for n := 0; n < blocks; n += 37 {
			sh := &all[n].Shards[0]
			ch := sh.Changes[n%len(sh.Changes)]
			got, err := s.ValueAt(all[n].Ref, 0, ch.Key)
			if err != nil || string(got) != string(ch.Last()) {
				t.Fatalf("%s: block %d: %x, %v", what, n, got, err)
			}
			at, err := s.Find().Outcome(sh.Outcomes[0].ID)
			if err != nil || !slices.ContainsFunc(at, func(p Place) bool { return p.Block.Ref() == all[n].Ref && p.Canonical }) {
				t.Fatalf("%s: outcome of block %d: %v, %v", what, n, at, err)
			}
			got, err = s.ValueAt(s.Tip().Head, 0, ch.Key)
			if err != nil || string(got) != string(c.old[string(ch.Key)]) {
				t.Fatalf("%s: key of block %d at the head: %x, %v", what, n, got, err)
			}
			asked += 3
		}
		if n := s.bodyCache.reads - before; n > asked+asked/10 {
			t.Fatalf("%s: %d questions, %d records read", what, asked, n)
		}
	}
	check("at the end")
	scanned(t, s, all)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	check("after a start")
	before := s.bodyCache.reads
	if err := s.AdvanceFlatHead(s.Tip().Final, nil); err != nil {
		t.Fatal(err)
	}
	if n := s.bodyCache.reads - before; n > blocks {
		t.Fatalf("the fold read %d records of %d blocks", n, blocks)
	}
	if len(s.tree.evicted.blocks) != 0 {
		t.Fatalf("%d cold blocks are left", len(s.tree.evicted.blocks))
	}
	for n := 0; n < blocks; n += 101 {
		sh := &all[n].Shards[0]
		ch := sh.Changes[n%len(sh.Changes)]
		if got, err := s.ValueAt(all[n].Ref, 0, ch.Key); err != nil || string(got) != string(ch.Last()) {
			t.Fatalf("after the fold: block %d: %x, %v", n, got, err)
		}
	}
}
