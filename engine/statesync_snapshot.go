package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// State snapshots for state sync.
//
// Problem. A peer that catches up a shard fetches the state at an epoch's sync point in parts,
// which may take hours. Meanwhile the chain continues, and the tries in memory and the flat state
// advance past that block.
//
// Invariants. (1) A snapshot is made only of a block at or below the flat head, so the snapshot's
// block is never reverted. (2) A snapshot is consistent: the hash of its frontier is the state root
// in the chunk header. The engine checks this when it makes the snapshot and when it reads the
// snapshot. (3) A crash at any time costs only the work done: the next update of the flat head
// makes the missing snapshots. (4) Snapshots exist for the newest keptSnapshots sync points of the
// last keptSnapshotEpochs epochs. Snapshots of the newest sync point, however old the point is,
// also exist until there is a newer sync point (statesync_point.go). (5) A snapshot prevents
// garbage collection of the state history since its block.
//
// Outline. After each update of the flat head, makeSnapshots continues the search for the epoch's
// sync point. At the sync point makeSnapshots stores, for each held shard, the upper levels of the
// trie's frontier, which are some thousandths of the state. The values below are read from the
// store's state history when a part is requested (lendSnapshot). To make a snapshot, the trie at
// the sync point is needed. If that trie is not in memory, undoTo computes the trie from the flat
// head's trie by undoing the changes since the sync point. If too much has changed, no snapshot is
// made (ErrFarBehind) until the next epoch.
//
// Rejected. A copy of the flat state, as nearcore makes with hard links of its database files: this
// store has one log for all data. Keeping the trie in memory: it would retain every node that
// blocks after the sync point replaced.

// snapshotLevel is the lowest frontier level in a snapshot. The entries of this level are subtrees
// of about 1 MiB. A state part covers some dozens of these subtrees.
const snapshotLevel = 2

// keptSnapshots is the number of sync points whose snapshots are kept. keptSnapshotEpochs is the
// maximum age of these sync points in epochs, and equals the minimum number of epochs that garbage
// collection keeps.
const (
	keptSnapshots      = 2
	keptSnapshotEpochs = storage.MinKeptEpochs
)

// maxUndoBytes bounds the bytes of keys and values that may be undone to make one snapshot.
// Usually, as after a crash, only a few blocks are undone. But if this node did not keep snapshots
// before, the sync point may be epochs ago. In a busy shard, the changes of an epoch may not fit
// into memory.
const maxUndoBytes = 256 << 20

// undoBytesPerKey is the measured overhead in bytes of undoing one key: an entry in a map and in a
// list, and two copies. 700,000 keys of 40 bytes with values of 16 bytes, 38 MB together, took 154
// MB.
const undoBytesPerKey = 192

// ErrFarBehind is a warning: a state snapshot was not made because too much has changed after its
// block.
var ErrFarBehind = errors.New("engine: this node skips a state snapshot, since too much has changed after the block of the snapshot")

// StateSnapshots are the state snapshots and the sync points of an engine, and their rows in the
// store. Exported methods are safe for concurrent use.
type StateSnapshots struct {
	store *storage.Store
	chain snapshotChain
	// The following fields are options of the engine: Snapshots, Inspect, Scheduled,
	// SyncPointEpochs, Warn and Tries.
	serves, inspect, scheduled bool
	pointAge                   int
	warn                       func(error)
	tries                      trie.Options

	mu      sync.Mutex
	byBlock map[primitives.Hash][]storage.StateSnapshot // snapshots in the store, by block of the state
	// undoLimit is the maximum number of bytes of changes that a snapshot undoes. 0: maxUndoBytes.
	undoLimit int
	givenUp   atomic.Uint64 // number of snapshots that were not made because of undoLimit
	// updating means that the flat head is being updated. Until the update ends, the state of a
	// block that the flat head passes may be neither in memory nor in a snapshot.
	updating atomic.Bool
	last     atomic.Pointer[lastPoint]
	took     atomic.Pointer[Histogram] // seconds to make the snapshots of a sync point; nil: none was made
	changes  atomic.Uint64             // incremented when byBlock changes

	// Only the goroutine that updates the flat head uses the following fields.
	begun bool
	scan  syncScan
}

// snapshotChain is what StateSnapshots reads of the engine. All methods are safe for concurrent use.
type snapshotChain interface {
	Genesis() *BlockNode
	Imported(primitives.Hash) *BlockNode
	Epochs(func(*epoch.Manager) error) error
	load(*storage.Record) (*BlockNode, error)
}

func newStateSnapshots(chain snapshotChain, o *Options) *StateSnapshots {
	return &StateSnapshots{
		store: o.Store, chain: chain, serves: o.Snapshots, inspect: o.Inspect, scheduled: o.Scheduled,
		pointAge: o.SyncPointEpochs, warn: o.Warn, tries: o.Tries,
	}
}

// Snapshots returns the state snapshots of this chain.
func (e *Engine) Snapshots() *StateSnapshots { return e.snapshots }

// syncScan searches for the sync point of an epoch among the blocks at or below the flat head.
type syncScan struct {
	epoch storage.EpochBegin
	next  primitives.Height // next height to examine
	had   []int             // number of new chunks in the examined blocks, by shard index
	found bool
}

// syncPoint is the parent of a sync block. The chunk headers of the sync block contain the roots of
// the states that this node serves in parts.
type syncPoint struct {
	at     storage.BlockRef
	begin  storage.EpochBegin // start of the epoch of at
	chunks []*primitives.ChunkHeader
}

// loadSnapshots reads the list of stored snapshots. If Options.Snapshots is off, loadSnapshots
// removes the stored snapshots instead, because snapshots prevent garbage collection. With
// Options.Inspect it removes no snapshots. shards is the number of shards at the flat head.
func (ss *StateSnapshots) loadSnapshots(shards int) error {
	if err := ss.loadPoint(shards); err != nil {
		return err
	}
	if !ss.serves && !ss.inspect {
		if list, err := ss.store.StateSnapshots(); err != nil || len(list) == 0 {
			return err
		}
		// If the disk is full, the next start removes the snapshots.
		if err := ss.store.DropStateSnapshots(^primitives.Height(0)); !errors.Is(err, storage.ErrFull) {
			return err
		}
		return nil
	}
	return ss.readSnapshots()
}

func (ss *StateSnapshots) readSnapshots() error {
	// locked before the store is read, so that of two concurrent calls the call with the newer list
	// sets byBlock last
	ss.mu.Lock()
	defer ss.mu.Unlock()
	list, err := ss.store.StateSnapshots()
	if err != nil {
		return err
	}
	pins := map[primitives.Hash][]storage.StateSnapshot{}
	for _, p := range list {
		pins[p.At.Hash] = append(pins[p.At.Hash], p)
	}
	ss.byBlock = pins
	ss.changes.Add(1)
	return nil
}

// snapshotOf returns the stored snapshot of a shard's state after a block. The bool is false if
// there is none.
func (ss *StateSnapshots) snapshotOf(block primitives.Hash, shard primitives.ShardIndex) (storage.StateSnapshot, bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	list := ss.byBlock[block]
	i := slices.IndexFunc(list, func(p storage.StateSnapshot) bool { return p.Index == shard })
	if i < 0 {
		return storage.StateSnapshot{}, false
	}
	return list[i], true
}

// makeSnapshots continues the search for sync points up to the block `at`, which is the flat head,
// makes the snapshots that are due, and drops old ones. The caller holds the block's states.
func (ss *StateSnapshots) makeSnapshots(at *BlockNode) error {
	if !ss.watchesPoints() || ss.begun && ss.scan.found && ss.scan.epoch.Epoch == at.Header().EpochID {
		return nil
	}
	epochs, err := ss.store.Epochs()
	if err != nil || len(epochs) == 0 {
		return err
	}
	// At a start, search the last epochs again. A crash may have prevented a snapshot, and the
	// newest epoch may have no sync point yet.
	anew, first := !ss.begun, max(0, len(epochs)-keptSnapshots-1)
	if ss.begun {
		first = slices.IndexFunc(epochs, func(b storage.EpochBegin) bool { return b.Height >= ss.scan.epoch.Height })
	}
	var due []*syncPoint
	for i := max(first, 0); i < len(epochs); i++ {
		if !ss.begun || ss.scan.epoch != epochs[i] {
			ss.begun, ss.scan = true, syncScan{epoch: epochs[i], next: epochs[i].Height + 1}
		}
		point, err := ss.pointIn(&ss.scan, epochs, i, at)
		if err != nil {
			return err
		}
		if point != nil {
			due = append(due, point)
		}
	}
	if anew && len(due) == 0 {
		if due, err = ss.olderPoint(epochs[:max(first, 0)], epochs, at); err != nil {
			return err
		}
	}
	if err := ss.notePoints(due, epochs, at.Layout.NumShards()); err != nil || !ss.serves {
		return err
	}
	for _, point := range due[max(0, len(due)-keptSnapshots):] {
		if err := ss.snapshotPoint(point, at); err != nil {
			return fmt.Errorf("engine: state snapshot for epoch %v: %w", point.begin.Epoch, err)
		}
	}
	return ss.dropOldSnapshots(epochs)
}

// pointIn continues the search for a sync point in epochs[i].
func (ss *StateSnapshots) pointIn(
	scan *syncScan,
	epochs []storage.EpochBegin,
	i int,
	at *BlockNode,
) (*syncPoint, error) {
	end := at.Height() + 1
	if i+1 < len(epochs) {
		end = epochs[i+1].Height
	}
	point, err := ss.findPoint(scan, end)
	if err != nil {
		err = fmt.Errorf("engine: state snapshot for epoch %v: %w", epochs[i].Epoch, err)
	}
	return point, err
}

// olderPoint returns the newest sync point if the point's epoch is in older, the epochs before the
// epochs whose states are always kept. It returns nil if the data of that point is not kept.
// Normally the store has a row of the point. If an old version of the program wrote the data
// folder, there is no such row. In that case olderPoint searches the epochs in older.
func (ss *StateSnapshots) olderPoint(older, epochs []storage.EpochBegin, at *BlockNode) ([]*syncPoint, error) {
	if p := ss.last.Load(); p != nil {
		if !p.keep {
			return nil, nil
		}
		point, err := ss.pointOf(p)
		return []*syncPoint{point}, err
	}
	for i, begin := range slices.Backward(older) {
		point, err := ss.pointIn(&syncScan{epoch: begin, next: begin.Height + 1}, epochs, i, at)
		if err != nil || point != nil {
			return []*syncPoint{point}, err
		}
	}
	return nil, nil
}

// findPoint continues a search up to the height end or to the epoch's last block, whichever is
// lower. findPoint counts new chunks as SyncPoint does. findPoint returns nil if the search has not
// reached the point yet, if a previous call has returned the point, or if the epoch has no point.
// end may be above the last epoch that the caller knows.
func (ss *StateSnapshots) findPoint(s *syncScan, end primitives.Height) (*syncPoint, error) {
	for !s.found && s.next < end {
		at, err := ss.store.NextBlock(s.next)
		if err != nil || at.Height >= end {
			if errors.Is(err, storage.ErrNotFound) {
				err = nil
			}
			return nil, err
		}
		rec, err := ss.store.Block(at)
		if err != nil {
			return nil, err
		}
		if rec.Epoch() != s.epoch.Epoch {
			return nil, nil
		}
		s.next = at.Height + 1
		if rec.Prev() == ref(ss.chain.Genesis()) {
			continue
		}
		// The header's chunk mask marks the new chunks. findPoint uses the mask because some blocks
		// of a bootstrapped data folder have no body.
		var h primitives.BlockHeader
		raw, err := rec.Header()
		if err == nil {
			err = borsh.Unmarshal(raw, &h)
		}
		if err != nil {
			return nil, err
		}
		if s.had == nil {
			s.had = make([]int, len(h.ChunkMask))
		}
		s.found = true
		for k, is := range h.ChunkMask {
			if is {
				s.had[k]++
			}
			s.found = s.found && s.had[k] >= 2
		}
		if !s.found {
			continue
		}
		chunks, err := chunksIn(rec)
		if err != nil || len(chunks) == 0 { // this node has neither the body nor the state of the block
			return nil, err
		}
		return &syncPoint{at, s.epoch, chunks}, nil
	}
	return nil, nil
}

// chunksIn returns the chunk headers of a stored block, or nil if the store has only the block's
// header.
func chunksIn(rec *storage.Record) ([]*primitives.ChunkHeader, error) {
	var body primitives.BlockBody
	raw, err := rec.Body()
	if err == nil {
		err = borsh.Unmarshal(raw, &body)
	}
	return body.Chunks, err
}

// snapshotPoint makes the missing snapshots of the held shards at a sync point. base is the flat
// head. The caller holds base's states.
func (ss *StateSnapshots) snapshotPoint(p *syncPoint, base *BlockNode) error {
	made, began := false, time.Now()
	for i, h := range p.chunks {
		rec, err := ss.store.BlockByHash(h.PrevBlockHash)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
			continue // the block is below the first block of this data folder
		}
		if err != nil {
			return err
		}
		index := primitives.ShardIndex(i)
		if _, there := ss.snapshotOf(rec.Ref().Hash, index); there {
			continue
		}
		pin := storage.StateSnapshot{Shard: h.ShardID, Index: index, At: rec.Ref(), Of: p.at, Root: h.PrevStateRoot}
		if pin.Accounts, err = ss.accountsIn(p.begin.Epoch, h.ShardID); err != nil {
			return err
		}
		ok, err := ss.snapshotShard(&pin, base)
		if err != nil {
			return fmt.Errorf("store the state of shard %d after block %d: %w", h.ShardID, pin.At.Height, err)
		}
		made = made || ok
	}
	if !made {
		return nil
	}
	histogramAt(&ss.took, snapshotBounds).add(time.Since(began).Seconds())
	return ss.readSnapshots()
}

func (ss *StateSnapshots) accountsIn(id primitives.EpochID, shard primitives.ShardID) (storage.AccountRange, error) {
	var layout primitives.ShardLayout
	err := ss.chain.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayout(id)
		return err
	})
	if err != nil {
		return storage.AccountRange{}, err
	}
	return Accounts(layout, shard)
}

// GivenUp returns the number of snapshots that were not made because too much had changed.
// This node cannot serve those states to peers.
func (ss *StateSnapshots) GivenUp() uint64 { return ss.givenUp.Load() }

// Took returns how many seconds it took to make the snapshots of each sync point, of all its held shards
// together. nil: this engine has made none.
func (ss *StateSnapshots) Took() *Histogram { return ss.took.Load() }

// snapshotShard makes the snapshot that pin describes. It returns false if the shard is not held or
// too much has changed.
func (ss *StateSnapshots) snapshotShard(pin *storage.StateSnapshot, base *BlockNode) (bool, error) {
	root, err := ss.stateAfter(pin, base)
	if errors.Is(err, ErrFarBehind) {
		ss.givenUp.Add(1)
		if ss.warn != nil {
			ss.warn(err)
		}
		return false, nil
	}
	if err != nil || root == nil {
		return false, err
	}
	defer root.Release()
	return ss.storeSnapshot(pin, root)
}

// storeSnapshot stores root as the snapshot that pin describes. storeSnapshot returns false if the
// store no longer has the values of that state.
func (ss *StateSnapshots) storeSnapshot(pin *storage.StateSnapshot, root *trie.Root) (bool, error) {
	if root.Hash() != pin.Root {
		return false, fmt.Errorf("%w: the state root is %v, but the next chunk header has %v", ErrInconsistent, root.Hash(), pin.Root)
	}
	var stubs []storage.FrontierNode
	for level := snapshotLevel; level < trie.Levels; level++ {
		entries, err := root.Frontier(level)
		if err != nil {
			return false, err
		}
		for i := range entries {
			stubs = append(stubs, storedNode(level, &entries[i]))
		}
	}
	err := ss.store.SnapshotState(*pin, slices.Values(stubs))
	// The shard was caught up or untracked after that block.
	if errors.Is(err, storage.ErrGone) || errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// stateAfter returns a shard's state after the block of pin: from memory, or by undoing changes
// from base, the flat head. The caller must release the state. stateAfter returns nil if the shard
// is not held, and ErrFarBehind if too much has changed.
func (ss *StateSnapshots) stateAfter(pin *storage.StateSnapshot, base *BlockNode) (*trie.Root, error) {
	if x := ss.chain.Imported(pin.At.Hash); x != nil && x.Acquire() {
		defer x.Release()
		if s := &x.Shards[pin.Index]; s.root != nil {
			return s.root.Retain(), nil
		}
		return nil, nil
	}
	if ss.store.LacksState(pin.At, pin.Shard) { // checked first, because reading all changes is expensive
		return nil, nil
	}
	return undoTo(ss.store, pin.At, pin.Shard, base, cmp.Or(ss.undoLimit, maxUndoBytes))
}

// undoTo returns a shard's state after the block `to`. undoTo starts from the state of base, which
// the caller holds, and undoes the changes of all blocks after `to`. The caller must release the
// result. The root is nil if the shard is not held in base or was caught up after `to`. The error
// is ErrFarBehind if more than `most` bytes have changed.
func undoTo(
	store *storage.Store,
	to storage.BlockRef,
	shard primitives.ShardID,
	base *BlockNode,
	most int,
) (*trie.Root, error) {
	i, err := base.Layout.Index(shard)
	if err != nil || base.Shards[i].root == nil {
		return nil, nil // the shard is not held, or was split before base
	}
	then, size := map[string][]byte{}, 0
	for at := ref(base); at != to; {
		rec, err := store.Block(at)
		if err == nil {
			_, err = rec.Extra(shard)
		}
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
			return nil, nil // the shard was caught up after this block
		}
		if err != nil {
			return nil, err
		}
		changes, err := rec.Changes(shard)
		if err != nil {
			return nil, err
		}
		for k := range changes {
			c := &changes[k]
			newer, there := then[string(c.Key)]
			if size += len(c.Old) - len(newer); !there {
				size += len(c.Key) + undoBytesPerKey
			}
			then[string(c.Key)] = bytes.Clone(c.Old) // cloned, because the slice keeps the whole record in memory
		}
		if size > most {
			return nil, fmt.Errorf(
				"%w: shard %d after block %d: the changes up to block %d have more than %d MiB, the limit; the next epoch will have a snapshot",
				ErrFarBehind,
				shard,
				to.Height,
				base.Height(),
				most>>20,
			)
		}
		if at = rec.Prev(); at.Height < to.Height {
			return nil, fmt.Errorf("%w: block %v is not after block %v", ErrInconsistent, ref(base), to)
		}
	}
	back := make([]trie.Change, 0, len(then))
	for key, value := range then {
		back = append(back, trie.Change{Key: []byte(key), Value: value})
	}
	slices.SortFunc(back, func(a, b trie.Change) int { return slices.Compare(a.Key, b.Key) })
	root := base.Shards[i].root
	return root.Forest().Update(root, back, nil)
}

// dropOldSnapshots drops all snapshots that are no longer needed. It keeps the snapshots of the
// newest keptSnapshots sync points that are at most keptSnapshotEpochs epochs old. It also keeps
// the snapshots of the newest sync point while that point's data is kept.
func (ss *StateSnapshots) dropOldSnapshots(epochs []storage.EpochBegin) error {
	list, err := ss.store.StateSnapshots()
	if err != nil {
		return err
	}
	var points []storage.BlockRef // oldest first
	for i := range list {
		if !slices.Contains(points, list[i].Of) {
			points = append(points, list[i].Of)
		}
	}
	slices.SortFunc(points, func(a, b storage.BlockRef) int { return int(int64(a.Height) - int64(b.Height)) })
	kept := points[max(0, len(points)-keptSnapshots):]
	below := epochs[max(0, len(epochs)-keptSnapshotEpochs)].Height
	if p := ss.lastKept(); p != nil {
		below = min(below, p.begin.Height)
	}
	for i := range list {
		// a snapshot of a later epoch than all of kept has a greater height
		if p := &list[i]; !slices.Contains(kept, p.Of) {
			below = max(below, p.At.Height+1)
		}
	}
	if len(list) == 0 || list[0].At.Height >= below {
		return nil
	}
	if err := ss.store.DropStateSnapshots(below); err != nil {
		return err
	}
	return ss.readSnapshots()
}

// lendSnapshot passes the state of a snapshot to the function use. Afterwards lendSnapshot frees
// the nodes that use has loaded.
func (ss *StateSnapshots) lendSnapshot(p *storage.StateSnapshot, use func(*trie.Root) error) error {
	o := ss.tries
	if o.Frontier == 0 {
		o.Frontier = trie.DefaultFrontier
	}
	o.Frontier <<= 4 * snapshotLevel // the forest's lowest level is then the level of the snapshot
	rows := func(level int, path []byte, yield func(trie.FrontierEntry) bool) error {
		return ss.store.SnapshotFrontier(p, uint8(level), path, func(s storage.FrontierNode) bool { return yield(entryOf(s)) })
	}
	forest := trie.New(o)
	forest.SetSource(trie.Source{
		Rows: func(level int, path []byte, yield func(trie.FrontierEntry) bool) error {
			if level += snapshotLevel; level >= trie.Top {
				return nil
			}
			return rows(level, path, yield)
		},
		Load: func(from, to []byte, yield func(key, value []byte) bool) error {
			return ss.store.Load(p.At, p.Shard, p.Accounts, from, to, yield)
		},
	})
	var top []trie.FrontierEntry
	if err := rows(trie.Top, nil, func(f trie.FrontierEntry) bool { top = append(top, f); return true }); err != nil {
		return err
	}
	root, err := forest.Import(top, p.Root)
	if err != nil {
		return err
	}
	defer root.Release()
	return use(root)
}
