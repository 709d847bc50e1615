package epoch

import "github.com/troupe-chain/troupe/primitives"

// builtinConfigs returns the configs of a public network for the protocol versions 29 (the
// genesis), 81 (the last static layout) and 85. No other configs below 85 are needed, because no
// blocks of these versions are executed. All static layouts are needed: the first dynamic split's
// layout contains the whole history of splits. Values: nearcore core/primitives/res/epoch_configs.
func builtinConfigs(chainID string) ([]versionedConfig, []versionedLayout) {
	layouts := builtinLayouts()
	genesis := Config{
		NumBlockProducerSeats:              100,
		NumChunkProducerSeats:              100,
		NumChunkValidatorSeats:             300,
		TargetValidatorMandatesPerShard:    68,
		BlockProducerKickoutThreshold:      90,
		ChunkProducerKickoutThreshold:      90,
		ChunkValidatorOnlyKickoutThreshold: 80,
		ValidatorMaxKickoutStakePerc:       100,
		OnlineMinThreshold:                 Ratio{90, 100},
		OnlineMaxThreshold:                 Ratio{99, 100},
		FishermenThreshold:                 primitives.MaxBalance,
		MinimumStakeDivisor:                10,
		ProtocolUpgradeStakeThreshold:      Ratio{4, 5},
		ShardLayout:                        layouts[0].layout,
		MinimumValidatorsPerShard:          1,
		MinimumStakeRatio:                  Ratio{1, 6250},
		ChunkProducerAssignmentChanges:     5,
		MaxInflationRate:                   Ratio{1, 20},
	}
	static := genesis
	static.NumChunkValidatorSeats = 500
	static.TargetValidatorMandatesPerShard = 105
	static.BlockProducerKickoutThreshold = 80
	static.ChunkProducerKickoutThreshold = 80
	static.ChunkValidatorOnlyKickoutThreshold = 70
	static.ValidatorMaxKickoutStakePerc = 30
	static.ShardLayout = layouts[len(layouts)-1].layout
	static.MinimumStakeRatio = Ratio{1, 62500}
	static.MaxInflationRate = Ratio{1, 40}
	if chainID == testnet {
		genesis.NumBlockProducerSeats, genesis.BlockProducerKickoutThreshold = 200, 80
		static.NumBlockProducerSeats, static.NumChunkProducerSeats = 20, 20
	}
	dynamic := static
	dynamic.ShardLayout = primitives.ShardLayout{}
	dynamic.Resharding = &DynamicResharding{
		MemoryUsageThreshold:       40_000_000_000,
		MinChildMemoryUsage:        10_000_000_000,
		MaxNumberOfShards:          10,
		MinEpochsBetweenResharding: 2,
		ForceSplitShards:           []primitives.ShardID{},
		BlockSplitShards:           []primitives.ShardID{},
	}
	return []versionedConfig{{29, genesis}, {81, static}, {85, dynamic}}, layouts
}

// builtinLayouts returns the static layouts of both public networks: one shard, five shards, and
// one layout for each further split. Layouts of version 2 or less are not part of the history of
// splits. builtinLayouts returns them only for the genesis.
func builtinLayouts() []versionedLayout {
	five, err := primitives.NewShardLayoutV1(
		[]primitives.AccountID{"aurora", "aurora-0", "game.hot.tg", "kkuuue2akv_1630967379.near", "tge-lockup.sweat"},
		[][]primitives.ShardID{{0}, {1}, {2, 3}, {4}, {5}}, 3)
	if err != nil {
		panic(err) // the input is constant
	}
	out := []versionedLayout{{29, primitives.NewShardLayoutV0(1, 0)}, {65, five}}
	for _, split := range []struct {
		since    primitives.ProtocolVersion
		boundary primitives.AccountID
	}{{75, "game.hot.tg-0"}, {76, "earn.kaiching"}, {78, "650"}} {
		next, err := out[len(out)-1].layout.DeriveV2(split.boundary)
		if err != nil {
			panic(err) // the input is constant
		}
		out = append(out, versionedLayout{split.since, next})
	}
	return out
}
