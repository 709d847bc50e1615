package epoch

import "github.com/troupe-chain/troupe/primitives"

// Mark is a saved state of the Manager's statistics, for Rewind and Child.
type Mark struct {
	aggregator *Aggregator
	finalized  primitives.Height
	ended      *VersionVotes
}

// Mark returns the current state of the statistics, for Rewind and Child.
func (m *Manager) Mark() Mark {
	k := Mark{finalized: m.finalized, ended: m.ended}
	if m.aggregator != nil {
		k.aggregator = m.aggregator.clone()
	}
	return k
}

// Rewind restores the state of a Mark. The Mark remains valid. gone are the blocks that were
// recorded after the Mark and are no longer in the store.
func (m *Manager) Rewind(to Mark, gone []primitives.Hash) {
	for _, hash := range gone {
		m.blocks.drop(hash)
		m.epochs.drop(hash) // hash is an epoch ID if the block was the last of its epoch
	}
	m.aggregator, m.finalized, m.earlier, m.stored, m.ended = nil, to.finalized, [2]earlierStats{}, nil, to.ended
	if to.aggregator != nil {
		m.aggregator = to.aggregator.clone()
	}
}

// childCacheSize is the size of a child's caches. The caches are small because there may be many
// children.
const childCacheSize = 64

// Child returns a Manager for a chain that continues independently from a Mark. store must contain
// the rows up to the Mark.
func (m *Manager) Child(store Store, at Mark) *Manager {
	c := &Manager{
		kickout: m.kickout, lists: newCache[primitives.Hash, []shardBlacklist](listCacheSize),
		kickouts: map[primitives.ShardID]EarlyKickoutStats{},
		configs:  m.configs, rewards: m.rewards, store: store, genesis: m.genesis, dummy: m.dummy,
		epochs:   newCache[primitives.EpochID, *EpochInfo](epochCacheSize),
		blocks:   newCache[primitives.Hash, *BlockInfo](childCacheSize),
		samples:  newCache[sampleKey, [][]WeightedValidator](childCacheSize),
		syncData: newCache[primitives.Hash, primitives.Hash](syncDataCacheSize),
	}
	c.Rewind(at, nil)
	return c
}
