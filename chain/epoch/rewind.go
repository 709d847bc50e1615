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

// Rewind goes back to a mark, which may be used again. gone are the blocks that have been recorded since, which the store has no more.
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
