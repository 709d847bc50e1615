package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// BlockInfoFromHeader returns the info of a block. lastFinalized is the height of its last final
// block: the genesis's height while there is none, and for the genesis itself. RecordBlockInfo sets
// the epoch fields.
func BlockInfoFromHeader(h *primitives.BlockHeader, lastFinalized primitives.Height) *BlockInfo {
	return &BlockInfo{
		Hash: h.Hash(), Height: h.Height, LastFinalizedHeight: lastFinalized, LastFinalBlockHash: h.LastFinalBlock,
		PrevHash: h.PrevHash, Proposals: h.PrevValidatorProposals, ChunkMask: h.ChunkMask,
		LatestProtocolVersion: h.LatestProtocolVersion, TotalSupply: h.TotalSupply, Timestamp: h.Timestamp,
		ChunkEndorsements: h.ChunkEndorsements, ShardSplit: h.ShardSplit,
	}
}

// RecordBlockInfo adds a block with a recorded parent (nearcore lib.rs:880). It sets the block's
// epoch fields and ChunkProducers, keeps the block, and returns what to persist. The result is empty
// if the block is among the latest recorded ones; for older blocks the caller must avoid repeats.
// rngSeed is the header's random_value.
//
// A caller that fails to persist the Changes must pass them to Forget. After an error nothing was
// recorded. Errors: ErrBlockInfo, ErrMissingBlock, those of the end of an epoch.
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

// StartAt says that the chain is known from a height on only, because it began from an epoch sync
// proof: there are no statistics of earlier blocks.
func (m *Manager) StartAt(first primitives.Height) {
	m.finalized = max(m.finalized, first-min(first, 1))
}

// Forget reverts the last RecordBlockInfo when its Changes could not be persisted. The statistics
// of its epoch may stay at a later final block, which is correct on any branch.
func (m *Manager) Forget(c *Changes) {
	if c.BlockInfo == nil {
		return
	}
	m.blocks.drop(c.BlockInfo.Hash)
	if c.NextNextEpoch != nil {
		m.epochs.drop(c.BlockInfo.Hash)
	}
}

// enterEpoch sets the block's epoch and that epoch's first block, and checks what the statistics
// rely on.
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
	case prev.IsGenesis(): // the first block starts the epoch that is also the genesis's
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

// recordEffects ends the epoch if block is its last, advances the aggregator to the last final
// block, and determines the block's ChunkProducers. The end of the epoch comes first, because it
// can fail; an aggregator that is ahead does no harm.
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
		m.aggregator, m.finalized = a, block.LastFinalizedHeight
	}
	if block.ChunkProducers, err = m.anchorRows(block); err != nil {
		return fmt.Errorf("chunk producers for anchor block %v: %w", block.Hash, err)
	}
	if last {
		m.epochs.put(block.Hash, changes.NextNextEpoch)
	}
	return nil
}

// aggregate returns the statistics of hash's epoch up to hash. It walks back to the aggregator's
// last block or, on another fork, in another epoch or after a restart, to the first block of the
// epoch. With reuse the aggregator itself is advanced if hash follows it, and the caller keeps the
// result.
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
	type step struct{ block, parent *BlockInfo }
	var path []step // newest first
	base := m.aggregator
	for b := head; ; {
		if base != nil && b.Hash == base.LastBlock && base.EpochID == head.EpochID {
			break
		}
		if b.IsGenesis() || b.EpochID != head.EpochID {
			base = nil
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
	case !reuse && len(path) > 0:
		base = base.clone()
	}
	for _, s := range slices.Backward(path) {
		producers, err := m.chunkProducersOn(s.parent, head.EpochID, info, layout)
		if err != nil {
			return nil, err
		}
		// sampled when the block was validated; for many blocks the samples are not kept
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
