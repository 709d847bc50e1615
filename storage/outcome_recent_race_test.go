package storage

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestOutcomeIsFoundWhileFlatHeadAdvances: an advance of the flat head moves the outcomes of a
// block from memory to the index. An outcome is found at every moment of it, also by a lookup with
// a lower bound of the height. Otherwise an executed transaction would seem unknown during the
// advance.
func TestOutcomeIsFoundWhileFlatHeadAdvances(t *testing.T) {
	s, refs := longStore(t, Options{}, NewMemDisk(), 3, 5)
	last := refs[len(refs)-1]
	const blocks, outcomes = 60, 600
	for n := range blocks {
		ref := BlockRef{last.Height + 1, hashOf("more", n)}
		b := &Block{Ref: ref, Prev: last, Ordinal: uint64(ref.Height), Epoch: hashOf("epoch", ref.Height/10), Head: true, Final: ref}
		sh := Shard{ID: 0, Extra: []byte("extra"), Chunk: &Chunk{Hash: hashOf("chunk", n), Header: []byte("header")}}
		for i := range outcomes {
			id := hashOf("tx", n, i)
			sh.Outcomes = append(sh.Outcomes, Outcome{ID: id, Value: id[:]})
		}
		b.Shards = []Shard{sh}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		last = ref
	}
	id := hashOf("tx", blocks-1, outcomes-1)
	var readers sync.WaitGroup
	var ended atomic.Bool
	for _, from := range []primitives.Height{0, last.Height} {
		readers.Go(func() {
			for looks := 0; !ended.Load(); looks++ {
				if got, err := s.Find().OutcomeFrom(id, from); err != nil || len(got) != 1 || got[0].Block.Ref() != last {
					t.Errorf("look %d, from height %d: %+v, %v; want block %v", looks, from, got, err, last)
					return
				}
			}
		})
	}
	if err := s.AdvanceFlatHead(last, nil); err != nil {
		t.Error(err)
	}
	ended.Store(true)
	readers.Wait()
}
