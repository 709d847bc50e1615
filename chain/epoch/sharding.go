package epoch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// ShardLayoutFromPrev returns the layout of the epoch of a block, by its parent.
func (m *Manager) ShardLayoutFromPrev(parent primitives.Hash) (primitives.ShardLayout, error) {
	id, err := m.EpochIDFromPrev(parent)
	if err != nil {
		return primitives.ShardLayout{}, err
	}
	return m.ShardLayout(id)
}

// IsReshardingBoundary tells whether a child of parent has another layout than parent.
func (m *Manager) IsReshardingBoundary(parent primitives.Hash) (bool, error) {
	last, err := m.IsNextBlockEpochStart(parent)
	if err != nil || !last {
		return false, err
	}
	layout, err := m.ShardLayoutFromPrev(parent)
	if err != nil {
		return false, err
	}
	before, err := m.epochLayout(parent)
	return err == nil && !layout.Equal(before), err
}

// epochLayout returns the layout of a recorded block.
func (m *Manager) epochLayout(hash primitives.Hash) (primitives.ShardLayout, error) {
	id, err := m.EpochID(hash)
	if err != nil {
		return primitives.ShardLayout{}, err
	}
	return m.ShardLayout(id)
}

// PrevShard returns where a shard of a block is found in its parent: the parent's layout and the
// shard that held its accounts there, which is the same but over a layout change (nearcore
// adapter.rs get_prev_shard_id_from_prev_hash).
func (m *Manager) PrevShard(parent primitives.Hash, shard primitives.ShardID) (primitives.ShardLayout, primitives.ShardID, primitives.ShardIndex, error) {
	layout, err := m.ShardLayoutFromPrev(parent)
	if err != nil {
		return layout, 0, 0, err
	}
	changed, err := m.IsReshardingBoundary(parent)
	if err != nil {
		return layout, 0, 0, err
	}
	if changed {
		if shard, err = layout.Parent(shard); err != nil {
			return layout, 0, 0, fmt.Errorf("%w: %w", ErrSharding, err)
		}
		if layout, err = m.epochLayout(parent); err != nil {
			return layout, 0, 0, err
		}
	}
	index, err := layout.Index(shard)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSharding, err)
	}
	return layout, shard, index, err
}

// WillShardLayoutChange tells whether the epoch after that of a child of parent has another layout.
func (m *Manager) WillShardLayoutChange(parent primitives.Hash) (bool, error) {
	layout, err := m.ShardLayoutFromPrev(parent)
	if err != nil {
		return false, err
	}
	next, err := m.nextLayoutFromPrev(parent)
	return err == nil && !layout.Equal(next), err
}

func (m *Manager) nextLayoutFromPrev(parent primitives.Hash) (primitives.ShardLayout, error) {
	id, err := m.NextEpochIDFromPrev(parent)
	if err != nil {
		return primitives.ShardLayout{}, err
	}
	return m.ShardLayout(id)
}

// CaresAboutShard tells whether an account is a chunk producer of a shard in an epoch. ErrSharding.
func (m *Manager) CaresAboutShard(id primitives.EpochID, account primitives.AccountID, shard primitives.ShardID) (bool, error) {
	producers, err := m.ChunkProducersForShard(id, shard)
	return slices.Contains(producers, account), err
}

// CaresAboutShardNextEpoch tells whether an account is a chunk producer, in the epoch after that of
// a child of parent, of a shard of that child's epoch or of one that it will be split into. A shard
// long gone is nobody's.
func (m *Manager) CaresAboutShardNextEpoch(parent primitives.Hash, account primitives.AccountID, shard primitives.ShardID) (bool, error) {
	id, err := m.NextEpochIDFromPrev(parent)
	if err != nil {
		return false, err
	}
	changes, err := m.WillShardLayoutChange(parent)
	if err != nil {
		return false, err
	}
	shards := []primitives.ShardID{shard}
	if changes {
		next, err := m.ShardLayout(id)
		if err != nil {
			return false, err
		}
		shards, _ = next.Children(shard)
	}
	for _, s := range shards {
		if cares, err := m.CaresAboutShard(id, account, s); err != nil || cares {
			return cares, err
		}
	}
	return false, nil
}

// CanReshard tells whether a split may be decided in the epoch of a recorded block: the last new
// layout, that of the next epoch counted, is at least so many epochs old.
func (m *Manager) CanReshard(hash primitives.Hash, minEpochs uint64) (bool, error) {
	id, err := m.NextEpochID(hash)
	if err != nil {
		return false, err
	}
	next, err := m.EpochInfo(id)
	if err != nil {
		return false, err
	}
	return next.LastResharding == nil || next.EpochHeight-*next.LastResharding >= minEpochs, nil
}

// MayProposeSplit tells whether a chunk applied in a block of this height on this parent is to
// propose where its shard could be split, and by which rules (nearcore
// chain/chain/src/runtime/mod.rs:581): nil when not.
func (m *Manager) MayProposeSplit(height primitives.Height, parent primitives.Hash) (*DynamicResharding, error) {
	id, err := m.EpochIDFromPrev(parent)
	if err != nil {
		return nil, err
	}
	config, err := m.EpochConfig(id)
	if err != nil || config.Resharding == nil {
		return nil, err
	}
	soon, err := m.IsNextBlockPossiblyLastInEpoch(height, parent)
	if err != nil || !soon {
		return nil, err
	}
	can, err := m.CanReshard(parent, config.Resharding.MinEpochsBetweenResharding)
	if err != nil || !can {
		return nil, err
	}
	return config.Resharding, nil
}

// ProposedSplit is the split that a shard's chunk header proposes.
type ProposedSplit struct {
	ShardID primitives.ShardID
	Split   primitives.TrieSplit
}

// ShardSplit returns the shard_split of the header of a block of this height on this parent, with
// this last final block and these chunk headers, repeated ones included (nearcore
// chain/chain/src/validate.rs:193). nil for none.
func (m *Manager) ShardSplit(height primitives.Height, parent, lastFinal primitives.Hash, chunks []*primitives.ChunkHeader) (*primitives.ShardSplit, error) {
	last, err := m.IsProducedBlockLastInEpoch(height, parent, lastFinal)
	if err != nil || !last {
		return nil, err
	}
	id, err := m.EpochIDFromPrev(parent)
	if err != nil {
		return nil, err
	}
	config, err := m.EpochConfig(id)
	if err != nil || config.Resharding == nil {
		return nil, err
	}
	can, err := m.CanReshard(parent, config.Resharding.MinEpochsBetweenResharding)
	if err != nil || !can {
		return nil, err
	}
	var proposed []ProposedSplit
	for _, c := range chunks {
		if c.ProposedSplit != nil {
			proposed = append(proposed, ProposedSplit{c.ShardID, *c.ProposedSplit})
		}
	}
	p, ok := PickShardToSplit(proposed, config.Resharding)
	if !ok {
		return nil, nil
	}
	return &primitives.ShardSplit{ShardID: p.ShardID, Boundary: p.Split.Boundary}, nil
}

// PickShardToSplit returns the proposal that wins: the first in the order of the force list, else
// the one of the most memory, then of the highest shard id. Blocked shards propose nothing in a
// valid chunk.
func PickShardToSplit(proposed []ProposedSplit, c *DynamicResharding) (best ProposedSplit, ok bool) {
	for _, forced := range c.ForceSplitShards {
		for _, p := range proposed {
			if p.ShardID == forced {
				return p, true
			}
		}
	}
	memory := func(p ProposedSplit) uint64 { return p.Split.LeftMemory + p.Split.RightMemory }
	for _, p := range proposed {
		if slices.Contains(c.BlockSplitShards, p.ShardID) {
			continue
		}
		if !ok || memory(p) > memory(best) || memory(p) == memory(best) && p.ShardID > best.ShardID {
			best, ok = p, true
		}
	}
	return best, ok
}

// ascendingShards returns the indices of shards in the order of their ids.
func ascendingShards(ids []primitives.ShardID) []int {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	return order
}
