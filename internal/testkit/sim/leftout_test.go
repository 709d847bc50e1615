package sim

import (
	"testing"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// TestValidatorWithoutPartsKeepsUp: in a network of four in eager mode without forwarding, a chunk
// producer sends one validator none of the parts of its chunks. That validator loses little more
// than a round trip and keeps up.
func TestValidatorWithoutPartsKeepsUp(t *testing.T) {
	lag := func(leaves bool) (mean, most int64) {
		s, err := ScenarioOf("hurry", 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Shards, s.Byzantine, s.Saves, s.Crashes, s.Late, s.Faults, s.Latency = 1, false, 0, 0, 0, 0, [2]int64{ms / 2, 2 * ms}
		w, err := newWorld(Options{Seed: 3, Scenario: s})
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		maker, out := w.nodes[0], w.nodes[3]
		w.net.drop = func(from, to *node, m consensus.Message) bool {
			_, parts := m.(*primitives.PartialChunk)
			return leaves && parts && from == maker && to == out
		}
		came := map[primitives.Height]int64{}
		sum, count := int64(0), int64(0)
		for seen := primitives.Height(0); seen < 200; w.next() {
			for _, n := range w.nodes[:3] {
				if h := n.engine.Tip().Height(); came[h] == 0 {
					came[h] = w.now
				}
			}
			for h := out.engine.Tip().Height(); seen < h; {
				if seen++; came[seen] > 0 && seen > 20 {
					d := w.now - came[seen]
					sum, most, count = sum+d, max(most, d), count+1
				}
			}
			if w.now > begin+200*second {
				t.Fatalf("height %d: %s", seen, w.where())
			}
		}
		if w.check.violation != nil {
			t.Fatal(w.check.violation)
		}
		return sum / max(count, 1) / ms, most / ms
	}
	mean, most := lag(false)
	leftOut, leftOutMost := lag(true)
	t.Logf("behind the first of the others by %d ms, %d at the most; left out %d and %d", mean, most, leftOut, leftOutMost)
	if leftOut > mean+25 || leftOutMost > most+60 {
		t.Errorf("validator without parts: %d ms behind on average, at most %d; others %d and %d", leftOut, leftOutMost, mean, most)
	}
}
