package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Witnesses returns the checker of witnesses. Through the methods below, the checker reads the
// blocks and states that the engine holds.
func (e *Engine) Witnesses() *WitnessChecker { return e.witnesses }

// checkByState validates a chunk against this node's state after prev, the chunk's parent. held is
// false if the shard is not held.
func (e *Engine) checkByState(
	prev *BlockNode,
	layout primitives.ShardLayout,
	c *primitives.Chunk,
) (held bool, err error) {
	if !prev.Acquire() {
		return false, nil
	}
	defer prev.Release()
	inherited, err := e.inherited(prev, layout)
	if err != nil {
		return false, err
	}
	index, err := layout.Index(c.Header.ShardID)
	if err != nil {
		return false, err
	}
	own := &inherited[index]
	if !own.Held() {
		return false, nil
	}
	if err := e.validateChunk(c, own, layout); err != nil {
		return true, fmt.Errorf("%w: %w", ErrWitness, err)
	}
	return true, nil
}

// inputOf returns the input for applying one shard of a block, without the state. valid returns
// whether a transaction of the block with that reference block is within its validity window. Safe
// for concurrent use.
func (e *Engine) inputOf(
	entry *BlockNode,
	shard primitives.ShardIndex,
	fresh bool,
	proposals []primitives.ValidatorStake,
) (in *apply.Input, valid func(primitives.Hash) bool, err error) {
	parent := e.Imported(entry.Header().PrevHash) // prefer the node in memory, because ancestry needs it
	if parent == nil {
		if parent, err = e.Block(entry.Header().PrevHash); err != nil {
			return nil, nil, err
		}
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	c, err := e.newBlockInput(entry, parent)
	if err != nil {
		return nil, nil, err
	}
	of := c.forShard(entry, shard, fresh, proposals)
	return &of, func(base primitives.Hash) bool { return e.ancestry.valid(parent, base) }, nil
}
