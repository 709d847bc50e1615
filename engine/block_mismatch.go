package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// OutcomeMismatch is a new chunk whose header tells another outcome of what its shard did last than this node has, though validators with more than two thirds
// forShard the stake that was drawn for the chunk have applied the same and signed what it tells. Either they are wrong, all of them, or this
// node is: it is no fault of the sender's, and the node can't go on by itself.
type OutcomeMismatch struct {
	Block  primitives.Hash // in which the chunk is
	Height primitives.Height
	Chunk  primitives.Hash
	Err    error // what differs
	shard  primitives.ShardIndex
	parent *BlockNode
}

// Error says what differs from whom. What it differs in does not make the block a bad one, and so is not unwrapped.
func (d *OutcomeMismatch) Error() string {
	return fmt.Sprintf("the chunk %v in block %d (%v), which more than two thirds of its validators endorse, tells another outcome than this node has: %v", d.Chunk, d.Height, d.Block, d.Err)
}

// chunkError judges a chunk that chain.ValidateChunk refuses. signed are the endorsements of those assigned; of a block of others they have been
// checked.
func chunkError(b *primitives.Block, i int, parent *BlockNode, c *primitives.Chunk, assigned []chain.Assigned, err error) error {
	signed := b.Body.ChunkEndorsements
	if !chain.OfOutcome(err) || i >= len(signed) || len(signed[i]) != len(assigned) ||
		!chain.EndorsedEnough(assigned, func(k int) bool { return signed[i][k] != "" }) {
		return fmt.Errorf("%w: shard %d of block %d: %w", ErrChunk, c.Header.ShardID, b.Header.Height, err)
	}
	return &OutcomeMismatch{Block: b.Hash(), Height: b.Header.Height, Chunk: c.Hash, Err: err, shard: primitives.ShardIndex(i), parent: parent}
}

// mismatchFailure makes a Fault of a doubt: the input is that by which this node came to what differs, the last block's. It has none where the state before is
// not in memory any more. Release gives back what it holds.
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
