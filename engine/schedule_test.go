package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// newestSource gives what belongs to one sync point, as neards do, which keep nothing of older ones, and chunks up to a height.
type newestSource struct {
	p      *joinPair
	parts  bool
	upTo   primitives.Height
	only   primitives.Hash   // the point that it has
	asked  []primitives.Hash // points of whose header it was asked
	given  int               // parts
	wanted []primitives.Hash // points of which it was asked for parts
}

func (s *newestSource) State(_ context.Context, point primitives.Hash, shard primitives.ShardID) (*StateHeader, error) {
	s.asked = append(s.asked, point)
	if point != s.only {
		return nil, ErrNotYet
	}
	x, err := s.p.maker.Block(point)
	if err != nil {
		return nil, err
	}
	return s.p.maker.StateHeader(x, 1)
}

func (s *newestSource) Part(_ context.Context, point primitives.Hash, shard primitives.ShardID, id trie.PartID, take func([][]byte) error) error {
	s.wanted = append(s.wanted, point)
	if point != s.only || !s.parts {
		return ErrNotYet
	}
	x, err := s.p.maker.Block(point)
	if err != nil {
		return err
	}
	s.given++
	part, err := s.p.maker.Part(x.Block.Body.Chunks[1].PrevBlockHash, 1, id)
	if err != nil {
		return err
	}
	return take(part)
}

func (s *newestSource) Chunks(_ context.Context, block primitives.Hash, shard primitives.ShardID) ([]*primitives.Chunk, error) {
	x, err := s.p.maker.Block(block)
	if err != nil {
		return nil, err
	}
	if x.Height() > s.upTo {
		return nil, ErrNotYet
	}
	return s.p.maker.ChunksFor(block, shard)
}

func (s *newestSource) Refused(_ primitives.Hash, _ primitives.ShardID, err error) {
	s.p.t.Errorf("refused: %v", err)
}

// TestScheduleMovesOn: others keep a state at the newest sync point alone. A shard whose state has not come by then begins anew at the newest, in a running
// node and behind a restart; one that has its state goes on with it, over a restart too.
func TestScheduleMovesOn(t *testing.T) {
	type world struct {
		*joinPair
		*Schedule
		src *newestSource
	}
	begin := func(t *testing.T, w *world) {
		w.Schedule = NewSchedule(w.n.Engine, func(*Entry, primitives.ShardID) (bool, bool) { return true, true }, w.src)
		w.Go, w.Patient = func(f func()) { f() }, true
	}
	steps := func(t *testing.T, w *world, n int) {
		t.Helper()
		for range n {
			if err := w.Step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// forward lets the chain go on until there is a newer point.
	forward := func(t *testing.T, w *world) storage.BlockRef {
		t.Helper()
		var before storage.BlockRef
		for i := 0; ; i++ {
			now, err := w.newest()
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				before = now
			}
			if now != before && now.Height > 0 {
				at, err := w.maker.Block(now.Hash)
				if err != nil {
					t.Fatal(err)
				}
				if point, err := w.maker.SyncPoint(at); err != nil || point == nil || point.Hash != now.Hash { // of the genesis's epoch too
					t.Fatalf("block %d is no sync point: %v", now.Height, err)
				}
				w.src.only = now.Hash
				return now
			}
			if i == 40 {
				t.Fatal("no newer sync point")
			}
			w.blocks(1, func(int) bool { return false })
			if err := w.n.Fold(); err != nil {
				t.Fatal(err)
			}
		}
	}
	restart := func(t *testing.T, w *world) {
		t.Helper()
		w.Close()
		w.restart(w.ids[0])
		begin(t, w)
		w.src.asked, w.src.wanted = nil, nil
	}
	open := func(t *testing.T) (*world, storage.BlockRef) {
		w := &world{joinPair: newJoinPair(t)}
		w.maker = openOn(t, testGenesis(t, "aa", "bb"), storage.NewMemDisk(), storage.Options{FoldBlocks: 1000})
		w.src = &newestSource{p: w.joinPair}
		begin(t, w)
		first := forward(t, w)
		steps(t, w, 4)
		if !slices.Contains(w.src.wanted, first.Hash) {
			t.Fatalf("no parts were asked for at %v", first)
		}
		return w, first
	}
	done := func(t *testing.T, w *world) {
		t.Helper()
		w.src.parts, w.src.upTo = true, 1000
		steps(t, w, 80)
		if !w.n.Tip().Shards[1].Held() {
			t.Fatal("the shard has not come in")
		}
		w.same()
		w.Close()
	}
	t.Run("running", func(t *testing.T) {
		w, _ := open(t)
		second := forward(t, w)
		w.src.asked, w.src.wanted = nil, nil
		steps(t, w, 4)
		if len(w.src.asked) == 0 || slices.ContainsFunc(append(w.src.asked, w.src.wanted...), func(h primitives.Hash) bool { return h != second.Hash }) {
			t.Fatalf("asked for %v and parts of %v, want %v", w.src.asked, w.src.wanted, second)
		}
		done(t, w)
	})
	t.Run("restarted", func(t *testing.T) {
		w, _ := open(t)
		second := forward(t, w)
		restart(t, w)
		steps(t, w, 4)
		if len(w.src.asked) == 0 || slices.ContainsFunc(append(w.src.asked, w.src.wanted...), func(h primitives.Hash) bool { return h != second.Hash }) {
			t.Fatalf("asked for %v and parts of %v, want %v", w.src.asked, w.src.wanted, second)
		}
		done(t, w)
	})
	for name, behind := range map[string]bool{"entered": false, "entered and far behind": true} {
		t.Run(name, func(t *testing.T) {
			w, first := open(t)
			w.src.parts, w.src.upTo = true, first.Height+1
			steps(t, w, 6)
			c := w.coming[w.ids[1]]
			if c == nil || c.j == nil || c.j.block == nil {
				t.Fatal("the shard has not entered")
			}
			second := forward(t, w)
			if !behind {
				w.src.upTo = second.Height
			}
			w.src.asked, w.src.wanted, w.src.given = nil, nil, 0
			steps(t, w, 6)
			if len(w.src.asked)+w.src.given > 0 || c != w.coming[w.ids[1]] {
				t.Fatalf("asked for %v", w.src.asked)
			}
			restart(t, w)
			steps(t, w, 6)
			if len(w.src.asked) == 0 || slices.ContainsFunc(w.src.asked, func(h primitives.Hash) bool { return h != second.Hash }) || (w.src.given > 0) != behind {
				t.Fatalf("asked for %v, want %v; %d parts", w.src.asked, second, w.src.given)
			}
			done(t, w)
		})
	}
}

// TestScheduleWaits: a shard of which the next epoch has need does not begin at the sync point of the epoch before, with all of that to be caught up with; one
// that should be here does, since it may have no chunks without this node, and then there is no newer point.
func TestScheduleWaits(t *testing.T) {
	p := newJoinPair(t)
	p.maker = openOn(t, testGenesis(t, "aa", "bb"), storage.NewMemDisk(), storage.Options{FoldBlocks: 1000})
	src, now := &newestSource{p: p}, false
	s := NewSchedule(p.n.Engine, func(*Entry, primitives.ShardID) (bool, bool) { return now, true }, src)
	s.Go = func(f func()) { f() }
	var point storage.BlockRef
	for range 40 {
		p.blocks(1, func(int) bool { return false })
		if err := p.n.Fold(); err != nil {
			t.Fatal(err)
		}
		var err error
		if point, err = s.newest(); err != nil {
			t.Fatal(err)
		}
		if point.Height > 0 {
			break
		}
	}
	at, err := p.n.Block(point.Hash)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; p.n.Tip().Header().EpochID == at.Header().EpochID; i++ {
		if i == 40 {
			t.Fatal("no other epoch")
		}
		p.blocks(1, func(int) bool { return false })
	}
	steps := func() {
		for range 3 {
			if err := s.Step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if steps(); len(src.asked) > 0 {
		t.Errorf("for the next epoch it asks at %v, of the epoch before", src.asked)
	}
	now = true
	if steps(); !slices.Contains(src.asked, point.Hash) {
		t.Errorf("for this epoch it does not ask at %v", point)
	}
	s.Close()
}
