package epoch

import "github.com/troupe-chain/troupe/primitives"

// Mark is where the statistics of the epochs stand.
type Mark struct {
	aggregator *Aggregator
	finalized  primitives.Height
}

// Mark notes where the statistics stand, for Rewind.
func (m *Manager) Mark() Mark {
	k := Mark{finalized: m.finalized}
	if m.aggregator != nil {
		k.aggregator = m.aggregator.clone()
	}
	return k
}

// Rewind goes back to a mark, which may be used again. gone are the blocks that have been recorded
// since, which the store has no more.
func (m *Manager) Rewind(to Mark, gone []primitives.Hash) {
	for _, hash := range gone {
		m.blocks.drop(hash)
		m.epochs.drop(hash) // of which it was the last block
	}
	m.aggregator, m.finalized = nil, to.finalized
	if to.aggregator != nil {
		m.aggregator = to.aggregator.clone()
	}
}

// childCacheSize is that of the caches of a child, of which there may be many.
const childCacheSize = 64

// Child returns a Manager of a chain that goes on from a mark on its own. It shares nothing with m
// that either changes.
func (m *Manager) Child(store Store, at Mark) *Manager {
	c := &Manager{
		configs: m.configs, rewards: m.rewards, store: store, genesis: m.genesis, dummy: m.dummy,
		epochs:   newCache[primitives.EpochID, *EpochInfo](epochCacheSize),
		blocks:   newCache[primitives.Hash, *BlockInfo](childCacheSize),
		samples:  newCache[sampleKey, [][]WeightedValidator](childCacheSize),
		syncData: newCache[primitives.Hash, primitives.Hash](syncDataCacheSize),
	}
	c.Rewind(at, nil)
	return c
}
