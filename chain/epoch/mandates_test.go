package epoch

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// stakes returns validators with names of the prefix and a number, and with these stakes.
func stakes(prefix string, amounts ...uint64) []primitives.ValidatorStake {
	var out []primitives.ValidatorStake
	for i, a := range amounts {
		out = append(out, primitives.ValidatorStake{
			AccountID: primitives.AccountID(fmt.Sprint(prefix, i)), PublicKey: primitives.ZeroED25519Key, Stake: primitives.Yocto(a),
		})
	}
	return out
}

func weights(pairs ...uint64) []WeightedValidator {
	var out []WeightedValidator
	for p := range slices.Chunk(pairs, 2) {
		out = append(out, WeightedValidator{p[0], primitives.Yocto(p[1])})
	}
	return out
}

func testMandates(t *testing.T, shards uint64) ValidatorMandates {
	t.Helper()
	m, err := newValidatorMandates(3, shards, stakes("account_", 30, 27, 9, 12, 35, 4, 6))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mandatesRng() *primitives.ChaChaRng {
	return primitives.NewChaCha8Rng(primitives.RngSeedFromUint64(42))
}

// TestMandatesMatchVectorA50: nearcore core/primitives/src/validator_mandates/mod.rs:340.
func TestMandatesMatchVectorA50(t *testing.T) {
	t.Parallel()
	got := testMandates(t, 4)
	want := ValidatorMandates{
		TargetPerShard: 3, NumShards: 4, StakePerMandate: primitives.Yocto(8),
		Mandates: []ValidatorID{0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 4},
		Partials: weights(0, 6, 1, 3, 2, 1, 3, 4, 4, 3, 5, 4, 6, 6),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("mandates = %+v, want %+v", got, want)
	}
}

// TestMandateShufflesVectorA51: the random shuffles that a sample uses (nearcore
// validator_mandates/mod.rs:375, 403, 534).
func TestMandateShufflesVectorA51(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shards        uint64
		first, second []int
		mandates      []ValidatorID
		partials      []WeightedValidator
	}{
		{3, []int{2, 1, 0}, []int{2, 1, 0}, []ValidatorID{0, 1, 4, 4, 3, 1, 4, 0, 0}, weights(3, 2, 4, 5, 1, 7, 2, 9, 5, 4, 6, 6)},
		{4, []int{0, 2, 1, 3}, []int{3, 2, 0, 1}, []ValidatorID{0, 0, 2, 1, 3, 4, 1, 1, 0, 4, 4, 4}, weights(5, 4, 3, 4, 0, 6, 2, 1, 1, 3, 4, 3, 6, 6)},
	} {
		m, rng := testMandates(t, c.shards), mandatesRng()
		first, second := slices.Sorted(slices.Values(c.first)), slices.Sorted(slices.Values(c.second))
		primitives.Shuffle(rng, first)
		primitives.Shuffle(rng, second)
		primitives.Shuffle(rng, m.Mandates)
		primitives.Shuffle(rng, m.Partials)
		got := fmt.Sprint(first, second, m.Mandates, m.Partials)
		if want := fmt.Sprint(c.first, c.second, c.mandates, c.partials); got != want {
			t.Errorf("%d shards: %s, want %s", c.shards, got, want)
		}
	}
}

func testSample(t *testing.T, shards uint64, want [][]WeightedValidator) {
	t.Helper()
	m := testMandates(t, shards)
	if got := m.sample(mandatesRng()); !reflect.DeepEqual(got, want) {
		t.Errorf("sample = %v, want %v", got, want)
	}
	if again := testMandates(t, shards); !reflect.DeepEqual(m, again) {
		t.Errorf("sampling changed the mandates to %v", m)
	}
}

// TestEvenMandatesVectorA52: pieces that are divided evenly among 3 shards, nearcore mod.rs:455.
func TestEvenMandatesVectorA52(t *testing.T) {
	t.Parallel()
	testSample(t, 3, [][]WeightedValidator{
		weights(1, 17, 4, 10, 6, 6, 0, 10), weights(4, 5, 5, 4, 0, 10, 1, 10, 3, 10), weights(0, 10, 2, 9, 4, 20, 3, 2),
	})
}

// TestUnevenMandatesVectorA53: pieces that cannot be divided evenly among 4 shards, nearcore
// mod.rs:488 (trap 7: row r goes to the r-th shard in the shuffled list).
func TestUnevenMandatesVectorA53(t *testing.T) {
	t.Parallel()
	testSample(t, 4, [][]WeightedValidator{
		weights(3, 8, 6, 6, 0, 22), weights(4, 8, 2, 9, 1, 8), weights(0, 8, 3, 4, 4, 19), weights(4, 8, 5, 4, 1, 19),
	})
}

// TestMandatePriceMatchesNearcore: nearcore compute_price.rs:118.
func TestMandatePriceMatchesNearcore(t *testing.T) {
	t.Parallel()
	equal := slices.Repeat([]uint64{11}, 13)
	step := slices.Concat(slices.Repeat([]uint64{55}, 6), slices.Repeat([]uint64{11}, 7))
	exp := []uint64{1_000_000_000}
	for len(exp) < 210 {
		exp = append(exp, exp[len(exp)-1]*97/100)
	}
	for _, c := range []struct {
		name           string
		target, shards uint64
		stakes         []uint64
		mandates       int
	}{
		{"more than stake", 1000, 1, []uint64{100}, 100},
		{"equal", 13, 1, equal, 13},
		{"equal, twice", 26, 1, equal, 26},
		{"equal, fewer", 12, 1, equal, 13},
		{"step", 13, 1, step, 18},
		{"step, twice", 26, 1, step, 37},
		{"step, half", 6, 1, step, 6},
		{"exponential", 68, 6, exp, 68 * 6},
		{"exponential, one each", 210, 1, exp, 210},
		{"exponential, half", 105, 1, exp, 105},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := newValidatorMandates(c.target, c.shards, stakes("a", c.stakes...))
			if err != nil || len(m.Mandates) != c.mandates {
				t.Errorf("%d mandates, %v, want %d", len(m.Mandates), err, c.mandates)
			}
		})
	}
	if _, err := newValidatorMandates(68, 1, nil); err == nil {
		t.Error("mandates of nobody: no error")
	}
}

func BenchmarkSampleChunkValidators(b *testing.B) {
	amounts := make([]uint64, 500)
	for i := range amounts {
		amounts[i] = 1 << 40 / uint64(i+1)
	}
	m, err := newValidatorMandates(105, 9, stakes("v", amounts...))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.sample(mandatesRng())
	}
}
