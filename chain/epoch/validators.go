package epoch

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// CurrentValidator is a validator of the queried epoch in the validators query (nearcore views.rs
// CurrentEpochValidatorInfo). Entry i of a PerShard list belongs to entry i of Shards or
// ShardsEndorsed. Shards and ShardsEndorsed ascend.
type CurrentValidator struct {
	primitives.ValidatorStake
	Blocks                       Stats
	Chunks                       Stats
	Endorsements                 Stats
	Shards                       []primitives.ShardID // nearcore's shards_produced, which is "shards" in JSON
	ProducedChunksPerShard       []uint64
	ExpectedChunksPerShard       []uint64
	ShardsEndorsed               []primitives.ShardID
	ProducedEndorsementsPerShard []uint64
	ExpectedEndorsementsPerShard []uint64
}

// NextValidator is a validator of the next epoch in the validators query.
type NextValidator struct {
	primitives.ValidatorStake
	Shards []primitives.ShardID // shards whose chunks the validator produces, ascending
}

// ValidatorInfo is the result of the validators query (nearcore EpochValidatorInfo, without the
// fishermen).
type ValidatorInfo struct {
	CurrentValidators []CurrentValidator
	NextValidators    []NextValidator
	CurrentProposals  []primitives.ValidatorStake // latest proposal of each account, sorted by account
	// PrevEpochKickout contains the validators that were kicked out in the previous epoch and have
	// no seat in the next epoch.
	PrevEpochKickout             AccountMap[KickoutReason]
	ValidatorRewardPaidPrevEpoch AccountMap[primitives.Balance]
	EpochStartHeight             primitives.Height
	EpochHeight                  uint64
}

// ValidatorInfoOfBlock returns the validators query for the epoch of a block, as of this block. The
// epoch must not have ended.
func (m *Manager) ValidatorInfoOfBlock(head primitives.Hash) (*ValidatorInfo, error) {
	b, err := m.BlockInfo(head)
	if err != nil {
		return nil, err
	}
	info, err := m.EpochInfo(b.EpochID)
	if err != nil {
		return nil, err
	}
	layout, err := m.layoutOf(info)
	if err != nil {
		return nil, err
	}
	nextID, err := m.nextEpochID(b)
	if err != nil {
		return nil, err
	}
	a, err := m.aggregate(head, false)
	if err != nil {
		return nil, err
	}
	if m.aggregator == nil { // the node has restarted, and no block has arrived yet
		m.earlier[0] = earlierStats{a, b.Height}
	}
	out, err := m.validatorInfo(b.EpochID, info, nextID)
	if err != nil {
		return nil, err
	}
	ids := layout.ShardIDs()
	for id, total := range a.stats() {
		v := CurrentValidator{
			ValidatorStake: info.Validators[id], Blocks: total.Blocks, Chunks: total.Production, Endorsements: total.Endorsement,
		}
		for _, shard := range ascendingShards(ids) {
			s := a.Chunks[shard][id]
			if s.Production.Expected > 0 {
				v.Shards = append(v.Shards, ids[shard])
				v.ProducedChunksPerShard = append(v.ProducedChunksPerShard, s.Production.Produced)
				v.ExpectedChunksPerShard = append(v.ExpectedChunksPerShard, s.Production.Expected)
			}
			if s.Endorsement.Expected > 0 {
				v.ShardsEndorsed = append(v.ShardsEndorsed, ids[shard])
				v.ProducedEndorsementsPerShard = append(v.ProducedEndorsementsPerShard, s.Endorsement.Produced)
				v.ExpectedEndorsementsPerShard = append(v.ExpectedEndorsementsPerShard, s.Endorsement.Expected)
			}
		}
		out.CurrentValidators = append(out.CurrentValidators, v)
	}
	out.CurrentProposals = proposalList(a.Proposals)
	return out, nil
}

// ValidatorInfoOfEpoch returns the validators query for an epoch that has ended. As in nearcore,
// the result has no statistics by shard: Shards are the assigned shards, with counts of zero, and
// ShardsEndorsed is empty. Errors: ErrEpochOutOfBounds if the epoch has not ended.
func (m *Manager) ValidatorInfoOfEpoch(id primitives.EpochID) (*ValidatorInfo, error) {
	info, err := m.EpochInfo(id)
	if err != nil {
		return nil, err
	}
	summary, err := m.store.EpochSummary(id)
	if err != nil {
		return nil, fmt.Errorf("epoch summary %v: %w", id, err)
	}
	if summary == nil {
		return nil, epochOutOfBounds(id)
	}
	out, err := m.validatorInfo(id, info, summary.PrevEpochLastBlockHash)
	if err != nil {
		return nil, err
	}
	shards, err := m.assignedShards(info)
	if err != nil {
		return nil, err
	}
	for v := range info.Validators {
		s, _ := summary.Stats.Get(info.Validators[v].AccountID)
		zeros := make([]uint64, len(shards[v]))
		out.CurrentValidators = append(out.CurrentValidators, CurrentValidator{
			ValidatorStake: info.Validators[v], Blocks: s.Blocks, Chunks: s.Production, Endorsements: s.Endorsement,
			Shards: shards[v], ProducedChunksPerShard: zeros, ExpectedChunksPerShard: zeros,
		})
	}
	out.CurrentProposals = proposalList(summary.AllProposals)
	return out, nil
}

// validatorInfo returns a ValidatorInfo without the current validators and proposals.
func (m *Manager) validatorInfo(id primitives.EpochID, info *EpochInfo,
	nextID primitives.EpochID) (*ValidatorInfo, error) {
	start, err := m.EpochStart(id)
	if err != nil {
		return nil, err
	}
	next, err := m.EpochInfo(nextID)
	if err != nil {
		return nil, err
	}
	shards, err := m.assignedShards(next)
	if err != nil {
		return nil, err
	}
	out := &ValidatorInfo{
		PrevEpochKickout: next.ValidatorKickout, ValidatorRewardPaidPrevEpoch: info.ValidatorReward,
		EpochStartHeight: start, EpochHeight: info.EpochHeight,
	}
	for v := range next.Validators {
		out.NextValidators = append(out.NextValidators, NextValidator{next.Validators[v], shards[v]})
	}
	return out, nil
}

// assignedShards returns, by validator ID, the IDs of the shards for which the validator produces
// chunks, ascending and without repeats.
func (m *Manager) assignedShards(info *EpochInfo) ([][]primitives.ShardID, error) {
	layout, err := m.layoutOf(info)
	if err != nil {
		return nil, err
	}
	ids := layout.ShardIDs()
	out := make([][]primitives.ShardID, len(info.Validators))
	for _, index := range ascendingShards(ids) {
		for _, v := range info.ChunkProducers[index] {
			if n := len(out[v]); n == 0 || out[v][n-1] != ids[index] {
				out[v] = append(out[v], ids[index])
			}
		}
	}
	return out, nil
}

func proposalList(m AccountMap[primitives.ValidatorStake]) []primitives.ValidatorStake {
	var out []primitives.ValidatorStake
	for _, p := range m {
		out = append(out, p.Value)
	}
	return out
}
