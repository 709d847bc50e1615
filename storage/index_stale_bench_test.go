package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// BenchmarkStaleRead measures loading some neighbouring rows while there are flushes on level 0:
// once through the current index and once through the stale index.
func BenchmarkStaleRead(b *testing.B) {
	const rows, changes = 1_000_000, 5000
	for _, flushes := range []int{0, 1, 3} {
		s, err := Open(b.TempDir(), Options{Identity: testIdentity, NoSync: true, StaleReadSize: 1, WriteBuffer: 16 << 20})
		if err != nil {
			b.Fatal(err)
		}
		key := func(i int) []byte { return fmt.Appendf(nil, "\x00%07d", i) }
		g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}
		if err := s.Import(g, nil, func(put func(Pair) error) error {
			for i := range rows {
				v := hashOf(i)
				if err := put(Pair{0, key(i), append(v[:], "some bytes that are the same"...)}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		s.stale.open(s.db, s.steps, s.o.StaleReadSize)
		rng := rand.New(rand.NewPCG(1, 2))
		prev := g.Ref
		for s.dbFlushes() < flushes || prev == g.Ref {
			blk := &Block{Ref: BlockRef{prev.Height + 1, hashOf(prev.Height + 1)}, Prev: prev, Ordinal: uint64(prev.Height + 1), Epoch: g.Epoch, Head: true, Shards: []Shard{{ID: 0}}}
			blk.Final = blk.Ref
			seen := map[int]bool{}
			for range changes {
				seen[rng.IntN(rows)] = true
			}
			for i := range rows {
				if seen[i] {
					v := hashOf(i, prev)
					blk.Shards[0].Changes = append(blk.Shards[0].Changes, Change{Old: v[:8],
						KeyChanges: primitives.KeyChanges{Key: key(i), Changes: []primitives.StateChange{{Value: v[:]}}}})
				}
			}
			if err := s.Commit(blk); err != nil {
				b.Fatal(err)
			}
			if err := s.AdvanceFlatHead(blk.Ref, nil); err != nil {
				b.Fatal(err)
			}
			prev = blk.Ref
		}
		for _, what := range []string{"now", "early"} {
			b.Run(fmt.Sprintf("op=load/rows=6/flushes=%d/index=%s", flushes, what), func(b *testing.B) {
				for b.Loop() {
					i := rng.IntN(rows - 6)
					n := 0
					yield := func(_, _ []byte) bool { n++; return true }
					if what == "now" {
						err = s.Load(prev, 0, AccountRange{}, key(i), key(i+6), yield)
					} else {
						x := s.StaleReader()
						err = x.Load(0, AccountRange{}, key(i), key(i+6), yield)
						x.Done(true)
					}
					if err != nil || n != 6 {
						b.Fatal(n, err)
					}
				}
			})
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func (s *Store) dbFlushes() int {
	n, _ := s.db.flushes()
	return n
}
