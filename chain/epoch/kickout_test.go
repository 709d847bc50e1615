package epoch

import (
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// work returns statistics from pairs of produced and expected: blocks, chunks, endorsements.
// Missing pairs are 0 of 0.
func work(n ...uint64) ValidatorStats {
	n = append(n, 0, 0, 0, 0, 0, 0)
	return ValidatorStats{Stats{n[0], n[1]}, ChunkStats{Stats{n[2], n[3]}, Stats{n[4], n[5]}}}
}

func produced(k KickoutKind, made, expected uint64) KickoutReason {
	return KickoutReason{Kind: k, Produced: made, Expected: expected}
}

// TestKickoutsMatchNearcoreCases repeats the cases of nearcore
// chain/epoch-manager/src/tests/mod.rs:2515-3190.
func TestKickoutsMatchNearcoreCases(t *testing.T) {
	t.Parallel()
	unstaked3 := AccountMap[KickoutReason]{{"test3", KickoutReason{Kind: Unstaked}}}
	slowAll := []ValidatorStats{work(50, 100, 0, 100), work(70, 100, 0, 100), work(70, 100, 100, 100), work(), work(0, 0, 50, 100)}
	endorsers := []ValidatorStats{
		work(90, 100, 180, 200), work(90, 100, 90, 100), work(90, 100, 90, 100), work(), work(0, 0, 0, 0, 20, 200), work(0, 0, 0, 0, 180, 200),
	}
	for _, c := range []struct {
		name                    string
		blocks, chunks, endorse uint8
		maxPerc                 uint8
		stakes                  []uint64
		stats                   []ValidatorStats
		prev, want              AccountMap[KickoutReason]
	}{
		{
			"thresholds", 90, 80, 90, 100,
			[]uint64{1000, 1000, 1000, 1000, 500, 500},
			[]ValidatorStats{
				work(100, 100, 170, 200), work(90, 100, 161, 200, 1, 200), work(100, 100, 70, 100), work(89, 100, 100, 100),
				work(0, 0, 0, 0, 89, 100), work(0, 0, 0, 0, 91, 100),
			},
			nil,
			AccountMap[KickoutReason]{
				{"test2", produced(NotEnoughChunks, 70, 100)}, {"test3", produced(NotEnoughBlocks, 89, 100)},
				{"test4", produced(NotEnoughChunkEndorsements, 89, 100)},
			},
		},
		{
			"the lower endorsement ratio", 90, 90, 70, 30,
			[]uint64{1000, 1000, 500, 500},
			[]ValidatorStats{work(100, 100, 200, 200), work(100, 100, 200, 200), work(0, 0, 0, 0, 65, 100), work(0, 0, 0, 0, 60, 100)},
			nil, AccountMap[KickoutReason]{{"test3", produced(NotEnoughChunkEndorsements, 60, 100)}},
		},
		{
			"the lower stake", 90, 90, 70, 30,
			[]uint64{1000, 1000, 500, 499},
			[]ValidatorStats{work(100, 100, 200, 200), work(100, 100, 200, 200), work(0, 0, 0, 0, 65, 100), work(0, 0, 0, 0, 65, 100)},
			nil, AccountMap[KickoutReason]{{"test3", produced(NotEnoughChunkEndorsements, 65, 100)}},
		},
		{
			"the smaller account", 90, 90, 70, 30,
			[]uint64{1000, 1000, 500, 500},
			[]ValidatorStats{work(100, 100, 200, 200), work(100, 100, 200, 200), work(0, 0, 0, 0, 65, 100), work(0, 0, 0, 0, 65, 100)},
			nil, AccountMap[KickoutReason]{{"test2", produced(NotEnoughChunkEndorsements, 65, 100)}},
		},
		{
			"one is spared", 90, 80, 0, 100,
			[]uint64{1000, 1000, 1000, 1000, 1000}, slowAll, unstaked3,
			AccountMap[KickoutReason]{
				{"test0", produced(NotEnoughBlocks, 50, 100)}, {"test2", produced(NotEnoughBlocks, 70, 100)},
				{"test4", produced(NotEnoughChunks, 50, 100)},
			},
		},
		{
			"at most 40 % of the stake", 90, 80, 0, 40,
			[]uint64{1000, 1000, 1000, 1000, 1000}, slowAll, unstaked3,
			AccountMap[KickoutReason]{{"test0", produced(NotEnoughBlocks, 50, 100)}},
		},
		{
			"few endorsements", 80, 80, 80, 40,
			[]uint64{1000, 1000, 1000, 1000, 1000, 1000}, endorsers, unstaked3,
			AccountMap[KickoutReason]{{"test4", produced(NotEnoughChunkEndorsements, 20, 200)}},
		},
		{
			"producers may endorse little", 80, 80, 80, 40,
			[]uint64{1000, 1000, 1000},
			[]ValidatorStats{work(90, 100, 180, 200, 20, 200), work(90, 100, 180, 200, 20, 200), work(90, 100, 180, 200, 20, 200)},
			nil, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := &Config{
				BlockProducerKickoutThreshold: c.blocks, ChunkProducerKickoutThreshold: c.chunks,
				ChunkValidatorOnlyKickoutThreshold: c.endorse, ValidatorMaxKickoutStakePerc: c.maxPerc,
			}
			got, err := kickForPerformance(config, &EpochInfo{Validators: stakes("test", c.stakes...)}, c.stats, c.prev)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// rewardOf computes rewards with the settings of nearcore's tests: year and epoch last 1000 s, the
// supply is 10^9, the inflation 1 %.
func rewardOf(t *testing.T, cutoff int, stats ...ValidatorStats) (map[primitives.AccountID]string, string) {
	t.Helper()
	var amounts []uint64
	for range stats {
		amounts = append(amounts, 500_000)
	}
	rc := RewardCalculator{Ratio{0, 10}, "near", 1000}
	rewards, minted, err := rc.calculate(&rewardInput{
		info: &EpochInfo{Validators: stakes("test", amounts...)}, stats: stats, excluded: make([]bool, len(stats)),
		totalSupply: primitives.Yocto(1_000_000_000), duration: 1000 * nanosPerSecond,
		onlineMin: Ratio{9, 10}, onlineMax: Ratio{99, 100}, cutoff: cutoff, inflation: Ratio{1, 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[primitives.AccountID]string{}
	for _, r := range rewards {
		out[r.Account] = r.Value.String()
	}
	return out, minted.String()
}

func checkReward(t *testing.T, cutoff int, stats []ValidatorStats, minted string, each ...string) {
	t.Helper()
	got, total := rewardOf(t, cutoff, stats...)
	want := map[primitives.AccountID]string{"near": "0"}
	for i, e := range each {
		want[primitives.AccountID("test"+string(rune('0'+i)))] = e
	}
	if !reflect.DeepEqual(got, want) || total != minted {
		t.Errorf("rewards %v, minted %s, want %v, %s", got, total, want, minted)
	}
}

// TestRewardsMatchVectorA57: nearcore reward_calculator.rs:216.
func TestRewardsMatchVectorA57(t *testing.T) {
	t.Parallel()
	checkReward(t, -1, []ValidatorStats{work(945, 1000, 945, 1000), work(999, 1000, 999, 1000), work(850, 1000, 850, 1000)},
		"4999999", "1666666", "3333333", "0")
}

// TestRewardOfOneKindOfWork repeats nearcore's reward_calculator.rs:281, 368: validators that have
// worked in only one or two kinds.
func TestRewardOfOneKindOfWork(t *testing.T) {
	t.Parallel()
	checkReward(t, -1, []ValidatorStats{work(945, 1000, 945, 1000), work(0, 0, 999, 1000), work(945, 1000), work()},
		"5000000", "1250000", "2500000", "1250000", "0")
	checkReward(t, -1, []ValidatorStats{
		work(945, 1000, 944, 1000, 946, 1000), work(0, 0, 998, 1000, 1000, 1000), work(940, 1000, 0, 0, 950, 1000), work(0, 0, 0, 0, 1000, 1000),
	}, "7500000", "1250000", "2500000", "1250000", "2500000")
}

// TestEndorsementCutoffVectorA84: nearcore reward_calculator.rs:457.
func TestEndorsementCutoffVectorA84(t *testing.T) {
	t.Parallel()
	checkReward(t, 50, []ValidatorStats{
		work(945, 1000, 944, 1000, 946, 1000), work(945, 1000, 944, 1000, 446, 1000), work(0, 0, 0, 0, 946, 1000), work(0, 0, 0, 0, 446, 1000),
	}, "4250000", "1750000", "0", "2500000", "0")
}

// TestNetworkInflationVectorA85: nearcore reward_calculator.rs:591, with the built-in configs of
// both networks.
func TestNetworkInflationVectorA85(t *testing.T) {
	t.Parallel()
	for _, chain := range []string{mainnet, testnet} {
		g := &GenesisParams{
			ChainID: chain, ProtocolVersion: primitives.ProdGenesisProtocolVersion, ProtocolTreasuryAccount: "near",
			ProtocolRewardRate: Ratio{0, 1}, Epoch: Config{EpochLength: 1},
		}
		configs, err := NewConfigs(g, nil, 86)
		if err != nil {
			t.Fatal(err)
		}
		rc := newRewardCalculator(g)
		rc.SecondsPerYear = 1_000_000
		vs := stakes("test", 0)
		vs[0].Stake = primitives.NEAR(100)
		rewards, minted, err := rc.calculate(&rewardInput{
			info: &EpochInfo{Validators: vs}, stats: []ValidatorStats{work(1, 1)}, excluded: []bool{false},
			totalSupply: primitives.NEAR(1_000_000_000), duration: nanosPerSecond,
			onlineMin: Ratio{9, 10}, onlineMax: Ratio{99, 100}, cutoff: -1, inflation: configs.ForVersion(86).MaxInflationRate,
		})
		if err != nil || minted != primitives.NEAR(25) {
			t.Errorf("%s: minted %v, %v, want 25 N", chain, minted, err)
		}
		treasury, _ := rewards.Get("near")
		if want := primitives.MustParseBalance("2500000000000000000000000"); treasury != want {
			t.Errorf("%s: treasury %v, want %v", chain, treasury, want)
		}
	}
}

// TestTreasuryRewardIsListedOnce covers two special cases of the treasury. If all validators are
// excluded, its reward is listed although nothing is minted. If the treasury is a validator, only
// its validator reward is listed, while the minted amount includes both.
func TestTreasuryRewardIsListedOnce(t *testing.T) {
	t.Parallel()
	rc := RewardCalculator{Ratio{1, 10}, "test0", 1000}
	in := &rewardInput{
		info: &EpochInfo{Validators: stakes("test", 500)}, stats: []ValidatorStats{work(100, 100)}, excluded: []bool{false},
		totalSupply: primitives.Yocto(1_000_000), duration: 1000 * nanosPerSecond,
		onlineMin: Ratio{9, 10}, onlineMax: Ratio{99, 100}, cutoff: -1, inflation: Ratio{1, 100},
	}
	rewards, minted, err := rc.calculate(in)
	if v, _ := rewards.Get("test0"); err != nil || len(rewards) != 1 || v != primitives.Yocto(9000) || minted != primitives.Yocto(10_000) {
		t.Errorf("validating treasury: %v, minted %v, %v, want 9000, 10000", rewards, minted, err)
	}
	in.excluded[0] = true
	rewards, minted, err = rc.calculate(in)
	if v, _ := rewards.Get("test0"); err != nil || v != primitives.Yocto(1000) || !minted.IsZero() {
		t.Errorf("no validator left: %v, minted %v, %v, want 1000, 0", rewards, minted, err)
	}
}

func TestVersionNeedsFourFifthsOfStake(t *testing.T) {
	t.Parallel()
	info := &EpochInfo{Validators: stakes("a", 500, 301, 200, 1000), BlockProducers: []ValidatorID{0, 1, 2}}
	config := &Config{ProtocolUpgradeStakeThreshold: Ratio{4, 5}} // more than 800 of 1001
	for _, c := range []struct {
		votes []primitives.ProtocolVersion // 0: produced no block
		want  primitives.ProtocolVersion
	}{
		{[]primitives.ProtocolVersion{86, 86, 85}, 86},
		{[]primitives.ProtocolVersion{86, 85, 86}, 85},
		{[]primitives.ProtocolVersion{86, 0, 0}, 85},
		{[]primitives.ProtocolVersion{0, 0, 0}, 85},
		{[]primitives.ProtocolVersion{84, 84, 84}, 84}, // the version may be lower than the current one
	} {
		a := newAggregator(primitives.EpochID{}, info)
		for id, v := range c.votes {
			a.Votes[id], a.Voted[id] = v, v != 0
		}
		if got, err := voteOnVersion(config, 85, a.votes(info)); err != nil || got != c.want {
			t.Errorf("votes %v: %d, %v, want %d", c.votes, got, err, c.want)
		}
	}
}
