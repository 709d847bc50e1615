package storage

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// snapshotChain is a chain of two shards with one key each that changes with each block, in epochs
// of four blocks.
type snapshotChain struct {
	t    *testing.T
	disk *MemDisk
	s    *Store
	at   []BlockRef
}

func newSnapshotChain(t *testing.T) *snapshotChain {
	c := &snapshotChain{t: t, disk: NewMemDisk()}
	c.open()
	g := &Block{Ref: BlockRef{1, hashOf(1)}, Epoch: hashOf("epoch 0"), Head: true, Shards: []Shard{{ID: 0}, {ID: 1}}}
	err := c.s.Import(g, nil, func(put func(Pair) error) error {
		return errors.Join(put(Pair{0, []byte("\x00a"), []byte("1")}), put(Pair{1, []byte("\x00z"), []byte("1")}))
	})
	if err != nil {
		t.Fatal(err)
	}
	c.at = append(c.at, g.Ref)
	return c
}

func (c *snapshotChain) open() {
	c.t.Helper()
	o := testOptions()
	o.BucketHeights = 2
	var err error
	if c.s, err = OpenMemory(c.disk, o); err != nil {
		c.t.Fatal(err)
	}
}

func (c *snapshotChain) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// grow adds blocks and advances the flat head to the last but one.
func (c *snapshotChain) grow(n int) {
	c.t.Helper()
	for range n {
		prev := c.at[len(c.at)-1]
		h := prev.Height + 1
		b := &Block{Ref: BlockRef{h, hashOf(int(h))}, Prev: prev, Final: prev, Ordinal: uint64(h), Timestamp: uint64(h), Epoch: hashOf(fmt.Sprint("epoch ", h/4)), Head: true}
		for id, key := range []string{"\x00a", "\x00z"} {
			change := Change{KeyChanges: primitives.KeyChanges{Key: []byte(key), Changes: []primitives.StateChange{{Value: fmt.Append(nil, h)}}}, Old: fmt.Append(nil, h-1)}
			b.Shards = append(b.Shards, Shard{ID: primitives.ShardID(id), Extra: []byte{1}, Changes: []Change{change}})
		}
		c.must(c.s.Commit(b))
		c.must(c.s.AdvanceFlatHead(prev, nil))
		c.at = append(c.at, b.Ref)
	}
}

func (c *snapshotChain) collect() {
	c.t.Helper()
	for more := true; more; {
		got, err := c.s.CollectGarbage(GCOptions{Before: ^uint64(0), MaxHeights: 3})
		c.must(err)
		more = got.More
	}
}

func (c *snapshotChain) takeSnapshot(shard primitives.ShardID, at BlockRef, stubs ...FrontierNode) StateSnapshot {
	p := StateSnapshot{Shard: shard, Index: primitives.ShardIndex(shard), At: at, Of: c.at[at.Height], Root: hashOf(at), Accounts: [...]AccountRange{{Hi: "m"}, {Lo: "m"}}[shard]}
	c.t.Helper()
	c.must(c.s.SnapshotState(p, slices.Values(stubs)))
	return p
}

func (c *snapshotChain) rows() (n int) {
	c.t.Helper()
	c.must(snapshotNodes.Scan(c.s.db, nil, nil, func([]byte, frontierValue) bool { n++; return true }))
	return n
}

// TestSnapshotProtectsStateFromGC: a snapshot protects a state from garbage collection, also over
// restarts. When the snapshot is dropped, all its rows are removed, and garbage collection
// continues.
func TestSnapshotProtectsStateFromGC(t *testing.T) {
	c := newSnapshotChain(t)
	c.grow(9)
	at := c.at[5]
	var broken Batch
	snapshotNodes.Put(&broken, snapshotNodeKey{snapshotKey{at.Height, 1}, 3, "\x09"}, &frontierValue{})
	c.must(c.s.db.write(&broken, false)) // left by an interrupted snapshot
	stubs := []FrontierNode{{Level: 2, Path: []byte{1}, Hash: hashOf("a"), MemoryUsage: 7}, {Level: 2, Path: []byte{1, 2}, Hash: hashOf("b"), MemoryUsage: 8}, {Level: 7, Path: []byte{}, Hash: hashOf("c"), MemoryUsage: 9}}
	p := c.takeSnapshot(1, at, stubs...)
	younger := c.takeSnapshot(0, c.at[7])
	c.grow(20)
	c.collect()
	if tail := c.s.Tip().Tail; tail != at.Height {
		t.Fatalf("the tail is %d, want at most %d, the snapshot's block", tail, at.Height)
	}
	c.must(c.s.Close())
	c.open()
	list, err := c.s.StateSnapshots()
	c.must(err)
	if want := []StateSnapshot{p, younger}; !reflect.DeepEqual(list, want) {
		t.Fatalf("pins = %+v, want %+v", list, want)
	}
	for level, want := range map[uint8][]FrontierNode{2: stubs[:2], 3: nil, 7: stubs[2:]} {
		var got []FrontierNode
		c.must(c.s.SnapshotFrontier(&p, level, nil, func(s FrontierNode) bool { got = append(got, s); return true }))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("level %d = %+v, want %+v", level, got, want)
		}
	}
	var below []FrontierNode
	c.must(c.s.SnapshotFrontier(&p, 2, []byte{1, 2}, func(s FrontierNode) bool { below = append(below, s); return true }))
	if !reflect.DeepEqual(below, stubs[1:2]) {
		t.Errorf("below 12: %+v", below)
	}
	if v, err := c.s.ValueAt(at, 1, []byte("\x00z")); err != nil || string(v) != "6" {
		t.Errorf("the value at the pinned block is %q, %v", v, err)
	}
	c.must(c.s.DropStateSnapshots(at.Height + 1))
	if n := c.rows(); n != 0 {
		t.Errorf("%d rows of no pin", n)
	}
	if list, err := c.s.StateSnapshots(); err != nil || !reflect.DeepEqual(list, []StateSnapshot{younger}) {
		t.Errorf("snapshots = %+v, %v", list, err)
	}
	c.collect()
	if tail := c.s.Tip().Tail; tail != younger.At.Height {
		t.Errorf("the tail is %d, want at most %d, the snapshot's block", tail, younger.At.Height)
	}
	if err := c.s.SnapshotState(p, slices.Values(stubs)); !errors.Is(err, ErrGone) {
		t.Errorf("a pin of a block that was collected: %v", err)
	}
	c.must(c.s.DropStateSnapshots(^primitives.Height(0)))
	c.collect()
	if tail := c.s.Tip().Tail; tail <= younger.At.Height {
		t.Errorf("the tail is %d, and nothing is pinned", tail)
	}
	if err := c.s.SnapshotState(StateSnapshot{At: c.at[len(c.at)-1]}, slices.Values(stubs)); !errors.Is(err, ErrOrder) {
		t.Errorf("a pin of a block that is not folded: %v", err)
	}
}

// TestDeletedShardDropsItsSnapshots: when a shard is deleted, its snapshots and those of shards
// that share rows with it are removed, but no others.
func TestDeletedShardDropsItsSnapshots(t *testing.T) {
	c := newSnapshotChain(t)
	c.grow(9)
	c.takeSnapshot(0, c.at[3], FrontierNode{Level: 2, Path: []byte{1}})
	kept := c.takeSnapshot(1, c.at[4], FrontierNode{Level: 2, Path: []byte{1}}, FrontierNode{Level: 3, Path: []byte{2}})
	c.must(c.s.UntrackShard(0, AccountRange{Hi: "m"}))
	if list, err := c.s.StateSnapshots(); err != nil || !reflect.DeepEqual(list, []StateSnapshot{kept}) {
		t.Errorf("snapshots = %+v, %v", list, err)
	}
	if n := c.rows(); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if err := c.s.SnapshotState(StateSnapshot{Shard: 0, At: c.at[3]}, slices.Values[[]FrontierNode](nil)); !errors.Is(err, ErrGone) {
		t.Errorf("a snapshot of a deleted shard: %v", err)
	}
	c.must(c.s.removeShard(9, AccountRange{Lo: "x", Hi: "y"})) // one that shard 1 was split into
	if list, err := c.s.StateSnapshots(); err != nil || len(list) > 0 || c.rows() > 0 {
		t.Errorf("snapshots = %+v and %d rows, %v", list, c.rows(), err)
	}
}
