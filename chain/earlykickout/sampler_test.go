package earlykickout

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func stakesOf(list ...uint64) func(uint64) primitives.Balance {
	return func(id uint64) primitives.Balance { return primitives.Yocto(list[id]) }
}

func seed(n uint64) [32]byte {
	return primitives.HashBytes(binary.LittleEndian.AppendUint64(nil, n))
}

// TestListedProducersAreNeverDrawn uses the example in NEP-652. Of the stakes 40, 30, 20 and 10,
// the second and third member are listed, so the others are drawn with 80 % and 20 %.
func TestListedProducersAreNeverDrawn(t *testing.T) {
	t.Parallel()
	s, err := NewSampler(ids(4), stakesOf(40, 30, 20, 10), []uint64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	const draws = 20_000
	var got [4]int
	for n := range uint64(draws) {
		got[s.Sample(seed(n))]++
	}
	if got[1]+got[2] != 0 {
		t.Errorf("listed producers were drawn: %v", got)
	}
	if share := got[0] * 1000 / draws; share < 790 || share > 810 {
		t.Errorf("drawn %v times: the first in %d ‰, want about 800", got, share)
	}
}

// TestSampleWithoutListIsCanonical: with an empty list the draw equals that of the whole settlement
// (near-primitives 0.38.0 src/epoch_info.rs sample_chunk_producer_excluding_empty_delegates).
func TestSampleWithoutListIsCanonical(t *testing.T) {
	t.Parallel()
	stakes := []uint64{1_000_000, 2_000_000, 3_000_000}
	settlement := []uint64{2, 0, 1, 0}
	var weights []primitives.Balance
	for _, id := range settlement {
		weights = append(weights, primitives.Yocto(stakes[id]))
	}
	table, err := primitives.NewStakeWeightedIndex(weights)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSampler(settlement, stakesOf(stakes...), nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(1000) {
		if got, want := s.Sample(seed(n)), settlement[table.Sample(seed(n))]; got != want {
			t.Fatalf("seed %d: drew %d, want %d", n, got, want)
		}
	}
}

// TestKeepOneLeavesOneProducer repeats nearcore's keep_one_leaves_sampler_nonempty.
func TestKeepOneLeavesOneProducer(t *testing.T) {
	t.Parallel()
	listed, _ := Protocol().Blacklist(ids(3), counters(Production{50, 1000}, Production{400, 1000}, Production{790, 1000}))
	s, err := NewSampler(ids(3), stakesOf(1_000_000, 1_000_000, 1_000_000), listed)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(50) {
		if got := s.Sample(seed(n)); got != 2 {
			t.Fatalf("seed %d: drew %d, want the survivor 2", n, got)
		}
	}
}

func TestSamplerWithoutStakeIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ settlement, listed []uint64 }{
		"all listed": {ids(2), []uint64{0, 1}}, "no member": {nil, nil}, "no stake left": {ids(3), []uint64{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewSampler(c.settlement, stakesOf(5, 5, 0), c.listed); !errors.Is(err, ErrAllListed) {
				t.Errorf("got %v, want ErrAllListed", err)
			}
		})
	}
}

// TestListChangesDrawOfOtherProducers: a list also changes which producer is drawn for seeds that
// select a member outside the list.
func TestListChangesDrawOfOtherProducers(t *testing.T) {
	t.Parallel()
	stakes := stakesOf(1_000_000, 2_000_000, 5_000_000)
	whole, err := NewSampler(ids(3), stakes, nil)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := NewSampler(ids(3), stakes, []uint64{0})
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for n := range uint64(1000) {
		if a, b := whole.Sample(seed(n)), rest.Sample(seed(n)); a != 0 && a != b {
			moved++
		}
	}
	if moved == 0 {
		t.Error("no slot of a producer that is not listed moved")
	}
	if got := Remaining([]uint64{2, 0, 1, 0}, []uint64{0}); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("remaining %v", got)
	}
}
