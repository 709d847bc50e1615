package epoch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// UnmarshalJSON reads [numerator, denominator].
func (r *Ratio) UnmarshalJSON(in []byte) error {
	var pair []int32
	if err := json.Unmarshal(in, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || pair[1] == 0 {
		return fmt.Errorf("want a numerator and a denominator that is not 0, got %s", in)
	}
	r.Num, r.Den = pair[0], pair[1]
	return nil
}

// MarshalJSON writes [numerator, denominator].
func (r Ratio) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "[%d,%d]", r.Num, r.Den), nil }

// jsonField is a member of a JSON object that must be present and not null.
type jsonField struct {
	name string
	dst  any
}

// readObject reads fields from a JSON object. readObject ignores members that are not in fields, as
// serde does.
func readObject(in []byte, fields []jsonField) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(in, &object); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for _, f := range fields {
		raw, ok := object[f.name]
		if !ok {
			return nil, fmt.Errorf("%w: missing field `%s`", ErrConfig, f.name)
		}
		if bytes.Equal(raw, []byte("null")) {
			return nil, fmt.Errorf("%w: field `%s` is null", ErrConfig, f.name)
		}
		if err := json.Unmarshal(raw, f.dst); err != nil {
			return nil, fmt.Errorf("%w: field `%s`: %w", ErrConfig, f.name, err)
		}
	}
	return object, nil
}

// ParseConfig parses and checks an epoch config file: nearcore's JSON of EpochConfig, with either
// shard_layout or dynamic_resharding_config. Configs replaces the epoch length by the genesis's
// length. Errors: ErrConfig.
func ParseConfig(text []byte) (Config, error) {
	var c Config
	object, err := readObject(text, []jsonField{
		{"epoch_length", &c.EpochLength},
		{"num_block_producer_seats", &c.NumBlockProducerSeats},
		{"num_chunk_producer_seats", &c.NumChunkProducerSeats},
		{"num_chunk_validator_seats", &c.NumChunkValidatorSeats},
		{"target_validator_mandates_per_shard", &c.TargetValidatorMandatesPerShard},
		{"block_producer_kickout_threshold", &c.BlockProducerKickoutThreshold},
		{"chunk_producer_kickout_threshold", &c.ChunkProducerKickoutThreshold},
		{"chunk_validator_only_kickout_threshold", &c.ChunkValidatorOnlyKickoutThreshold},
		{"validator_max_kickout_stake_perc", &c.ValidatorMaxKickoutStakePerc},
		{"online_min_threshold", &c.OnlineMinThreshold},
		{"online_max_threshold", &c.OnlineMaxThreshold},
		{"fishermen_threshold", &c.FishermenThreshold},
		{"minimum_stake_divisor", &c.MinimumStakeDivisor},
		{"protocol_upgrade_stake_threshold", &c.ProtocolUpgradeStakeThreshold},
		{"minimum_validators_per_shard", &c.MinimumValidatorsPerShard},
		{"minimum_stake_ratio", &c.MinimumStakeRatio},
		{"chunk_producer_assignment_changes_limit", &c.ChunkProducerAssignmentChanges},
		{"shuffle_shard_assignment_for_chunk_producers", &c.ShuffleShardAssignment},
		{"max_inflation_rate", &c.MaxInflationRate},
	})
	if err != nil {
		return Config{}, err
	}
	if layout, ok := object["shard_layout"]; ok {
		if err := json.Unmarshal(layout, &c.ShardLayout); err != nil {
			return Config{}, fmt.Errorf("%w: field `shard_layout`: %w", ErrConfig, err)
		}
	} else if dynamic, ok := object["dynamic_resharding_config"]; ok {
		if c.Resharding, err = parseResharding(dynamic); err != nil {
			return Config{}, err
		}
	}
	return c, c.check()
}

func parseResharding(text []byte) (*DynamicResharding, error) {
	d := new(DynamicResharding)
	_, err := readObject(text, []jsonField{
		{"memory_usage_threshold", &d.MemoryUsageThreshold},
		{"min_child_memory_usage", &d.MinChildMemoryUsage},
		{"max_number_of_shards", &d.MaxNumberOfShards},
		{"min_epochs_between_resharding", &d.MinEpochsBetweenResharding},
		{"force_split_shards", &d.ForceSplitShards},
		{"block_split_shards", &d.BlockSplitShards},
	})
	if err != nil {
		return nil, fmt.Errorf("dynamic_resharding_config: %w", err)
	}
	return d, nil
}

var _ json.Unmarshaler = (*primitives.ShardLayout)(nil)
