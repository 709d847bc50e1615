package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// endorsed runs a scenario and logs the share of each validator's endorsements that are in blocks.
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

// TestNearlyAllEndorsementsAreInBlocks: at neard's pace 99.9 % of all endorsements are in blocks,
// if each shard has two chunk producers and contracts are called. It holds for validators that are
// near each other, and with links of 5 to 60 ms, jobs of up to 50 ms and writes of up to 10 ms. It
// also holds for validators that produce nothing and have no state, and for four that have the
// state of both shards and produce chunks of one. (The share was 83 to 89 % for validators without
// state when code was requested from any producer and chunks were missed, and 97 % for the four
// when a validator with state waited 400 ms for parts that were never forwarded.)
func TestNearlyAllEndorsementsAreInBlocks(t *testing.T) {
	far := func(s *Scenario) { s.Latency, s.JobTime, s.Disk = [2]int64{5 * ms, 60 * ms}, 50*ms, 10*ms }
	for _, c := range []struct {
		name   string
		blocks primitives.Height
		nodes  int
		change func(*Scenario)
	}{
		// Without rewards, a call that changes nothing leaves the same state whether or not its
		// code was present, and code arrives late here.
		{"near", 200, 6, func(s *Scenario) { s.Latency = [2]int64{ms / 2, 3 * ms} }},
		{"near, 86", 200, 6, func(s *Scenario) { s.Latency, s.Version = [2]int64{ms / 2, 3 * ms}, 86 }},
		{"far", 2000, 6, far},
		{"far, all hold", 200, 4, func(s *Scenario) {
			far(s)
			s.Nodes, s.Blind, s.Idle = 4, 0, false
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() || testutil.Racing {
				c.blocks = min(c.blocks, 130)
			}
			r := endorsed(t, 1, func(s *Scenario) {
				s.Epoch, s.Blocks, s.Load = 60, c.blocks, 8
				if c.change(s); s.Version != 0 {
					parameters.SupportForTest(t, s.Version)
				}
			})
			text, least := r.shares()
			t.Logf("%d blocks in %d s, %d epochs:%s", r.Final, r.Time/second, r.Epochs, text)
			if least < 0.999 || len(r.Endorsed) != c.nodes {
				t.Errorf("the least share is %.4f", least)
			}
		})
	}
}
