package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/storage/trie"
)

// maxForest is the maximum size of one forest in bytes, whatever the budget. maxForest is slightly
// less than what the trie's node references can address.
const maxForest = 56 << 30

// share returns the memory budget of each held shard in bytes: an equal part of Options.StateBytes.
func (e *Engine) share(shards []ShardState) uint64 {
	n := uint64(0)
	for i := range shards {
		if shards[i].Held() {
			n++
		}
	}
	return min(e.o.StateBytes/max(n, 1), maxForest)
}

// bytesOfState estimates the memory in bytes that a state needs if all its nodes are loaded. usage
// is the trie's memory usage.
func bytesOfState(usage uint64) uint64 { return usage + usage/4 }

// roomy returns whether a forest uses less than half of its budget. If so, the engine may load
// nodes of that forest in advance.
func (e *Engine) roomy(f *trie.Forest) bool {
	return f.Bytes() < e.share(e.Head().Shards)/2
}

// Evicted returns the approximate number of trie bytes that were evicted so far. Safe for
// concurrent use.
func (e *Engine) Evicted() uint64 { return e.evictedBytes.Load() }

// trim keeps the tries within their memory budget. If the states after entry exceed the budget,
// trim replaces the least recently used nodes of these states by hashes. The states of blocks
// before entry still contain these nodes, so the memory of the nodes is freed only when the flat
// head has passed those blocks. Therefore trim evicts at most once between two updates of the flat
// head. Until the next update, newly loaded and newly changed nodes may exceed the budget.
func (e *Engine) trim(entry *BlockNode) error {
	if e.o.StateBytes == 0 || e.trimmedAt > e.flatHead.Height() {
		return nil
	}
	limit := e.share(entry.Shards)
	for i := range entry.Shards {
		s := &entry.Shards[i]
		at, err := e.flatHead.Layout.Index(s.ID)
		if err != nil || !s.Held() {
			continue // the flat state does not have this shard
		}
		f, base := s.root.Forest(), e.flatHead.Shards[at].root
		has := f.Bytes()
		if has <= limit || base.Forest() != f {
			continue
		}
		root, gone, err := f.Evict(s.root, base, has-limit+limit/16)
		if err != nil {
			return fmt.Errorf("engine: evict trie nodes of shard %d at block %d: %w", s.ID, entry.Height(), err)
		}
		s.root.Release()
		s.root = root
		if gone > 0 {
			e.trimmedAt = entry.Height()
			e.evictedBytes.Add(gone)
		}
	}
	return nil
}
