package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Leave lets a shard go: from here on the engine does not hold it, on no block that it has, and what it knew of its state is removed from
// the disk beside what follows. ErrNotYet: while finality is far behind, or the shards change between the folded block and the tip. It
// belongs to the engine's goroutine, with no block between Begin and Commit.
func (e *Engine) UntrackShard(id primitives.ShardID) error {
	if err := e.quiesce(); err != nil {
		return err
	}
	layout := e.flatHead.Layout
	index, err := layout.Index(id)
	if err != nil {
		return fmt.Errorf("%w: no shard %d", ErrUnknown, id)
	}
	for _, x := range e.entries {
		if x.evicted || !x.Layout.Equal(layout) {
			return fmt.Errorf("%w: finality is far behind, or the shards change", ErrNotYet)
		}
	}
	if err := e.removeShard(id, accounts(layout, index)); err != nil {
		return err
	}
	e.replaceNodes(func(x *BlockNode) *BlockNode {
		if !x.Shards[index].Held() {
			return nil
		}
		return x.with(index, ShardState{ID: id, Chunk: x.Shards[index].Chunk})
	})
	return nil
}

// removeShard has the store remove a shard, or what has come of one.
func (e *Engine) removeShard(id primitives.ShardID, r storage.AccountRange) error {
	if err := e.store.BeginUntrack(id, r); err != nil {
		return err
	}
	e.removalsRunning.Add(1)
	e.removalsDone.Go(func() {
		defer e.removalsRunning.Add(-1)
		_ = e.store.FinishUntrack() // the store keeps its error for who writes next
		if e.o.Snapshots {
			_ = e.readSnapshots() // of which those of the shard are gone
		}
	})
	return nil
}
