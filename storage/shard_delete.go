package storage

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// removal is what is still to be removed of a shard that leaves: ranges of rows, of which the first is under way.
type removal struct {
	shard  primitives.ShardID
	cell   shardCell
	left   uint64 // Store.leavings when it began: behind another leaving or entering it begins anew
	ranges [][2][]byte
}

// EndLeaving removes the rows of all shards that leave. It takes its time, in which all else goes on: what writes to the index waits for one piece
// at the most.
func (s *Store) FinishUntrack() error {
	var r *removal
	for {
		more, err := s.leavePiece(&r)
		if err != nil || !more {
			return err
		}
	}
}

// leavePiece removes a piece of a shard that leaves: r's, which it finds if there is none; false: no shard leaves any more.
func (s *Store) leavePiece(r **removal) (more bool, err error) {
	s.foldMu.Lock()
	defer s.foldMu.Unlock()
	if err := s.writable(); err != nil {
		return false, err
	}
	x := *r
	if x == nil || x.left != s.leavings || !s.view.Load().shards[x.shard].Leaving {
		if x, err = s.nextRemoval(); x == nil || err != nil {
			return false, s.fail(err)
		}
		*r = x
	}
	if len(x.ranges) > 0 {
		at := &x.ranges[0]
		n, err := s.dropPiece(at)
		if err != nil {
			return false, s.fail(err)
		}
		if n == 0 {
			x.ranges = x.ranges[1:]
		}
		return true, nil
	}
	*r = nil
	return true, s.fail(s.left(x.shard, x.cell))
}

// nextRemoval begins with one of the shards that leave; nil: none does.
func (s *Store) nextRemoval() (*removal, error) {
	v := s.view.Load()
	for _, id := range slices.Sorted(maps.Keys(v.shards)) {
		if c := v.shards[id]; c.Leaving {
			ranges, err := s.unpinAccounts(id, c.Accounts)
			return &removal{shard: id, cell: c, left: s.leavings, ranges: append(ranges, s.rowsOf(id, c.Accounts)...)}, err
		}
	}
	return nil, nil
}

// rowsOf are the ranges of a shard's rows.
func (s *Store) rowsOf(shard primitives.ShardID, accounts AccountRange) (out [][2][]byte) {
	add := func(lo, hi []byte) { out = append(out, [2][]byte{lo, hi}) }
	for _, r := range flatRanges(shard, accounts, nil, nil) {
		hi := []byte{flat.id + 1}
		if r.hi != "" {
			hi = append([]byte{flat.id}, r.hi...)
		}
		add(append([]byte{flat.id}, r.lo...), hi)
		for _, era := range *s.eras.Load() {
			add(undoRange(era, r))
		}
	}
	for _, lo := range [][]byte{append([]byte{frontier.id}, appendShard(nil, shard)...), append([]byte{stagedParts.id}, appendShard(nil, shard)...)} {
		add(lo, PrefixEnd(lo))
	}
	return out
}

// removeShard removes the rows of a shard, in pieces, with the lock held all the time.
func (s *Store) removeShard(shard primitives.ShardID, accounts AccountRange) error {
	ranges, err := s.unpinAccounts(shard, accounts)
	if err != nil {
		return err
	}
	for _, r := range append(ranges, s.rowsOf(shard, accounts)...) {
		if err := s.dropRange(r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

// left notes that nothing is there any more of a shard that has left.
func (s *Store) left(shard primitives.ShardID, cell shardCell) error {
	cell.Leaving = false
	var batch Batch
	shardCells.Put(&batch, shard, &cell)
	if err := s.step(&batch); err != nil {
		return err
	}
	s.setShard(shard, &cell)
	s.leavings++
	return nil
}
