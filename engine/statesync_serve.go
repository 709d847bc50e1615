package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ServedSnapshot is a sync block, and the shards in which this node serves the state of that sync
// block.
type ServedSnapshot struct {
	Sync        primitives.Hash
	Announced   primitives.Hash // hash that snapshot hosts announce: the hash of the grandparent of Sync
	Epoch       primitives.EpochID
	EpochHeight uint64
	Shards      []primitives.ShardID
}

// ServedSnapshots finds the final sync blocks of the newest epochs whose states this node serves.
// Not safe for concurrent use.
type ServedSnapshots struct {
	ss *StateSnapshots
	// scans has a scan for each of the newest epochs, and for the epoch of the newest sync point
	// while that point's data is kept.
	scans map[storage.EpochBegin]*servedScan
}

// servedScan is the search for the served states of one epoch.
type servedScan struct {
	scan     syncScan
	point    storage.BlockRef
	snapshot *ServedSnapshot
	changes  uint64 // value of StateSnapshots.changes when snapshot was last computed
}

// Served returns a ServedSnapshots that has not examined any block yet.
func (ss *StateSnapshots) Served() *ServedSnapshots {
	return &ServedSnapshots{ss: ss, scans: map[storage.EpochBegin]*servedScan{}}
}

// List returns the two newest sync blocks that this node serves in the epochs whose states are
// kept, the lower sync block first. An epoch has no sync block if a shard has no chunks in that
// epoch. That shard's producers then need the state of the epoch before, so List returns two sync
// blocks. If none of these epochs has a sync block, List returns the sync block of the newest sync
// point while that point's data is kept. List examines each block only once.
func (o *ServedSnapshots) List() (out []*ServedSnapshot, err error) {
	ss := o.ss
	if !ss.serves {
		return nil, nil
	}
	epochs, err := ss.store.Epochs()
	if err != nil {
		return nil, err
	}
	epochs = epochs[max(0, len(epochs)-keptSnapshotEpochs):]
	last := ss.lastKept()
	for begin := range o.scans {
		if (len(epochs) == 0 || begin.Height < epochs[0].Height) && (last == nil || begin != last.begin) {
			delete(o.scans, begin)
		}
	}
	end := ss.store.Tip().FlatHead.Height + 1
	if ss.updating.Load() { // until the update ends, some states have no snapshot
		end = 0
	}
	for i, begin := range epochs {
		s, upTo := o.scanOf(begin), end
		if i+1 < len(epochs) {
			upTo = min(end, epochs[i+1].Height)
		}
		if err := o.look(s, upTo, end); err != nil {
			return nil, err
		}
		if s.snapshot != nil {
			out = append(out, s.snapshot)
		}
	}
	if len(out) == 0 && last != nil {
		s := o.scanOf(last.begin)
		s.point = last.at
		if err := o.look(s, end, end); err != nil {
			return nil, err
		}
		if s.snapshot != nil {
			out = append(out, s.snapshot)
		}
	}
	return out[max(0, len(out)-keptSnapshots):], nil
}

func (o *ServedSnapshots) scanOf(begin storage.EpochBegin) *servedScan {
	s := o.scans[begin]
	if s == nil {
		s = &servedScan{scan: syncScan{epoch: begin, next: begin.Height + 1}}
		o.scans[begin] = s
	}
	return s
}

// look searches for an epoch's sync block below the height upTo, and determines the shards whose
// states can be served. After this node has caught up more shards, the next call adds these shards.
// A sync block at height end or above does not count yet.
func (o *ServedSnapshots) look(s *servedScan, upTo, end primitives.Height) error {
	ss := o.ss
	changes := ss.changes.Load()
	if s.snapshot != nil && (s.changes == changes || end == 0) {
		return nil
	}
	if s.point.IsZero() {
		p, err := ss.findPoint(&s.scan, upTo)
		if err != nil || p == nil {
			return err
		}
		s.point = p.at
	}
	sync, err := ss.store.NextBlock(s.point.Height + 1)
	if errors.Is(err, storage.ErrNotFound) || err == nil && sync.Height >= end {
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := ss.store.Block(s.point)
	if err != nil {
		return err
	}
	x := &ServedSnapshot{Sync: sync.Hash, Announced: rec.Prev().Hash, Epoch: rec.Epoch()}
	err = ss.chain.Epochs(func(m *epoch.Manager) error {
		info, err := m.EpochInfo(x.Epoch)
		if err == nil {
			x.EpochHeight = info.EpochHeight
		}
		return err
	})
	if err != nil {
		return err
	}
	at, err := ss.chain.load(rec)
	if err != nil {
		return err
	}
	for i, h := range at.Block.Body.Chunks {
		if ss.lendState(h.PrevBlockHash, primitives.ShardIndex(i), noop) == nil {
			x.Shards = append(x.Shards, h.ShardID)
		}
	}
	s.changes, s.snapshot = changes, nil
	// empty if this node has no state after the block, for example because it caught up all shards
	// only afterwards
	if len(x.Shards) > 0 {
		s.snapshot = x
	}
	return nil
}

func noop(*trie.Root) error { return nil }

// Part returns a part of a shard's state after a block. It returns storage.ErrGone if the state is
// neither in memory nor in a state snapshot (Options.Snapshots), and ErrUntracked if the shard is
// not held. Safe for concurrent use.
func (ss *StateSnapshots) Part(
	block primitives.Hash,
	shard primitives.ShardIndex,
	id trie.PartID,
) (part [][]byte, err error) {
	err = ss.lendState(block, shard, func(r *trie.Root) error {
		part, err = r.Part(id)
		return err
	})
	return part, err
}

// lendState passes a shard's state after a block to the function use. lendState takes the state
// from memory or from a state snapshot. The root is valid only during the call of use.
func (ss *StateSnapshots) lendState(
	block primitives.Hash,
	shard primitives.ShardIndex,
	use func(*trie.Root) error,
) error {
	at := ss.chain.Imported(block)
	there := at != nil && at.Acquire()
	if there {
		defer at.Release()
		if int(shard) < len(at.Shards) && at.Shards[shard].root != nil {
			return use(at.Shards[shard].root)
		}
	}
	if p, pinned := ss.snapshotOf(block, shard); pinned {
		err := ss.lendSnapshot(&p, use)
		if err == nil {
			return nil
		}
		if q, still := ss.snapshotOf(block, shard); still && q == p {
			return fmt.Errorf("engine: read the state of shard %d after block %v: %w", p.Shard, p.At, err)
		}
	}
	if there {
		return fmt.Errorf("%w: shard index %d", ErrUntracked, shard)
	}
	return fmt.Errorf("engine: state after block %v: %w", block, storage.ErrGone)
}
