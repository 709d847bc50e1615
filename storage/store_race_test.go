package storage

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestReadersSeeOneState reads while blocks are committed, the flat head advances and blocks are
// collected. A read value must always be that of the requested block, whether it comes from memory,
// from Flat or from the log.
func TestReadersSeeOneState(t *testing.T) {
	o := testOptions()
	o.WriteBuffer = 32 << 10
	o.ResidentBlocks, o.BucketHeights = 4, 5
	s, err := Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	err = s.Import(&Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf(0), Head: true}, nil, func(put func(Pair) error) error {
		for i := range crashKeys {
			shard, key := crashKey(i)
			if err := put(Pair{shard, key, crashValue(i, 1)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var refs sync.Map // height -> BlockRef
	refs.Store(primitives.Height(1), s.Tip().Head)
	var readers, folder sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for !stop.Load() {
				tip := s.Tip()
				h := tip.Tail + primitives.Height(rng.Uint64N(uint64(tip.Head.Height-tip.Tail+1)))
				v, ok := refs.Load(h)
				if !ok {
					continue
				}
				ref, i := v.(BlockRef), rng.IntN(crashKeys)
				shard, key := crashKey(i)
				got, err := s.ValueAt(ref, shard, key)
				want := crashValue(i, h)
				if errors.Is(err, ErrGone) {
					continue
				}
				if string(got) != string(want) || want == nil != errors.Is(err, ErrNotFound) {
					t.Errorf("height %d key %d = %q, %v, want %q", h, i, got, err, want)
					return
				}
				found := false
				err = s.Scan(ref, shard, AccountRange{}, key, append(key[:len(key):len(key)], 0), func(k, v []byte) bool {
					found = string(k) == string(key) && string(v) == string(want)
					return false
				})
				if err == nil && found != (want != nil) {
					t.Errorf("height %d key %d: scan found it: %v", h, i, found)
					return
				}
				if at, err := s.Find().Outcome(hashOf("o", h, shard)); h > 1 && err == nil && len(at) == 0 && h > s.Tip().Tail {
					t.Errorf("height %d: outcome not found", h)
					return
				}
			}
		})
	}
	folder.Go(func() {
		for !stop.Load() {
			if upto, due := s.FlatHeadDue(); due {
				if err := s.AdvanceFlatHead(upto, nil); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.CollectGarbage(GCOptions{KeepEpochs: 3, Before: 1 << 60, MaxHeights: 10}); err != nil {
				t.Error(err)
			}
		}
	})
	rng := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		head := s.Tip().Head
		final := head
		if rec, err := s.Block(head); err == nil && !rec.Prev().IsZero() {
			final = rec.Prev()
		}
		b := crashBlock(rng, head, final, true)
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		refs.Store(b.Ref.Height, b.Ref)
	}
	stop.Store(true)
	readers.Wait()
	folder.Wait()
}
