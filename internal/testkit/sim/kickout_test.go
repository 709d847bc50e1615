package sim

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TestAllNodesSkipSameChunkProducers: all nodes skip dead and slow chunk producers alike, while
// nodes crash and heights are skipped: from the genesis on, after an upgrade, over splits, and
// while validators catch up shards.
func TestAllNodesSkipSameChunkProducers(t *testing.T) {
	missed := 0
	for _, c := range []struct {
		name, scenario string
		change         func(*Scenario)
	}{
		{"at genesis", "kickout", func(*Scenario) {}},
		{"upgrade", "kickout", func(s *Scenario) { s.Version, s.Blocks = 86, 280 }},
		{"no crashes", "kickout", func(s *Scenario) { s.Crashes, s.Late, s.Slow, s.Dead = 0, 0, 0, 2 }},
		{"splits", "splits", func(s *Scenario) { s.Dead, s.Nodes, s.Epoch, s.Blocks = 2, 10, 30, 190 }},
		{"moves", "moves", func(s *Scenario) { s.Dead, s.Nodes, s.Shards = 1, 6, 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range seeds(2) {
				s, err := ScenarioOf(c.scenario, seed)
				if err != nil {
					t.Fatal(err)
				}
				c.change(&s)
				r, err := Run(Options{Seed: seed, Scenario: s})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("seed %d: height %d, final %d, %d epochs, %.1f s, %d crashes, %d heights missed, %d chunks missed, %d lists, %d shards, %d moves",
					seed, r.Height, r.Final, r.Epochs, float64(r.Time)/float64(second), r.Crashes, r.Missed, r.Gaps, r.Lists, r.Shards, r.Moves)
				if r.Violation != nil {
					t.Fatalf("seed %d: %v\n%s", seed, r.Violation, strings.Join(r.Tail, "\n"))
				}
				if r.Lists == 0 || s.Splits && r.Shards <= 2 || s.Shuffle && r.Moves == 0 {
					t.Errorf("seed %d: %d lists, %d shards, %d moves", seed, r.Lists, r.Shards, r.Moves)
				}
				missed += r.Missed
			}
		})
	}
	if missed == 0 {
		t.Error("no height was missed")
	}
}

// TestChainFrom86UpgradesInEachScenario runs each kind of fault on a chain that begins at 86, as an
// older binary made it, and that its validators vote up to the newest version.
func TestChainFrom86UpgradesInEachScenario(t *testing.T) {
	for _, name := range []string{"chaos", "blind", "judges", "byzantine", "saves"} {
		t.Run(name, func(t *testing.T) {
			s, err := ScenarioOf(name, 0)
			if err != nil {
				t.Fatal(err)
			}
			s.Version, s.Epoch, s.Blocks = 86, 10, max(s.Blocks, 60)
			for seed := range seeds(2) {
				r, err := Run(Options{Seed: seed, Scenario: s})
				if err != nil {
					t.Fatal(err)
				}
				if r.Violation != nil {
					t.Fatalf("seed %d: %v\n%s", seed, r.Violation, strings.Join(r.Tail, "\n"))
				}
				if want := parameters.Newest(primitives.NumberingRelease); r.Versions[len(r.Versions)-1] != want {
					t.Errorf("seed %d: final blocks have the versions %v, the last must be %d", seed, r.Versions, want)
				}
			}
		})
	}
}
