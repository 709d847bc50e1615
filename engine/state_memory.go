package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/storage/trie"
)

// maxForest is what one forest is let grow to, whatever the budget: a little less than its references reach.
const maxForest = 56 << 30

// share is what the tries of one of these shards may take: an equal part for each that is held.
func (e *Engine) share(shards []ShardState) uint64 {
	n := uint64(0)
	for i := range shards {
		if shards[i].Held() {
			n++
		}
	}
	return min(e.o.StateBytes/max(n, 1), maxForest)
}

// bytesOfState estimates what the nodes of a state of some memory usage take.
func bytesOfState(usage uint64) uint64 { return usage + usage/4 }

// roomy tells whether a forest takes so little that it may be filled with what nobody has asked for yet.
func (e *Engine) roomy(f *trie.Forest) bool {
	return f.Bytes() < e.share(e.Head().Shards)/2
}

// Evicted returns how many bytes of tries have left the memory so far, about. Safe from any goroutine.
func (e *Engine) Evicted() uint64 { return e.evictedBytes.Load() }

// trim keeps the tries within the memory that they may take, an equal share for each shard: where the states that a block has left take
// more, what was not used for the longest time is known by its hash only from this block on, and its memory comes back when the blocks
// parentStates are folded. So it is done once between two folds. Beyond the budget goes what is loaded meanwhile, and what has changed
// since the folded block.
func (e *Engine) trim(entry *BlockNode) error {
	if e.o.StateBytes == 0 || e.trimmedAt > e.flatHead.Height() {
		return nil
	}
	limit := e.share(entry.Shards)
	for i := range entry.Shards {
		s := &entry.Shards[i]
		at, err := e.flatHead.Layout.Index(s.ID)
		if err != nil || !s.Held() {
			continue // the disk does not have this shard, yet or at all
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
