package epoch

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Versions of EpochInfo. The numbers are the borsh tags.
const (
	EpochInfoV2 byte = 1 // form of mainnet's genesis: block producers take turns, so there are no samplers
	EpochInfoV4 byte = 3 // form of protocol version 84: without a shard layout
	EpochInfoV5 byte = 4 // form of protocol versions from 85 on
)

// dynamicReshardingVersion is the first protocol version with EpochInfo V5, which contains a shard
// layout. From this version on, chunk producers stay with the children of their shard (sticky
// assignment).
const dynamicReshardingVersion primitives.ProtocolVersion = 85

// EpochInfo contains the validators of an epoch and their roles (nearcore
// core/primitives/src/epoch_info.rs). The EpochInfo of an epoch is computed at the end of the epoch
// two before, and never changes. An EpochInfo is shared, so callers must not change it.
type EpochInfo struct {
	Version          byte
	EpochHeight      uint64 // ordinal number of the epoch; 1 for each of the first two epochs
	Validators       []primitives.ValidatorStake
	ValidatorIndex   AccountMap[ValidatorID]
	BlockProducers   []ValidatorID   // block_producers_settlement
	ChunkProducers   [][]ValidatorID // chunk_producers_settlement, by shard index
	StakeChange      AccountMap[primitives.Balance]
	ValidatorReward  AccountMap[primitives.Balance] // rewards of the epoch at whose end this info was computed
	ValidatorKickout AccountMap[KickoutReason]
	MintedAmount     primitives.Balance
	SeatPrice        primitives.Balance
	ProtocolVersion  primitives.ProtocolVersion
	ShardLayout      primitives.ShardLayout // only in V5
	LastResharding   *uint64                // only in V5: epoch height of the latest layout change; nil: none
	// RngSeed is the random_value of the last block of the second epoch before this epoch. An
	// EpochInfo V2 has no seed.
	RngSeed       primitives.Hash
	BlockSampler  *primitives.StakeWeightedIndex   // not in V2
	ChunkSamplers []*primitives.StakeWeightedIndex // not in V2; by shard index
	Mandates      ValidatorMandates                // not in V2
}

// initSamplers sets the version, ValidatorIndex and the samplers according to the other fields.
func (e *EpochInfo) initSamplers() error {
	e.Version = EpochInfoV4
	if e.ProtocolVersion >= dynamicReshardingVersion {
		e.Version = EpochInfoV5
	} else {
		e.ShardLayout, e.LastResharding = primitives.ShardLayout{}, nil
	}
	weights := func(ids []ValidatorID) (*primitives.StakeWeightedIndex, error) {
		stakes := make([]primitives.Balance, len(ids))
		for i, id := range ids {
			stakes[i] = e.Validators[id].Stake
		}
		return primitives.NewStakeWeightedIndex(stakes)
	}
	var err error
	if e.BlockSampler, err = weights(e.BlockProducers); err != nil {
		return err
	}
	e.ChunkSamplers = make([]*primitives.StakeWeightedIndex, len(e.ChunkProducers))
	for i, ids := range e.ChunkProducers {
		if e.ChunkSamplers[i], err = weights(ids); err != nil {
			return err
		}
	}
	return nil
}

// ValidatorID returns the ID of an account.
func (e *EpochInfo) ValidatorID(a primitives.AccountID) (ValidatorID, bool) {
	return e.ValidatorIndex.Get(a)
}

// Validator returns the seat of an account.
func (e *EpochInfo) Validator(a primitives.AccountID) (*primitives.ValidatorStake, bool) {
	id, ok := e.ValidatorIndex.Get(a)
	if !ok {
		return nil, false
	}
	return &e.Validators[id], true
}

// TotalStake returns the sum of all stakes.
func (e *EpochInfo) TotalStake() primitives.Balance {
	sum, _ := sumStakes(e.Validators) // cannot overflow, because the samplers were built from the same sum
	return sum
}

// SampleBlockProducer returns the producer of the block at a height.
func (e *EpochInfo) SampleBlockProducer(h primitives.Height) ValidatorID {
	if e.Version == EpochInfoV2 {
		return e.BlockProducers[uint64(h)%uint64(len(e.BlockProducers))]
	}
	var buf [40]byte
	copy(buf[:], e.RngSeed[:])
	binary.LittleEndian.PutUint64(buf[32:], uint64(h))
	return e.BlockProducers[e.BlockSampler.Sample(primitives.HashBytes(buf[:]))]
}

// SampleChunkProducer returns the canonical producer of a shard's chunk for a height: the producer
// drawn without a blacklist. shard is the index in layout. From protocol version 87 on, the actual
// producer may be another validator (Manager.ChunkProducerFromPrev). Errors: ErrSharding.
func (e *EpochInfo) SampleChunkProducer(layout primitives.ShardLayout, shard primitives.ShardIndex,
	h primitives.Height) (ValidatorID, error) {
	ids := layout.ShardIDs()
	if shard < 0 || int(shard) >= len(ids) || int(shard) >= len(e.ChunkProducers) || len(e.ChunkProducers[shard]) == 0 {
		return 0, fmt.Errorf("%w: no chunk producers for shard index %d", ErrSharding, shard)
	}
	producers := e.ChunkProducers[shard]
	if e.Version == EpochInfoV2 {
		return producers[uint64(h)%uint64(len(producers))], nil
	}
	return producers[e.ChunkSamplers[shard].Sample(e.chunkProducerSeed(h, ids[shard]))], nil
}

// chunkProducerSeed returns the seed of the draw of a chunk's producer.
func (e *EpochInfo) chunkProducerSeed(h primitives.Height, shard primitives.ShardID) [32]byte {
	var buf [48]byte
	copy(buf[:], e.RngSeed[:])
	binary.LittleEndian.PutUint64(buf[32:], uint64(h))
	binary.LittleEndian.PutUint64(buf[40:], uint64(shard))
	return primitives.HashBytes(buf[:])
}

// SampleChunkValidators returns, by shard index, the validators that endorse a chunk with
// height_created h, in the order of their endorsements. The weight of a validator is a part of its
// stake. SampleChunkValidators returns nil for EpochInfo V2.
func (e *EpochInfo) SampleChunkValidators(h primitives.Height) [][]WeightedValidator {
	if e.Version == EpochInfoV2 {
		return nil
	}
	var buf [40]byte
	copy(buf[:], e.RngSeed[:])
	binary.LittleEndian.PutUint64(buf[32:], uint64(h))
	return e.Mandates.sample(primitives.NewChaCha20Rng(primitives.HashBytes(buf[:])))
}

// shardAssignmentRng returns the random generator for moves of chunk producers between shards.
func shardAssignmentRng(seed primitives.Hash) *primitives.ChaChaRng {
	return primitives.NewChaCha20Rng(primitives.HashBytes(append(seed[:], "shard_assignment_shuffling_rng"...)))
}
