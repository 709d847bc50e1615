package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// OutcomeMismatch is a new chunk with a header that claims another result of the shard's previous
// chunk than this node computed, although chunk validators with more than two thirds of the
// assigned stake endorsed it. Either all of them are wrong or this node is. The sender is not at
// fault, and this node cannot continue on its own.
type OutcomeMismatch struct {
	Block  primitives.Hash // the block with the chunk
	Height primitives.Height
	Chunk  primitives.Hash
	Err    error // the difference
	shard  primitives.ShardIndex
	parent *BlockNode
}

// Error names the chunk and the difference. Err is not unwrapped: the difference does not make the
// block invalid.
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

// chunkError classifies an error of chain.ValidateChunk: an *OutcomeMismatch if the claimed result
// differs and enough validators endorsed it, else ErrChunk. assigned are the chunk's validators; a
// peer's endorsements have been verified before.
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

// mismatchFailure makes an ApplyFailure from a mismatch. Its input is that of the parent, the block
// with the differing result. It has no input if the state before that block is not in memory.
// Release releases the state.
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
