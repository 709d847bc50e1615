package storage

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestFrameIsReadOnce: concurrent reads of one frame read it once, also if that fails, and later
// reads get it from the cache.
func TestFrameIsReadOnce(t *testing.T) {
	var c cache
	at, failed := position{Segment: 1}, errors.New("the disk")
	for _, want := range []error{failed, nil} {
		var reads, wrong atomic.Int32
		begun, release := make(chan struct{}), make(chan struct{})
		var first sync.Once
		read := func() ([][]byte, error) {
			reads.Add(1)
			first.Do(func() { close(begun) })
			<-release
			return [][]byte{{7}}, want
		}
		var group sync.WaitGroup
		ask := func() {
			items, err := c.frame(at, true, read)
			if !errors.Is(err, want) || err == nil && !slices.Equal(items[0], []byte{7}) {
				wrong.Add(1)
			}
		}
		group.Go(ask)
		<-begun
		for range 100 {
			group.Go(ask)
		}
		close(release)
		group.Wait()
		if want == nil && reads.Load() != 1 || wrong.Load() != 0 {
			t.Errorf("with error %v: read %d times, %d wrong", want, reads.Load(), wrong.Load())
		}
	}
	if _, err := c.frame(at, true, func() ([][]byte, error) { return nil, failed }); err != nil {
		t.Errorf("what is kept is read again: %v", err)
	}
}

// TestOutcomeTreeIsBuiltOnce: the tree over a chunk's outcomes is built once for all callers, and
// again after a failure.
func TestOutcomeTreeIsBuiltOnce(t *testing.T) {
	s, refs := longStore(t, Options{}, NewMemDisk(), 8, 5)
	rec, err := s.BlockByHash(refs[len(refs)-2].Hash)
	if err != nil {
		t.Fatal(err)
	}
	shard := rec.Shards()[0]
	list, err := rec.Outcomes(shard)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d outcomes: %v", len(list), err)
	}
	failed := errors.New("no outcome")
	if _, err := rec.OutcomeTree(shard, func(*Outcome) (primitives.Hash, error) { return primitives.Hash{}, failed }); !errors.Is(err, failed) {
		t.Errorf("error = %v, want %v", err, failed)
	}
	var leaves []primitives.Hash
	for i := range list {
		leaves = append(leaves, primitives.HashBytes(list[i].Value))
	}
	root, paths := primitives.Merklize(leaves)
	var made atomic.Int32
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			again, err := s.BlockByHash(rec.Ref().Hash)
			if err != nil {
				t.Error(err)
				return
			}
			tree, err := again.OutcomeTree(shard, func(o *Outcome) (primitives.Hash, error) {
				made.Add(1)
				return primitives.HashBytes(o.Value), nil
			})
			if i %= len(list); err != nil || tree.Root() != root || !slices.Equal(tree.Path(i), paths[i]) {
				t.Errorf("tree of root %v, %v; want %v", tree.Root(), err, root)
			}
		})
	}
	group.Wait()
	if int(made.Load()) != len(list) {
		t.Errorf("%d leaves made of %d outcomes", made.Load(), len(list))
	}
	if _, err := rec.OutcomeTree(primitives.ShardID(99), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a shard that is not there: %v", err)
	}
}
