package chunkparts

import (
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestPoolStaysWithinHorizon: for any sequence of chunks and heads, the pool and all its indexes
// contain only chunks within the horizon and requested ones.
func TestPoolStaysWithinHorizon(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := New("", n.nodes[producers[2]].chain, n.rs, nil, nil)
		at := primitives.Height(rng.IntN(300))
		p.setHead(Head{Height: at})
		want := map[primitives.Hash]primitives.Height{}
		for step := range 400 {
			switch rng.IntN(10) {
			default:
				x := &primitives.ChunkHeader{}
				x.HeightCreated, x.ShardID = primitives.Height(rng.IntN(int(at)+400)), primitives.ShardID(rng.IntN(3))
				if rng.IntN(20) == 0 {
					x.HeightCreated = primitives.Height(rng.Uint64())
				}
				x.PrevBlockHash = primitives.Hash{byte(rng.IntN(4))}
				hash := x.ChunkHash()
				if p.entryFor(hash, x, nil); rng.IntN(4) == 0 {
					p.want(p.entries[hash], x.PrevBlockHash, int64(step))
				}
				want[hash] = x.HeightCreated
			case 0: // a requested chunk arrives, or is given up
				for _, e := range p.wants {
					if rng.IntN(2) == 0 {
						e.want = nil
					}
				}
			case 1:
				moved := at + primitives.Height(rng.IntN([]int{2, 50, 5000}[rng.IntN(3)]))
				if rng.IntN(5) == 0 { // the head moves to another branch
					moved = at - min(at, 3)
				}
				p.setHead(Head{Height: moved})
				if moved <= at {
					continue
				}
				at = moved
				for hash, h := range want {
					if e := p.entries[hash]; h+HeightHorizon < at && h < h+HeightHorizon && (e == nil || e.want == nil) {
						delete(want, hash)
					}
				}
			}
			of, on := 0, 0
			for h, list := range p.byHeight {
				if of += len(list); len(list) == 0 || h < p.low {
					t.Fatalf("seed %d, step %d: %d chunks of height %d, the lowest is %d", seed, step, len(list), h, p.low)
				}
			}
			for _, list := range p.byPrev {
				on += len(list)
			}
			if len(p.entries) != len(want) || of != len(want) || on != len(want) {
				t.Fatalf("seed %d, step %d, at %d: %d chunks, %d by height, %d by block, want %d", seed, step, at, len(p.entries), of, on, len(want))
			}
			for hash := range want {
				if p.entries[hash] == nil {
					t.Fatalf("seed %d, step %d, at %d: one of height %d has gone", seed, step, at, want[hash])
				}
			}
		}
	}
}
