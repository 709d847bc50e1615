package anchor

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

var (
	// ErrForm means that a message has an anchor although EarlyKickout is not in force in the
	// chunk's epoch, or that the message has none although EarlyKickout is in force.
	ErrForm = errors.New("anchor: the form of the message does not fit the protocol version of its epoch")
	// ErrWrong means that no chunk on the given parent has this height, epoch and anchor.
	ErrWrong = errors.New("anchor: the message does not fit its chunk's parent")
	// ErrEarly means that the chunk's parent is unknown, and that the height, epoch and anchor
	// cannot be checked without the parent.
	ErrEarly = errors.New("anchor: the chunk's parent is unknown")
)

// heightOffset is the minimum of a chunk's height minus the height of its anchor. The difference is
// greater if heights were skipped.
const heightOffset = 2

// Check checks what a message claims of a chunk: the chunk's height and epoch (key), and the
// chunk's parent and anchor (at). The anchor and the shard alone determine the chunk's producer. So
// without this check, a producer could sign chunks for any height and epoch. In the table, A is the
// height of the anchor:
//
//	parent known      the anchor is its parent, the height is the next one, the epoch is its child's
//	parent unknown
//	  zero anchor     height ≤ genesis + 1, the only chunks without an anchor
//	  height < A + 2  wrong
//	  A is last or possibly second to last of its epoch, or the epoch has at most 3 blocks
//	                  early: the chunk may be of the next epoch
//	  height > A + 2  early: heights may have been skipped between A and the parent
//	  other epoch     wrong
//
// nearcore has no check like the last row: it rejects a chunk of an epoch other than the anchor's
// only after the parent has arrived. No honest node sends such a chunk: the anchor is not near the
// end of its epoch, so the chunk is in the anchor's epoch.
//
// A known parent may still turn out to be invalid. So the result only decides whether work is done
// before the parent is validated. Errors: ErrWrong, ErrEarly, errors of the epoch manager's store.
func Check(m *epoch.Manager, key primitives.ChunkKey, at primitives.ChunkAnchor, genesis primitives.Height) error {
	if at.PrevBlock.IsZero() { // the epoch manager treats zero as the parent of the genesis
		return fmt.Errorf("%w: the message names no parent block", ErrWrong)
	}
	parent, err := m.BlockInfo(at.PrevBlock)
	if errors.Is(err, epoch.ErrMissingBlock) {
		return checkWithoutParent(m, key, at, genesis)
	}
	if err != nil {
		return err
	}
	id, err := m.EpochIDFromPrev(at.PrevBlock)
	if err != nil {
		return early(err)
	}
	if parent.PrevHash != at.PrevPrevBlock || parent.Height+1 != key.HeightCreated || id != key.EpochID {
		return fmt.Errorf("%w: on parent %v it must have height %d, epoch %v and anchor %v, but it has height %d, epoch "+
			"%v and anchor %v", ErrWrong,
			at.PrevBlock, parent.Height+1, id, parent.PrevHash, key.HeightCreated, key.EpochID, at.PrevPrevBlock)
	}
	return nil
}

// WrongForm returns an ErrForm for a message about a chunk. named states whether the message names an
// anchor.
func WrongForm(shard primitives.ShardID, height primitives.Height, named bool) error {
	if named {
		return fmt.Errorf("%w: for shard %d at height %d it names an anchor, but EarlyKickout is not in force", ErrForm, shard, height)
	}
	return fmt.Errorf("%w: for shard %d at height %d it names no anchor, but EarlyKickout is in force", ErrForm, shard, height)
}

func checkWithoutParent(m *epoch.Manager, key primitives.ChunkKey, at primitives.ChunkAnchor,
	genesis primitives.Height) error {
	if at.PrevPrevBlock.IsZero() {
		if key.HeightCreated > genesis+1 {
			return fmt.Errorf("%w: the chunk at height %d names no anchor (the block before its parent); only a child of the "+
				"genesis, up to height %d, may do so",
				ErrWrong, key.HeightCreated, genesis+1)
		}
		return nil
	}
	a, err := m.BlockInfo(at.PrevPrevBlock)
	if err != nil {
		return early(err)
	}
	next := a.Height + heightOffset
	if key.HeightCreated < next {
		return fmt.Errorf("%w: the chunk's height is %d, must be at least %d, since its anchor (the block before its parent) has height %d",
			ErrWrong, key.HeightCreated, next, a.Height)
	}
	if tail, err := isTail(m, a); errors.Is(err, epoch.ErrMissingBlock) {
		return fmt.Errorf("%w: an ancestor of the anchor is unknown: %v", ErrEarly, err)
	} else if err != nil {
		return err
	} else if tail {
		return fmt.Errorf("%w: the anchor at height %d may be near the end of its epoch, so only the parent shows the "+
			"chunk's epoch", ErrEarly, a.Height)
	}
	if key.HeightCreated > next {
		return fmt.Errorf("%w: the chunk's height is %d; without the parent, an anchor of height %d proves only height %d",
			ErrEarly, key.HeightCreated, a.Height, next)
	}
	if key.EpochID != a.EpochID {
		return fmt.Errorf("%w: the message states epoch %v, expected %v, the epoch of its anchor", ErrWrong, key.EpochID, a.EpochID)
	}
	return nil
}

// isTail returns whether the grandchild of a block may be in the next epoch. Epochs of at most 3
// blocks end by height instead of by finality, so the result is true for all their blocks.
func isTail(m *epoch.Manager, b *epoch.BlockInfo) (bool, error) {
	if last, err := m.IsNextBlockEpochStart(b.Hash); err != nil || last {
		return last, err
	}
	config, err := m.EpochConfig(b.EpochID)
	if err != nil || config.EpochLength <= 3 {
		return err == nil, err
	}
	return m.IsNextBlockPossiblyLastInEpoch(b.Height, b.PrevHash)
}

// early wraps err in ErrEarly if err means that a block is missing. The missing block is the
// anchor, or an ancestor that was removed by garbage collection or skipped by state sync. Other
// errors are returned unchanged.
func early(err error) error {
	if errors.Is(err, epoch.ErrMissingBlock) {
		return fmt.Errorf("%w: %w", ErrEarly, err)
	}
	return err
}
