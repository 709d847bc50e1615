package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// TestSyncPointIsKeptAndLateByAgeInEpochs: whether a sync point's data is kept, and whether it is
// late, depends on the number of epochs that have begun since.
func TestSyncPointIsKeptAndLateByAgeInEpochs(t *testing.T) {
	p := &lastPoint{begin: storage.EpochBegin{Height: 100, Epoch: primitives.Hash{100}}, at: storage.BlockRef{Height: 104, Hash: primitives.Hash{2}}}
	q := new(lastPoint)
	if err := borsh.Unmarshal(p.AppendBorsh(nil), q); err != nil || *q != *p || len(p.AppendBorsh(nil)) != 80 {
		t.Errorf("%+v became %+v, %v", p, q, err)
	}
	var epochs []storage.EpochBegin
	for h := primitives.Height(80); h <= 140; h += 10 {
		epochs = append(epochs, storage.EpochBegin{Height: h, Epoch: primitives.Hash{byte(h)}})
	}
	for i, c := range []struct {
		until        primitives.Height
		most, shards int
		age          int
		keep, stale  bool
	}{
		{100, 3, 4, 0, true, false}, {110, 3, 4, 1, true, false}, {120, 3, 4, 2, true, true}, {130, 3, 4, 3, true, true}, {140, 3, 4, 4, false, false},
		{140, 4, 4, 4, true, true}, {130, 3, 1, 3, false, false}, {100, 3, 1, 0, false, false},
	} {
		list := slices.DeleteFunc(slices.Clone(epochs), func(b storage.EpochBegin) bool { return b.Height > c.until })
		if c.until > 100 { // garbage collection has removed the epochs before the point
			list = list[2:]
		}
		if got := p.aged(list, c.most, c.shards); got.age != c.age || got.keep != c.keep || got.stale() != c.stale || got.at != p.at || got.begin != p.begin {
			t.Errorf("%d: %+v, stale %v, want age %d, kept %v, stale %v", i, got, got.stale(), c.age, c.keep, c.stale)
		}
	}
	old := p.aged(epochs, 3, 4)
	if got := old.aged(epochs[4:], 3, 4); got.keep || got.age != old.age {
		t.Errorf("what is collected is back: %+v", got)
	}
	if got := p.aged(epochs[4:], 3, 4); got.keep {
		t.Errorf("what is collected is back behind a start: %+v", got)
	}
	if (*lastPoint)(nil).stale() {
		t.Error("no point is stale")
	}
}

// lateChain is a chain whose second shard has no chunks for some epochs after a sync point. Garbage
// collection keeps as little as possible. One node, the maker, holds all shards; the other holds
// only the first.
type lateChain struct {
	*catchupPair
	s        *Schedule
	src      *newestSource
	offers   *ServedSnapshots
	point    storage.BlockRef
	mdisk    *storage.MemDisk
	epochs   int
	warnings []error
	most     int
	idle     bool // the plan does not want the second shard
}

func (l *lateChain) openMaker() {
	l.t.Helper()
	var err error
	l.maker, err = openChanged(l.t, testGenesis(l.t, "aa", "bb"), l.mdisk, storage.Options{FlatHeadBlocks: 1000}, func(o *Options) {
		o.Snapshots, o.SyncPointEpochs, o.Warn = true, l.most, func(err error) { l.warnings = append(l.warnings, err) }
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.offers = l.maker.Snapshots().Served()
}

func (l *lateChain) openOther() {
	l.t.Helper()
	var err error
	l.n, err = openChanged(l.t, testGenesis(l.t, "aa", "bb"), l.disk, storage.Options{FlatHeadBlocks: 1000}, func(o *Options) {
		o.Tracks, o.Snapshots, o.Scheduled, o.SyncPointEpochs = TrackShards(l.ids[0]), true, true, l.most
	})
	if err != nil {
		l.t.Fatal(err)
	}
	wanted := func(_ *BlockNode, shard primitives.ShardID) (bool, bool) {
		return !l.idle || shard == l.ids[0], !l.idle || shard == l.ids[0]
	}
	l.s = NewSchedule(l.n.Engine, wanted, l.src)
	l.s.Go, l.s.WaitRemovals = func(f func()) { f() }, true
}

// forward makes a block, in which skip leaves out the second shard's chunk. Both nodes import it,
// advance the flat head and collect garbage.
func (l *lateChain) forward(skip bool) {
	l.t.Helper()
	at := l.n.Tip().Header().EpochID
	l.blocks(1, func(int) bool { return skip })
	for _, n := range []*node{l.maker, l.n} {
		if err := n.AdvanceFlatHead(); err != nil {
			l.t.Fatal(err)
		}
		from, err := n.KeepFrom()
		if err == nil {
			_, err = n.store.CollectGarbage(storage.GCOptions{KeepEpochs: storage.MinKeptEpochs, From: from, Before: 1 << 62, MaxHeights: 100})
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
	if l.n.Tip().Header().EpochID != at {
		l.epochs++
	}
}

func newLateChain(t *testing.T, most, epochs int) *lateChain {
	t.Helper()
	l := &lateChain{catchupPair: newCatchupPair(t), mdisk: storage.NewMemDisk(), most: most}
	if err := errors.Join(l.n.Close(), l.n.store.Close()); err != nil {
		t.Fatal(err)
	}
	l.src, l.disk = &newestSource{p: l.catchupPair, parts: true, upTo: 1000}, storage.NewMemDisk()
	l.openMaker()
	l.openOther()
	for i := 0; l.point.IsZero() || l.epochs < 2; i++ {
		if i == 60 {
			t.Fatal("no sync point")
		}
		l.forward(false)
		var err error
		if l.point, err = l.s.newest(); err != nil {
			t.Fatal(err)
		}
		if x, err := l.n.Block(l.point.Hash); !l.point.IsZero() && (err != nil || x.Header().EpochID != l.n.Tip().Header().EpochID) {
			l.point = storage.BlockRef{} // the point is of the previous epoch
		}
	}
	l.src.only, l.epochs = l.point.Hash, 0
	for i := 0; l.epochs < epochs; i++ {
		if i == 400 {
			t.Fatal("the chain does not reach the condition in 60 blocks")
		}
		l.forward(true)
	}
	return l
}

// servesState reports whether the maker serves the second shard's state at the sync point.
func (l *lateChain) servesState() bool {
	l.t.Helper()
	return l.serves(l.offers)
}

func (l *lateChain) serves(offers *ServedSnapshots) bool {
	l.t.Helper()
	list, err := offers.List()
	if err != nil {
		l.t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(o *ServedSnapshot) bool {
		h, err := l.maker.Header(o.Sync)
		return err == nil && h.PrevHash == l.point.Hash && slices.Contains(o.Shards, l.ids[1])
	})
}

func (l *lateChain) restart() {
	l.t.Helper()
	l.s.Close()
	if err := errors.Join(l.n.Close(), l.n.store.Close(), l.maker.Close(), l.maker.store.Close()); err != nil {
		l.t.Fatal(err)
	}
	l.openMaker()
	l.openOther()
}

// TestLastSyncPointServesCatchupUntilNext: while there is no newer sync point, a shard can be
// caught up at the last one, also over restarts of both nodes, because none of the later blocks was
// garbage collected. The node that has caught up then serves that state, too. After a newer point
// the old one is no longer served.
func TestLastSyncPointServesCatchupUntilNext(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		l := newLateChain(t, 0, 8)
		if restarts {
			l.restart()
			l.forward(true)
		}
		if got, err := l.s.newest(); err != nil || got != l.point {
			t.Fatalf("the newest point is %v, want %v: %v", got, l.point, err)
		}
		if p, known := l.maker.Snapshots().LastPoint(); !known || !p.Kept || p.Age < 7 || p.At != l.point {
			t.Errorf("got sync point %+v", p)
		}
		if !l.servesState() {
			t.Fatal("the maker does not serve the state")
		}
		if tail := l.n.store.Tip().Tail; tail > l.point.Height || l.n.Tip().Height()-tail < 60 {
			t.Errorf("%d of %d blocks are stored, the sync point is %d", tail, l.n.Tip().Height(), l.point.Height)
		}
		if n := len(slices.DeleteFunc(slices.Clone(l.warnings),
			func(err error) bool { return !errors.Is(err, ErrNoPoint) })); n != len(l.warnings) || n < 6 {
			t.Errorf("warnings: %v", l.warnings)
		}
		own := l.n.Snapshots().Served()
		if l.serves(own) {
			t.Error("a node without the state serves it")
		}
		step := func() {
			t.Helper()
			if err := l.s.Step(); err != nil {
				t.Fatal(err)
			}
		}
		l.src.upTo = l.point.Height + 1
		for range 6 {
			step()
		}
		c := l.s.catchups[l.ids[1]]
		if c == nil || c.session == nil || c.session.block == nil {
			t.Fatal("the catchup has not entered")
		}
		l.idle = true // not wanted now; a later epoch would need it, and it could not start at that point again
		step()
		step()
		if l.s.catchups[l.ids[1]] != c {
			t.Error("an entered catchup was abandoned")
		}
		l.idle = false
		l.src.upTo = 1000
		for i := 0; !l.n.Tip().Shards[1].Held(); i++ {
			if i == 200 {
				t.Fatal("the catchup does not finish")
			}
			step()
		}
		l.same()
		at, err := l.n.Block(l.point.Hash)
		if err != nil {
			t.Fatal(err)
		}
		state := at.Block.Body.Chunks[1].PrevBlockHash
		if _, there := l.n.snapshots.snapshotOf(state, 1); !there {
			t.Error("the caught-up node does not keep the fetched state")
		}
		if !l.serves(own) {
			t.Error("the caught-up node does not serve the state")
		}
		l.s.Close()
		for l.epochs = 0; l.epochs < 4; {
			l.forward(false)
		}
		for _, n := range []*node{l.maker, l.n} {
			tip := n.store.Tip()
			pins, err := n.store.StateSnapshots()
			if err != nil || len(pins) != 4 || pins[0].At.Height <= l.point.Height || tip.Tail <= l.point.Height || tip.Head.Height-tip.Tail > 40 {
				t.Errorf("behind newer points: %d snapshots, from %d of %d on; %v", len(pins), tip.Tail, tip.Head.Height, err)
			}
		}
	}
}

// TestSyncPointExpiresWhenTooOld: a sync point is given up when it is too old. The last chunk of
// each held shard is still kept, so the shard's next chunk can be produced.
func TestSyncPointExpiresWhenTooOld(t *testing.T) {
	l := newLateChain(t, 4, 7)
	if got, err := l.s.newest(); err != nil || !got.IsZero() || l.servesState() {
		t.Errorf("after seven epochs a sync point kept for four: %v, served %v, %v", got, l.servesState(), err)
	}
	if len(l.warnings) == 0 || len(l.warnings) > 6 {
		t.Errorf("warnings: %v", l.warnings)
	}
	pins, err := l.maker.store.StateSnapshots()
	if err != nil || len(pins) > 0 {
		t.Errorf("%d snapshots, %v", len(pins), err)
	}
	if maker, n := l.maker.store.Tip().Tail, l.n.store.Tip().Tail; maker > l.maker.Tip().Block.Body.Chunks[1].HeightIncluded || n <= l.point.Height {
		t.Errorf("the holder has blocks from %d on, the other node from %d on; the shard's last chunk is at %d",
			maker, n, l.maker.Tip().Block.Body.Chunks[1].HeightIncluded)
	}
	for range 2 { // the point stays given up when fewer epochs are stored again
		l.restart()
		l.forward(true)
		if got, err := l.s.newest(); err != nil || !got.IsZero() || l.servesState() {
			t.Errorf("after a restart the sync point is back: %v, %v", got, err)
		}
	}
	l.forward(false)
	l.forward(false)
}

// TestHandedOverShardIsKeptWhilePointIsLate: while a sync point is late, a node keeps a shard that
// it has handed over, for nodes that need its state at that point. It drops the shard after the
// next sync point.
func TestHandedOverShardIsKeptWhilePointIsLate(t *testing.T) {
	l := newLateChain(t, 0, 0)
	l.s.Close()
	wanted := func(_ *BlockNode, shard primitives.ShardID) (bool, bool) { return shard == l.ids[0], shard == l.ids[0] }
	s := NewSchedule(l.maker.Engine, wanted, nil)
	s.WaitRemovals = true
	defer s.Close()
	for l.epochs < 3 {
		l.forward(true)
	}
	for i := range 6 { // one chunk hands the shard over, but makes no sync point
		l.forward(i != 1)
		if err := s.Step(); err != nil {
			t.Fatal(err)
		}
		if !l.maker.Tip().Shards[1].Held() {
			t.Fatalf("the shard is untracked at %d, the newest point is %v", l.maker.Tip().Height(), l.point)
		}
	}
	if !l.maker.handedOver(l.maker.flatHead, l.ids[1]) {
		t.Fatal("the shard was not handed over")
	}
	for i := 0; ; i++ {
		at := l.maker.Head()
		if p, known := l.maker.Snapshots().LastPoint(); known && p.At != l.point && p.Age == 0 {
			break
		}
		if i == 30 {
			t.Fatal("no newer point")
		}
		b, chunks := l.maker.make(at.Hash, at.Height()+1, false)
		l.maker.accept(b, chunks)
		if err := l.maker.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Step(); err != nil {
		t.Fatal(err)
	}
	if l.maker.Tip().Shards[1].Held() {
		t.Error("the old sync point is kept after a newer one")
	}
}
