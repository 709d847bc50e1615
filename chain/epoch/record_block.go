package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// BlockInfoFromHeader returns the BlockInfo of a block. lastFinalized is the height of the block's
// last final block, or the height of the genesis if there is none yet. RecordBlockInfo sets the
// remaining fields.
func BlockInfoFromHeader(h *primitives.BlockHeader, lastFinalized primitives.Height) *BlockInfo {
	return &BlockInfo{
		Hash: h.Hash(), Height: h.Height, LastFinalizedHeight: lastFinalized, LastFinalBlockHash: h.LastFinalBlock,
		PrevHash: h.PrevHash, Proposals: h.PrevValidatorProposals, ChunkMask: h.ChunkMask,
		LatestProtocolVersion: h.LatestProtocolVersion, TotalSupply: h.TotalSupply, Timestamp: h.Timestamp,
		ChunkEndorsements: h.ChunkEndorsements, ShardSplit: h.ShardSplit,
	}
}

// RecordBlockInfo adds a block whose parent is recorded (nearcore lib.rs:880). RecordBlockInfo sets
// the block's epoch fields and ChunkProducers, and returns the Changes to persist. rngSeed is the
// header's random_value. The Changes are empty if the block was recorded before and is still in the
// cache. Callers must not record a block again that may have left the cache.
//
// If the caller cannot persist the Changes, the caller must pass the Changes to Forget. After an
// error nothing was recorded. Errors: ErrBlockInfo, ErrMissingBlock, errors at the end of an epoch.
func (m *Manager) RecordBlockInfo(block *BlockInfo, rngSeed primitives.Hash) (Changes, error) {
	if block.Hash.IsZero() {
		return Changes{}, fmt.Errorf("%w: the block hash is zero", ErrBlockInfo)
	}
	if _, known := m.blocks.get(block.Hash); known {
		return Changes{}, nil
	}
	if block.IsGenesis() {
		if len(block.Proposals) != 0 {
			return Changes{}, fmt.Errorf("%w: the genesis block contains validator proposals", ErrBlockInfo)
		}
		var err error
		if block.ChunkProducers, err = m.anchorRows(block); err != nil {
			return Changes{}, err
		}
		m.blocks.put(block.Hash, block)
		m.epochs.put(block.Hash, m.genesis)
		return Changes{BlockInfo: block, NextNextEpoch: m.genesis}, nil
	}
	changes := Changes{BlockInfo: block}
	if err := m.enterEpoch(block, &changes); err != nil {
		return Changes{}, err
	}
	m.blocks.put(block.Hash, block)
	if err := m.recordEffects(block, rngSeed, &changes); err != nil {
		m.blocks.drop(block.Hash)
		return Changes{}, err
	}
	return changes, nil
}

// StartAt declares that the blocks below a height are unknown and have no statistics, because the
// chain starts at that height, with an epoch sync proof.
func (m *Manager) StartAt(first primitives.Height) {
	m.finalized = max(m.finalized, first-min(first, 1))
}

// Forget undoes the last RecordBlockInfo, whose Changes could not be persisted. The aggregator
// stays at the final block to which that call advanced it. This is correct, because final blocks
// are on every branch.
func (m *Manager) Forget(c *Changes) {
	if c.BlockInfo == nil {
		return
	}
	m.blocks.drop(c.BlockInfo.Hash)
	if c.NextNextEpoch != nil {
		m.epochs.drop(c.BlockInfo.Hash)
	}
}

// enterEpoch sets the block's epoch and the first block of that epoch. enterEpoch also checks the
// conditions that the statistics require.
func (m *Manager) enterEpoch(block *BlockInfo, changes *Changes) error {
	prev, err := m.BlockInfo(block.PrevHash)
	if err != nil {
		return err
	}
	if block.Height <= prev.Height {
		return fmt.Errorf("%w: height %d is not above the parent's height %d", ErrBlockInfo, block.Height, prev.Height)
	}
	last, err := m.isLast(prev)
	if err != nil {
		return err
	}
	switch {
	case prev.IsGenesis(): // the block starts the first epoch, which includes the genesis
		block.EpochID, block.EpochFirstBlock, changes.EpochStart = primitives.EpochID{}, block.Hash, true
	case last:
		if block.EpochID, err = m.nextEpochID(prev); err != nil {
			return err
		}
		block.EpochFirstBlock, changes.EpochStart = block.Hash, true
	default:
		block.EpochID, block.EpochFirstBlock = prev.EpochID, prev.EpochFirstBlock
	}
	layout, err := m.ShardLayout(block.EpochID)
	if err != nil {
		return err
	}
	if len(block.ChunkMask) != layout.NumShards() {
		return fmt.Errorf("%w: the chunk mask has %d entries for %d shards", ErrBlockInfo, len(block.ChunkMask), layout.NumShards())
	}
	return nil
}

// recordEffects ends the epoch if block is the epoch's last, advances the aggregator to the last
// final block, and sets the block's ChunkProducers. Ending the epoch may fail, so recordEffects
// does that first.
func (m *Manager) recordEffects(block *BlockInfo, rngSeed primitives.Hash, changes *Changes) error {
	last, err := m.isLast(block)
	if err != nil {
		return err
	}
	if last {
		if err := m.finalizeEpoch(block, rngSeed, changes); err != nil {
			return fmt.Errorf("compute the end of epoch %v: %w", block.EpochID, err)
		}
	}
	if block.LastFinalizedHeight > m.finalized {
		a, err := m.aggregate(block.LastFinalBlockHash, true)
		if err != nil {
			return err
		}
		if block.LastFinalizedHeight/aggregatorPeriod > m.finalized/aggregatorPeriod {
			changes.Aggregator = a.clone()
		}
		m.aggregator, m.finalized, m.stored = a, block.LastFinalizedHeight, nil
		m.keepEarlier()
	}
	if block.ChunkProducers, err = m.anchorRows(block); err != nil {
		return fmt.Errorf("chunk producers for anchor block %v: %w", block.Hash, err)
	}
	if last {
		m.epochs.put(block.Hash, changes.NextNextEpoch)
	}
	return nil
}

// aggregatorPeriod is the number of heights between two stored Aggregators. After a restart,
// aggregate counts the blocks since the last stored one. With 450 validators and ten shards,
// counting takes 0.2 ms a block, and an Aggregator has 150 kB. nearcore stores one each 1,000
// heights (nearcore chain/epoch-manager/src/lib.rs:64).
const aggregatorPeriod = 500

// earlierEvery is the number of heights between the copies of the aggregator in m.earlier. Queries
// ask for statistics as of persisted blocks. m.aggregator may already be above the persisted
// blocks, because imported blocks have advanced m.aggregator and up to engine.MaxAhead imported
// blocks are not persisted yet.
const earlierEvery = 32

// earlierStats is a copy of the aggregator as of the final block at height. The copy never changes.
type earlierStats struct {
	*Aggregator
	height primitives.Height
}

// keepEarlier copies the aggregator if that is due.
func (m *Manager) keepEarlier() {
	last := m.earlier[0]
	if last.Aggregator != nil && last.EpochID == m.aggregator.EpochID && m.finalized < last.height+earlierEvery {
		return
	}
	m.earlier[0], m.earlier[1] = earlierStats{m.aggregator.clone(), m.finalized}, last
}

// statsAt returns the aggregator, m.stored, or a copy in m.earlier, whose last block is the given
// block. It returns nil if none of them ends with that block.
func (m *Manager) statsAt(block primitives.Hash, id primitives.EpochID) *Aggregator {
	for _, a := range []*Aggregator{m.aggregator, m.earlier[0].Aggregator, m.earlier[1].Aggregator, m.stored} {
		if a != nil && a.LastBlock == block && a.EpochID == id {
			return a
		}
	}
	return nil
}

// aggregate returns the statistics of a block's epoch up to this block. aggregate continues from
// m.aggregator, from a copy in m.earlier or, after a restart, from the Aggregator of the Store, if
// the LastBlock of the statistics is an ancestor in the block's epoch. Otherwise aggregate counts
// from the first block of the epoch on, which takes seconds in a long epoch. If reuse is set,
// aggregate may change m.aggregator itself, and the caller must store the result there.
func (m *Manager) aggregate(hash primitives.Hash, reuse bool) (*Aggregator, error) {
	head, err := m.BlockInfo(hash)
	if err != nil {
		return nil, err
	}
	info, err := m.EpochInfo(head.EpochID)
	if err != nil {
		return nil, err
	}
	layout, err := m.layoutOf(info)
	if err != nil {
		return nil, err
	}
	if m.aggregator == nil && m.stored == nil {
		if err := m.readStored(head.EpochID, info); err != nil {
			return nil, err
		}
	}
	type step struct{ block, parent *BlockInfo }
	var path []step // blocks that base does not count yet, newest first
	var base *Aggregator
	for b := head; ; {
		if base = m.statsAt(b.Hash, head.EpochID); base != nil {
			break
		}
		if b.IsGenesis() || b.EpochID != head.EpochID {
			break
		}
		prev, err := m.BlockInfo(b.PrevHash)
		if err != nil {
			return nil, err
		}
		path = append(path, step{b, prev})
		b = prev
	}
	switch {
	case base == nil:
		base = newAggregator(head.EpochID, info)
		base.LastBlock = hash
	case base != m.aggregator && reuse, !reuse && len(path) > 0: // do not change shared statistics
		base = base.clone()
	}
	for _, s := range slices.Backward(path) {
		producers, err := m.chunkProducersOn(s.parent, head.EpochID, info, layout)
		if err != nil {
			return nil, err
		}
		// The assignment was drawn when the block was validated. The assignment is still in the
		// cache unless many blocks were validated since. If the cache lacks the assignment, draw it
		// again.
		height := s.parent.Height + 1
		assignment, drawn := m.samples.get(sampleKey{head.EpochID, height})
		if !drawn {
			assignment = info.SampleChunkValidators(height)
		}
		if err := base.add(s.block, info, producers, s.parent.Height, assignment); err != nil {
			return nil, err
		}
	}
	return base, nil
}

// readStored reads the Aggregator of the Store into m.stored if it belongs to the epoch id, whose
// info is info. An Aggregator of another branch does no harm, because statsAt compares LastBlock.
// Errors: ErrBlockInfo if the Aggregator contradicts info.
func (m *Manager) readStored(id primitives.EpochID, info *EpochInfo) error {
	a, err := m.store.Aggregator()
	if err != nil {
		return fmt.Errorf("stored statistics of epoch %v: %w", id, err)
	}
	if a == nil || a.EpochID != id {
		return nil
	}
	if len(a.Blocks) != len(info.Validators) || len(a.Chunks) != len(info.ChunkProducers) {
		return fmt.Errorf("%w: the stored statistics of epoch %v have %d validators and %d shards, the epoch has %d and %d",
			ErrBlockInfo, id, len(a.Blocks), len(a.Chunks), len(info.Validators), len(info.ChunkProducers))
	}
	m.stored = a
	return nil
}
