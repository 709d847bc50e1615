package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestRevertedChainImportsTheSame: random chains that are reverted to snapshots repeatedly, over
// epochs, advances of the flat head and restarts, and with a tiny memory budget, import the same
// blocks again with the same results. Snapshots of removed blocks have ended; the others revert to
// their block.
func TestRevertedChainImportsTheSame(t *testing.T) {
	n, blocks := 6, 40
	if testing.Short() || testutil.Racing {
		n, blocks = 3, 25
	}
	went, ended := 0, 0
	for seed := range uint64(n) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			o, course := RandomChain(seed, blocks)
			course.Fork = 0
			serial, err := OpenChain(o)
			if err != nil {
				t.Fatal(err)
			}
			defer serial.Close()
			script := NewScript(serial, course)
			var made []*Made
			var prints []primitives.Hash
			for range course.Blocks {
				m, err := script.Step()
				if err != nil && strings.Contains(err.Error(), "all buffers are empty, yet") {
					break // see runWorkload
				}
				if err != nil {
					t.Fatal(err)
				}
				if m.Accepted != nil {
					made, prints = append(made, m), append(prints, Fingerprint(m.Accepted.Entry))
				}
			}
			o.StateBytes, o.Tries = 1, trie.Options{Frontier: 128 << (seed % 6), Poison: true}
			o.Store.FlatHeadBlocks, o.Store.ResidentBlocks = 1+int(seed%5), 3
			c, err := OpenChain(o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { c.Close() }()
			rng := rand.New(rand.NewPCG(seed, 0x6261636b))
			type place struct {
				s    *engine.RevertPoint
				next int // of made
			}
			var places []place
			for next, back := 0, 0; next < len(made); {
				if rng.IntN(6) == 0 {
					s, err := c.Engine.NewRevertPoint()
					if err != nil {
						t.Fatal(err)
					}
					places = append(places, place{s, next})
				}
				a, err := c.Accept(made[next].Block, made[next].Chunks, false)
				if err != nil {
					t.Fatalf("block %d, after %d reverts: %v", next, back, err)
				}
				if Fingerprint(a.Entry) != prints[next] {
					t.Fatalf("block %d, after %d reverts: other results", next, back)
				}
				next++
				switch {
				case back < 25 && len(places) > 0 && rng.IntN(5) == 0:
					p := places[rng.IntN(len(places))]
					if err := c.Engine.Rewind(p.s); p.s.Ended() {
						if !errors.Is(err, engine.ErrEnded) {
							t.Fatalf("to one that has ended: %v", err)
						}
						ended++
						continue
					} else if err != nil {
						t.Fatal(err)
					}
					if head := c.Engine.Head(); head.Hash != p.s.Ref().Hash || c.Store.Tip().Head != p.s.Ref() {
						t.Fatalf("head %v in memory, %v on disk, want %v", head.Hash, c.Store.Tip().Head, p.s.Ref())
					}
					next = p.next
					back++
					went++
				case rng.IntN(15) == 0:
					head := c.Engine.Head().Hash
					if err := c.Restart(); err != nil {
						t.Fatal(err)
					}
					if c.Engine.Head().Hash != head {
						t.Fatalf("head %v after a restart, want %v", c.Engine.Head().Hash, head)
					}
					places = nil
				case rng.IntN(10) == 0 && len(places) > 0:
					c.Engine.EndRevertPoint(places[0].s)
				}
			}
		})
	}
	if went < n || ended == 0 {
		t.Errorf("%d reverts, %d of them to ended snapshots", went, ended)
	}
}
