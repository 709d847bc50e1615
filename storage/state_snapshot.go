package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// StateSnapshot is the state of a shard after a canonical, folded block that stays whole over restarts, folds and garbage collection: what the state
// looks like from above stands in rows of its own, its values are found by the history, of which none goes that is above the lowest pin.
type StateSnapshot struct {
	Shard    primitives.ShardID
	Index    primitives.ShardIndex // in the layout of the block
	At, Of   BlockRef              // after which it is the state; for whose sake it is kept
	Root     primitives.Hash
	Accounts AccountRange
}

// snapshotKey names a pin: heights come first, so that what is below one goes at once.
type snapshotKey struct {
	height primitives.Height
	shard  primitives.ShardID
}

func appendSnapshotKey(b []byte, k snapshotKey) []byte {
	return appendShard(appendHeight(b, k.height), k.shard)
}

// snapshotNodeKey names a row of a pin.
type snapshotNodeKey struct {
	snapshotKey
	level uint8
	path  string
}

func appendSnapshotNodeKey(b []byte, k snapshotNodeKey) []byte {
	return append(append(appendSnapshotKey(b, k.snapshotKey), k.level), k.path...)
}

// snapshotCell is what else is stored of a pin.
type snapshotCell struct {
	hash, root primitives.Hash
	of         BlockRef
	index      uint64
	accounts   AccountRange
}

// AppendBorsh appends 112 bytes and two names.
func (c *snapshotCell) AppendBorsh(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(appendRef(appendHash(appendHash(b, c.hash), c.root), c.of), c.index)
	return appendVarBytes(appendVarBytes(b, []byte(c.accounts.Lo)), []byte(c.accounts.Hi))
}

// DecodeBorsh reads a cell.
func (c *snapshotCell) DecodeBorsh(r *borsh.Reader) {
	*c = snapshotCell{hash: primitives.ReadHash(r), root: primitives.ReadHash(r), of: readRef(r)}
	if n := r.Take(8); len(n) == 8 {
		c.index = binary.BigEndian.Uint64(n)
	}
	c.accounts.Lo = primitives.AccountID(readVarBytes(r))
	c.accounts.Hi = primitives.AccountID(readVarBytes(r))
}

func (p *StateSnapshot) key() snapshotKey { return snapshotKey{p.At.Height, p.Shard} }

// StateSnapshot stores one. stubs are what is kept of its frontier, on any levels. Its rows go in pieces, and it is there once the last of them is.
// ErrGone, ErrNotFound: the state is not here, no more or not yet.
func (s *Store) SnapshotState(p StateSnapshot, stubs iter.Seq[FrontierNode]) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if p.At.Height < v.tail {
		return fmt.Errorf("state of block %v: %w, the earliest is of height %d", p.At, ErrGone, v.tail)
	}
	if ok, err := s.IsCanonical(p.At); err != nil || !ok || p.At.Height > v.flatHead.Height {
		return errors.Join(err, fmt.Errorf("%w: block %v, whose state is to stay, is not folded", ErrOrder, p.At))
	}
	if err := v.readable(p.At, p.Shard); err != nil {
		return err
	}
	lo := append([]byte{snapshotNodes.id}, appendSnapshotKey(nil, p.key())...)
	if err := s.dropRange(lo, PrefixEnd(lo)); err != nil { // of one that was broken off
		return s.fail(err)
	}
	var batch Batch
	for x := range stubs {
		snapshotNodes.Put(&batch, snapshotNodeKey{p.key(), x.Level, string(x.Path)}, &frontierValue{x.Hash, x.MemoryUsage})
		if batch.Size() < historyBatch {
			continue
		}
		if err := s.db.write(&batch, false); err != nil {
			return s.fail(err)
		}
		batch.Reset()
	}
	stateSnapshots.Put(&batch, p.key(), &snapshotCell{p.At.Hash, p.Root, p.Of, uint64(p.Index), p.Accounts})
	return s.fail(s.step(&batch))
}

// Pins returns all pins, ascending by height and shard.
func (s *Store) StateSnapshots() (list []StateSnapshot, err error) {
	err = stateSnapshots.Scan(s.db, nil, nil, func(key []byte, c snapshotCell) bool {
		if len(key) == 16 {
			list = append(list, StateSnapshot{primitives.ShardID(binary.BigEndian.Uint64(key[8:])), primitives.ShardIndex(c.index),
				BlockRef{heightOf(key), c.hash}, c.of, c.root, c.accounts})
		}
		return true
	})
	return list, err
}

// Unpin gives up the pins of blocks below a height.
func (s *Store) DropStateSnapshots(below primitives.Height) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	list, err := s.StateSnapshots()
	if err != nil {
		return err
	}
	var batch Batch
	for i := range list {
		if p := &list[i]; p.At.Height < below {
			stateSnapshots.Delete(&batch, p.key())
		}
	}
	if batch.Len() > 0 {
		if err := s.step(&batch); err != nil { // first what says that they are there
			return s.fail(err)
		}
	}
	return s.fail(s.dropRange([]byte{snapshotNodes.id}, appendHeight([]byte{snapshotNodes.id}, below)))
}

// dropSnapshotsOf gives up the pins of a shard that leaves, and those of shards that it came from or was split into: they share its rows.
// It returns the ranges of what is still there of them.
func (s *Store) dropSnapshotsOf(shard primitives.ShardID, accounts AccountRange) (ranges [][2][]byte, err error) {
	list, err := s.StateSnapshots()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(p StateSnapshot) bool { return p.Shard != shard && !p.Accounts.overlaps(accounts) })
	if len(list) == 0 {
		return nil, nil
	}
	var batch Batch
	for i := range list {
		stateSnapshots.Delete(&batch, list[i].key())
	}
	if err := s.step(&batch); err != nil {
		return nil, err
	}
	for i := range list {
		lo := append([]byte{snapshotNodes.id}, appendSnapshotKey(nil, list[i].key())...)
		ranges = append(ranges, [2][]byte{lo, PrefixEnd(lo)})
	}
	return ranges, nil
}

// overlaps tells whether two ranges share a name.
func (r AccountRange) overlaps(o AccountRange) bool {
	return (r.Hi == "" || o.Lo < r.Hi) && (o.Hi == "" || r.Lo < o.Hi)
}

// PinnedFrontier calls yield for the rows of a pin on a level that lie below a path, ascending.
func (s *Store) SnapshotFrontier(p *StateSnapshot, level uint8, below []byte, yield func(FrontierNode) bool) error {
	lo := appendSnapshotNodeKey(nil, snapshotNodeKey{p.key(), level, string(below)})
	return snapshotNodes.Scan(s.db, lo, PrefixEnd(lo), func(key []byte, v frontierValue) bool {
		return yield(FrontierNode{level, slices.Clone(key[17:]), v.hash, v.usage})
	})
}

// EpochBegin is the first canonical block of an epoch that is kept.
type EpochBegin struct {
	Height primitives.Height
	Epoch  primitives.EpochID
}

// Epochs returns the epochs that the folded blocks which are kept are of, ascending.
func (s *Store) Epochs() (list []EpochBegin, err error) {
	err = epochFirst.Scan(s.db, nil, nil, func(key []byte, id primitives.Hash) bool {
		list = append(list, EpochBegin{heightOf(key), id})
		return true
	})
	return list, err
}
