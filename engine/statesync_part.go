package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// SyncPoint returns the block whose child is the sync block of an epoch as a block of that knows it: the first one behind the epoch's
// first at which each shard has had two new chunks or more (nearcore state_sync/utils.rs). nil: it is yet to come. at is of the epoch.
func (e *Engine) SyncPoint(at *BlockNode) (*BlockNode, error) {
	var list []*BlockNode // of the epoch, newest first, without its first block
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

// Part returns a part of a shard's state after a block: storage.ErrGone if the state is neither held nor that of a snapshot
// (Options.Snapshots). Safe from any goroutine.
func (e *Engine) Part(block primitives.Hash, shard primitives.ShardIndex, id trie.PartID) (part [][]byte, err error) {
	err = e.lendState(block, shard, func(r *trie.Root) error {
		part, err = r.Part(id)
		return err
	})
	return part, err
}

// lendState lends the state of a shard after a block, as it is in memory or as a snapshot has it.
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
