package epoch

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Errors (nearcore core/primitives/src/errors.rs EpochError).
var (
	// ErrMissingBlock says that a BlockInfo is unknown: the block was never recorded, or was
	// collected.
	ErrMissingBlock = errors.New("missing block")
	// ErrEpochOutOfBounds says that an epoch's info was not made yet, or was collected.
	ErrEpochOutOfBounds = errors.New("epoch is out of bounds")
	// ErrNotAValidator says that an account has no seat in an epoch.
	ErrNotAValidator = errors.New("not a validator")
	// ErrSharding says that a shard ID or index does not belong to the epoch's layout, or that no
	// layout is known.
	ErrSharding = errors.New("sharding error")
	// ErrNotEnoughValidators says that fewer chunk producers are left than one shard needs.
	ErrNotEnoughValidators = errors.New("there are not enough validator proposals")
	// ErrChunkProducerNotInDB says that a block has no row with the producers of the chunks whose
	// anchor it is (EpochError::ChunkProducerNotInDB).
	ErrChunkProducerNotInDB = errors.New("chunk producer not in DB")
	// ErrConfig says that a genesis or an epoch config is unusable.
	ErrConfig = errors.New("epoch config")
	// ErrBlockInfo says that a recorded block contradicts its parent or its epoch.
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
