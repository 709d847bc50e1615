package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// SyncPoint returns the parent of an epoch's sync block as seen from a block of that epoch: the
// first block after the epoch's first one at which each shard has had at least two new chunks
// (nearcore chain/chain/src/state_sync/utils.rs). nil: not reached yet.
func (e *Engine) SyncPoint(at *BlockNode) (*BlockNode, error) {
	var list []*BlockNode // newest first, without the epoch's first block
	for x := at; ; {
		prev, err := e.Block(x.Header().PrevHash)
		if err != nil {
			return nil, err
		}
		if prev.Header().EpochID != x.Header().EpochID || prev.Header().PrevHash.IsZero() {
			break
		}
		list = append(list, x)
		x = prev
	}
	had := make([]int, len(at.Shards))
	for i := len(list) - 1; i >= 0; i-- {
		done := true
		for k, c := range list[i].Block.Body.Chunks {
			if c.HeightIncluded == list[i].Height() {
				had[k]++
			}
			done = done && had[k] >= 2
		}
		if done {
			return list[i], nil
		}
	}
	return nil, nil
}

// Part returns a part of a shard's state after a block. storage.ErrGone: the state is neither in
// memory nor in a state snapshot (Options.Snapshots). Safe for concurrent use.
func (e *Engine) Part(block primitives.Hash, shard primitives.ShardIndex, id trie.PartID) (part [][]byte, err error) {
	err = e.lendState(block, shard, func(r *trie.Root) error {
		part, err = r.Part(id)
		return err
	})
	return part, err
}

// lendState calls use with a shard's state after a block, from memory or from a snapshot.
func (e *Engine) lendState(block primitives.Hash, shard primitives.ShardIndex, use func(*trie.Root) error) error {
	at := e.Imported(block)
	there := at != nil && at.Acquire()
	if there {
		defer at.Release()
		if int(shard) < len(at.Shards) && at.Shards[shard].root != nil {
			return use(at.Shards[shard].root)
		}
	}
	if p, pinned := e.snapshotOf(block, shard); pinned {
		err := e.lendSnapshot(&p, use)
		if err == nil {
			return nil
		}
		if q, still := e.snapshotOf(block, shard); still && q == p {
			return fmt.Errorf("engine: state of shard %d after block %v: %w", p.Shard, p.At, err)
		}
	}
	if there {
		return fmt.Errorf("%w: shard index %d", ErrUntracked, shard)
	}
	return fmt.Errorf("engine: state of block %v: %w", block, storage.ErrGone)
}
