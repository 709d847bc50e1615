package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/congestion"
)

// ErrChunk says that a chunk of a block cannot be applied, whoever tries: no node can accept the block.
var ErrChunk = errors.New("engine: chunk cannot be applied")

// jobError says why a block's job failed, and whose fault that is. Only what is known to follow from the chunk alone is the
// block's: whatever else goes wrong, the state above all, is this node's, which then must not go on.
func jobError(e *Entry, shard int, err error) error {
	id, height := e.Shards[shard].ID, e.Height()
	var receipt *primitives.ReceiptValidationError
	if errors.Is(err, primitives.ErrOverflow) || errors.Is(err, congestion.ErrOverflow) ||
		errors.Is(err, primitives.ErrUnknownShard) || errors.As(err, &receipt) {
		return fmt.Errorf("%w: shard %d of block %d: %w", ErrChunk, id, height, err)
	}
	return fmt.Errorf("engine: apply shard %d of block %d: %w", id, height, err)
}
