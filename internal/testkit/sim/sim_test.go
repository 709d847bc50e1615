package sim

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// seeds returns how many seeds of a scenario a test runs: n, or one with -short. The expectations of
// these tests hold for each seed alone.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return n
}

// runs runs a scenario with some seeds.
func runs(t *testing.T, name string, n uint64) {
	t.Helper()
	for seed := range seeds(n) {
		s, err := ScenarioOf(name, seed)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(Options{Seed: seed, Scenario: s})
		if err != nil {
			t.Fatal(err)
		}
		if r.Violation != nil {
			t.Fatalf("seed %d: %v\n%s", seed, r.Violation, strings.Join(r.Tail, "\n"))
		}
		if s.Byzantine && r.FalseMessages == 0 || s.Saves > 0 && r.Crashes == 0 || s.Shuffle && r.Moves == 0 || s.Dead > 0 && r.Lists == 0 {
			t.Errorf("seed %d: scenario %s had no effect: %d false messages, %d crashes, %d moves, %d lists",
				seed, name, r.FalseMessages, r.Crashes, r.Moves, r.Lists)
		}
		t.Logf("seed %d: height %d, final %d, %d epochs, %.1f s, %d events, %d messages, %d outcomes, %d crashes, %d heights missed, %d chunks missed, %d shards, %d moves",
			seed, r.Height, r.Final, r.Epochs, float64(r.Time)/float64(second), r.Events, r.Messages, r.Receipts, r.Crashes, r.Missed, r.Gaps, r.Shards, r.Moves)
	}
}

// TestNothingIsMissedWithoutFaults: without faults no height is skipped and no chunk is missed, on
// one shard and on four.
func TestNothingIsMissedWithoutFaults(t *testing.T) {
	for _, shards := range []int{1, 4} {
		s, _ := ScenarioOf("calm", 0)
		s.Shards, s.Blocks = shards, 100
		r, err := Run(Options{Seed: 1, Scenario: s})
		if err != nil {
			t.Fatal(err)
		}
		if r.Violation != nil {
			t.Fatalf("%d shards: %v\n%s", shards, r.Violation, strings.Join(r.Tail, "\n"))
		}
		t.Logf("%+v", *r)
		if r.Missed+r.Gaps > 0 || r.Epochs < 4 || r.Receipts < 1000 {
			t.Errorf("%d shards: %d heights and %d chunks missed, %d epochs, %d outcomes", shards, r.Missed, r.Gaps, r.Epochs, r.Receipts)
		}
	}
}

// TestPublicNetworksKeepInvariants runs networks with the numbers of mainnet and testnet, but with at
// most thirty validators. The runs cross a boundary of epochs, and the token supply is checked.
func TestPublicNetworksKeepInvariants(t *testing.T) {
	if testing.Short() || testutil.Racing {
		t.Skip("thirty validators take ten seconds")
	}
	for _, s := range Networks {
		t.Run(s.Name, func(t *testing.T) {
			if !s.Own { // these validators track all shards, which takes longer
				s.Blocks = 3
			}
			if err := s.Change(min(s.Nodes, 30), 0, 0); err != nil { // all of them with troupe sim
				t.Fatal(err)
			}
			r, err := Run(Options{Seed: 1, Scenario: s})
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != nil {
				t.Fatalf("%v\n%s", r.Violation, strings.Join(r.Tail, "\n"))
			}
			t.Logf("final %d, %d epochs, %.1f s, %d crashes, %d heights and %d chunks missed, %d supplies", r.Final, r.Epochs,
				float64(r.Time)/float64(second), r.Crashes, r.Missed, r.Gaps, r.Supplies)
			if r.Final < 15 || r.Supplies == 0 || s.Own && r.Epochs < 2 || r.Crashes > 0 != (s.Crashes > 0) || s.Cuts > 0 && r.Missed == 0 {
				t.Errorf("final %d, %d epochs, %d supplies, %d crashes, %d heights missed", r.Final, r.Epochs, r.Supplies, r.Crashes, r.Missed)
			}
		})
	}
}

func TestScenariosKeepInvariants(t *testing.T) {
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			runs(t, s.Name, 2)
		})
	}
}

// TestSameSeedGivesSameRun: the runs are the same to the last message.
func TestSameSeedGivesSameRun(t *testing.T) {
	s, _ := ScenarioOf("chaos", 0)
	var first *Result
	for range 2 {
		r, err := Run(Options{Seed: 7, Scenario: s})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r
		}
		if r.Hash != first.Hash || r.Events != first.Events {
			t.Errorf("%x with %d events, and then %x with %d", first.Hash, first.Events, r.Hash, r.Events)
		}
	}
}

// TestParallelRunsAreTheSame: worlds that run at the same time do not change each other, although
// they share a cache of signature checks.
func TestParallelRunsAreTheSame(t *testing.T) {
	var list []Options
	for seed, name := range []string{"chaos", "own", "splits", "byzantine", "chaos", "mainnet-chaos"} {
		s, err := ScenarioOf(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if s.Blocks = min(s.Blocks, primitives.Height(10*seeds(2))); s.Nodes > 12 {
			s.Nodes = 12
		}
		list = append(list, Options{Seed: uint64(seed), Scenario: s})
	}
	run := func(o Options) *Result {
		r, err := Run(o)
		if err != nil || r.Violation != nil {
			t.Errorf("seed %d, scenario %s: %v, %v", o.Seed, o.Scenario.Name, err, r.Violation)
		}
		return r
	}
	alone := make([]*Result, len(list))
	for i := range list {
		alone[i] = run(list[i])
	}
	beside := make([]*Result, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { beside[i] = run(list[i]) })
	}
	wg.Wait()
	for i := range list {
		if !reflect.DeepEqual(alone[i], beside[i]) {
			t.Errorf("seed %d, scenario %s: alone %x with %d events, beside others %x with %d", list[i].Seed, list[i].Scenario.Name,
				alone[i].Hash, alone[i].Events, beside[i].Hash, beside[i].Events)
		}
	}
}

// TestEachPlantedBugIsFound: a bug is found with one of a few seeds of the scenario that shows it.
func TestEachPlantedBugIsFound(t *testing.T) {
	const most = 8
	for _, b := range Bugs {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(most) {
				s, err := ScenarioOf(b.Scenario, seed)
				if err != nil {
					t.Fatal(err)
				}
				r, err := Run(Options{Seed: seed, Scenario: s, Bug: b})
				if err != nil {
					t.Fatal(err)
				}
				if r.Violation != nil {
					t.Logf("seed %d: %v", seed, r.Violation)
					return
				}
			}
			t.Errorf("%s: not found by %d seeds", b.Doc, most)
		})
	}
}

// TestEndedWorldLeavesNothingBehind: neither goroutines nor memory of its nodes are left.
func TestEndedWorldLeavesNothingBehind(t *testing.T) {
	s, err := ScenarioOf("crashes", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Blocks = 5
	run := func(seed uint64, most int) (goroutines int, heap uint64) {
		if r, err := Run(Options{Seed: seed, Scenario: s}); err != nil || r.Violation != nil {
			t.Fatal(err, r.Violation)
		}
		var m runtime.MemStats
		for deadline := time.Now().Add(time.Minute); ; { // what ends ends beside us
			for range 50 {
				runtime.GC()
				runtime.Gosched()
			}
			if most == 0 || runtime.NumGoroutine() <= most || time.Now().After(deadline) {
				break
			}
		}
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	before, heap := run(1, 0)
	for seed := range uint64(3) {
		after, now := run(seed+2, before+5)
		t.Logf("%d goroutines, %d MB", after, now>>20)
		if after > before+5 || now > heap+20<<20 {
			t.Errorf("%d goroutines and %d bytes, after another world %d and %d", before, heap, after, now)
		}
	}
}

// TestLateStatesAreCaughtUp: shards whose states no node could download for three epochs are caught
// up, and their proofs are accepted. With this seed a node that has a block no longer in memory
// reads it back and catches up a shard after it.
func TestLateStatesAreCaughtUp(t *testing.T) {
	s, err := ScenarioOf("handover", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Blocks, s.Faults, s.Mute = 240, 85*second, [2]int64{85 * second, 85 * second}
	r, err := Run(Options{Scenario: s})
	if err != nil {
		t.Fatal(err)
	}
	if r.Violation != nil || r.Moves == 0 {
		t.Errorf("%d moves, %d chunks missed: %v\n%s", r.Moves, r.Gaps, r.Violation, strings.Join(r.Tail, "\n"))
	}
}

// TestStatesAreCaughtUpAfterManyEpochs: shards whose states no node could download for many epochs,
// of which garbage collection leaves three, are caught up when other nodes answer again. From then
// on no chunk is missed.
func TestStatesAreCaughtUpAfterManyEpochs(t *testing.T) {
	for seed, c := range []struct {
		mute   int64
		blocks primitives.Height
	}{{130 * second, 290}, {200 * second, 380}}[:seeds(2)] {
		s, err := ScenarioOf("handover", uint64(seed))
		if err != nil {
			t.Fatal(err)
		}
		s.Blocks, s.Faults, s.Mute, s.Limit = c.blocks, c.mute, [2]int64{c.mute, c.mute}, 2*c.mute+100*second
		r, err := Run(Options{Seed: uint64(seed), Scenario: s})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d s, seed %d: height %d, %.1f s, %d chunks missed, the last at %d; %d moves", c.mute/second, seed, r.Final, float64(r.Time)/float64(second), r.Gaps, r.LastGap, r.Moves)
		if r.Violation != nil {
			t.Errorf("%d s, seed %d: %v\n%s", c.mute/second, seed, r.Violation, strings.Join(r.Tail, "\n"))
		}
		if r.LastGap+2*s.Epoch > c.blocks {
			t.Errorf("%d s, seed %d: chunks are missed up to %d, of %d blocks", c.mute/second, seed, r.LastGap, c.blocks)
		}
	}
}

// TestUpgradePassesEveryVersion: a chain that begins at protocol version 85 passes through every
// later version under faults, and universal accounts exist at the end, also where that is the first
// version.
func TestUpgradePassesEveryVersion(t *testing.T) {
	for _, name := range []string{"upgrade", "universal"} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds(2) {
				s, err := ScenarioOf(name, seed)
				if err != nil {
					t.Fatal(err)
				}
				r, err := Run(Options{Seed: seed, Scenario: s})
				if err != nil {
					t.Fatal(err)
				}
				if r.Violation != nil {
					t.Fatalf("seed %d: %v\n%s", seed, r.Violation, strings.Join(r.Tail, "\n"))
				}
				t.Logf("seed %d: final %d, %.1f s, versions %v, %d universal accounts, %d outcomes, %d crashes",
					seed, r.Final, float64(r.Time)/float64(second), r.Versions, r.Universal, r.Receipts, r.Crashes)
				newest := parameters.Newest(primitives.NumberingRelease)
				first := newest
				if s.Upgrades {
					first = 85
				}
				var want []primitives.ProtocolVersion
				for v := first; v <= newest; v++ {
					want = append(want, v)
				}
				if !slices.Equal(r.Versions, want) || r.Universal == 0 {
					t.Errorf("seed %d: versions %v, want %v; %d universal accounts, want some", seed, r.Versions, want, r.Universal)
				}
			}
		})
	}
}

// TestOptimisticBlocksHastenEndorsements: if applying a block takes a large part of the block
// interval, chunks are endorsed earlier with optimistic blocks, by most of the time of applying. The
// nodes use all early results. It holds for nodes that get all bodies before the block, and for
// nodes that track only the shards for which they produce chunks.
func TestOptimisticBlocksHastenEndorsements(t *testing.T) {
	for name, change := range map[string]func(*Scenario){
		"all shards": func(s *Scenario) { s.Each = s.Nodes },
		"own shards": func(s *Scenario) { s.Own, s.Each = true, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			run := func(without bool) *Result {
				s, _ := ScenarioOf("calm", 0)
				s.Blocks, s.Load, s.JobTime, s.Latency, s.NoOptimistic = 30, 60, 300*ms, [2]int64{5 * ms, 30 * ms}, without
				change(&s)
				r, err := Run(Options{Seed: 3, Scenario: s})
				if err != nil {
					t.Fatal(err)
				}
				if r.Violation != nil {
					t.Fatalf("%v\n%s", r.Violation, strings.Join(r.Tail, "\n"))
				}
				t.Logf("without %v: %d ms from block to endorsement, %+v, %d heights and %d chunks missed, %.1f s", without, r.ToEndorsement/ms, r.Early,
					r.Missed, r.Gaps, float64(r.Time)/float64(second))
				return r
			}
			with, without := run(false), run(true)
			if without.Early.Hits != 0 || with.Early.Hits < 10*with.Early.Misses {
				t.Errorf("early results: %+v; without optimistic blocks %+v", with.Early, without.Early)
			}
			if with.ToEndorsement > without.ToEndorsement-150*ms {
				t.Errorf("%d ms from block to endorsement, without optimistic blocks %d ms", with.ToEndorsement/ms, without.ToEndorsement/ms)
			}
		})
	}
}
