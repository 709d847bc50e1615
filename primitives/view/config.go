package view

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Ratio is a rational number, [num, den] in JSON.
type Ratio struct{ Num, Den int32 }

// JSONAppender appends its own JSON, keys ascending: RuntimeConfig of package runtime/parameters.
type JSONAppender interface{ AppendJSON([]byte) []byte }

// ProtocolConfig is the reply of EXPERIMENTAL_protocol_config (nearcore
// core/chain-configs/src/genesis_config.rs ProtocolConfigView). Most values are from the block's
// epoch, the remaining values from the genesis.
type ProtocolConfig struct {
	ProtocolVersion               primitives.ProtocolVersion
	GenesisTime                   uint64 // ns since 1970
	ChainID                       string
	GenesisHeight                 primitives.Height
	NumBlockProducerSeats         uint64
	DynamicResharding             bool
	ProtocolUpgradeStakeThreshold Ratio
	EpochLength                   uint64
	GasLimit                      primitives.Gas
	MinGasPrice                   primitives.Balance
	MaxGasPrice                   primitives.Balance
	BlockProducerKickoutThreshold uint64
	ChunkProducerKickoutThreshold uint64
	ChunkValidatorOnlyKickout     uint64
	TargetValidatorMandates       uint64 // target number of mandates per shard
	OnlineMinThreshold            Ratio
	OnlineMaxThreshold            Ratio
	GasPriceAdjustmentRate        Ratio
	RuntimeConfig                 JSONAppender
	TransactionValidityPeriod     uint64
	ProtocolRewardRate            Ratio
	MaxInflationRate              Ratio
	NumBlocksPerYear              uint64
	ProtocolTreasuryAccount       primitives.AccountID
	FishermenThreshold            primitives.Balance
	MinimumStakeDivisor           uint64
	MaxKickoutStakePercent        uint64
	MinimumStakeRatio             Ratio
	MinimumValidatorsPerShard     uint64
	ShuffleShardAssignment        bool // the assignment of chunk producers to shards is shuffled
	ShardLayout                   primitives.ShardLayout
}

// AppendProtocolConfig appends the reply of EXPERIMENTAL_protocol_config.
func AppendProtocolConfig(b []byte, c *ProtocolConfig) []byte {
	b = appendUint(append(b, `{"block_producer_kickout_threshold":`...), c.BlockProducerKickoutThreshold)
	b = AppendString(append(b, `,"chain_id":`...), c.ChainID)
	b = appendUint(append(b, `,"chunk_producer_kickout_threshold":`...), c.ChunkProducerKickoutThreshold)
	b = appendUint(append(b, `,"chunk_validator_only_kickout_threshold":`...), c.ChunkValidatorOnlyKickout)
	b = appendBool(append(b, `,"dynamic_resharding":`...), c.DynamicResharding)
	b = appendUint(append(b, `,"epoch_length":`...), c.EpochLength)
	b = AppendBalance(append(b, `,"fishermen_threshold":`...), c.FishermenThreshold)
	b = appendUint(append(b, `,"gas_limit":`...), c.GasLimit)
	b = appendRatio(append(b, `,"gas_price_adjustment_rate":`...), c.GasPriceAdjustmentRate)
	b = appendUint(append(b, `,"genesis_height":`...), c.GenesisHeight)
	b = AppendGenesisTime(append(b, `,"genesis_time":`...), c.GenesisTime)
	b = AppendBalance(append(b, `,"max_gas_price":`...), c.MaxGasPrice)
	b = appendRatio(append(b, `,"max_inflation_rate":`...), c.MaxInflationRate)
	b = appendUint(append(b, `,"max_kickout_stake_perc":`...), c.MaxKickoutStakePercent)
	b = AppendBalance(append(b, `,"min_gas_price":`...), c.MinGasPrice)
	b = appendUint(append(b, `,"minimum_stake_divisor":`...), c.MinimumStakeDivisor)
	b = appendRatio(append(b, `,"minimum_stake_ratio":`...), c.MinimumStakeRatio)
	b = appendUint(append(b, `,"minimum_validators_per_shard":`...), c.MinimumValidatorsPerShard)
	b = appendUint(append(b, `,"num_block_producer_seats":`...), c.NumBlockProducerSeats)
	b = appendUint(append(b, `,"num_blocks_per_year":`...), c.NumBlocksPerYear)
	b = appendRatio(append(b, `,"online_max_threshold":`...), c.OnlineMaxThreshold)
	b = appendRatio(append(b, `,"online_min_threshold":`...), c.OnlineMinThreshold)
	b = appendRatio(append(b, `,"protocol_reward_rate":`...), c.ProtocolRewardRate)
	b = AppendAccountID(append(b, `,"protocol_treasury_account":`...), c.ProtocolTreasuryAccount)
	b = appendRatio(append(b, `,"protocol_upgrade_stake_threshold":`...), c.ProtocolUpgradeStakeThreshold)
	b = appendUint(append(b, `,"protocol_version":`...), c.ProtocolVersion)
	b = c.RuntimeConfig.AppendJSON(append(b, `,"runtime_config":`...))
	b = appendShardLayout(append(b, `,"shard_layout":`...), c.ShardLayout)
	b = appendBool(append(b, `,"shuffle_shard_assignment_for_chunk_producers":`...), c.ShuffleShardAssignment)
	b = appendUint(append(b, `,"target_validator_mandates_per_shard":`...), c.TargetValidatorMandates)
	return append(appendUint(append(b, `,"transaction_validity_period":`...), c.TransactionValidityPeriod), '}')
}

func appendRatio(b []byte, r Ratio) []byte {
	b = appendInt32(append(b, '['), r.Num)
	return append(appendInt32(append(b, ','), r.Den), ']')
}

func appendInt32(b []byte, v int32) []byte {
	if v < 0 {
		return appendUint(append(b, '-'), uint64(-int64(v)))
	}
	return appendUint(b, uint64(v))
}

func appendShardLayout(b []byte, l primitives.ShardLayout) []byte {
	text, err := l.MarshalJSON()
	if err != nil {
		panic("view: a shard layout does not marshal: " + err.Error())
	}
	return AppendSorted(b, text)
}

// AppendSorted appends valid JSON with the keys of every object in ascending order and without
// blanks. Numbers and strings keep their text. AppendSorted is for texts that are already JSON,
// such as genesis_config; the encoders here sort by construction.
func AppendSorted(b []byte, text json.RawMessage) []byte {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return b
	}
	switch text[0] {
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil {
			return append(b, text...)
		}
		keys := make([]string, 0, len(object))
		for k := range object { // in random order; the keys are sorted below
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendSorted(append(AppendString(b, k), ':'), object[k])
		}
		return append(b, '}')
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(text, &list) != nil {
			return append(b, text...)
		}
		return appendList(b, list, func(b []byte, x *json.RawMessage) []byte { return AppendSorted(b, *x) })
	}
	return append(b, text...)
}
