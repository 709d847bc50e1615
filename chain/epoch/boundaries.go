package epoch

import (
	"github.com/troupe-chain/troupe/primitives"
)

// epochSpan returns the first height of b's epoch and the epoch's length in blocks. b must not be
// the genesis.
func (m *Manager) epochSpan(b *BlockInfo) (first primitives.Height, length uint64, err error) {
	fb, err := m.BlockInfo(b.EpochFirstBlock)
	if err != nil {
		return 0, 0, err
	}
	config, err := m.EpochConfig(fb.EpochID)
	if err != nil {
		return 0, 0, err
	}
	return fb.Height, config.EpochLength, nil
}

// EpochSpan returns the height of the first block of a recorded block's epoch, the epoch's planned
// length, and whether the block is the epoch's last.
func (m *Manager) EpochSpan(hash primitives.Hash) (first primitives.Height, length uint64, last bool, err error) {
	b, err := m.BlockInfo(hash)
	if err != nil {
		return 0, 0, false, err
	}
	if first, length, err = m.epochSpan(b); err == nil {
		last, err = m.isLast(b)
	}
	return first, length, last, err
}

// endsEpoch returns whether a block ends its epoch, given its height and the height of its last
// final block (nearcore lib.rs:1596). The block ends the epoch if that final block is at most two
// heights before the planned end. In epochs of length 3 or less, only the block's own height
// counts.
func endsEpoch(first primitives.Height, length uint64, height, lastFinal primitives.Height) bool {
	next := uint64(first) + length
	if length <= 3 {
		return uint64(height)+1 >= next
	}
	return uint64(lastFinal)+3 >= next
}

func (m *Manager) isLast(b *BlockInfo) (bool, error) {
	if b.IsGenesis() {
		return true, nil
	}
	first, length, err := m.epochSpan(b)
	return err == nil && endsEpoch(first, length, b.Height, b.LastFinalizedHeight), err
}

// IsNextBlockEpochStart returns whether a block is the last of its epoch, so that its children
// start the next.
func (m *Manager) IsNextBlockEpochStart(hash primitives.Hash) (bool, error) {
	b, err := m.BlockInfo(hash)
	if err != nil {
		return false, err
	}
	return m.isLast(b)
}

// IsProducedBlockLastInEpoch returns whether a block that is not recorded yet, with this height,
// parent and last final block, is the last of its epoch.
func (m *Manager) IsProducedBlockLastInEpoch(height primitives.Height,
	parent, lastFinal primitives.Hash) (bool, error) {
	p, err := m.BlockInfo(parent)
	if err != nil {
		return false, err
	}
	if last, err := m.isLast(p); err != nil || last {
		return false, err // the parent is the last block of its epoch, so the block is the first of the next epoch
	}
	f, err := m.BlockInfo(lastFinal)
	if err != nil {
		return false, err
	}
	first, length, err := m.epochSpan(p)
	return err == nil && endsEpoch(first, length, height, f.Height), err
}

// IsNextBlockPossiblyLastInEpoch returns whether a child of a block with this height and parent may
// be the last of its epoch if finality proceeds normally. The result is true whenever a child is
// the last block of its epoch. The result may also be true when no child is. Chunks propose splits
// only in blocks for which it is true.
func (m *Manager) IsNextBlockPossiblyLastInEpoch(height primitives.Height, parent primitives.Hash) (bool, error) {
	p, err := m.BlockInfo(parent)
	if err != nil {
		return false, err
	}
	if last, err := m.isLast(p); err != nil || last {
		return false, err
	}
	first, length, err := m.epochSpan(p)
	return err == nil && endsEpoch(first, length, height+1, max(height, 1)-1), err
}

// EpochID returns the epoch of a recorded block.
func (m *Manager) EpochID(hash primitives.Hash) (primitives.EpochID, error) {
	b, err := m.BlockInfo(hash)
	if err != nil {
		return primitives.EpochID{}, err
	}
	return b.EpochID, nil
}

// NextEpochID returns the epoch after a recorded block's epoch. The ID of that next epoch is the
// hash of the last block of the epoch before the recorded block's epoch.
func (m *Manager) NextEpochID(hash primitives.Hash) (primitives.EpochID, error) {
	b, err := m.BlockInfo(hash)
	if err != nil {
		return primitives.EpochID{}, err
	}
	return m.nextEpochID(b)
}

func (m *Manager) nextEpochID(b *BlockInfo) (primitives.EpochID, error) {
	first, err := m.BlockInfo(b.EpochFirstBlock)
	if err != nil {
		return primitives.EpochID{}, err
	}
	return first.PrevHash, nil
}

// EpochIDFromPrev returns the epoch of a block, given the block's parent.
func (m *Manager) EpochIDFromPrev(parent primitives.Hash) (primitives.EpochID, error) {
	p, err := m.BlockInfo(parent)
	if err != nil {
		return primitives.EpochID{}, err
	}
	last, err := m.isLast(p)
	if err != nil || !last {
		return p.EpochID, err
	}
	return m.nextEpochID(p)
}

// NextEpochIDFromPrev returns the epoch after a block's epoch, given the block's parent.
func (m *Manager) NextEpochIDFromPrev(parent primitives.Hash) (primitives.EpochID, error) {
	p, err := m.BlockInfo(parent)
	if err != nil {
		return primitives.EpochID{}, err
	}
	last, err := m.isLast(p)
	if err != nil || last {
		return parent, err
	}
	return m.nextEpochID(p)
}

// PrevEpochIDFromPrev returns the epoch before a block's epoch, given the block's parent.
func (m *Manager) PrevEpochIDFromPrev(parent primitives.Hash) (primitives.EpochID, error) {
	p, err := m.BlockInfo(parent)
	if err != nil {
		return primitives.EpochID{}, err
	}
	last, err := m.isLast(p)
	if err != nil || last {
		return p.EpochID, err
	}
	first, err := m.BlockInfo(p.EpochFirstBlock)
	if err != nil {
		return primitives.EpochID{}, err
	}
	return m.EpochID(first.PrevHash)
}

// EpochStartHeight returns the height of the first block of a recorded block's epoch. The result is
// 0 for the genesis.
func (m *Manager) EpochStartHeight(hash primitives.Hash) (primitives.Height, error) {
	b, err := m.BlockInfo(hash)
	if err != nil {
		return 0, err
	}
	first, err := m.BlockInfo(b.EpochFirstBlock)
	if err != nil {
		return 0, err
	}
	return first.Height, nil
}

// needsNextEpochApprovals returns whether a child of b also needs approvals of the next epoch's
// block producers. The child needs them if the planned end of the epoch is at most three heights
// away or has passed, while late finality keeps the epoch from ending (nearcore lib.rs:1639).
func (m *Manager) needsNextEpochApprovals(b *BlockInfo) (bool, error) {
	if last, err := m.isLast(b); err != nil || last {
		return false, err
	}
	first, length, err := m.epochSpan(b)
	if err != nil {
		return false, err
	}
	next := uint64(first) + length
	return uint64(b.LastFinalizedHeight)+3 < next && uint64(b.Height)+3 >= next, nil
}
