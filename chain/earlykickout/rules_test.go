package earlykickout

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// ids returns a settlement of the members 0 to n-1.
func ids(n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(i)
	}
	return out
}

// counters returns a function that returns the counters of an ID; zero for IDs beyond the list.
func counters(list ...Production) func(uint64) Production {
	return func(id uint64) Production {
		if id >= uint64(len(list)) {
			return Production{}
		}
		return list[id]
	}
}

// TestBlacklistMatchesNearcoreCases repeats nearcore's test cases (nearcore 2.14.0-rc.1
// chain/epoch-manager/src/tests/early_kickout.rs) under their names.
func TestBlacklistMatchesNearcoreCases(t *testing.T) {
	t.Parallel()
	good := Production{100, 100}
	const most = math.MaxUint64
	for _, c := range []struct {
		name       string
		settlement []uint64
		counters   []Production
		want       []uint64
	}{
		{"blacklist_below_threshold", ids(4), []Production{{0, 200}, good, good, good}, []uint64{0}},
		{"blacklist_exactly_at_threshold", ids(4), []Production{{400, 500}, {500, 500}, {500, 500}, {500, 500}}, nil},
		{"blacklist_under_min_misses", ids(4), []Production{{391, 490}, good, good, good}, nil},
		{"blacklist_at_min_misses_boundary", ids(4), []Production{{390, 490}, good, good, good}, []uint64{0}},
		{"blacklist_safety_valve_all_producers", ids(2), []Production{{0, 100}, {0, 100}}, []uint64{1}},
		{"blacklist_single_producer_shard", ids(1), []Production{{0, 100}}, nil},
		{"blacklist_ignores_endorsement_only_entries", ids(3), []Production{{0, 200}, good, good, {0, 1000}}, []uint64{0}},
		{"blacklist_valve_ignores_endorsement_only_entry", ids(2), []Production{{0, 100}, {0, 100}, {0, 0}}, []uint64{1}},
		{"blacklist_empty_when_healthy", ids(3), []Production{good, {96, 100}, good}, nil},
		{"keep_one_keeps_highest_ratio_holder", ids(3), []Production{{400, 1000}, {790, 1000}, {500, 1000}}, []uint64{0, 2}},
		{"keep_one_rotates: holding", ids(3), []Production{{790, 1000}, {500, 1000}, {400, 1000}}, []uint64{1, 2}},
		{"keep_one_rotates: dropped", ids(3), []Production{{100, 1000}, {500, 1000}, {400, 1000}}, []uint64{0, 2}},
		{"keep_one_never_keeps_worst", ids(3), []Production{{50, 1000}, {400, 1000}, {790, 1000}}, []uint64{0, 1}},
		{"keep_one_fewer_expected_tiebreak", ids(2), []Production{{800, 2000}, {400, 1000}}, []uint64{0}},
		{"blacklist_dedups_duplicate_settlement_entries", []uint64{0, 0, 1}, []Production{{0, 100}, {0, 100}}, []uint64{1}},
		{"blacklist_u128_arithmetic_no_overflow: ratio", ids(3), []Production{{most / 2, most}, good, good}, []uint64{0}},
		{"blacklist_u128_arithmetic_no_overflow: valve", ids(2), []Production{{most / 2, most}, {most / 4, most}}, []uint64{1}},
		{"more produced than expected", ids(2), []Production{{most, 0}, {0, 100}}, []uint64{1}},
		{"no member", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := func(id uint64) Production {
				if !slices.Contains(c.settlement, id) {
					t.Errorf("asked for the counters of %d, which is not in the settlement", id)
				}
				return counters(c.counters...)(id)
			}
			if got, _ := Protocol().Blacklist(c.settlement, asked); !slices.Equal(got, c.want) {
				t.Errorf("listed %v, want %v", got, c.want)
			}
		})
	}
}

func TestBlacklistMatchesExampleOfNEP652(t *testing.T) {
	t.Parallel()
	some := []Production{{450, 500}, {350, 500}, {390, 500}, {490, 500}}
	if got, n := Protocol().Blacklist(ids(4), counters(some...)); !slices.Equal(got, []uint64{1, 2}) || n != 2 {
		t.Errorf("listed %v, want the second and third", got)
	}
	all := []Production{{380, 500}, {350, 500}, {390, 500}, {350, 500}}
	if got, n := Protocol().Blacklist(ids(4), counters(all...)); !slices.Equal(got, []uint64{0, 1, 3}) || n != 4 {
		t.Errorf("listed %v, want all but the third", got)
	}
}

// TestMissesUntilListedMatchNEP652: a producer that has produced its first n chunks and then misses
// all others is listed after the given number of misses (NEP-652).
func TestMissesUntilListedMatchNEP652(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ perfect, misses uint64 }{{0, 100}, {400, 101}, {1000, 251}, {4000, 1001}} {
		p := Production{c.perfect, c.perfect}
		for p.Missed() < 10_000 && !Protocol().IsCandidate(p) {
			p.Expected++
		}
		if p.Missed() != c.misses {
			t.Errorf("after %d perfect turns listed with %d misses, want %d", c.perfect, p.Missed(), c.misses)
		}
	}
}

func TestGraceEndsAfterThousandBlocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		final, start primitives.Height
		want         bool
	}{
		{1000, 1, true}, {1001, 1, false}, {999, 0, true}, {1000, 0, false}, {5, 9, true},
		{math.MaxUint64, math.MaxUint64, true}, {math.MaxUint64, 0, false},
	} {
		if got := Protocol().InGrace(c.final, c.start); got != c.want {
			t.Errorf("final %d in an epoch from %d: in grace %v, want %v", c.final, c.start, got, c.want)
		}
	}
}

// TestIsAnchoredNeedsAnchorInEpoch checks IsAnchored for all combinations of its inputs.
func TestIsAnchoredNeedsAnchorInEpoch(t *testing.T) {
	t.Parallel()
	e, other := primitives.EpochID{1}, primitives.EpochID{2}
	for _, c := range []struct {
		name        string
		chunk       Chunk
		anchor      primitives.EpochID
		needs, want bool
	}{
		{"before 87", Chunk{false, true, e}, e, false, false},
		{"parent is genesis", Chunk{true, false, e}, e, false, false},
		{"anchor in the epoch before", Chunk{true, true, e}, other, true, false},
		{"anchor in the epoch", Chunk{true, true, e}, e, true, true},
		{"anchor is genesis, first epoch", Chunk{true, true, primitives.EpochID{}}, primitives.EpochID{}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.chunk.NeedsAnchor() != c.needs || c.chunk.IsAnchored(c.anchor) != c.want {
				t.Errorf("needs %v, anchored %v", c.chunk.NeedsAnchor(), c.chunk.IsAnchored(c.anchor))
			}
		})
	}
}

// TestBlacklistEqualsUnboundedArithmetic compares Blacklist with the same rule in unbounded
// integers, for small and large 64-bit counters.
func TestBlacklistEqualsUnboundedArithmetic(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 52))
	number := func() uint64 {
		switch rng.IntN(4) {
		case 0:
			return math.MaxUint64 - rng.Uint64N(3)
		case 1:
			return rng.Uint64()
		}
		return rng.Uint64N(600)
	}
	kept, empty := 0, 0
	for range 20_000 {
		settlement := make([]uint64, rng.IntN(6))
		for i := range settlement {
			settlement[i] = rng.Uint64N(5)
		}
		list := make([]Production, 5)
		for i := range list {
			list[i] = Production{number(), number()}
			if rng.IntN(3) == 0 { // some members have equal ratios
				list[i] = Production{rng.Uint64N(3) * 100, 300}
			}
		}
		want, wasKept := listedByBig(settlement, list)
		candidates := len(want)
		if wasKept {
			kept++
			candidates++
		}
		if len(want) == 0 {
			empty++
		}
		if got, n := Protocol().Blacklist(settlement, counters(list...)); !slices.Equal(got, want) || n != candidates {
			t.Fatalf("settlement %v, counters %v: listed %v of %d candidates, want %v of %d", settlement, list, got, n, want, candidates)
		}
	}
	if kept < 500 || empty < 500 {
		t.Errorf("keep-one in %d cases, an empty list in %d: the cases are too easy", kept, empty)
	}
}

func listedByBig(settlement []uint64, list []Production) (listed []uint64, kept bool) {
	product := func(a, b uint64) *big.Int {
		return new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
	}
	all := true
	for id := range uint64(5) {
		if !slices.Contains(settlement, id) {
			continue
		}
		p := list[id]
		missed := new(big.Int).Sub(new(big.Int).SetUint64(p.Expected), new(big.Int).SetUint64(p.Produced))
		if missed.Cmp(big.NewInt(100)) < 0 || product(p.Produced, 100).Cmp(product(p.Expected, 80)) >= 0 {
			all = false
			continue
		}
		listed = append(listed, id)
	}
	if !all || len(listed) == 0 {
		return listed, false
	}
	best := slices.MaxFunc(listed, func(a, b uint64) int {
		pa, pb := list[a], list[b]
		if c := product(pa.Produced, pb.Expected).Cmp(product(pb.Produced, pa.Expected)); c != 0 {
			return c
		}
		if pa.Expected != pb.Expected {
			if pa.Expected < pb.Expected {
				return 1
			}
			return -1
		}
		return int(b) - int(a)
	})
	return slices.DeleteFunc(listed, func(id uint64) bool { return id == best }), true
}
