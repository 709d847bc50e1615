package genesis

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Config is genesis.json without the records (nearcore GenesisConfig). Field names and their order
// are nearcore's.
type Config struct {
	ProtocolVersion                    primitives.ProtocolVersion
	GenesisTime                        Time
	ChainID                            string
	GenesisHeight                      primitives.Height
	NumBlockProducerSeats              uint64
	DynamicResharding                  bool // kept, not used
	ProtocolUpgradeStakeThreshold      Ratio
	EpochLength                        uint64 // blocks
	GasLimit                           primitives.Gas
	MinGasPrice                        primitives.Balance
	MaxGasPrice                        primitives.Balance
	BlockProducerKickoutThreshold      uint8 // percent
	ChunkProducerKickoutThreshold      uint8 // percent
	ChunkValidatorOnlyKickoutThreshold uint8 // percent
	TargetValidatorMandatesPerShard    uint64
	OnlineMinThreshold                 Ratio
	OnlineMaxThreshold                 Ratio
	GasPriceAdjustmentRate             Ratio
	Validators                         []Validator
	TransactionValidityPeriod          uint64 // blocks
	ProtocolRewardRate                 Ratio
	MaxInflationRate                   Ratio
	TotalSupply                        primitives.Balance
	NumBlocksPerYear                   uint64
	ProtocolTreasuryAccount            primitives.AccountID
	FishermenThreshold                 primitives.Balance
	MinimumStakeDivisor                uint64
	ShardLayout                        primitives.ShardLayout
	MinimumValidatorsPerShard          uint64
	MaxKickoutStakePerc                uint8 // percent
	MinimumStakeRatio                  Ratio
	ShuffleShardAssignment             bool
	UseProductionConfig                bool
	NumChunkProducerSeats              uint64
	NumChunkValidatorSeats             uint64
	ChunkProducerAssignmentLimit       uint64 // changes per epoch
}

// Validator is one of the first validators; Amount is its stake (nearcore AccountInfo).
type Validator struct {
	AccountID primitives.AccountID
	PublicKey primitives.PublicKey
	Amount    primitives.Balance
}

// configField ties a JSON name to its field. def sets the default of a field that may be missing;
// nil: it is required.
type configField struct {
	name string
	at   func(*Config) any
	def  func(*Config)
}

var configFields = []configField{
	{"protocol_version", func(c *Config) any { return &c.ProtocolVersion }, nil},
	{"genesis_time", func(c *Config) any { return &c.GenesisTime }, nil},
	{"chain_id", func(c *Config) any { return &c.ChainID }, nil},
	{"genesis_height", func(c *Config) any { return &c.GenesisHeight }, nil},
	{"num_block_producer_seats", func(c *Config) any { return &c.NumBlockProducerSeats }, nil},
	{"dynamic_resharding", func(c *Config) any { return &c.DynamicResharding }, nil},
	{"protocol_upgrade_stake_threshold", func(c *Config) any { return &c.ProtocolUpgradeStakeThreshold },
		func(c *Config) { c.ProtocolUpgradeStakeThreshold = Ratio{4, 5} }},
	{"epoch_length", func(c *Config) any { return &c.EpochLength }, nil},
	{"gas_limit", func(c *Config) any { return &c.GasLimit }, nil},
	{"min_gas_price", func(c *Config) any { return &c.MinGasPrice }, nil},
	{"max_gas_price", func(c *Config) any { return &c.MaxGasPrice }, nil},
	{"block_producer_kickout_threshold", func(c *Config) any { return &c.BlockProducerKickoutThreshold }, nil},
	{"chunk_producer_kickout_threshold", func(c *Config) any { return &c.ChunkProducerKickoutThreshold }, nil},
	{"chunk_validator_only_kickout_threshold", func(c *Config) any { return &c.ChunkValidatorOnlyKickoutThreshold },
		func(c *Config) { c.ChunkValidatorOnlyKickoutThreshold = 80 }},
	{"target_validator_mandates_per_shard", func(c *Config) any { return &c.TargetValidatorMandatesPerShard },
		func(c *Config) { c.TargetValidatorMandatesPerShard = 68 }},
	{"online_min_threshold", func(c *Config) any { return &c.OnlineMinThreshold },
		func(c *Config) { c.OnlineMinThreshold = NewRatio(90, 100) }},
	{"online_max_threshold", func(c *Config) any { return &c.OnlineMaxThreshold },
		func(c *Config) { c.OnlineMaxThreshold = NewRatio(99, 100) }},
	{"gas_price_adjustment_rate", func(c *Config) any { return &c.GasPriceAdjustmentRate }, nil},
	{"validators", func(c *Config) any { return &c.Validators }, nil},
	{"transaction_validity_period", func(c *Config) any { return &c.TransactionValidityPeriod }, nil},
	{"protocol_reward_rate", func(c *Config) any { return &c.ProtocolRewardRate }, nil},
	{"max_inflation_rate", func(c *Config) any { return &c.MaxInflationRate }, nil},
	{"total_supply", func(c *Config) any { return &c.TotalSupply }, nil},
	{"num_blocks_per_year", func(c *Config) any { return &c.NumBlocksPerYear }, nil},
	{"protocol_treasury_account", func(c *Config) any { return &c.ProtocolTreasuryAccount }, nil},
	{"fishermen_threshold", func(c *Config) any { return &c.FishermenThreshold }, nil},
	{"minimum_stake_divisor", func(c *Config) any { return &c.MinimumStakeDivisor },
		func(c *Config) { c.MinimumStakeDivisor = 10 }},
	{"shard_layout", func(c *Config) any { return &c.ShardLayout },
		func(c *Config) { c.ShardLayout = primitives.SingleShardLayout() }},
	{"minimum_validators_per_shard", func(c *Config) any { return &c.MinimumValidatorsPerShard },
		func(c *Config) { c.MinimumValidatorsPerShard = 1 }},
	{"max_kickout_stake_perc", func(c *Config) any { return &c.MaxKickoutStakePerc },
		func(c *Config) { c.MaxKickoutStakePerc = 100 }},
	{"minimum_stake_ratio", func(c *Config) any { return &c.MinimumStakeRatio },
		func(c *Config) { c.MinimumStakeRatio = NewRatio(160, 1_000_000) }},
	{"shuffle_shard_assignment_for_chunk_producers", func(c *Config) any { return &c.ShuffleShardAssignment }, func(*Config) {}},
	{"use_production_config", func(c *Config) any { return &c.UseProductionConfig }, func(*Config) {}},
	{"num_chunk_producer_seats", func(c *Config) any { return &c.NumChunkProducerSeats },
		func(c *Config) { c.NumChunkProducerSeats = 100 }},
	{"num_chunk_validator_seats", func(c *Config) any { return &c.NumChunkValidatorSeats },
		func(c *Config) { c.NumChunkValidatorSeats = 300 }},
	{"chunk_producer_assignment_changes_limit", func(c *Config) any { return &c.ChunkProducerAssignmentLimit },
		func(c *Config) { c.ChunkProducerAssignmentLimit = 5 }},
}

// configIndex finds a field by its name.
var configIndex = func() map[string]int {
	m := make(map[string]int, len(configFields))
	for i, f := range configFields {
		m[f.name] = i
	}
	return m
}()

// configValue reads a field's value.
func (c *cursor) configValue(at any) {
	switch v := at.(type) {
	case *primitives.ProtocolVersion:
		*v = primitives.ProtocolVersion(c.uint(32))
	case *Time:
		*v = text(c, ParseTime)
	case *string:
		*v = string(c.str())
	case *primitives.Height:
		*v = primitives.Height(c.uint(64))
	case *uint64:
		*v = c.uint(64)
	case *uint8:
		*v = uint8(c.uint(8))
	case *bool:
		*v = c.boolean()
	case *Ratio:
		*v = c.ratio()
	case *primitives.Gas:
		*v = primitives.Gas(c.uint(64))
	case *primitives.Balance:
		*v = c.balance()
	case *primitives.AccountID:
		*v = c.account()
	case *primitives.ShardLayout:
		if raw := c.raw(); c.err == nil {
			if err := v.UnmarshalJSON(raw); err != nil {
				c.fail(err)
			}
		}
	case *[]Validator:
		*v = []Validator{}
		c.array(func() {
			var x Validator
			c.members(field("account_id", set(&x.AccountID, c.account)), field("public_key", set(&x.PublicKey, c.key)),
				field("amount", set(&x.Amount, c.balance)))
			*v = append(*v, x)
		})
	}
}

// appendConfigValue appends a field's value.
func appendConfigValue(b []byte, at any) []byte {
	switch v := at.(type) {
	case *primitives.ProtocolVersion:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *Time:
		return primitives.AppendJSONString(b, v.String())
	case *string:
		return primitives.AppendJSONString(b, *v)
	case *primitives.Height:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *uint64:
		return strconv.AppendUint(b, *v, 10)
	case *uint8:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *bool:
		return strconv.AppendBool(b, *v)
	case *Ratio:
		b = strconv.AppendUint(append(b, '['), uint64(v.Num), 10)
		return append(strconv.AppendUint(append(b, ','), uint64(v.Den), 10), ']')
	case *primitives.Gas:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *primitives.Balance:
		return appendBalance(b, *v)
	case *primitives.AccountID:
		return primitives.AppendJSONString(b, string(*v))
	case *primitives.ShardLayout:
		raw, err := v.MarshalJSON()
		if err != nil {
			panic("genesis: shard layout: " + err.Error()) // a valid layout consists of numbers and names
		}
		return append(b, raw...)
	case *[]Validator:
		return appendList(b, "", *v, func(b []byte, x Validator) []byte {
			b = appendText(b, `{"account_id":`, string(x.AccountID))
			b = appendText(b, `,"public_key":`, x.PublicKey.String())
			return append(appendAmount(b, `,"amount":`, x.Amount), '}')
		})
	}
	panic("genesis: field of an unknown type")
}

// AppendConfig appends c in nearcore's struct order, without spaces.
func AppendConfig(b []byte, c *Config) []byte {
	for i := range configFields {
		b = append(b, "{,"[min(i, 1)])
		b = append(primitives.AppendJSONString(b, configFields[i].name), ':')
		b = appendConfigValue(b, configFields[i].at(c))
	}
	return append(b, '}')
}

// AppendView appends c as the RPC method genesis_config prints it: keys in alphabetical order at
// every depth.
func AppendView(b []byte, c *Config) []byte {
	d := json.NewDecoder(bytes.NewReader(AppendConfig(nil, c)))
	d.UseNumber()
	var v any
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := d.Decode(&v); err != nil {
		panic("genesis: our own JSON: " + err.Error())
	}
	if err := e.Encode(v); err != nil { // objects become maps, whose keys Encode sorts
		panic("genesis: our own JSON: " + err.Error())
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}
