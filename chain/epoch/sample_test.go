package epoch

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// sampleBySorting is an earlier implementation of sample, which sorts and merges the pieces of each
// shard.
func sampleBySorting(m *ValidatorMandates, rng *primitives.ChaChaRng) [][]WeightedValidator {
	n := int(m.NumShards)
	shuffled := func() []int {
		s := make([]int, n)
		for i := range s {
			s[i] = i
		}
		primitives.Shuffle(rng, s)
		return s
	}
	forMandates, forPartials := shuffled(), shuffled()
	mandates, partials := slices.Clone(m.Mandates), slices.Clone(m.Partials)
	primitives.Shuffle(rng, mandates)
	primitives.Shuffle(rng, partials)
	pieces := make([][]WeightedValidator, n)
	for i, id := range mandates {
		s := forMandates[i%n]
		pieces[s] = append(pieces[s], WeightedValidator{id, m.StakePerMandate})
	}
	for i, p := range partials {
		s := forPartials[i%n]
		pieces[s] = append(pieces[s], p)
	}
	for s, list := range pieces {
		slices.SortFunc(list, func(a, b WeightedValidator) int { return cmp.Compare(a.ID, b.ID) })
		out := []WeightedValidator{}
		for _, p := range list {
			if last := len(out) - 1; last >= 0 && out[last].ID == p.ID {
				out[last].Weight = out[last].Weight.SaturatingAdd(p.Weight)
				continue
			}
			out = append(out, p)
		}
		primitives.Shuffle(rng, out)
		pieces[s] = out
	}
	return pieces
}

// TestSampleEqualsSortingImplementation: sample returns the same validators in the same order as
// sampleBySorting, and uses the same random numbers. This includes more shards than mandates,
// validators without mandates, and no mandates at all.
func TestSampleEqualsSortingImplementation(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for round := range 500 {
		m := ValidatorMandates{NumShards: 1 + uint64(random.IntN(12)), StakePerMandate: primitives.Yocto(1 + random.Uint64())}
		for id := range ValidatorID(random.IntN(40)) {
			for range random.IntN(8) {
				m.Mandates = append(m.Mandates, id)
			}
			if random.IntN(3) > 0 {
				m.Partials = append(m.Partials, WeightedValidator{id, primitives.Yocto(random.Uint64())})
			}
		}
		seed := primitives.HashBytes([]byte{byte(round), byte(round >> 8)})
		a, b := primitives.NewChaCha20Rng(seed), primitives.NewChaCha20Rng(seed)
		if got, want := m.sample(a), sampleBySorting(&m, b); !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: %d shards, %d mandates: %v, want %v", round, m.NumShards, len(m.Mandates), got, want)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("round %d: another number of random numbers is used", round)
		}
	}
}
