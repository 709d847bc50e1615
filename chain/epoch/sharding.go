package epoch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// ShardLayoutFromPrev returns the layout of a block's epoch, given the block's parent.
func (m *Manager) ShardLayoutFromPrev(parent primitives.Hash) (primitives.ShardLayout, error) {
	id, err := m.EpochIDFromPrev(parent)
	if err != nil {
		return primitives.ShardLayout{}, err
	}
	return m.ShardLayout(id)
}

// IsReshardingBoundary returns whether the layout of parent's children differs from parent's
// layout.
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

// PrevShard returns parent's layout and the shard of that layout that contained the accounts of a
// shard of parent's children. The result is that shard itself unless the layout changes (nearcore
// adapter.rs get_prev_shard_id_from_prev_hash). Errors: ErrSharding.
func (m *Manager) PrevShard(parent primitives.Hash,
	shard primitives.ShardID) (primitives.ShardLayout, primitives.ShardID, primitives.ShardIndex, error) {
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

// WillShardLayoutChange returns whether the layout changes at the end of the epoch of parent's
// children.
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

// CaresAboutShard returns whether an account is a chunk producer of a shard in an epoch. Errors:
// ErrSharding.
func (m *Manager) CaresAboutShard(id primitives.EpochID, account primitives.AccountID,
	shard primitives.ShardID) (bool, error) {
	producers, err := m.ChunkProducersForShard(id, shard)
	return slices.Contains(producers, account), err
}

// CaresAboutShardNextEpoch returns whether an account is a chunk producer of a shard in the epoch
// after that of parent's children. If the shard is split, the result is whether the account is a
// chunk producer of one of the shard's children. shard is in the layout of parent's children. The
// result is false for a shard that does not exist in the next epoch.
func (m *Manager) CaresAboutShardNextEpoch(parent primitives.Hash, account primitives.AccountID,
	shard primitives.ShardID) (bool, error) {
	id, shards, err := m.nextShards(parent, shard)
	if err != nil {
		return false, err
	}
	for _, s := range shards {
		if cares, err := m.CaresAboutShard(id, account, s); err != nil || cares {
			return cares, err
		}
	}
	return false, nil
}

// nextShards returns the epoch after that of parent's children, and what a shard of the layout of
// parent's children is there: the shard itself, its children if the shard is split, or no shard.
func (m *Manager) nextShards(parent primitives.Hash,
	shard primitives.ShardID) (id primitives.EpochID, shards []primitives.ShardID, err error) {
	if id, err = m.NextEpochIDFromPrev(parent); err != nil {
		return id, nil, err
	}
	changes, err := m.WillShardLayoutChange(parent)
	if err != nil || !changes {
		return id, []primitives.ShardID{shard}, err
	}
	next, err := m.ShardLayout(id)
	if err != nil {
		return id, nil, err
	}
	shards, _ = next.Children(shard)
	return id, shards, nil
}

// ShardTrackers returns the accounts that are chunk producers of a shard in the epoch of parent's
// children or in the epoch after it (CaresAboutShard, CaresAboutShardNextEpoch). An account may
// occur repeatedly. Errors: ErrSharding.
func (m *Manager) ShardTrackers(parent primitives.Hash, shard primitives.ShardID) ([]primitives.AccountID, error) {
	id, err := m.EpochIDFromPrev(parent)
	if err != nil {
		return nil, err
	}
	list, err := m.ChunkProducersForShard(id, shard)
	if err != nil {
		return nil, err
	}
	id, shards, err := m.nextShards(parent, shard)
	if err != nil {
		return nil, err
	}
	for _, s := range shards {
		next, err := m.ChunkProducersForShard(id, s)
		if err != nil {
			return nil, err
		}
		list = append(list, next...)
	}
	return list, nil
}

// CanReshard returns whether a split may be decided in the epoch of a recorded block. At least
// minEpochs epochs must have passed since the last change of the layout. A change in the next epoch
// counts.
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

// MayProposeSplit returns the rules for split proposals of chunks in a block with this height and
// parent (nearcore chain/chain/src/runtime/mod.rs:581). MayProposeSplit returns nil if these chunks
// must not propose a split.
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

// ProposedSplit is a split that a chunk header proposes for its shard.
type ProposedSplit struct {
	ShardID primitives.ShardID
	Split   primitives.TrieSplit
}

// ShardSplit returns the shard_split for the header of a block with this height, parent, last final
// block and chunk headers (nearcore chain/chain/src/validate.rs:193). chunks includes the headers
// that are not new. ShardSplit returns nil if no shard is split.
func (m *Manager) ShardSplit(height primitives.Height, parent, lastFinal primitives.Hash,
	chunks []*primitives.ChunkHeader) (*primitives.ShardSplit, error) {
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

// PickShardToSplit returns the proposal that the block accepts: the first proposal in the order of
// ForceSplitShards. If no shard of ForceSplitShards is proposed, PickShardToSplit returns the
// proposal with the most memory, and among proposals with equal memory the one with the highest
// shard ID. Valid chunks contain no proposals for blocked shards. ok is false if there are no
// proposals.
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

// ascendingShards returns the indices of shards in the order of their IDs.
func ascendingShards(ids []primitives.ShardID) []int {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	return order
}
