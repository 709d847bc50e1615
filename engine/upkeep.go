package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Verification checks the states of the folded block in steps, against the hashes that were stored with them.
type Verification struct {
	e     *Engine
	entry *Entry
	shard int
	path  []byte
}

// Verify begins a check of all states, for a node that has just started and so far has loaded only what was touched. The
// caller calls Step until it says done, or Stop.
func (e *Engine) Verify() *Verification {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !e.foldedAt.Acquire() {
		return &Verification{e: e}
	}
	return &Verification{e: e, entry: e.foldedAt}
}

// Step checks about n subtrees. What it has read stays in memory as long as there is room: blocks find it there. An error names the
// shard and the path of what contradicts its hash: the folder is damaged.
func (v *Verification) Step(n int) (done bool, err error) {
	if v.entry == nil {
		return true, nil
	}
	var next []byte
	if root := v.entry.Shards[v.shard].root; root != nil {
		next, err = root.Verify(v.path, n, v.e.roomy(root.Forest()))
	}
	if err != nil {
		err = fmt.Errorf("engine: state of shard %d at block %d: %w", v.entry.Shards[v.shard].ID, v.entry.Height(), err)
		v.Stop()
		return true, err
	}
	if v.path = next; next == nil {
		if v.shard++; v.shard == len(v.entry.Shards) {
			v.Stop()
			return true, nil
		}
	}
	return false, nil
}

// Stop ends the check before its end.
func (v *Verification) Stop() {
	if v.entry != nil {
		v.entry.Release()
		v.entry = nil
	}
}

// StateSize returns the memory usage of a shard's state at the head, in nearcore's units; 0 if it is not held.
func (e *Engine) StateSize(shard primitives.ShardIndex) uint64 {
	return e.Head().trieOf(shard).MemoryUsage()
}
