package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// UntrackShard makes the engine drop a shard. No node in memory holds the shard afterwards. The
// shard's state is removed from disk in the background. UntrackShard returns ErrNotYet if the
// states of some blocks are not in memory because finality is far behind, or if the shard layout
// changes between the flat head and the tip. The caller runs on the engine's goroutine while no
// block is between BeginImport and FinishImport.
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
			return fmt.Errorf("%w: untrack shard %d: finality is far behind, or the shard layout changes", ErrNotYet, id)
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

// removeShard starts to remove a shard's data from the store in the background.
func (e *Engine) removeShard(id primitives.ShardID, r storage.AccountRange) error {
	if err := e.store.BeginUntrack(id, r); err != nil {
		return err
	}
	e.removalsRunning.Add(1)
	e.removalsDone.Go(func() {
		defer e.removalsRunning.Add(-1)
		_ = e.store.FinishUntrack() // the next write to the store returns the error
		if e.snapshots.serves {
			_ = e.snapshots.readSnapshots() // drops the snapshots of the removed shard
		}
	})
	return nil
}
