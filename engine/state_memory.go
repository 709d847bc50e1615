package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/storage/trie"
)

// maxForest bounds the size of one forest whatever the budget, slightly below the reach of its
// references.
const maxForest = 56 << 30

// share returns the memory budget of one of these shards: equal parts for all that are held.
func (e *Engine) share(shards []ShardState) uint64 {
	n := uint64(0)
	for i := range shards {
		if shards[i].Held() {
			n++
		}
	}
	return min(e.o.StateBytes/max(n, 1), maxForest)
}

// bytesOfState estimates the memory of all nodes of a state from its memory usage.
func bytesOfState(usage uint64) uint64 { return usage + usage/4 }

// roomy reports whether a forest is small enough to be filled ahead of demand.
func (e *Engine) roomy(f *trie.Forest) bool {
	return f.Bytes() < e.share(e.Head().Shards)/2
}

// Evicted returns approximately how many bytes of tries were evicted so far. Safe for concurrent
// use.
func (e *Engine) Evicted() uint64 { return e.evictedBytes.Load() }

// trim keeps the tries within their memory budget. If the states after a block exceed it, the least
// recently used nodes are replaced by their hashes from this block on; their memory is freed when
// the flat head passes the earlier blocks. So it runs at most once between two updates of the flat
// head. Nodes loaded meanwhile, and those changed since the flat head, come on top of the budget.
func (e *Engine) trim(entry *BlockNode) error {
	if e.o.StateBytes == 0 || e.trimmedAt > e.flatHead.Height() {
		return nil
	}
	limit := e.share(entry.Shards)
	for i := range entry.Shards {
		s := &entry.Shards[i]
		at, err := e.flatHead.Layout.Index(s.ID)
		if err != nil || !s.Held() {
			continue // the disk does not have this shard, or not yet
		}
		f, base := s.root.Forest(), e.flatHead.Shards[at].root
		has := f.Bytes()
		if has <= limit || base.Forest() != f {
			continue
		}
		root, gone, err := f.Evict(s.root, base, has-limit+limit/16)
		if err != nil {
			return fmt.Errorf("engine: memory of shard %d at block %d: %w", s.ID, entry.Height(), err)
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
