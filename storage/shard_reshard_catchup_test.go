package storage

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestSplitShardStopsCatchingUp: a shard that was caught up and then split does not count as
// catching up: garbage collection continues. Once one of its child shards is untracked or imported,
// its own states are gone: a read of them never returns only some of the values.
func TestSplitShardStopsCatchingUp(t *testing.T) {
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	left, right := []byte("\x00n"), []byte("\x00z")
	held := func(ids ...primitives.ShardID) (out []Shard) {
		for _, id := range ids {
			out = append(out, Shard{ID: id, Extra: []byte{1}})
		}
		return out
	}
	at := BlockRef{1, hashOf(1)}
	must(s.Import(&Block{Ref: at, Epoch: hashOf("epoch 0"), Head: true, Shards: append(held(0), Shard{ID: 1})}, nil, func(func(Pair) error) error { return nil }))
	next := func(shards []Shard, splits ...Split) {
		t.Helper()
		prev := at
		at = BlockRef{prev.Height + 1, hashOf(int(prev.Height) + 1)}
		must(s.Commit(&Block{Ref: at, Prev: prev, Final: prev, Ordinal: uint64(at.Height), Timestamp: uint64(at.Height), Epoch: hashOf("epoch ", at.Height/3), Head: true,
			Shards: shards, Splits: splits}))
		must(s.AdvanceFlatHead(prev, nil))
	}
	next(append(held(0), Shard{ID: 1}))
	whole := AccountRange{Lo: "m"}
	_, err = s.Stage(1, BlockRef{1, hashOf(1)}, whole)
	must(err)
	must(s.StagePart(1, BlockRef{1, hashOf(1)}, 0, func(put func(key, value []byte) error) error {
		return errors.Join(put(left, []byte("1")), put(right, []byte("2")))
	}))
	must(s.InstallShard(1, nil))
	late := held(1)[0] // of the block after the flat head
	late.Chunk = &Chunk{Hash: hashOf("chunk"), Header: []byte{1}}
	must(s.CommitShard(at, &late, nil))
	next(held(0, 1))
	next(held(0, 2, 3), Split{Parent: 1, Left: 2, Right: 3})
	old := BlockRef{3, hashOf(3)}
	for range 3 {
		next(held(0, 2, 3))
	}
	if list, err := s.IncomingShards(); err != nil || len(list) > 0 {
		t.Fatalf("shards %v are on their way in, %v", list, err)
	}
	for key, want := range map[string]string{string(left): "1", string(right): "2"} {
		if v, err := s.ValueAt(old, 1, []byte(key)); err != nil || string(v) != want {
			t.Errorf("%q before the split is %q, %v", key, v, err)
		}
	}
	must(s.UntrackShard(3, AccountRange{Lo: "y"}))
	for _, key := range [][]byte{left, right} {
		if v, err := s.ValueAt(old, 1, key); !errors.Is(err, ErrGone) {
			t.Errorf("%q before the split is %q, %v, and half of its shard has left", key, v, err)
		}
	}
	if v, err := s.ValueAt(at, 2, left); err != nil || string(v) != "1" {
		t.Errorf("%q of the half that stays is %q, %v", left, v, err)
	}
	for range 12 {
		next(append(held(0, 2), Shard{ID: 3}))
	}
	for more := true; more; {
		got, err := s.CollectGarbage(GCOptions{Before: ^uint64(0), MaxHeights: 3})
		must(err)
		more = got.More
	}
	if tail := s.Tip().Tail; tail < at.Height-9 {
		t.Errorf("the tail is %d, the head %d", tail, at.Height)
	}
	if places, err := s.Find().Chunk(hashOf("chunk")); err != nil || len(places) > 0 {
		t.Errorf("a chunk of a block that was collected is at %v, %v", places, err)
	}
	must(chunkPlaces.Scan(s.db, nil, nil, func(key []byte, _ Nothing) bool {
		t.Errorf("a place of a chunk that was collected: %x", key)
		return false
	}))
	if _, ok := s.view.Load().shards[1]; ok {
		t.Error("there is a row of a shard whose last block was collected")
	}
}

// TestStagedRowsSurviveOtherDeletion: staged rows stay if another shard with the same accounts is
// still being deleted.
func TestStagedRowsSurviveOtherDeletion(t *testing.T) {
	c := newSnapshotChain(t)
	c.grow(3)
	c.must(c.s.BeginUntrack(1, AccountRange{Lo: "m"}))
	at, key := c.at[1], []byte("\x00x")
	_, err := c.s.Stage(2, at, AccountRange{Lo: "p"})
	c.must(err)
	c.must(c.s.StagePart(2, at, 0, func(put func(key, value []byte) error) error { return put(key, []byte("1")) }))
	c.must(c.s.FinishUntrack())
	c.must(c.s.InstallShard(2, nil))
	if v, err := c.s.ValueAt(at, 2, key); err != nil || string(v) != "1" {
		t.Errorf("%q is %q, %v", key, v, err)
	}
	if _, err := flat.Get(c.s.db, flatKey(1, []byte("\x00z"))); !errors.Is(err, ErrNotFound) {
		t.Errorf("a row of the untracked shard: %v", err)
	}
}
