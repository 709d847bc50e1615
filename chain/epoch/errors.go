package epoch

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Errors (nearcore core/primitives/src/errors.rs EpochError).
var (
	// ErrMissingBlock means that the BlockInfo of a block is unknown: the block was never recorded,
	// or was garbage collected.
	ErrMissingBlock = errors.New("missing block")
	// ErrEpochOutOfBounds means that an epoch's info does not exist yet, or was garbage collected.
	ErrEpochOutOfBounds = errors.New("epoch is out of bounds")
	// ErrNotAValidator means that an account has no seat in an epoch.
	ErrNotAValidator = errors.New("not a validator")
	// ErrSharding means that a shard ID or index is not in the epoch's layout, or that no layout is
	// known.
	ErrSharding = errors.New("sharding error")
	// ErrNotEnoughValidators means that there are fewer chunk producers than one shard needs.
	ErrNotEnoughValidators = errors.New("there are not enough validator proposals")
	// ErrChunkProducerNotInDB means that an anchor has no rows (EpochError::ChunkProducerNotInDB).
	ErrChunkProducerNotInDB = errors.New("chunk producer not in DB")
	// ErrConfig means that a genesis or an epoch config cannot be used.
	ErrConfig = errors.New("epoch config")
	// ErrBlockInfo means that a block contradicts its parent or its epoch.
	ErrBlockInfo = errors.New("block info")
)

func missingBlock(h primitives.Hash) error { return fmt.Errorf("%w %v", ErrMissingBlock, h) }

func chunkProducerNotInDB(anchor primitives.Hash, shard primitives.ShardID) error {
	return fmt.Errorf("%w for block %v shard %d", ErrChunkProducerNotInDB, anchor, shard)
}

func epochOutOfBounds(id primitives.EpochID) error {
	return fmt.Errorf("%w: Epoch %v", ErrEpochOutOfBounds, id)
}

func notAValidator(a primitives.AccountID, id primitives.EpochID) error {
	return fmt.Errorf("%w: %s is not a validator in epoch %v", ErrNotAValidator, a, id)
}
