package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// newestSource is a PartSource that serves the state of one sync point only, as neard nodes do, and
// the chunks of blocks up to a height.
type newestSource struct {
	p         *catchupPair
	parts     bool
	upTo      primitives.Height
	only      primitives.Hash   // the sync point that it serves
	requested []primitives.Hash // points of requested headers
	given     int               // number of parts served
	wanted    []primitives.Hash // points of requested parts
}

func (s *newestSource) State(_ context.Context, point primitives.Hash, shard primitives.ShardID) (*StateHeader, error) {
	s.requested = append(s.requested, point)
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
	part, err := s.p.maker.Snapshots().Part(x.Block.Body.Chunks[1].PrevBlockHash, 1, id)
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

// TestCatchupRestartsAtNewerPoint: peers keep only the state of the newest sync point. A catchup
// whose state is not complete starts over at the newest point, both in a running node and after a
// restart. A catchup whose state is complete continues, also over a restart.
func TestCatchupRestartsAtNewerPoint(t *testing.T) {
	type world struct {
		*catchupPair
		*Schedule
		src *newestSource
	}
	begin := func(t *testing.T, w *world) {
		w.Schedule = NewSchedule(w.n.Engine, func(*BlockNode, primitives.ShardID) (bool, bool) { return true, true }, w.src)
		w.Go, w.WaitRemovals = func(f func()) { f() }, true
	}
	steps := func(t *testing.T, w *world, n int) {
		t.Helper()
		for range n {
			if err := w.Step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// forward extends the chain until a newer sync point exists, and returns that.
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
				// This holds for the genesis's epoch too.
				if point, err := w.maker.SyncPoint(at); err != nil || point == nil || point.Hash != now.Hash {
					t.Fatalf("block %d is no sync point: %v", now.Height, err)
				}
				w.src.only = now.Hash
				return now
			}
			if i == 40 {
				t.Fatal("no newer sync point")
			}
			w.blocks(1, func(int) bool { return false })
			if err := w.n.AdvanceFlatHead(); err != nil {
				t.Fatal(err)
			}
		}
	}
	restart := func(t *testing.T, w *world) {
		t.Helper()
		w.Close()
		w.restart(w.ids[0])
		begin(t, w)
		w.src.requested, w.src.wanted = nil, nil
	}
	open := func(t *testing.T) (*world, storage.BlockRef) {
		w := &world{catchupPair: newCatchupPair(t)}
		w.maker = openOn(t, testGenesis(t, "aa", "bb"), storage.NewMemDisk(), storage.Options{FlatHeadBlocks: 1000})
		w.src = &newestSource{p: w.catchupPair}
		begin(t, w)
		first := forward(t, w)
		steps(t, w, 4)
		if !slices.Contains(w.src.wanted, first.Hash) {
			t.Fatalf("no parts were requested for at %v", first)
		}
		return w, first
	}
	done := func(t *testing.T, w *world) {
		t.Helper()
		w.src.parts, w.src.upTo = true, 1000
		steps(t, w, 80)
		if !w.n.Tip().Shards[1].Held() {
			t.Fatal("the catchup has not finished")
		}
		w.same()
		w.Close()
	}
	t.Run("running", func(t *testing.T) {
		w, _ := open(t)
		second := forward(t, w)
		w.src.requested, w.src.wanted = nil, nil
		steps(t, w, 4)
		if len(w.src.requested) == 0 || slices.ContainsFunc(append(w.src.requested, w.src.wanted...),
			func(h primitives.Hash) bool { return h != second.Hash }) {
			t.Fatalf("requested for %v and parts of %v, want %v", w.src.requested, w.src.wanted, second)
		}
		done(t, w)
	})
	t.Run("restarted", func(t *testing.T) {
		w, _ := open(t)
		second := forward(t, w)
		restart(t, w)
		steps(t, w, 4)
		if len(w.src.requested) == 0 || slices.ContainsFunc(append(w.src.requested, w.src.wanted...),
			func(h primitives.Hash) bool { return h != second.Hash }) {
			t.Fatalf("requested for %v and parts of %v, want %v", w.src.requested, w.src.wanted, second)
		}
		done(t, w)
	})
	for name, behind := range map[string]bool{"entered": false, "entered and far behind": true} {
		t.Run(name, func(t *testing.T) {
			w, first := open(t)
			w.src.parts, w.src.upTo = true, first.Height+1
			steps(t, w, 6)
			c := w.catchups[w.ids[1]]
			if c == nil || c.session == nil || c.session.block == nil {
				t.Fatal("the catchup has not entered")
			}
			second := forward(t, w)
			if !behind {
				w.src.upTo = second.Height
			}
			w.src.requested, w.src.wanted, w.src.given = nil, nil, 0
			steps(t, w, 6)
			if len(w.src.requested)+w.src.given > 0 || c != w.catchups[w.ids[1]] {
				t.Fatalf("requested for %v", w.src.requested)
			}
			restart(t, w)
			steps(t, w, 6)
			if len(w.src.requested) == 0 || slices.ContainsFunc(w.src.requested,
				func(h primitives.Hash) bool { return h != second.Hash }) || (w.src.given > 0) != behind {
				t.Fatalf("requested for %v, want %v; %d parts", w.src.requested, second, w.src.given)
			}
			done(t, w)
		})
	}
}

// TestCatchupForNextEpochWaitsForNewPoint: a shard that is needed only in the next epoch does not
// start at the sync point of the previous epoch, from where many blocks would have to be applied. A
// shard that is needed now does: without this node it may have no chunks, and then no newer sync
// point would follow.
func TestCatchupForNextEpochWaitsForNewPoint(t *testing.T) {
	p := newCatchupPair(t)
	p.maker = openOn(t, testGenesis(t, "aa", "bb"), storage.NewMemDisk(), storage.Options{FlatHeadBlocks: 1000})
	src, now := &newestSource{p: p}, false
	s := NewSchedule(p.n.Engine, func(*BlockNode, primitives.ShardID) (bool, bool) { return now, true }, src)
	s.Go = func(f func()) { f() }
	var point storage.BlockRef
	for range 40 {
		p.blocks(1, func(int) bool { return false })
		if err := p.n.AdvanceFlatHead(); err != nil {
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
	if steps(); len(src.requested) > 0 {
		t.Errorf("for the next epoch: requests at %v, the previous sync point", src.requested)
	}
	now = true
	if steps(); !slices.Contains(src.requested, point.Hash) {
		t.Errorf("for this epoch: no request at %v", point)
	}
	s.Close()
}

// pointed extends the chain of a pair until a sync point exists and the flat head has passed it,
// and returns it.
func pointed(t *testing.T, p *catchupPair, s *Schedule) storage.BlockRef {
	t.Helper()
	for range 40 {
		p.blocks(1, func(int) bool { return false })
		if err := p.n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		point, err := s.newest()
		if err != nil {
			t.Fatal(err)
		}
		if point.Height > 0 {
			return point
		}
	}
	t.Fatal("no sync point")
	return storage.BlockRef{}
}

// TestCatchupWithoutNewPointUsesPreviousOne: an epoch in which a shard has no chunks has no sync
// point. A node that needs the shard now starts at the previous sync point immediately; a node that
// needs it in the next epoch starts there from the middle of the epoch on. Otherwise the shard
// would never have a chunk again.
func TestCatchupWithoutNewPointUsesPreviousOne(t *testing.T) {
	for _, now := range []bool{true, false} {
		p := newCatchupPair(t)
		p.maker = openOn(t, testGenesis(t, "aa", "bb"), storage.NewMemDisk(), storage.Options{FlatHeadBlocks: 1000})
		src, wanted := &newestSource{p: p}, false
		s := NewSchedule(p.n.Engine, func(*BlockNode, primitives.ShardID) (bool, bool) { return now && wanted, wanted }, src)
		s.Go = func(f func()) { f() }
		point := pointed(t, p, s)
		old := p.n.Tip().Header().EpochID
		forward := func(until func() bool) {
			t.Helper()
			for i := 0; !until(); i++ {
				if i == 60 {
					t.Fatal("the chain does not reach the condition in 60 blocks")
				}
				p.blocks(1, func(int) bool { return true })
				if err := p.n.AdvanceFlatHead(); err != nil {
					t.Fatal(err)
				}
			}
		}
		requested := func() bool {
			t.Helper()
			for range 3 {
				if err := s.Step(); err != nil {
					t.Fatal(err)
				}
			}
			return slices.Contains(src.requested, point.Hash)
		}
		forward(func() bool { return p.n.flatHead.Header().EpochID != old })
		if got, err := s.newest(); err != nil || got != point {
			t.Fatalf("the newest point is %v, want %v, that of the epoch before: %v", got, point, err)
		}
		wanted = true
		if is := requested(); is != now {
			t.Errorf("needed now %v: requests for the previous sync point at the start of the epoch: %v", now, is)
		}
		forward(func() bool {
			half, err := s.epochHalfDone(p.n.Tip())
			if err != nil {
				t.Fatal(err)
			}
			return half
		})
		if !requested() {
			t.Errorf("needed now %v: no request for the previous sync point in the second half of the epoch", now)
		}
		s.Close()
	}
}

// TestUntrackedShardWaitsForNewPoint: if a shard was untracked after the newest sync point, its
// catchup cannot start there. The schedule requests nothing from peers until a newer sync point
// exists.
func TestUntrackedShardWaitsForNewPoint(t *testing.T) {
	p := newCatchupPair(t)
	if err := errors.Join(p.n.Close(), p.n.store.Close()); err != nil {
		t.Fatal(err)
	}
	p.maker, p.disk = openOn(t, testGenesis(t, "aa", "bb"), storage.NewMemDisk(), storage.Options{FlatHeadBlocks: 1000}), storage.NewMemDisk()
	p.open(p.ids...)
	src := &newestSource{p: p}
	s := NewSchedule(p.n.Engine, func(*BlockNode, primitives.ShardID) (bool, bool) { return true, true }, src)
	s.Go, s.WaitRemovals = func(f func()) { f() }, true
	first := pointed(t, p, s)
	p.blocks(2, func(int) bool { return false })
	if err := errors.Join(p.n.AdvanceFlatHead(), p.n.UntrackShard(p.ids[1])); err != nil {
		t.Fatal(err)
	}
	src.only = first.Hash
	for range 6 {
		if err := s.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if len(src.requested) > 0 {
		t.Errorf("peers got %d requests for a sync point before the untracking", len(src.requested))
	}
	for i := 0; ; i++ {
		point, err := s.newest()
		if err != nil || i == 60 {
			t.Fatalf("no newer point: %v", err)
		}
		if point != first {
			src.only, src.parts, src.upTo = point.Hash, true, 1000
			break
		}
		p.blocks(1, func(int) bool { return false })
		if err := p.n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
	}
	for range 80 {
		if err := s.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if !p.n.Tip().Shards[1].Held() {
		t.Error("the catchup has not finished at the newer point")
	}
	s.Close()
}

// TestPanicOfRequestIsAnswered: a request of a catchup that panics gets an answer, so that the
// catchup does not wait for it for ever.
func TestPanicOfRequestIsAnswered(t *testing.T) {
	var err error
	s := &Schedule{Go: func(f func()) { err = Catch(func() error { f(); return nil }) }}
	c := new(catchup)
	s.ask(c, func(context.Context) answer { panic("over a response") })
	if p := new(Panic); !errors.As(err, &p) || p.Reason != "over a response" {
		t.Errorf("error %v", err)
	}
	s.asking.Wait()
	select {
	case do := <-c.reply:
		do()
	default:
		t.Error("no answer")
	}
}
