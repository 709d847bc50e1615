package epoch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// data is the folder with the recordings of neard, which may not exist.
var data = testutil.Data("")

// readData returns a file of the recordings. Without recordings it skips the test.
func readData(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, name))
	if err != nil {
		t.Skipf("no recorded data: %v", err)
	}
	return b
}

// memoryStore implements Store. It keeps all rows in encoded form, so that reading uses the
// decoders.
type memoryStore struct {
	blocks    map[primitives.Hash][]byte
	epochs    map[primitives.EpochID][]byte
	starts    map[primitives.EpochID]primitives.Height
	summaries map[primitives.EpochID][]byte
	// aggregator is the newest stored Aggregator; nil: none.
	aggregator []byte
}

func newMemoryStore() *memoryStore {
	return &memoryStore{
		blocks: map[primitives.Hash][]byte{}, epochs: map[primitives.EpochID][]byte{},
		starts: map[primitives.EpochID]primitives.Height{}, summaries: map[primitives.EpochID][]byte{},
	}
}

func (s *memoryStore) BlockInfo(h primitives.Hash) (*BlockInfo, error) {
	if b, ok := s.blocks[h]; ok {
		var v StoredBlockInfo
		err := decode(b, &v)
		return v.BlockInfo, err
	}
	return nil, nil
}

func (s *memoryStore) EpochInfo(id primitives.EpochID) (*EpochInfo, error) {
	if b, ok := s.epochs[id]; ok {
		v := new(EpochInfo)
		return v, decode(b, v)
	}
	return nil, nil
}

func (s *memoryStore) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	h, ok := s.starts[id]
	return h, ok, nil
}

func (s *memoryStore) EpochSummary(id primitives.EpochID) (*EpochSummary, error) {
	if b, ok := s.summaries[id]; ok {
		v := new(EpochSummary)
		return v, decode(b, v)
	}
	return nil, nil
}

func (s *memoryStore) Aggregator() (*Aggregator, error) {
	if s.aggregator == nil {
		return nil, nil
	}
	v := new(Aggregator)
	return v, decode(s.aggregator, v)
}

func (s *memoryStore) apply(c Changes) {
	if c.BlockInfo == nil {
		return
	}
	if c.Aggregator != nil {
		s.aggregator = c.Aggregator.AppendBorsh(nil)
	}
	b := c.BlockInfo
	s.blocks[b.Hash] = StoredBlockInfo{b}.AppendBorsh(nil)
	if c.EpochStart {
		s.starts[b.EpochID] = b.Height
	}
	if c.NextNextEpoch != nil {
		s.epochs[b.Hash] = c.NextNextEpoch.AppendBorsh(nil)
	}
	if c.Summary != nil {
		s.summaries[b.EpochID] = c.Summary.AppendBorsh(nil)
	}
}

// The parts of the recordings' JSON that epochs depend on.
type (
	recordedGenesis struct {
		ProtocolVersion                    primitives.ProtocolVersion `json:"protocol_version"`
		ChainID                            string                     `json:"chain_id"`
		NumBlockProducerSeats              uint64                     `json:"num_block_producer_seats"`
		ProtocolUpgradeStakeThreshold      Ratio                      `json:"protocol_upgrade_stake_threshold"`
		EpochLength                        uint64                     `json:"epoch_length"`
		MinGasPrice                        primitives.Balance         `json:"min_gas_price"`
		MaxGasPrice                        primitives.Balance         `json:"max_gas_price"`
		BlockProducerKickoutThreshold      uint8                      `json:"block_producer_kickout_threshold"`
		ChunkProducerKickoutThreshold      uint8                      `json:"chunk_producer_kickout_threshold"`
		ChunkValidatorOnlyKickoutThreshold uint8                      `json:"chunk_validator_only_kickout_threshold"`
		TargetValidatorMandatesPerShard    uint64                     `json:"target_validator_mandates_per_shard"`
		OnlineMinThreshold                 Ratio                      `json:"online_min_threshold"`
		OnlineMaxThreshold                 Ratio                      `json:"online_max_threshold"`
		GasPriceAdjustmentRate             Ratio                      `json:"gas_price_adjustment_rate"`
		Validators                         []struct {
			AccountID primitives.AccountID `json:"account_id"`
			PublicKey primitives.PublicKey `json:"public_key"`
			Amount    primitives.Balance   `json:"amount"`
		} `json:"validators"`
		TransactionValidityPeriod     uint64                 `json:"transaction_validity_period"`
		ProtocolRewardRate            Ratio                  `json:"protocol_reward_rate"`
		MaxInflationRate              Ratio                  `json:"max_inflation_rate"`
		ProtocolTreasuryAccount       primitives.AccountID   `json:"protocol_treasury_account"`
		FishermenThreshold            primitives.Balance     `json:"fishermen_threshold"`
		MinimumStakeDivisor           uint64                 `json:"minimum_stake_divisor"`
		ShardLayout                   primitives.ShardLayout `json:"shard_layout"`
		MinimumValidatorsPerShard     uint64                 `json:"minimum_validators_per_shard"`
		MaxKickoutStakePerc           uint8                  `json:"max_kickout_stake_perc"`
		MinimumStakeRatio             Ratio                  `json:"minimum_stake_ratio"`
		ShuffleShardAssignment        bool                   `json:"shuffle_shard_assignment_for_chunk_producers"`
		NumChunkProducerSeats         uint64                 `json:"num_chunk_producer_seats"`
		NumChunkValidatorSeats        uint64                 `json:"num_chunk_validator_seats"`
		ChunkProducerAssignmentChange uint64                 `json:"chunk_producer_assignment_changes_limit"`
	}
	recordedBlock struct {
		Author primitives.AccountID `json:"author"`
		Chunks []recordedChunk      `json:"chunks"`
		Header recordedHeader       `json:"header"`
	}
	recordedChunk struct {
		BalanceBurnt  primitives.Balance   `json:"balance_burnt"`
		ChunkHash     primitives.Hash      `json:"chunk_hash"`
		GasLimit      primitives.Gas       `json:"gas_limit"`
		GasUsed       primitives.Gas       `json:"gas_used"`
		HeightCreated primitives.Height    `json:"height_created"`
		ShardID       primitives.ShardID   `json:"shard_id"`
		Signature     primitives.Signature `json:"signature"`
		ProposedSplit *struct {
			Boundary    primitives.AccountID `json:"boundary_account"`
			LeftMemory  uint64               `json:"left_memory"`
			RightMemory uint64               `json:"right_memory"`
		} `json:"proposed_split"`
	}
	recordedHeader struct {
		Approvals          []*primitives.Signature    `json:"approvals"`
		ChunkEndorsements  [][]uint16                 `json:"chunk_endorsements"`
		ChunkMask          []bool                     `json:"chunk_mask"`
		EpochID            primitives.EpochID         `json:"epoch_id"`
		EpochSyncDataHash  *primitives.Hash           `json:"epoch_sync_data_hash"`
		GasPrice           primitives.Balance         `json:"gas_price"`
		Hash               primitives.Hash            `json:"hash"`
		Height             primitives.Height          `json:"height"`
		LastFinalBlock     primitives.Hash            `json:"last_final_block"`
		LatestVersion      primitives.ProtocolVersion `json:"latest_protocol_version"`
		NextBPHash         primitives.Hash            `json:"next_bp_hash"`
		NextEpochID        primitives.EpochID         `json:"next_epoch_id"`
		PrevHash           primitives.Hash            `json:"prev_hash"`
		PrevHeight         primitives.Height          `json:"prev_height"`
		RandomValue        primitives.Hash            `json:"random_value"`
		ShardSplit         []json.RawMessage          `json:"shard_split"`
		Timestamp          uint64                     `json:"timestamp"`
		TotalSupply        primitives.Balance         `json:"total_supply"`
		ValidatorProposals []struct {
			AccountID primitives.AccountID `json:"account_id"`
			PublicKey primitives.PublicKey `json:"public_key"`
			Stake     primitives.Balance   `json:"stake"`
		} `json:"validator_proposals"`
	}
)

func (g *recordedGenesis) params() *GenesisParams {
	p := &GenesisParams{
		ChainID: g.ChainID, ProtocolVersion: g.ProtocolVersion, ProtocolTreasuryAccount: g.ProtocolTreasuryAccount,
		ProtocolRewardRate: g.ProtocolRewardRate, TransactionValidityPeriod: g.TransactionValidityPeriod,
		Epoch: Config{
			EpochLength: g.EpochLength, NumBlockProducerSeats: g.NumBlockProducerSeats,
			NumChunkProducerSeats: g.NumChunkProducerSeats, NumChunkValidatorSeats: g.NumChunkValidatorSeats,
			TargetValidatorMandatesPerShard: g.TargetValidatorMandatesPerShard,
			BlockProducerKickoutThreshold:   g.BlockProducerKickoutThreshold, ChunkProducerKickoutThreshold: g.ChunkProducerKickoutThreshold,
			ChunkValidatorOnlyKickoutThreshold: g.ChunkValidatorOnlyKickoutThreshold, ValidatorMaxKickoutStakePerc: g.MaxKickoutStakePerc,
			OnlineMinThreshold: g.OnlineMinThreshold, OnlineMaxThreshold: g.OnlineMaxThreshold, FishermenThreshold: g.FishermenThreshold,
			MinimumStakeDivisor: g.MinimumStakeDivisor, ProtocolUpgradeStakeThreshold: g.ProtocolUpgradeStakeThreshold,
			ShardLayout: g.ShardLayout, MinimumValidatorsPerShard: g.MinimumValidatorsPerShard, MinimumStakeRatio: g.MinimumStakeRatio,
			ChunkProducerAssignmentChanges: g.ChunkProducerAssignmentChange, ShuffleShardAssignment: g.ShuffleShardAssignment,
			MaxInflationRate: g.MaxInflationRate,
		},
	}
	for _, v := range g.Validators {
		p.Validators = append(p.Validators, primitives.ValidatorStake{AccountID: v.AccountID, PublicKey: v.PublicKey, Stake: v.Amount})
	}
	return p
}

func (h *recordedHeader) split(t *testing.T) *primitives.ShardSplit {
	if h.ShardSplit == nil {
		return nil
	}
	s := new(primitives.ShardSplit)
	if err := json.Unmarshal(h.ShardSplit[0], &s.ShardID); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(h.ShardSplit[1], &s.Boundary); err != nil {
		t.Fatal(err)
	}
	return s
}

// blockInfo does the same as BlockInfoFromHeader for a recorded header.
func (h *recordedHeader) blockInfo(t *testing.T, lastFinalized primitives.Height) *BlockInfo {
	b := &BlockInfo{
		Hash: h.Hash, Height: h.Height, LastFinalizedHeight: lastFinalized, LastFinalBlockHash: h.LastFinalBlock, PrevHash: h.PrevHash,
		ChunkMask: h.ChunkMask, LatestProtocolVersion: h.LatestVersion, TotalSupply: h.TotalSupply, Timestamp: h.Timestamp,
		ShardSplit: h.split(t),
	}
	for _, p := range h.ValidatorProposals {
		b.Proposals = append(b.Proposals, primitives.ValidatorStake{AccountID: p.AccountID, PublicKey: p.PublicKey, Stake: p.Stake})
	}
	for _, bits := range h.ChunkEndorsements {
		bytes := make([]byte, len(bits))
		for i, v := range bits {
			bytes[i] = byte(v)
		}
		b.ChunkEndorsements = append(b.ChunkEndorsements, bytes)
	}
	return b
}

// lines calls f with each line of a gzipped recording and the first key in the line.
func lines(t *testing.T, name string, f func(key string, line []byte)) {
	path := filepath.Join(data, "neard", name)
	testutil.Need(t, path, "no recorded data")
	for _, line := range testutil.Lines(t, path) {
		var key string
		if n, _ := fmt.Sscanf(string(line[:min(32, len(line))]), "{%q", &key); n == 1 {
			f(key, line)
		}
	}
}
