package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// OutcomeMismatch is the error of a new chunk whose header contradicts this node's result for the
// shard's previous chunk, although validators with more than two thirds of the assigned stake have
// endorsed the chunk. Either these validators or this node computed a wrong result. The peer that
// sent the block is not at fault, and this node cannot continue.
type OutcomeMismatch struct {
	Block  primitives.Hash // block that contains the chunk
	Height primitives.Height
	Chunk  primitives.Hash
	Err    error // describes how the results differ
	shard  primitives.ShardIndex
	parent *BlockNode
}

// Error names the chunk and the difference. Err is not unwrapped, because VerdictOf would then
// treat the block as invalid.
func (d *OutcomeMismatch) Error() string {
	return fmt.Sprintf(
		"chunk %v of block %d (%v), endorsed by more than two thirds of "+
			"its validators, claims another result than this node computed: %v",
		d.Chunk,
		d.Height,
		d.Block,
		d.Err,
	)
}

// chunkError classifies an error of chain.ValidateChunk. It returns an *OutcomeMismatch if the
// claimed result differs from this node's result and enough of the assigned validators have
// endorsed the chunk. Otherwise the error wraps ErrChunk. The caller has verified the endorsements
// in a peer's block.
func chunkError(
	b *primitives.Block,
	i int,
	parent *BlockNode,
	c *primitives.Chunk,
	assigned []chain.Assigned,
	err error,
) error {
	signed := b.Body.ChunkEndorsements
	if !chain.OfOutcome(err) || i >= len(signed) || len(signed[i]) != len(assigned) ||
		!chain.EndorsedEnough(assigned, func(k int) bool { return signed[i][k] != "" }) {
		return fmt.Errorf("%w: shard %d of block %d: %w", ErrChunk, c.Header.ShardID, b.Header.Height, err)
	}
	return &OutcomeMismatch{
		Block:  b.Hash(),
		Height: b.Header.Height,
		Chunk:  c.Hash,
		Err:    err,
		shard:  primitives.ShardIndex(i),
		parent: parent,
	}
}

// mismatchFailure returns the ApplyFailure for a mismatch. The mismatch is in the result of the
// parent block, so Input of the ApplyFailure returns the input for applying the parent. There is no
// input if the states before the parent are not in memory. The caller must call Release of the
// ApplyFailure.
func (e *Engine) mismatchFailure(d *OutcomeMismatch, layout primitives.ShardLayout) *ApplyFailure {
	parent, id := d.parent, layout.ShardIDs()[d.shard]
	if !parent.Layout.Has(id) {
		if from, err := layout.Parent(id); err == nil {
			id = from
		}
	}
	f := &ApplyFailure{Height: parent.Height(), Block: parent.Hash, Shard: id, Err: d}
	before := e.Imported(parent.Header().PrevHash)
	if before == nil || before.evicted || !before.Acquire() {
		return f
	}
	job, err := e.jobForReapply(parent, &State{BlockNode: before}, id)
	if err != nil || job.notHeld() {
		before.Release()
		return f
	}
	f.job, f.held = job, before
	return f
}
