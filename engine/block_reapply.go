package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Reapply applies a shard's chunk of a stored block again, with a VM that observes the execution,
// and stores nothing. If the tries in memory do not reach back to the block, Reapply reads the
// state as values without a trie. The state root, the recorded size and the proposed split then
// differ from the original result. Errors: ErrUnknown; ErrUntracked; storage.ErrGone if the state
// was garbage collected; the context's error. Safe for concurrent use.
func (e *Engine) Reapply(
	ctx context.Context,
	block primitives.Hash,
	shard primitives.ShardIndex,
	vm action.VM,
) (*apply.Result, error) {
	entry, parent, err := e.blockForReapply(ctx.Err, block)
	if err != nil {
		return nil, err
	}
	defer parent.Release()
	if int(shard) >= len(entry.Shards) {
		return nil, fmt.Errorf("%w: shard index %d in block %d", ErrUnknown, shard, entry.Height())
	}
	if !entry.Shards[shard].Held() {
		return nil, fmt.Errorf("%w: shard %d", ErrUntracked, entry.Shards[shard].ID)
	}
	job, err := e.jobForReapply(entry, parent, entry.Shards[shard].ID)
	if err != nil {
		return nil, fmt.Errorf("engine: apply block %d again: %w", entry.Height(), err)
	}
	in := job.input
	in.Block.VM, in.Par, in.Split = vm, nil, nil
	r, err := apply.Apply(&in)
	if err != nil {
		return nil, fmt.Errorf("engine: apply shard %d of block %d again: %w", shard, entry.Height(), err)
	}
	release(r.Trie)
	r.Trie = nil
	return r, nil
}

// blockForReapply returns a block and the states before the block, which the caller must release.
// ask has the meaning that it has in StateUntil.
func (e *Engine) blockForReapply(ask func() error, block primitives.Hash) (*BlockNode, *State, error) {
	entry, err := e.Block(block)
	if err != nil {
		return nil, nil, err
	}
	parent, err := e.StateUntil(ask, entry.Header().PrevHash)
	return entry, parent, err
}

// parentStates holds the states before a block, by shard index of the block.
type parentStates struct {
	shards []ShardState
	chunks []*primitives.ChunkHeader
	tries  []state.Trie
}

func (e *Engine) parentStates(parent *State, layout primitives.ShardLayout) (b parentStates, err error) {
	if parent.historical == nil {
		if b.shards, err = e.inherited(parent.BlockNode, layout); err != nil {
			return b, err
		}
	}
	for i, id := range layout.ShardIDs() {
		from := id
		if !parent.Layout.Equal(layout) {
			if from, err = layout.Parent(id); err != nil {
				return b, err
			}
		}
		k, err := parent.Layout.Index(from)
		if err != nil {
			return b, err
		}
		b.chunks = append(b.chunks, parent.Block.Body.Chunks[k])
		if !parent.Shards[k].Held() || parent.historical == nil && !b.shards[i].Held() {
			if parent.historical != nil {
				b.shards = append(b.shards, ShardState{ID: id})
			}
			b.tries = append(b.tries, unheldTrie{id})
			continue
		}
		if parent.historical == nil {
			b.tries = append(b.tries, rooted(b.shards[i].root))
			continue
		}
		b.shards = append(b.shards, ShardState{ID: id, Extra: parent.Shards[k].Extra})
		t := parent.historical[k]
		if from != id {
			keep, err := childIntervals(layout, from, id)
			if err != nil {
				return b, err
			}
			t = &historicalTrie{
				base: childValues{
					storedValues{e, ref(parent.BlockNode), from, accounts(layout, primitives.ShardIndex(i)), parent.ask},
					keep,
				},
			}
		}
		b.tries = append(b.tries, t)
	}
	return b, nil
}

// childValues reads those values of a split shard that belong to one child shard.
type childValues struct {
	storedValues
	keep []trie.Interval
}

func (h childValues) has(key []byte) bool {
	return slices.ContainsFunc(h.keep, func(i trie.Interval) bool {
		return bytes.Compare(i.From, key) <= 0 && bytes.Compare(key, i.To) < 0
	})
}

func (h childValues) get(key []byte) ([]byte, error) {
	if !h.has(key) {
		return nil, nil
	}
	return h.storedValues.get(key)
}

func (h childValues) scan(from, to []byte, yield func(key, value []byte) bool) error {
	return h.storedValues.scan(from, to, func(key, value []byte) bool { return !h.has(key) || yield(key, value) })
}
