package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// UntrackShard deletes a shard: its state, history and frontier, or its staged data. Records stay
// until garbage collection removes them. UntrackShard deletes in pieces. After a crash, the next
// call of UntrackShard, FinishUntrack or CollectGarbage deletes the rest. The caller guarantees
// that blocks committed from now on have no results in the shard.
func (s *Store) UntrackShard(shard primitives.ShardID, accounts AccountRange) error {
	if err := s.BeginUntrack(shard, accounts); err != nil {
		return err
	}
	return s.FinishUntrack()
}

// BeginUntrack is the first step of UntrackShard, and takes little time. Readers see the shard as
// absent once BeginUntrack has returned. FinishUntrack deletes the rows.
func (s *Store) BeginUntrack(shard primitives.ShardID, accounts AccountRange) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if v.empty {
		return fmt.Errorf("%w: the store has no genesis yet", ErrOrder)
	}
	if err := s.untrackParents(shard); err != nil {
		return s.fail(err)
	}
	cell := shardCell{Untracked: true, Deleting: true, Accounts: accounts}
	switch was, ok := v.shards[shard]; {
	case ok && was.Untracked:
		cell.Since = was.Since
	case ok && !was.InSync:
		cell.Since = was.At.Height
	case ok || v.base.entry.hasShard(shard):
		cell.Since = v.head.Height
		for _, p := range s.tree.sorted() {
			cell.Since = max(cell.Since, p.ref.Height)
		}
	}
	var batch Batch
	shardCells.Put(&batch, shard, &cell)
	if err := unstage(s.db, &batch, shard); err != nil {
		return s.fail(err)
	}
	s.setShard(shard, &cell) // publish that the shard is untracked before the shard's rows are deleted
	s.untrackSeq++
	return s.fail(s.step(&batch))
}

// splitParent is a shard that was split but still has readable states. height is the height of the
// first block whose layout lacks the shard.
type splitParent struct {
	height primitives.Height
	id     primitives.ShardID
}

func readSplitParents(db index) (list []splitParent, err error) {
	err = splitParents.Scan(db, nil, nil, func(key []byte, _ Nothing) bool {
		list = append(list, splitParent{heightOf(key), primitives.ShardID(heightOf(key[8:]))})
		return true
	})
	return list, err
}

// untrackParents makes unreadable the states of the shard from which a split created the given
// shard. The rows of accounts do not contain the shard, so deleting the child's rows also deletes
// rows of the parent.
func (s *Store) untrackParents(shard primitives.ShardID) error {
	list, err := readSplitParents(s.db)
	if err != nil {
		return err
	}
	for _, p := range list {
		rec, err := s.BlockAt(p.height)
		if err != nil {
			return err
		}
		x := splitOf(rec.e.head.Splits, shard)
		if c := s.view.Load().shards[p.id]; x == nil || x.Parent != p.id || c.Untracked {
			continue
		}
		cell := shardCell{Since: rec.Prev().Height, Untracked: true}
		var batch Batch
		shardCells.Put(&batch, p.id, &cell)
		s.setShard(p.id, &cell)
		if err := s.step(&batch); err != nil {
			return err
		}
		if err := s.untrackParents(p.id); err != nil { // the parent may be the child of a recent split itself
			return err
		}
	}
	return nil
}

// IncomingShards returns the shards that are being imported or catching up, with the range of
// accounts of each shard.
func (s *Store) IncomingShards() (map[primitives.ShardID]AccountRange, error) {
	out := map[primitives.ShardID]AccountRange{}
	err := staged.Scan(s.db, nil, nil, func(key []byte, c stagedCell) bool {
		out[primitives.ShardID(heightOf(key))] = c.Accounts
		return true
	})
	for id, c := range s.view.Load().shards {
		if !c.Untracked && !c.InSync {
			out[id] = c.Accounts
		}
	}
	return out, err
}

// UntrackedAt returns the height of the last block for which the store may have had the state of an
// untracked shard. The bool is false if the shard is not untracked.
func (s *Store) UntrackedAt(shard primitives.ShardID) (primitives.Height, bool) {
	c, ok := s.view.Load().shards[shard]
	return c.Since, ok && c.Untracked
}

// LacksState returns whether the store lacks the state of a shard after a block although the
// block's record has results of the shard. The state may have been removed, or was never present.
func (s *Store) LacksState(at BlockRef, shard primitives.ShardID) bool {
	return errors.Is(s.view.Load().readable(at, shard), ErrGone)
}

func (s *Store) deleteShard(shard primitives.ShardID, cell shardCell) error {
	if err := s.removeShard(shard, cell.Accounts); err != nil {
		return err
	}
	return s.finishDeletion(shard, cell)
}

// deleteUntracked deletes what is left of untracked shards.
func (s *Store) deleteUntracked() error {
	v := s.view.Load()
	for _, id := range slices.Sorted(maps.Keys(v.shards)) {
		if c := v.shards[id]; c.Deleting {
			if err := s.deleteShard(id, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropRange deletes a range of keys in pieces.
func dropRange(db index, lo, hi []byte) error {
	_, err := dropPieces(db, lo, hi, math.MaxInt)
	return err
}

// dropPieces is dropRange with a bound on the number of pieces. dropPieces returns the number of
// deleted pieces.
func dropPieces(db index, lo, hi []byte, most int) (n int, err error) {
	for at := [2][]byte{lo, hi}; n < most; n++ {
		if k, err := dropPiece(db, &at); err != nil || k == 0 {
			return n, err
		}
	}
	return n, nil
}

// dropPiece deletes the first keys of a range and advances the range. dropPiece returns the number
// of deleted keys.
func dropPiece(db index, at *[2][]byte) (n int, err error) {
	var batch Batch
	cur := db.iterate(at[0], at[1])
	for batch.Size() < historyBatch && cur.next() {
		batch.delete(cur.key())
		at[0] = append(bytes.Clone(cur.key()), 0)
	}
	if err := cur.done(); err != nil || batch.Len() == 0 {
		return 0, err
	}
	return batch.Len(), db.write(&batch, false)
}
