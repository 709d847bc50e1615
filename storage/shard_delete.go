package storage

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// shardDeletion is the remaining work of deleting an untracked shard. The first of its ranges of
// rows is being deleted.
type shardDeletion struct {
	shard primitives.ShardID
	cell  shardCell
	// seq is the value of Store.untrackSeq when the deletion began. If untrackSeq is no longer seq,
	// another shard was untracked or deleted meanwhile, and the ranges are computed again.
	seq    uint64
	ranges [][2][]byte
}

// FinishUntrack deletes the rows of all untracked shards. FinishUntrack may take long. Other calls
// on the store continue meanwhile: a writer of the index waits for at most one piece of the
// deletion.
func (s *Store) FinishUntrack() error {
	var r *shardDeletion
	for {
		more, err := s.deletePiece(&r)
		if err != nil || !more {
			return err
		}
	}
}

// deletePiece deletes one piece of an untracked shard. If r is nil or outdated, deletePiece begins
// a new deletion and stores it in r. Otherwise deletePiece continues the deletion r. more is false
// if no shard is left to delete.
func (s *Store) deletePiece(r **shardDeletion) (more bool, err error) {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return false, err
	}
	x := *r
	if x == nil || x.seq != s.untrackSeq || !s.view.Load().shards[x.shard].Deleting {
		if x, err = s.nextDeletion(); x == nil || err != nil {
			return false, s.fail(err)
		}
		*r = x
	}
	if len(x.ranges) > 0 {
		at := &x.ranges[0]
		n, err := dropPiece(s.db, at)
		if err != nil {
			return false, s.fail(err)
		}
		if n == 0 {
			x.ranges = x.ranges[1:]
		}
		return true, nil
	}
	*r = nil
	return true, s.fail(s.finishDeletion(x.shard, x.cell))
}

// nextDeletion begins the deletion of one of the untracked shards. It returns nil if no untracked
// shard is left.
func (s *Store) nextDeletion() (*shardDeletion, error) {
	v := s.view.Load()
	for _, id := range slices.Sorted(maps.Keys(v.shards)) {
		if c := v.shards[id]; c.Deleting {
			ranges, err := s.dropSnapshotsOf(id, c.Accounts)
			return &shardDeletion{shard: id, cell: c, seq: s.untrackSeq,
				ranges: append(ranges, s.rowsOf(id, c.Accounts)...)}, err
		}
	}
	return nil, nil
}

// rowsOf returns the ranges of a shard's rows.
func (s *Store) rowsOf(shard primitives.ShardID, accounts AccountRange) (out [][2][]byte) {
	add := func(lo, hi []byte) { out = append(out, [2][]byte{lo, hi}) }
	for _, r := range flatRanges(shard, accounts, nil, nil) {
		hi := []byte{flat.id + 1}
		if r.hi != "" {
			hi = append([]byte{flat.id}, r.hi...)
		}
		add(append([]byte{flat.id}, r.lo...), hi)
		for _, bucket := range *s.buckets.Load() {
			add(undoRange(bucket, r))
		}
	}
	for _, lo := range [][]byte{append([]byte{frontier.id}, appendShard(nil, shard)...),
		append([]byte{stagedParts.id}, appendShard(nil, shard)...)} {
		add(lo, PrefixEnd(lo))
	}
	return out
}

// removeShard deletes the rows of a shard in pieces, without releasing indexMu.
func (s *Store) removeShard(shard primitives.ShardID, accounts AccountRange) error {
	ranges, err := s.dropSnapshotsOf(shard, accounts)
	if err != nil {
		return err
	}
	for _, r := range append(ranges, s.rowsOf(shard, accounts)...) {
		if err := dropRange(s.db, r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

// finishDeletion records that all rows of an untracked shard are deleted.
func (s *Store) finishDeletion(shard primitives.ShardID, cell shardCell) error {
	cell.Deleting = false
	var batch Batch
	shardCells.Put(&batch, shard, &cell)
	if err := s.step(&batch); err != nil {
		return err
	}
	s.setShard(shard, &cell)
	s.untrackSeq++
	return nil
}
