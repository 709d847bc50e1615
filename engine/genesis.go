package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/genesisstate"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// NewChain returns the chain spec of a genesis. records must open the genesis document, or its
// separate records file, at the beginning. The engine calls records only if the store is empty.
// epochConfigs are the contents of the files in <home>/epoch_configs, by file name.
func NewChain(
	g *genesis.Config,
	numbering primitives.Numbering,
	epochConfigs map[string][]byte,
	records func() (io.ReadCloser, error),
) (*ChainSpec, error) {
	if ownParameters(g.ChainID) {
		return nil, fmt.Errorf("%w: %q", ErrChainID, g.ChainID)
	}
	params := EpochParams(g)
	configs, err := epoch.NewConfigs(params, epochConfigs, parameters.Newest(numbering))
	if err != nil {
		return nil, fmt.Errorf("engine: epoch configs: %w", err)
	}
	c := &ChainSpec{
		ID: g.ChainID, Version: parameters.Version{Protocol: g.ProtocolVersion, Numbering: numbering},
		Height: g.GenesisHeight,
		Time:   uint64(g.GenesisTime), GasLimit: g.GasLimit, MinGasPrice: g.MinGasPrice, MaxGasPrice: g.MaxGasPrice,
		Adjustment: ratio(g.GasPriceAdjustmentRate), TotalSupply: g.TotalSupply,
		ValidityPeriod: primitives.Height(g.TransactionValidityPeriod), Treasury: g.ProtocolTreasuryAccount,
		Params: params, Configs: configs,
	}
	c.Load = func() (*GenesisState, error) { return loadState(g, configs, c.Version, records) }
	return c, nil
}

// ErrChainID means that neard has special parameters for a chain id. This program does not
// implement these parameters, so its chain would differ from neard's.
var ErrChainID = errors.New("engine: neard has other parameters for chains of this name than this program; choose another chain_id")

// ErrPublicGenesis means that a genesis has the chain id and the protocol version of a public
// network's genesis, but differs from that genesis.
var ErrPublicGenesis = errors.New("engine: this is not the genesis of the public network of that name")

// The hashes of the genesis blocks of the public networks. They never change at runtime. They are
// variables so that a test can link a program for a chain with mainnet's rules and with validators
// whose keys the test has: go build -ldflags "-X .../engine.mainnetGenesis=HASH" (package
// internal/testkit/mainnetpeer).
var (
	mainnetGenesis = "EPnLgE7iEq9s7yTkos96M3cWymH5avBAPm3qx3NXqR8H"
	testnetGenesis = "FWJ9kR6KFWoyMoNjpLXXGHeuiy7tEY6GmoFeCA5yuc6b"
)

// publicGenesis are these hashes by chain id.
var publicGenesis = map[string]string{"mainnet": mainnetGenesis, "testnet": testnetGenesis}

// checkPublicGenesis returns ErrPublicGenesis if c has only its genesis here, and the genesis block
// differs from the public network's genesis block.
func checkPublicGenesis(c *ChainSpec, hash primitives.Hash) error {
	if want, public := publicGenesis[c.ID]; public && c.Version.GenesisOnly() && hash.String() != want {
		return fmt.Errorf("%w: the genesis block of chain %q is %s, but this genesis file leads to block %v", ErrPublicGenesis, c.ID, want, hash)
	}
	return nil
}

// PublicGenesis returns the hash of the genesis block of a public network. ok is false for other
// chains, and for a chain with the name of a public network whose genesis block is not that one's.
func PublicGenesis(c *ChainSpec) (hash primitives.Hash, ok bool) {
	text, public := publicGenesis[c.ID]
	if !public || !c.Version.GenesisOnly() {
		return hash, false
	}
	hash, err := primitives.ParseHash(text)
	return hash, err == nil
}

// ownParameters returns whether nearcore has special parameters for a chain id. nearcore has such
// parameters for two chain ids of its tests (core/parameters/src/config_store.rs:171).
func ownParameters(chainID string) bool {
	return chainID == "benchmarknet" || chainID == "congestion_control_test"
}

// GenesisState is the state of all shards in the genesis block.
type GenesisState struct {
	shards []*genesisstate.Shard
	more   []iter.Seq2[[]byte, []byte] // state entries that Add added, by shard index
}

// Add adds key-value pairs to a shard. Add is for states that do not fit into memory. The added
// keys must differ from the keys of the genesis. Each call of pairs must yield the same pairs, in
// ascending order. pairs may reuse the yielded slices.
func (s *GenesisState) Add(shard int, pairs iter.Seq2[[]byte, []byte]) {
	if s.more == nil {
		s.more = make([]iter.Seq2[[]byte, []byte], len(s.shards))
	}
	s.more[shard] = pairs
}

// Pairs yields a shard's keys and values in ascending order.
func (s *GenesisState) Pairs(shard int) iter.Seq2[[]byte, []byte] {
	own := s.shards[shard].Pairs()
	if s.more == nil || s.more[shard] == nil {
		return own
	}
	return func(yield func(k, v []byte) bool) {
		next, stop := iter.Pull2(own)
		defer stop()
		key, value, more := next()
		for k, v := range s.more[shard] {
			for ; more && bytes.Compare(key, k) < 0; key, value, more = next() {
				if !yield(key, value) {
					return
				}
			}
			if !yield(k, v) {
				return
			}
		}
		for ; more; key, value, more = next() {
			if !yield(key, value) {
				return
			}
		}
	}
}

// Congestion returns each shard's congestion info, by shard index.
func (s *GenesisState) Congestion() []primitives.CongestionInfo {
	out := make([]primitives.CongestionInfo, len(s.shards))
	for i, x := range s.shards {
		out[i] = x.Congestion
	}
	return out
}

func loadState(
	g *genesis.Config,
	configs *epoch.Configs,
	version parameters.Version,
	records func() (io.ReadCloser, error),
) (*GenesisState, error) {
	cfg, err := parameters.ForGenesis(version)
	if err != nil {
		return nil, err
	}
	layout := configs.GenesisShardLayout()
	b := genesisstate.NewBuilder(cfg, layout)
	in, err := records()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := genesis.ReadRecords(in, b.Add); err != nil {
		return nil, fmt.Errorf("engine: genesis records: %w", err)
	}
	out := &GenesisState{}
	for i := range layout.NumShards() {
		s, err := b.Finish(primitives.ShardIndex(i), g.Validators)
		if err != nil {
			return nil, err
		}
		out.shards = append(out.shards, s)
	}
	return out, nil
}

// ratio converts a genesis's ratio. Numerator and denominator of a valid genesis are below 2^31.
func ratio(r genesis.Ratio) epoch.Ratio { return epoch.Ratio{Num: int32(r.Num), Den: int32(r.Den)} }

// EpochParams returns the epoch manager's parameters of a genesis.
func EpochParams(g *genesis.Config) *epoch.GenesisParams {
	p := &epoch.GenesisParams{
		ChainID: g.ChainID, ProtocolVersion: g.ProtocolVersion, ProtocolTreasuryAccount: g.ProtocolTreasuryAccount,
		ProtocolRewardRate: ratio(g.ProtocolRewardRate), TransactionValidityPeriod: g.TransactionValidityPeriod,
		Epoch: epoch.Config{
			EpochLength: g.EpochLength, NumBlockProducerSeats: g.NumBlockProducerSeats,
			NumChunkProducerSeats: g.NumChunkProducerSeats, NumChunkValidatorSeats: g.NumChunkValidatorSeats,
			TargetValidatorMandatesPerShard:    g.TargetValidatorMandatesPerShard,
			BlockProducerKickoutThreshold:      g.BlockProducerKickoutThreshold,
			ChunkProducerKickoutThreshold:      g.ChunkProducerKickoutThreshold,
			ChunkValidatorOnlyKickoutThreshold: g.ChunkValidatorOnlyKickoutThreshold,
			ValidatorMaxKickoutStakePerc:       g.MaxKickoutStakePerc,
			OnlineMinThreshold:                 ratio(g.OnlineMinThreshold), OnlineMaxThreshold: ratio(g.OnlineMaxThreshold),
			FishermenThreshold: g.FishermenThreshold, MinimumStakeDivisor: g.MinimumStakeDivisor,
			ProtocolUpgradeStakeThreshold: ratio(g.ProtocolUpgradeStakeThreshold), ShardLayout: g.ShardLayout,
			MinimumValidatorsPerShard: g.MinimumValidatorsPerShard, MinimumStakeRatio: ratio(g.MinimumStakeRatio),
			ChunkProducerAssignmentChanges: g.ChunkProducerAssignmentLimit, ShuffleShardAssignment: g.ShuffleShardAssignment,
			MaxInflationRate: ratio(g.MaxInflationRate),
		},
	}
	for _, v := range g.Validators {
		p.Validators = append(
			p.Validators,
			primitives.ValidatorStake{AccountID: v.AccountID, PublicKey: v.PublicKey, Stake: v.Amount},
		)
	}
	return p
}

// ChainSpec contains the values of a genesis that the engine needs. It is read-only.
type ChainSpec struct {
	ID             string
	Version        parameters.Version // protocol version of the genesis block, and the numbering of versions
	Height         primitives.Height
	Time           uint64 // ns since 1970
	GasLimit       primitives.Gas
	MinGasPrice    primitives.Balance
	MaxGasPrice    primitives.Balance
	Adjustment     epoch.Ratio // gas_price_adjustment_rate
	TotalSupply    primitives.Balance
	ValidityPeriod primitives.Height // transaction_validity_period, a number of blocks
	Treasury       primitives.AccountID
	Params         *epoch.GenesisParams
	Configs        *epoch.Configs
	// Load reads the state of the genesis block. The engine calls it once, when the chain starts.
	Load func() (*GenesisState, error)
}
