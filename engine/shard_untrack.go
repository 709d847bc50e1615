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
	if err := e.rest(); err != nil {
		return err
	}
	layout := e.foldedAt.Layout
	index, err := layout.Index(id)
	if err != nil {
		return fmt.Errorf("%w: no shard %d", ErrUnknown, id)
	}
	for _, x := range e.entries {
		if x.light || !x.Layout.Equal(layout) {
			return fmt.Errorf("%w: finality is far behind, or the shards change", ErrNotYet)
		}
	}
	if err := e.letGo(id, accounts(layout, index)); err != nil {
		return err
	}
	e.replace(func(x *BlockNode) *BlockNode {
		if !x.Shards[index].Held() {
			return nil
		}
		return x.with(index, ShardState{ID: id, Chunk: x.Shards[index].Chunk})
	})
	return nil
}

// letGo has the store remove a shard, or what has come of one.
func (e *Engine) letGo(id primitives.ShardID, r storage.AccountRange) error {
	if err := e.store.BeginUntrack(id, r); err != nil {
		return err
	}
	e.removals.Add(1)
	e.leaving.Go(func() {
		defer e.removals.Add(-1)
		_ = e.store.FinishUntrack() // the store keeps its error for who writes next
		if e.o.Snapshots {
			_ = e.readPins() // of which those of the shard are gone
		}
	})
	return nil
}
