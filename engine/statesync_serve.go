package engine

import (
	"errors"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ServedSnapshot is a sync block of which this node gives the states.
type ServedSnapshot struct {
	Sync        primitives.Hash
	Announced   primitives.Hash // by which hosts name it: the block two before
	Epoch       primitives.EpochID
	EpochHeight uint64
	Shards      []primitives.ShardID
}

// ServedSnapshots finds the sync blocks of the newest epochs that have one, as far as they are final. It is used by one goroutine.
type ServedSnapshots struct {
	e     *Engine
	scans map[storage.EpochBegin]*servedScan // of the newest epochs, and of the one of an older point that is kept
}

type servedScan struct {
	scan     syncScan
	point    storage.BlockRef
	snapshot *ServedSnapshot
	changes  uint64 // of the snapshots, when they were looked at
}

// ServedSnapshots begins to look for sync blocks.
func (e *Engine) ServedSnapshots() *ServedSnapshots {
	return &ServedSnapshots{e: e, scans: map[storage.EpochBegin]*servedScan{}}
}

// List returns the newest two, the older first, of no older epochs than states are kept of: where a shard has no chunks in an epoch that has no sync block, and
// whoever is to make them needs the state of the one before. Where none of these epochs has one it is the last that there was, as long as that is kept. It looks at each
// block once.
func (o *ServedSnapshots) List() (out []*ServedSnapshot, err error) {
	e := o.e
	if !e.o.Snapshots {
		return nil, nil
	}
	epochs, err := e.store.Epochs()
	if err != nil {
		return nil, err
	}
	epochs = epochs[max(0, len(epochs)-keptSnapshotEpochs):]
	last := e.lastKept()
	for begin := range o.scans {
		if (len(epochs) == 0 || begin.Height < epochs[0].Height) && (last == nil || begin != last.begin) {
			delete(o.scans, begin)
		}
	}
	end := e.store.Tip().Folded.Height + 1
	if e.stateSnapshots.updating.Load() { // of what is folded not all is kept yet; afterwards it is
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

// look finds the sync block of an epoch, and the shards whose states there are of it: more, when others have come in at it.
func (o *ServedSnapshots) look(s *servedScan, upTo, end primitives.Height) error {
	e := o.e
	changes := e.stateSnapshots.changes.Load()
	if s.snapshot != nil && (s.changes == changes || end == 0) {
		return nil
	}
	if s.point.IsZero() {
		p, err := e.findPoint(&s.scan, upTo)
		if err != nil || p == nil {
			return err
		}
		s.point = p.at
	}
	sync, err := e.store.NextBlock(s.point.Height + 1)
	if errors.Is(err, storage.ErrNotFound) || err == nil && sync.Height >= end {
		return nil
	}
	if err != nil {
		return err
	}
	rec, err := e.store.Block(s.point)
	if err != nil {
		return err
	}
	x := &ServedSnapshot{Sync: sync.Hash, Announced: rec.Prev().Hash, Epoch: rec.Epoch()}
	err = e.Epochs(func(m *epoch.Manager) error {
		info, err := m.EpochInfo(x.Epoch)
		if err == nil {
			x.EpochHeight = info.EpochHeight
		}
		return err
	})
	if err != nil {
		return err
	}
	at, err := e.load(rec)
	if err != nil {
		return err
	}
	for i, h := range at.Block.Body.Chunks {
		if e.lendState(h.PrevBlockHash, primitives.ShardIndex(i), noop) == nil {
			x.Shards = append(x.Shards, h.ShardID)
		}
	}
	s.changes, s.snapshot = changes, nil
	if len(x.Shards) > 0 { // else they came behind it
		s.snapshot = x
	}
	return nil
}

func noop(*trie.Root) error { return nil }
