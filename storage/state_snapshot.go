package storage

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// State snapshots.
//
// Problem: a peer that syncs downloads the parts of a state for hours. The state as of the sync
// block must stay readable meanwhile, although the flat head advances and garbage collection runs.
//
// Invariants: a snapshot is valid once its row in column stateSnapshots exists. Values of a
// snapshot are found through the history (Undo), and garbage collection removes no history above
// the lowest snapshot (collection.limit).
//
// Outline: SnapshotState copies the upper part of the shard's frontier as of the block into rows of
// its own (snapshotNodes), in pieces, and then writes the snapshot's row. Values are not copied.
// SnapshotFrontier reads the rows in snapshotNodes; ValueAt and Scan read the values.
// DropStateSnapshots removes first the snapshot's row and then its nodes. Snapshots survive
// restarts.
//
// Rejected: a copy of the state (nearcore makes a checkpoint of RocksDB, which shares files;
// goleveldb has none), and an iterator that pins the index, which keeps every replaced table on
// disk.

// StateSnapshot is a shard's state after a canonical block at or below the flat head. The store
// keeps a snapshot across restarts, advances of the flat head and garbage collection.
type StateSnapshot struct {
	Shard primitives.ShardID
	Index primitives.ShardIndex // index of the shard in the layout of the block
	// The snapshot is the state after the block At. Of is the sync block for which the store keeps
	// the snapshot.
	At, Of   BlockRef
	Root     primitives.Hash
	Accounts AccountRange
}

// snapshotKey is the key of a snapshot. The height comes first, so that all snapshots below some
// height are one contiguous range.
type snapshotKey struct {
	height primitives.Height
	shard  primitives.ShardID
}

func appendSnapshotKey(b []byte, k snapshotKey) []byte {
	return appendShard(appendHeight(b, k.height), k.shard)
}

// snapshotNodeKey names a frontier node of a snapshot.
type snapshotNodeKey struct {
	snapshotKey
	level uint8
	path  string
}

func appendSnapshotNodeKey(b []byte, k snapshotNodeKey) []byte {
	return append(append(appendSnapshotKey(b, k.snapshotKey), k.level), k.path...)
}

// snapshotCell is the row of a snapshot.
type snapshotCell struct {
	hash, root primitives.Hash
	of         BlockRef
	index      uint64
	accounts   AccountRange
}

// AppendBorsh appends 112 bytes and two account IDs.
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

// SnapshotState stores a snapshot. stubs are the frontier nodes to keep, on any levels.
// SnapshotState writes the nodes in pieces, and the snapshot exists once all nodes are written.
// Errors: ErrOrder if the block is not canonical or is above the flat head; ErrGone if the state is
// not available any more; ErrNotFound if the state is not available yet; errors of reading or
// writing.
func (s *Store) SnapshotState(p StateSnapshot, stubs iter.Seq[FrontierNode]) error {
	s.indexMu.Lock()
	defer s.indexMu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	v := s.view.Load()
	if p.At.Height < v.tail {
		return fmt.Errorf("state of block %v: %w, the earliest state is that of height %d", p.At, ErrGone, v.tail)
	}
	ok, err := s.IsCanonical(p.At)
	if err != nil {
		return err
	}
	if !ok || p.At.Height > v.flatHead.Height {
		return fmt.Errorf("%w: no snapshot of block %v, which is not canonical or is above the flat head", ErrOrder, p.At)
	}
	if err := v.readable(p.At, p.Shard); err != nil {
		return err
	}
	lo := append([]byte{snapshotNodes.id}, appendSnapshotKey(nil, p.key())...)
	if err := dropRange(s.db, lo, PrefixEnd(lo)); err != nil { // remove the nodes of an interrupted call
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

// StateSnapshots returns all snapshots, ascending by height and shard.
func (s *Store) StateSnapshots() (list []StateSnapshot, err error) {
	err = stateSnapshots.Scan(s.db, nil, nil, func(key []byte, c snapshotCell) bool {
		if len(key) == 16 {
			list = append(list, StateSnapshot{primitives.ShardID(binary.BigEndian.Uint64(key[8:])),
				primitives.ShardIndex(c.index),
				BlockRef{heightOf(key), c.hash}, c.of, c.root, c.accounts})
		}
		return true
	})
	return list, err
}

// DropStateSnapshots removes the snapshots of blocks below a height.
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
		// delete the snapshots' own rows first, so that a crash leaves no snapshot with missing
		// nodes
		if err := s.step(&batch); err != nil {
			return s.fail(err)
		}
	}
	return s.fail(dropRange(s.db, []byte{snapshotNodes.id}, appendHeight([]byte{snapshotNodes.id}, below)))
}

// dropSnapshotsOf removes the snapshots of a shard that is being deleted. It also removes the
// snapshots of the shard's ancestors and descendants by splits, because these shards share rows
// with the deleted shard. dropSnapshotsOf returns the ranges of rows of these snapshots that are
// still to be deleted.
func (s *Store) dropSnapshotsOf(shard primitives.ShardID, accounts AccountRange) (ranges [][2][]byte, err error) {
	list, err := s.StateSnapshots()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(p StateSnapshot) bool {
		return p.Shard != shard && !p.Accounts.overlaps(accounts)
	})
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

// overlaps returns whether two ranges share an account ID.
func (r AccountRange) overlaps(o AccountRange) bool {
	return (r.Hi == "" || o.Lo < r.Hi) && (o.Hi == "" || r.Lo < o.Hi)
}

// SnapshotFrontier calls yield, in ascending order, for the nodes of a snapshot on a level whose
// paths begin with the path `below`, until yield returns false.
func (s *Store) SnapshotFrontier(p *StateSnapshot, level uint8, below []byte, yield func(FrontierNode) bool) error {
	lo := appendSnapshotNodeKey(nil, snapshotNodeKey{p.key(), level, string(below)})
	return snapshotNodes.Scan(s.db, lo, PrefixEnd(lo), func(key []byte, v frontierValue) bool {
		return yield(FrontierNode{level, slices.Clone(key[17:]), v.hash, v.usage})
	})
}

// EpochBegin is the first canonical block of a kept epoch.
type EpochBegin struct {
	Height primitives.Height
	Epoch  primitives.EpochID
}

// Epochs returns the epochs of the kept blocks up to the flat head, ascending.
func (s *Store) Epochs() (list []EpochBegin, err error) {
	err = epochFirst.Scan(s.db, nil, nil, func(key []byte, id primitives.Hash) bool {
		list = append(list, EpochBegin{heightOf(key), id})
		return true
	})
	return list, err
}
