package epoch

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/primitives"
)

// Ratio is nearcore's Rational32. A Ratio is not reduced, so that the RPC returns the same numbers
// as the config file. Den is not 0.
type Ratio struct{ Num, Den int32 }

// valid returns whether r is usable as a proportion: not negative, with a positive denominator.
func (r Ratio) valid() bool { return r.Num >= 0 && r.Den > 0 }

// DynamicResharding contains the rules by which shards are split without a new release (nearcore
// core/primitives/src/epoch_manager.rs:22). Memory is measured in trie node costs, not in bytes.
type DynamicResharding struct {
	MemoryUsageThreshold       uint64
	MinChildMemoryUsage        uint64
	MaxNumberOfShards          uint64
	MinEpochsBetweenResharding uint64 // minimum number of epochs between two splits, at least 1
	ForceSplitShards           []primitives.ShardID
	BlockSplitShards           []primitives.ShardID
}

// Config contains the rules of an epoch. The rules depend on the epoch's protocol version (nearcore
// EpochConfig). Thresholds are percentages. Exactly one of ShardLayout and Resharding is set.
// Resharding means that the layout of epoch N+2 is determined at the end of epoch N.
type Config struct {
	EpochLength                        uint64 // number of blocks
	NumBlockProducerSeats              uint64
	NumChunkProducerSeats              uint64
	NumChunkValidatorSeats             uint64
	TargetValidatorMandatesPerShard    uint64
	BlockProducerKickoutThreshold      uint8
	ChunkProducerKickoutThreshold      uint8
	ChunkValidatorOnlyKickoutThreshold uint8
	ValidatorMaxKickoutStakePerc       uint8
	OnlineMinThreshold                 Ratio
	OnlineMaxThreshold                 Ratio
	FishermenThreshold                 primitives.Balance
	MinimumStakeDivisor                uint64
	ProtocolUpgradeStakeThreshold      Ratio
	ShardLayout                        primitives.ShardLayout // zero if the layout is dynamic
	Resharding                         *DynamicResharding
	MinimumValidatorsPerShard          uint64
	MinimumStakeRatio                  Ratio
	ChunkProducerAssignmentChanges     uint64 // chunk_producer_assignment_changes_limit
	ShuffleShardAssignment             bool   // shuffle_shard_assignment_for_chunk_producers
	MaxInflationRate                   Ratio
}

// check returns ErrConfig for values that would later cause a division by zero or an empty list.
func (c *Config) check() error {
	switch {
	case c.EpochLength == 0:
		return fmt.Errorf("%w: epoch_length is 0, must be at least 1", ErrConfig)
	case c.NumBlockProducerSeats == 0 || c.NumChunkProducerSeats == 0 || c.NumChunkValidatorSeats == 0:
		return fmt.Errorf(
			"%w: a number of validator seats (block producers, chunk producers or chunk validators) is 0, must be at least 1",
			ErrConfig,
		)
	case c.MinimumStakeDivisor == 0:
		return fmt.Errorf("%w: minimum_stake_divisor is 0, must be at least 1", ErrConfig)
	case c.MinimumValidatorsPerShard == 0:
		return fmt.Errorf("%w: minimum_validators_per_shard is 0, must be at least 1", ErrConfig)
	case !c.MinimumStakeRatio.valid() || c.MinimumStakeRatio.Num >= c.MinimumStakeRatio.Den:
		return fmt.Errorf("%w: minimum_stake_ratio is %v, must be a ratio below 1", ErrConfig, c.MinimumStakeRatio)
	case !c.OnlineMinThreshold.valid() || !c.OnlineMaxThreshold.valid() ||
		int64(c.OnlineMinThreshold.Num)*int64(c.OnlineMaxThreshold.Den) >= int64(c.OnlineMaxThreshold.Num)*int64(c.OnlineMinThreshold.Den):
		return fmt.Errorf("%w: online_min_threshold is %v, must be a ratio below online_max_threshold, which is %v",
			ErrConfig, c.OnlineMinThreshold, c.OnlineMaxThreshold)
	case !c.ProtocolUpgradeStakeThreshold.valid():
		return fmt.Errorf("%w: protocol_upgrade_stake_threshold is %v, must be a ratio with a denominator above 0", ErrConfig,
			c.ProtocolUpgradeStakeThreshold)
	case !c.MaxInflationRate.valid():
		return fmt.Errorf("%w: max_inflation_rate is %v, must be a ratio with a denominator above 0", ErrConfig, c.MaxInflationRate)
	case c.ShardLayout.IsZero() == (c.Resharding == nil):
		return fmt.Errorf("%w: exactly one of shard_layout and dynamic_resharding_config must be set", ErrConfig)
	case c.Resharding != nil && c.Resharding.MinEpochsBetweenResharding == 0:
		return fmt.Errorf("%w: min_epochs_between_resharding is 0, must be at least 1", ErrConfig)
	}
	return nil
}

// GenesisParams is the data of a genesis that epochs depend on.
type GenesisParams struct {
	ChainID                   string
	ProtocolVersion           primitives.ProtocolVersion
	Validators                []primitives.ValidatorStake // genesis validators in the order of the file
	ProtocolTreasuryAccount   primitives.AccountID
	ProtocolRewardRate        Ratio
	TransactionValidityPeriod uint64 // number of blocks; at most two epochs
	// EarlyKickout replaces the thresholds of protocol version 87 in tests. nil means the
	// protocol's thresholds.
	EarlyKickout *earlykickout.Thresholds
	// Epoch is the genesis in the form of an epoch config (nearcore genesis_config.rs:243).
	// ShardLayout is set and Resharding is nil.
	Epoch Config
}

// Ids of chains that have special configs.
const (
	mainnet         = "mainnet"
	testnet         = "testnet"
	testChainPrefix = "test-chain-"
)
