package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
)

// Verification checks the states of the flat head against the hashes of their trie nodes. Each Step
// checks a limited number of subtrees.
type Verification struct {
	e     *Engine
	entry *BlockNode
	shard int
	path  []byte
}

// preloadFrom is the minimum memory usage, in bytes, of a subtree that Preload loads.
const preloadFrom = 64 << 10

// Preload loads the upper levels of all tries after a start, on as many goroutines as there are
// processors. Afterwards the first access of a key reads only one page of frontier entries and one
// page of values. Preload ends early if stop returns true or if half of a trie's memory budget is
// used.
func (e *Engine) Preload(stop func() bool) error {
	e.mu.RLock()
	entry := e.flatHead
	held := entry.Acquire()
	e.mu.RUnlock()
	if !held {
		return nil
	}
	defer entry.Release()
	for i := range entry.Shards {
		root := entry.Shards[i].root
		if root == nil {
			continue
		}
		err := root.Preload(
			preloadFrom,
			parallel.Do,
			func() bool { return stop() || e.o.StateBytes > 0 && !e.roomy(root.Forest()) },
		)
		if err != nil {
			return fmt.Errorf("engine: check the state of shard %d at block %d: %w", entry.Shards[i].ID, entry.Height(), err)
		}
	}
	return nil
}

// Verify starts a check of all states of the flat head. A node runs the check after each start,
// because the start itself verifies only the data that it reads. The caller calls Step until it
// returns done, or calls Stop.
func (e *Engine) Verify() *Verification {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !e.flatHead.Acquire() {
		return &Verification{e: e}
	}
	return &Verification{e: e, entry: e.flatHead}
}

// Step checks about n subtrees. If the whole state fits into memory, the nodes that Step reads stay
// there. An error means that the data folder is damaged. The error names the shard and path of the
// data that does not match its hash.
func (v *Verification) Step(n int) (done bool, err error) {
	if v.entry == nil {
		return true, nil
	}
	var next []byte
	if root := v.entry.Shards[v.shard].root; root != nil {
		keep := v.e.roomy(root.Forest()) && bytesOfState(root.MemoryUsage()) < v.e.share(v.e.Head().Shards)/2
		next, err = root.Verify(v.path, n, keep)
	}
	if err != nil {
		err = fmt.Errorf("engine: check the state of shard %d at block %d: %w", v.entry.Shards[v.shard].ID, v.entry.Height(), err)
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

// Stop ends the check early. Step must not be called afterwards.
func (v *Verification) Stop() {
	if v.entry != nil {
		v.entry.Release()
		v.entry = nil
	}
}

// StateSize returns the memory usage of a shard's state at the head, in nearcore's units. It
// returns 0 if the shard is not held.
func (e *Engine) StateSize(shard primitives.ShardIndex) uint64 {
	return e.Head().trieOf(shard).MemoryUsage()
}
