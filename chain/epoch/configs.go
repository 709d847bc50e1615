package epoch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

type versionedConfig struct {
	since  primitives.ProtocolVersion
	config Config
}

// Configs contains a chain's epoch configs by protocol version (nearcore AllEpochConfig). It is
// immutable and safe for concurrent use.
type Configs struct {
	chainID   string
	genesisPV primitives.ProtocolVersion
	length    uint64 // epoch length of the genesis, which replaces the epoch length of each config
	layout    primitives.ShardLayout
	versions  []versionedConfig // epoch configs by ascending protocol version
	layouts   []versionedLayout // all static layouts of the chain, by ascending version
}

type versionedLayout struct {
	since  primitives.ProtocolVersion
	layout primitives.ShardLayout
}

// NewConfigs selects the source of a chain's epoch configs (nearcore
// chain/epoch-manager/src/lib.rs:165). The first case that applies counts:
//   - mainnet and testnet: the built-in configs;
//   - files is not nil: files, the contents of <home>/epoch_configs by file name. Names are
//     <version>.json. Other names and versions above newest (the binary's protocol version) are
//     ignored. nil means that the folder does not exist;
//   - the chain ID begins with test-chain-: the genesis itself;
//   - other chains: the genesis's seats, layout and length, with fixed test values for the rest.
//
// Errors: ErrConfig.
func NewConfigs(g *GenesisParams, files map[string][]byte, newest primitives.ProtocolVersion) (*Configs, error) {
	c := &Configs{chainID: g.ChainID, genesisPV: g.ProtocolVersion, length: g.Epoch.EpochLength}
	switch {
	case g.ChainID == mainnet || g.ChainID == testnet:
		c.versions, c.layouts = builtinConfigs(g.ChainID)
	case files != nil:
		if err := c.readFiles(files, newest); err != nil {
			return nil, err
		}
	case strings.HasPrefix(g.ChainID, testChainPrefix):
		c.versions = []versionedConfig{{g.ProtocolVersion, g.Epoch}}
	default:
		c.versions = []versionedConfig{{g.ProtocolVersion, genesisTestConfig(&g.Epoch)}}
	}
	if len(c.versions) == 0 || c.versions[0].since > g.ProtocolVersion {
		return nil, fmt.Errorf("%w: none applies to the protocol version of the genesis, %d", ErrConfig, g.ProtocolVersion)
	}
	builtin := c.layouts != nil
	for i := range c.versions {
		v := &c.versions[i]
		v.config.EpochLength = c.length
		if err := v.config.check(); err != nil {
			return nil, fmt.Errorf("protocol version %d: %w", v.since, err)
		}
		if l := v.config.ShardLayout; !builtin && !l.IsZero() {
			c.layouts = append(c.layouts, versionedLayout{v.since, l})
		}
	}
	if g.TransactionValidityPeriod > 2*c.length {
		return nil, fmt.Errorf("%w: transaction_validity_period is %d, must be at most %d, two epochs",
			ErrConfig, g.TransactionValidityPeriod, 2*c.length)
	}
	if !g.ProtocolRewardRate.valid() || g.ProtocolRewardRate.Num > g.ProtocolRewardRate.Den {
		return nil, fmt.Errorf("%w: protocol_reward_rate is %v, must be a ratio from 0 to 1", ErrConfig, g.ProtocolRewardRate)
	}
	if c.layout = c.ForVersion(g.ProtocolVersion).ShardLayout; c.layout.IsZero() {
		c.layout = g.Epoch.ShardLayout
	}
	if c.layout.IsZero() {
		return nil, fmt.Errorf("%w: neither the config of the genesis protocol version %d nor the genesis has a shard_layout",
			ErrConfig, g.ProtocolVersion)
	}
	return c, nil
}

// GenesisShardLayout returns the layout of the first epochs. The result is the layout in the config
// of the genesis's protocol version if that layout is static, else the genesis's own layout
// (near-primitives 0.38.0 src/epoch_manager.rs:364).
func (c *Configs) GenesisShardLayout() primitives.ShardLayout { return c.layout }

func (c *Configs) readFiles(files map[string][]byte, newest primitives.ProtocolVersion) error {
	for name, text := range files { // the order does not matter, because the versions are sorted below
		stem, ok := strings.CutSuffix(name, ".json")
		if !ok || stem == "" {
			continue
		}
		v, err := strconv.ParseUint(stem, 10, 32)
		if err != nil {
			return fmt.Errorf("%w: file %q: Invalid protocol version", ErrConfig, name)
		}
		if primitives.ProtocolVersion(v) > newest {
			continue
		}
		config, err := ParseConfig(text)
		if err != nil {
			return fmt.Errorf("file %q: %w", name, err)
		}
		c.versions = append(c.versions, versionedConfig{primitives.ProtocolVersion(v), config})
	}
	slices.SortFunc(c.versions, func(a, b versionedConfig) int { return int(int64(a.since) - int64(b.since)) })
	for i := 1; i < len(c.versions); i++ {
		if c.versions[i-1].since == c.versions[i].since {
			return fmt.Errorf("%w: two files for protocol version %d", ErrConfig, c.versions[i].since)
		}
	}
	return nil
}

// ForVersion returns the config of the highest version that is at most pv, with the genesis's epoch
// length. ForVersion panics if there is no such config, which cannot happen for a version of this
// chain. The result is shared, so the caller must not change it.
func (c *Configs) ForVersion(pv primitives.ProtocolVersion) *Config {
	for i := len(c.versions) - 1; i >= 0; i-- {
		if c.versions[i].since <= pv {
			return &c.versions[i].config
		}
	}
	panic(fmt.Sprintf("epoch: no config for protocol version %d", pv))
}

// ChainID returns the chain ID.
func (c *Configs) ChainID() string { return c.chainID }

// GenesisProtocolVersion returns the protocol version of the genesis.
func (c *Configs) GenesisProtocolVersion() primitives.ProtocolVersion { return c.genesisPV }

// layoutHistory returns the static layouts of the versions from the genesis's version to latest,
// newest first. Of equal consecutive layouts, layoutHistory returns one (nearcore lib.rs:745).
// Versions with a dynamic layout contribute none.
func (c *Configs) layoutHistory(latest primitives.ProtocolVersion) []primitives.ShardLayout {
	var out []primitives.ShardLayout
	for _, v := range slices.Backward(c.layouts) {
		if v.since > latest {
			continue
		}
		if len(out) == 0 || !out[len(out)-1].Equal(v.layout) {
			out = append(out, v.layout)
		}
		if v.since <= c.genesisPV { // this chain does not use configs of versions before the genesis's
			break
		}
	}
	return out
}

// genesisTestConfig returns the config of a private chain without config files (nearcore
// core/primitives/src/epoch_manager.rs:229 with the constants of
// core/chain-configs/src/genesis_config.rs:741). Most of the genesis is ignored.
func genesisTestConfig(g *Config) Config {
	return Config{
		EpochLength:                        g.EpochLength,
		NumBlockProducerSeats:              g.NumBlockProducerSeats,
		NumChunkProducerSeats:              100,
		NumChunkValidatorSeats:             300,
		TargetValidatorMandatesPerShard:    68,
		BlockProducerKickoutThreshold:      90,
		ChunkProducerKickoutThreshold:      90,
		ChunkValidatorOnlyKickoutThreshold: 80,
		ValidatorMaxKickoutStakePerc:       100,
		OnlineMinThreshold:                 Ratio{9, 10},
		OnlineMaxThreshold:                 Ratio{99, 100},
		FishermenThreshold:                 primitives.NEAR(10),
		MinimumStakeDivisor:                10,
		ProtocolUpgradeStakeThreshold:      Ratio{4, 5},
		ShardLayout:                        g.ShardLayout,
		MinimumValidatorsPerShard:          1,
		MinimumStakeRatio:                  Ratio{1, 6250}, // the reduced fraction, which protocol_config returns
		ChunkProducerAssignmentChanges:     5,
		MaxInflationRate:                   Ratio{1, 40},
	}
}
