package epoch

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func proposalMap(vs []primitives.ValidatorStake) AccountMap[primitives.ValidatorStake] {
	var m AccountMap[primitives.ValidatorStake]
	for _, v := range vs {
		m.Set(v.AccountID, v)
	}
	return m
}

func named(amounts map[string]uint64) AccountMap[primitives.ValidatorStake] {
	var m AccountMap[primitives.ValidatorStake]
	for a, v := range amounts {
		id := primitives.AccountID(a)
		m.Set(id, primitives.ValidatorStake{AccountID: id, PublicKey: primitives.ZeroED25519Key, Stake: primitives.Yocto(v)})
	}
	return m
}

// selectionConfig returns the config of nearcore's create_epoch_config
// (validator_selection.rs:1099).
func selectionConfig(bp, cp, cv uint64, minRatio Ratio) *Config {
	return &Config{
		NumBlockProducerSeats: bp, NumChunkProducerSeats: cp, NumChunkValidatorSeats: cv, TargetValidatorMandatesPerShard: 68,
		MinimumValidatorsPerShard: 1, MinimumStakeRatio: minRatio, ChunkProducerAssignmentChanges: 5,
	}
}

var smallRatio = Ratio{160, 1_000_000}

func prevInfo(height uint64, vs ...primitives.ValidatorStake) *EpochInfo {
	e := &EpochInfo{EpochHeight: height, Validators: vs}
	for id, v := range vs {
		e.ValidatorIndex.Set(v.AccountID, ValidatorID(id))
	}
	return e
}

func mustSelect(t *testing.T, in *selectionInput) *EpochInfo {
	t.Helper()
	in.version = 86
	e, err := proposalsToEpochInfo(in)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestSelectionMatchesVectorA54: nearcore validator_selection.rs:434.
func TestSelectionMatchesVectorA54(t *testing.T) {
	t.Parallel()
	e := mustSelect(t, &selectionInput{
		config: selectionConfig(100, 100, 300, smallRatio), prev: prevInfo(7),
		proposals: named(map[string]uint64{"test1": 1000, "test2": 2000, "test3": 300}), layout: multiShard(t, 2),
	})
	if e.EpochHeight != 8 || !slices.Equal(e.BlockProducers, []ValidatorID{0, 1, 2}) {
		t.Errorf("height %d, block producers %v, want 8, [0 1 2]", e.EpochHeight, e.BlockProducers)
	}
	if e.Validators[0].AccountID != "test2" || e.Validators[2].AccountID != "test3" {
		t.Errorf("validators %v", e.Validators)
	}
	if want := [][]ValidatorID{{0, 2}, {1}}; !reflect.DeepEqual(e.ChunkProducers, want) {
		t.Errorf("chunk producers %v, want %v", e.ChunkProducers, want)
	}
}

// TestLowStakeKickoutVectorA55 repeats nearcore's validator_selection.rs:479: a validator with too
// little stake is kicked out, and the reason contains the seat price.
func TestLowStakeKickoutVectorA55(t *testing.T) {
	t.Parallel()
	amounts := map[string]uint64{}
	for i := uint64(2); i < 50; i++ {
		amounts[fmt.Sprint("test", i)] = 2000 + i
	}
	vs := stakes("test", 0, 1000, 1234)[1:]
	e := mustSelect(t, &selectionInput{
		config: selectionConfig(10, 40, 40, smallRatio), prev: prevInfo(3, vs...),
		proposals: named(amounts), layout: multiShard(t, 2),
	})
	want := AccountMap[KickoutReason]{
		{"test1", KickoutReason{Kind: NotEnoughStake, Stake: primitives.Yocto(1000), Threshold: primitives.Yocto(2011)}},
		{"test2", KickoutReason{Kind: NotEnoughStake, Stake: primitives.Yocto(2002), Threshold: primitives.Yocto(2011)}},
	}
	if !reflect.DeepEqual(e.ValidatorKickout, want) {
		t.Errorf("kickout %v, want %v", e.ValidatorKickout, want)
	}
	if len(e.BlockProducers) != 10 || len(slices.Concat(e.ChunkProducers...)) != 40 || e.Validators[0].Stake != primitives.Yocto(2049) {
		t.Errorf("%d block producers, chunk producers %v, most stake %v", len(e.BlockProducers), e.ChunkProducers, e.Validators[0])
	}
	if s, ok := e.StakeChange.Get("test1"); !ok || !s.IsZero() {
		t.Errorf("stake change of test1 = %v, %v, want 0, true", s, ok)
	}
}

// TestShardsExchangeShuffledLists repeats nearcore's validator_selection.rs:582: if the config says
// so, the shards exchange whole lists of producers.
func TestShardsExchangeShuffledLists(t *testing.T) {
	t.Parallel()
	amounts := map[string]uint64{}
	for i := uint64(2); i < 50; i++ {
		amounts[fmt.Sprint("test", i)] = 2000 + i
	}
	target := [][]ValidatorID{
		{0, 6, 12, 18, 24, 30, 36}, {1, 7, 13, 19, 25, 31, 37}, {2, 8, 14, 20, 26, 32, 38},
		{3, 9, 15, 21, 27, 33, 39}, {4, 10, 16, 22, 28, 34}, {5, 11, 17, 23, 29, 35},
	}
	for _, c := range []struct {
		seed    byte
		shuffle bool
		order   []int
	}{
		{1, false, []int{0, 1, 2, 3, 4, 5}}, {2, false, []int{0, 1, 2, 3, 4, 5}},
		{1, true, []int{4, 2, 1, 0, 5, 3}}, {2, true, []int{3, 1, 0, 2, 5, 4}},
	} {
		config := selectionConfig(10, 40, 40, smallRatio)
		config.ShuffleShardAssignment = c.shuffle
		in := &selectionInput{config: config, prev: prevInfo(3), proposals: named(amounts), layout: multiShard(t, 6)}
		for i := range in.seed {
			in.seed[i] = c.seed
		}
		var want [][]ValidatorID
		for _, i := range c.order {
			want = append(want, target[i])
		}
		if got := mustSelect(t, in).ChunkProducers; !reflect.DeepEqual(got, want) {
			t.Errorf("seed %d, shuffle %v: %v, want %v", c.seed, c.shuffle, got, want)
		}
	}
}

// TestChunkValidatorsMatchNearcore repeats nearcore's validator_selection.rs:869: mandates of all
// validators except test6.
func TestChunkValidatorsMatchNearcore(t *testing.T) {
	t.Parallel()
	e := mustSelect(t, &selectionInput{
		config: selectionConfig(8, 8, 8, Ratio{1, 10}), prev: prevInfo(7, stakes("test", 0, 0, 0)[1:]...),
		proposals: named(map[string]uint64{"test1": 1500, "test2": 1000, "test3": 1000, "test4": 260, "test5": 140, "test6": 50}),
		layout:    multiShard(t, 4),
	})
	want := [][]WeightedValidator{
		weights(2, 192, 0, 396, 1, 280), weights(1, 216, 2, 264, 0, 396), weights(0, 396, 2, 288, 1, 192), weights(2, 256, 1, 312, 0, 312),
	}
	for range 2 {
		if got := e.SampleChunkValidators(42); !reflect.DeepEqual(got, want) {
			t.Errorf("sample = %v, want %v", got, want)
		}
	}
}

// TestStakeOfSeatPriceIsEnough repeats nearcore's validator_selection.rs:908: a stake equal to the
// seat price is just enough for a seat.
func TestStakeOfSeatPriceIsEnough(t *testing.T) {
	t.Parallel()
	config := selectionConfig(100, 300, 300, Ratio{1, 10})
	amounts := map[string]uint64{"test1": 1000, "test2": 1000, "test3": 1000, "test4": 200, "test5": 100, "test6": 50}
	in := &selectionInput{
		config: config, prev: prevInfo(7, named(map[string]uint64{"test5": 100})[0].Value, named(map[string]uint64{"test6": 50})[0].Value),
		proposals: named(amounts), layout: primitives.SingleShardLayout(),
	}
	e := mustSelect(t, in)
	price := primitives.Yocto(334)
	if e.SeatPrice != price || len(e.Validators) != 3 || len(e.ValidatorKickout) != 2 || e.ValidatorKickout[0].Value.Threshold != price {
		t.Errorf("price %v, %d validators, kickout %v", e.SeatPrice, len(e.Validators), e.ValidatorKickout)
	}
	for stake, validators := range map[uint64]int{334: 4, 333: 3} {
		amounts["test7"] = stake
		in.prev, in.proposals = e, named(amounts)
		if got := len(mustSelect(t, in).Validators); got != validators {
			t.Errorf("with a proposal of %d: %d validators, want %d", stake, got, validators)
		}
	}
}

// TestKickoutsApplyBeforeProposals covers the order in which kickouts, proposals and rewards are
// applied (nearcore validator_selection.rs:290).
func TestKickoutsApplyBeforeProposals(t *testing.T) {
	t.Parallel()
	prev := prevInfo(7, stakes("test", 1000, 2000, 3000)...)
	prev.ValidatorKickout.Set("old", KickoutReason{Kind: ProtocolVersionTooOld, Version: 85, NetworkVersion: 86})
	prev.ValidatorKickout.Set("slow", KickoutReason{Kind: NotEnoughBlocks})
	reward := AccountMap[primitives.Balance]{{"new", primitives.Yocto(9)}, {"test1", primitives.Yocto(7)}, {"test2", primitives.Yocto(5)}}
	e := mustSelect(t, &selectionInput{
		config: selectionConfig(100, 100, 300, smallRatio), prev: prev, layout: primitives.SingleShardLayout(), reward: reward,
		proposals: named(map[string]uint64{"test0": 9000, "test1": 500, "old": 4000, "new": 700, "slow": 600, "gone": 800}),
		kickout:   AccountMap[KickoutReason]{{"gone", KickoutReason{Kind: Unstaked}}, {"test0", KickoutReason{Kind: NotEnoughBlocks}}},
	})
	var got []string
	for _, v := range e.Validators {
		got = append(got, fmt.Sprint(v.AccountID, "=", v.Stake))
	}
	// A new validator gets no reward. The proposal of test1 replaces its stake, and its reward is
	// added.
	if want := []string{"test2=3005", "new=700", "slow=600", "test1=507"}; !slices.Equal(got, want) {
		t.Errorf("validators %v, want %v", got, want)
	}
	want := AccountMap[primitives.Balance]{
		{"gone", primitives.Yocto(0)}, {"new", primitives.Yocto(700)}, {"slow", primitives.Yocto(600)},
		{"test0", primitives.Yocto(0)}, {"test1", primitives.Yocto(507)}, {"test2", primitives.Yocto(3005)},
	}
	if !reflect.DeepEqual(e.StakeChange, want) {
		t.Errorf("stake change %v, want %v", e.StakeChange, want)
	}
}

func TestTooFewValidatorsIsAnError(t *testing.T) {
	t.Parallel()
	config := selectionConfig(100, 100, 300, smallRatio)
	config.MinimumValidatorsPerShard = 2
	_, err := proposalsToEpochInfo(&selectionInput{
		config: config, prev: prevInfo(7), proposals: named(map[string]uint64{"test1": 1000}), layout: primitives.SingleShardLayout(), version: 86,
	})
	if !errors.Is(err, ErrNotEnoughValidators) {
		t.Errorf("one validator where two are needed: %v, want ErrNotEnoughValidators", err)
	}
}

func multiShard(t *testing.T, n int) primitives.ShardLayout {
	t.Helper()
	l, err := primitives.MultiShardLayout(n)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
