package workload

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// TestIncompleteWitnessIsProducersFault: a witness whose state proof lacks a node or contains a
// wrong one, also of contracts, global contracts and universal accounts, is the producer's fault,
// and never that of the validator that checks it, which would halt. The intact witness is valid.
func TestIncompleteWitnessIsProducersFault(t *testing.T) {
	from, n, blocks, tries := uint64(0), uint64(2), 16, 5
	if full() {
		n, blocks, tries = 12, 50, 60
	}
	if testing.Short() || testutil.Racing {
		from, blocks, tries = 1, 16, 3 // the first seed misses no chunk, so it has no implicit transition
	}
	v, err := theVM()
	if err != nil {
		t.Fatal(err)
	}
	refused, valid, lacking, steps := 0, 0, 0, 0
	for seed := from; seed < n; seed++ {
		o, course := RandomChain(5000+seed, blocks)
		o.Contracts, o.Universal, o.Release, o.VM = true, true, 88, v
		c, err := OpenChain(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		rng := rand.New(rand.NewPCG(seed, 0x776974))
		script := NewScript(c, course)
		for i := range blocks {
			m, err := script.Step()
			if err != nil {
				t.Fatalf("seed %d block %d: %v", seed, i, err)
			}
			for _, x := range m.Chunks {
				if x == nil || m.Accepted == nil {
					continue
				}
				w, err := c.Engine.Witness(x)
				if err != nil {
					t.Fatalf("seed %d block %d: %v", seed, i, err)
				}
				main, _, err := c.Engine.Transitions(x.Header.PrevBlockHash, x.Header.ShardID)
				if err != nil {
					t.Fatal(err)
				}
				codes, err := c.Engine.Codes(main)
				if err != nil {
					t.Fatal(err)
				}
				steps += len(w.Implicit)
				for range tries {
					bad, given := *w.ChunkStateWitness, codes
					bad.Main.Base = slices.Clone(bad.Main.Base)
					bad.Implicit = slices.Clone(bad.Implicit)
					base := &bad.Main.Base
					if k := rng.IntN(len(bad.Implicit) + 1); k > 0 {
						base = &bad.Implicit[k-1].Base
						*base = slices.Clone(*base)
					}
					switch k := rng.IntN(8); {
					case k == 0 && len(codes) > 0:
						given = slices.Delete(slices.Clone(codes), 0, 1)
					case len(*base) == 0:
						continue
					case k == 1:
						at := rng.IntN(len(*base))
						changed := slices.Clone((*base)[at])
						if len(changed) == 0 {
							continue
						}
						changed[rng.IntN(len(changed))] ^= byte(1 << rng.IntN(8))
						(*base)[at] = changed
					case k == 2:
						*base = nil
					default:
						at := rng.IntN(len(*base))
						*base = slices.Delete(*base, at, at+1)
					}
					switch err := c.Engine.Witnesses().CheckWitness(&bad, given); {
					case err == nil:
						valid++ // the node was not read: another transition or the code cache contains it
					case engine.VerdictOf(err) == engine.VerdictInvalid:
						refused++
					case errors.Is(err, engine.ErrNoCode):
						lacking++
					default:
						t.Fatalf("seed %d block %d shard %d: %v", seed, i, x.Header.ShardID, err)
					}
				}
				if err := c.Engine.Witnesses().CheckWitness(w.ChunkStateWitness, codes); err != nil {
					t.Fatalf("seed %d block %d shard %d: the intact witness: %v", seed, i, x.Header.ShardID, err)
				}
			}
		}
	}
	t.Logf("%d refused, %d valid, %d lack code, %d implicit transitions", refused, valid, lacking, steps)
	if refused == 0 || lacking == 0 || steps == 0 {
		t.Error("each of these counts must be positive")
	}
}
