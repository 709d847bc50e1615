package storage

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// LeaveShard removes a shard: its state, its history and its frontier. Records stay until garbage collection takes them. It goes in
// pieces; what a crash leaves of it is removed by the next call of this or of Collect. The caller sees to it that blocks behind the head
// do nothing in the shard.
func (s *Store) LeaveShard(shard primitives.ShardID, accounts AccountRange) error {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if v.empty {
		return fmt.Errorf("%w: no genesis yet", ErrOrder)
	}
	cell := shardCell{Since: v.head.Height, Left: true, Leaving: true, Accounts: accounts}
	for _, p := range s.tree.sorted() {
		cell.Since = max(cell.Since, p.ref.Height)
	}
	var batch Batch
	shardCells.Put(&batch, shard, &cell)
	s.setShard(shard, &cell) // readers learn first
	if err := s.step(&batch); err != nil {
		return s.fail(err)
	}
	return s.fail(s.endLeaving(shard, cell))
}

func (s *Store) endLeaving(shard primitives.ShardID, cell shardCell) error {
	if err := s.removeShard(shard, cell.Accounts); err != nil {
		return err
	}
	cell.Leaving = false
	var batch Batch
	shardCells.Put(&batch, shard, &cell)
	if err := s.step(&batch); err != nil {
		return err
	}
	s.setShard(shard, &cell)
	return nil
}

// endAllLeaving removes what a crash has left of shards that leave.
func (s *Store) endAllLeaving() error {
	v := s.view.Load()
	for _, id := range slices.Sorted(maps.Keys(v.shards)) {
		if c := v.shards[id]; c.Leaving {
			if err := s.endLeaving(id, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeShard removes the rows of a shard, in pieces.
func (s *Store) removeShard(shard primitives.ShardID, accounts AccountRange) error {
	if err := s.unpinAccounts(shard, accounts); err != nil {
		return err
	}
	for _, r := range flatRanges(shard, accounts, nil, nil) {
		hi := []byte{flat.id + 1}
		if r.hi != "" {
			hi = append([]byte{flat.id}, r.hi...)
		}
		if err := s.dropRange(append([]byte{flat.id}, r.lo...), hi); err != nil {
			return err
		}
		for _, era := range *s.eras.Load() {
			if err := s.dropRange(undoRange(era, r)); err != nil {
				return err
			}
		}
	}
	if err := s.dropFrontier(shard); err != nil {
		return err
	}
	lo := append([]byte{stagedParts.id}, appendShard(nil, shard)...)
	return s.dropRange(lo, PrefixEnd(lo))
}

// dropRange deletes a range of keys, in pieces.
func (s *Store) dropRange(lo, hi []byte) error {
	_, err := s.dropPieces(lo, hi, math.MaxInt)
	return err
}

// dropPieces is dropRange for so many pieces at the most; it returns how many there were.
func (s *Store) dropPieces(lo, hi []byte, most int) (n int, err error) {
	var batch Batch
	for ; n < most; n++ {
		cur := s.db.iterate(lo, hi)
		for batch.Size() < historyBatch && cur.next() {
			batch.delete(cur.key())
			lo = append(bytes.Clone(cur.key()), 0)
		}
		if err := cur.done(); err != nil || batch.Len() == 0 {
			return n, err
		}
		if err := s.db.write(&batch, false); err != nil {
			return n, err
		}
		batch.Reset()
	}
	return n, nil
}
