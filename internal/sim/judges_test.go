package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// endorsed runs a scenario, and tells the share of each validator's endorsements that are in blocks.
func endorsed(t *testing.T, seed uint64, change func(*Scenario)) *Result {
	t.Helper()
	s, err := ScenarioOf("judges", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Limit = 4000 * second
	change(&s)
	r, err := Run(Options{Seed: seed, Scenario: s})
	if err != nil {
		t.Fatal(err)
	}
	if r.Violation != nil {
		t.Fatalf("seed %d: %v\n%s", seed, r.Violation, strings.Join(r.Tail, "\n"))
	}
	return r
}

// shares says them.
func (r *Result) shares() (out string, least float64) {
	least = 1
	for _, a := range slices.Sorted(maps.Keys(r.Endorsed)) {
		s := r.Endorsed[a]
		out += fmt.Sprintf(" %s %d/%d", a, s.Made, s.Due)
		least = min(least, float64(s.Made)/float64(s.Due))
	}
	return out, least
}

// TestEndorsements: at neard's pace 99.9 % of all endorsements are in blocks, of validators too that make nothing and hold no state, where each shard has two
// makers and contracts are called: next to each other, and with links of 5 to 60 ms, jobs of up to 50 ms and writes of up to 10 ms.
func TestEndorsements(t *testing.T) {
	blocks := primitives.Height(300)
	if !testing.Short() {
		blocks = 2000
	}
	for name, change := range map[string]func(*Scenario){
		"near": func(s *Scenario) { s.Latency = [2]int64{ms / 2, 3 * ms} },
		"far":  func(s *Scenario) { s.Latency, s.JobTime, s.Disk = [2]int64{5 * ms, 60 * ms}, 50*ms, 10*ms },
	} {
		t.Run(name, func(t *testing.T) {
			r := endorsed(t, 1, func(s *Scenario) {
				s.Epoch, s.Blocks, s.Load = 60, blocks, 8
				change(s)
			})
			text, least := r.shares()
			t.Logf("%d blocks in %d s, %d epochs:%s", r.Final, r.Time/second, r.Epochs, text)
			if least < 0.999 || len(r.Endorsed) != 6 {
				t.Errorf("the least share is %.4f", least)
			}
		})
	}
}
