package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Reapply applies a stored block's chunk of a shard once more, with another VM, and keeps nothing: to watch what it does. It is
// as it was, but for the state root, the recorded size and a proposal to split where the state is older than the tries in
// memory. ErrUnknown; storage.ErrGone if the state was collected; ErrReshard for the first block behind a split. Safe from
// any goroutine.
func (e *Engine) Reapply(block primitives.Hash, shard primitives.ShardIndex, vm action.VM) (*apply.Result, error) {
	entry := e.Entry(block)
	if entry == nil {
		at, err := e.StateAt(block) // the block alone is wanted
		if err != nil {
			return nil, err
		}
		entry = at.Entry
		at.Release()
	}
	parent, err := e.StateAt(entry.Header().PrevHash)
	if err != nil {
		return nil, err
	}
	defer parent.Release()
	if !parent.Layout.Equal(entry.Layout) {
		return nil, fmt.Errorf("%w: block %d can't be applied again", ErrReshard, entry.Height())
	}
	p := &Pending{entry: entry, parent: parent.Entry, prev: parent.Shards}
	e.epochMu.Lock()
	err = e.prepare(p, parent.Block.Body.Chunks, parent.Trie)
	e.epochMu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("engine: block %d again: %w", entry.Height(), err)
	}
	if int(shard) >= len(p.jobs) {
		return nil, fmt.Errorf("%w: shard index %d of block %d", ErrUnknown, shard, entry.Height())
	}
	in := p.jobs[shard].input
	in.Block.VM, in.Par, in.Split = vm, nil, nil
	r, err := apply.Apply(&in)
	if err != nil {
		return nil, fmt.Errorf("engine: shard %d of block %d again: %w", shard, entry.Height(), err)
	}
	release(r.Trie)
	r.Trie = nil
	return r, nil
}
