package sim

import (
	"testing"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// TestNoWitnessIfBodyComesFirst: in eager mode, if all validators have all shards, no witness is
// sent to validators that get the body before the block. The cases are four validators, each of
// which gets all parts, and seven that all produce chunks of the one shard, so that parts are
// forwarded to them. In the third case each of four shards has two of eight chunk producers: the
// other six have the body only when its block arrives, and check the chunk by its witness. (Without
// witnesses each block waited for its chunks: 214 blocks took 87 s instead of 7.)
func TestNoWitnessIfBodyComesFirst(t *testing.T) {
	for _, c := range []struct {
		name                 string
		nodes, shards, spare int // witnesses of how many tenths of the chunks are spared, at the least
	}{{"each part is the body", 4, 4, 8}, {"parts are passed on", 7, 1, 8}, {"parts are not passed on", 8, 4, 0}} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ScenarioOf("hurry", 0)
			if err != nil {
				t.Fatal(err)
			}
			s.Nodes, s.Shards, s.Byzantine, s.Saves, s.Crashes, s.Late, s.Faults, s.Latency, s.Load = c.nodes, c.shards, false, 0, 0, 0, 0, [2]int64{ms / 2, 2 * ms}, 100
			w, err := newWorld(Options{Seed: 3, Scenario: s})
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			shown := map[primitives.ChunkKey]bool{}
			w.net.drop = func(_, _ *node, m consensus.Message) bool {
				if p, ok := m.(*primitives.PartialWitness); ok {
					shown[p.Key()] = true
				}
				return false
			}
			first, last := primitives.Height(40), primitives.Height(200)
			if testing.Short() {
				last = 100
			}
			for w.nodes[0].engine.Final().Height < last {
				if w.next(); w.now > begin+20*second {
					t.Fatalf("after 20 s: %s", w.where())
				}
			}
			if w.check.violation != nil || w.check.missed+w.check.gaps > 0 {
				t.Fatalf("%d heights and %d chunks are missed, %v", w.check.missed, w.check.gaps, w.check.violation)
			}
			n := 0
			for key := range shown {
				if key.HeightCreated > first && key.HeightCreated <= last {
					n++
				}
			}
			all := int(last-first) * c.shards
			t.Logf("%d chunks of %d have witnesses, %d ms", n, all, (w.now-begin)/ms)
			if n > all*(10-c.spare)/10 || c.spare == 0 && n < all {
				t.Errorf("%d chunks of %d have witnesses", n, all)
			}
		})
	}
}
