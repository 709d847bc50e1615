package storage

import (
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// seekCountIndex counts cursors.
type seekCountIndex struct {
	index
	cursors atomic.Int64
}

func (x *seekCountIndex) iterate(lo, hi []byte) cursor {
	x.cursors.Add(1)
	return x.index.iterate(lo, hi)
}

// TestRecentOutcomeIsFoundWithoutIndex: the outcomes of blocks that the flat head passed recently,
// and their transactions, are found without reading the index. A remembered place never leads to
// the outcome of another ID.
func TestRecentOutcomeIsFoundWithoutIndex(t *testing.T) {
	s, refs := longStore(t, Options{}, NewMemDisk(), 30, 5)
	last := refs[len(refs)-1]
	b := &Block{Ref: BlockRef{last.Height + 1, hashOf("more")}, Prev: last, Ordinal: uint64(last.Height + 1), Epoch: hashOf("epoch", (last.Height+1)/10), Head: true}
	b.Final = b.Ref
	sh := Shard{ID: 0, Extra: []byte("extra"), Chunk: &Chunk{Hash: hashOf("chunk"), Header: []byte("header")}}
	for i := range 5 {
		id := hashOf("tx", i)
		sh.Outcomes = append(sh.Outcomes, Outcome{ID: id, Value: id[:]})
		sh.Chunk.Transactions = append(sh.Chunk.Transactions, Transaction{Hash: id, Value: id[:]})
	}
	b.Shards = []Shard{sh}
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
	if err := s.AdvanceFlatHead(b.Ref, nil); err != nil {
		t.Fatal(err)
	}
	x := &seekCountIndex{index: s.db}
	s.db = x
	find := func(how func(primitives.Hash) ([]Place, error), id primitives.Hash, at BlockRef, i int, cursors int64) {
		t.Helper()
		x.cursors.Store(0)
		got, err := how(id)
		if err != nil || len(got) != 1 || got[0].Block.Ref() != at || got[0].Index != i || !got[0].Canonical {
			t.Errorf("%v = %+v, %v; want block %v, %d", id, got, err, at, i)
		}
		if n := x.cursors.Load(); n != cursors {
			t.Errorf("%v: %d cursors over the index, want %d", id, n, cursors)
		}
	}
	for i := range 5 {
		find(s.Find().Transaction, hashOf("tx", i), b.Ref, i, 0)
		find(s.Find().Outcome, hashOf("id", primitives.Height(7), i), refs[6], i, 0)
	}
	// An absent ID is searched in the index only where it may belong to an older block.
	absent := func(from primitives.Height, cursors int64) {
		t.Helper()
		x.cursors.Store(0)
		if got, err := s.Find().OutcomeFrom(hashOf("absent"), from); err != nil || len(got) != 0 || x.cursors.Load() != cursors {
			t.Errorf("from height %d: %+v, %v, %d cursors, want %d", from, got, err, x.cursors.Load(), cursors)
		}
	}
	absent(0, 1)
	absent(refs[1].Height-1, 1)
	absent(refs[1].Height, 0)
	absent(b.Ref.Height, 0)
	// Another id begins alike: its place is not taken for this one's.
	id := hashOf("id", primitives.Height(7), 3)
	p, ok := s.recent.find(id)
	if !ok {
		t.Fatal("it is not remembered")
	}
	for key, at := range s.recent.at {
		if at.height == p.height && int(at.index) == p.index {
			s.recent.at[key] = recentPlace{height: 9, shard: p.shard, index: 1}
		}
	}
	find(s.Find().Outcome, id, refs[6], 3, 1)
	s.recent.clear()
	find(s.Find().Outcome, id, refs[6], 3, 1)
	find(s.Find().Transaction, hashOf("tx", 2), b.Ref, 2, 1)
	absent(b.Ref.Height, 1)

	var l recentOutcomes // what is remembered has a bound
	d := &body{shards: []pendingShard{{outcomes: make([]primitives.Hash, 1000)}}}
	for h := range primitives.Height(200) {
		for i := range d.shards[0].outcomes {
			d.shards[0].outcomes[i] = hashOf(h, i)
		}
		l.add(h, d)
	}
	if len(l.at) != recentIDs || len(l.ids) != recentIDs {
		t.Errorf("%d and %d are remembered, want %d", len(l.at), len(l.ids), recentIDs)
	}
	if _, ok := l.find(hashOf(primitives.Height(199), 999)); !ok {
		t.Error("the newest is not among them")
	}
	if l.covers(134) || !l.covers(135) {
		t.Errorf("all is here from height %d on, want 135", l.from)
	}
	if _, ok := l.find(hashOf(primitives.Height(0), 0)); ok {
		t.Error("the oldest is among them")
	}
}

// TestReceiptOfOutcomeIsFoundWithoutIndex: a receipt that an outcome names is found without reading
// the index, whether its block is far below the flat head or above it. If it is not in the block of
// the outcome, it is found like any other receipt.
func TestReceiptOfOutcomeIsFoundWithoutIndex(t *testing.T) {
	s, refs := longStore(t, Options{}, NewMemDisk(), 30, 5)
	x := &seekCountIndex{index: s.db}
	s.db = x
	for _, ref := range refs[1:] {
		by, err := s.Find().Outcome(hashOf("id", ref.Height, 2))
		if err != nil || len(by) != 1 {
			t.Fatal(by, err)
		}
		for i := range 5 {
			want, err := s.Find().Receipt(hashOf("receipt", ref.Height, i))
			if err != nil || len(want) != 1 {
				t.Fatal(want, err)
			}
			x.cursors.Store(0)
			got, err := s.Find().ReceiptOf(hashOf("receipt", ref.Height, i), &by[0])
			if err != nil || len(got) != 1 || got[0].Block.Ref() != want[0].Block.Ref() || got[0].Index != want[0].Index || got[0].Local != want[0].Local || got[0].Canonical != want[0].Canonical {
				t.Errorf("block %v: %+v, %v, want %+v", ref, got, err, want)
			}
			if n := x.cursors.Load(); n > 0 {
				t.Errorf("block %v: %d cursors over the index", ref, n)
			}
		}
		if got, err := s.Find().ReceiptOf(hashOf("receipt", refs[5].Height, 1), &by[0]); err != nil || len(got) != 1 || got[0].Block.Ref() != refs[5] {
			t.Errorf("by an outcome of block %v: %+v, %v, want block %v", ref, got, err, refs[5])
		}
		if got, err := s.Find().ReceiptOf(hashOf("none"), &by[0]); err != nil || len(got) > 0 {
			t.Errorf("what is not there: %+v, %v", got, err)
		}
	}
}
