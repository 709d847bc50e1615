package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// A snapshot is what parts of the states at an epoch's sync block are made of once these have left the memory: of each shard a pin in the
// store. It has the upper levels of the frontier, some thousandths of the state; what is below is made of values as the history has them. It is made
// behind the fold that passes the block before the sync block: of the tries that are in memory, or else of the folded ones, of which the
// changes since are taken back. So a crash at any time has it made by the next fold. The newest two stay, for three epochs at the most; the newest as long as there is no
// newer one (statesync_point.go).

// snapshotLevel is the lowest level of the frontier that a snapshot has: subtrees of 1 MiB, of which a part has some dozens.
const snapshotLevel = 2

// keptSnapshots is how many stay, keptSnapshotEpochs how old they get: no older than what garbage collection leaves at the least.
const (
	keptSnapshots      = 2
	keptSnapshotEpochs = storage.MinKeptEpochs
)

// maxUndoBytes is how many bytes of keys and values are taken back for a snapshot. A crash has lost it some blocks ago; but a folder that has kept none before, or of another
// configuration, is epochs behind, of which a busy shard changes more than the memory has. What is more is not made: the next epoch has its snapshot.
const maxUndoBytes = 256 << 20

// undoBytesPerKey is what each key takes besides, measured: a place in a map and in a list of changes, and two copies of it. Of 700,000 keys of 40 bytes with values of 16,
// 38 MB, it made 154 MB.
const undoBytesPerKey = 192

// ErrFarBehind says that a snapshot is not made, as too much has changed since the block that it is of.
var ErrFarBehind = errors.New("engine: a snapshot is given up")

// stateSnapshots are the states that are kept for parts, and how far sync blocks have been looked for.
type stateSnapshots struct {
	mu        sync.Mutex
	byBlock   map[primitives.Hash][]storage.StateSnapshot
	undoLimit int // bytes that are taken back; 0: maxUndoBytes
	givenUp   atomic.Uint64
	updating  atomic.Bool // a fold runs: what it passes may have neither its states in memory nor a pin
	last      atomic.Pointer[lastPoint]
	changes   atomic.Uint64 // of byBlock

	// Of whoever folds:
	begun bool
	scan  syncScan
}

// syncScan looks for the sync point of an epoch among folded blocks.
type syncScan struct {
	epoch storage.EpochBegin
	next  primitives.Height // the first that it has not looked at
	had   []int             // new chunks, by shard index
	found bool
}

// syncPoint is the block before a sync block: each chunk header there says which state is given in parts.
type syncPoint struct {
	at     storage.BlockRef
	begin  storage.EpochBegin // of its epoch
	chunks []*primitives.ChunkHeader
}

// loadSnapshots reads what snapshots there are. Where none are wanted they go, as they would hold up garbage collection, unless this is only to look.
func (e *Engine) loadSnapshots() error {
	if err := e.loadPoint(); err != nil {
		return err
	}
	if !e.o.Snapshots && !e.o.Inspect {
		if list, err := e.store.StateSnapshots(); err != nil || len(list) == 0 {
			return err
		}
		if err := e.store.DropStateSnapshot(^primitives.Height(0)); !errors.Is(err, storage.ErrFull) { // else a later start removes them
			return err
		}
		return nil
	}
	return e.readSnapshots()
}

func (e *Engine) readSnapshots() error {
	e.stateSnapshots.mu.Lock() // over the reading, too: who reads later has what is newer
	defer e.stateSnapshots.mu.Unlock()
	list, err := e.store.StateSnapshots()
	if err != nil {
		return err
	}
	pins := map[primitives.Hash][]storage.StateSnapshot{}
	for _, p := range list {
		pins[p.At.Hash] = append(pins[p.At.Hash], p)
	}
	e.stateSnapshots.byBlock = pins
	e.stateSnapshots.changes.Add(1)
	return nil
}

// snapshotOf finds the pin of a shard's state after a block.
func (e *Engine) snapshotOf(block primitives.Hash, shard primitives.ShardIndex) (storage.StateSnapshot, bool) {
	e.stateSnapshots.mu.Lock()
	defer e.stateSnapshots.mu.Unlock()
	list := e.stateSnapshots.byBlock[block]
	i := slices.IndexFunc(list, func(p storage.StateSnapshot) bool { return p.Index == shard })
	if i < 0 {
		return storage.StateSnapshot{}, false
	}
	return list[i], true
}

// makeSnapshots looks for sync points, makes the snapshots that are due at a block, which is folded and whose states are held, and gives up those that are too old.
func (e *Engine) makeSnapshots(at *BlockNode) error {
	x := &e.stateSnapshots
	if !e.watchesPoints() || x.begun && x.scan.found && x.scan.epoch.Epoch == at.Header().EpochID {
		return nil
	}
	epochs, err := e.store.Epochs()
	if err != nil || len(epochs) == 0 {
		return err
	}
	anew, first := !x.begun, max(0, len(epochs)-keptSnapshots-1) // a crash may have come between a fold and its snapshot, and the newest epoch's point is yet to come
	if x.begun {
		first = slices.IndexFunc(epochs, func(b storage.EpochBegin) bool { return b.Height >= x.scan.epoch.Height })
	}
	var due []*syncPoint
	for i := max(first, 0); i < len(epochs); i++ {
		if !x.begun || x.scan.epoch != epochs[i] {
			x.begun, x.scan = true, syncScan{epoch: epochs[i], next: epochs[i].Height + 1}
		}
		point, err := e.pointIn(&x.scan, epochs, i, at)
		if err != nil {
			return err
		}
		if point != nil {
			due = append(due, point)
		}
	}
	if anew && len(due) == 0 {
		if due, err = e.olderPoint(epochs[:max(first, 0)], epochs, at); err != nil {
			return err
		}
	}
	if err := e.notePoints(due, epochs, at.Layout.NumShards()); err != nil || !e.o.Snapshots {
		return err
	}
	for _, point := range due[max(0, len(due)-keptSnapshots):] {
		if err := e.snapshotPoint(point, at); err != nil {
			return fmt.Errorf("engine: snapshot of epoch %v: %w", point.begin.Epoch, err)
		}
	}
	return e.dropOldSnapshots(epochs)
}

// pointIn goes on with the scan of one of the epochs.
func (e *Engine) pointIn(scan *syncScan, epochs []storage.EpochBegin, i int, at *BlockNode) (*syncPoint, error) {
	end := at.Height() + 1
	if i+1 < len(epochs) {
		end = epochs[i+1].Height
	}
	point, err := e.findPoint(scan, end)
	if err != nil {
		err = fmt.Errorf("engine: snapshot of epoch %v: %w", epochs[i].Epoch, err)
	}
	return point, err
}

// olderPoint is the newest point of epochs of which no states would be kept any more, if that is kept: as it is known, or else by a look at all that there is, which only
// a folder of before can need.
func (e *Engine) olderPoint(older, epochs []storage.EpochBegin, at *BlockNode) ([]*syncPoint, error) {
	if p := e.stateSnapshots.last.Load(); p != nil {
		if !p.keep {
			return nil, nil
		}
		point, err := e.pointOf(p)
		return []*syncPoint{point}, err
	}
	for i, begin := range slices.Backward(older) {
		point, err := e.pointIn(&syncScan{epoch: begin, next: begin.Height + 1}, epochs, i, at)
		if err != nil || point != nil {
			return []*syncPoint{point}, err
		}
	}
	return nil, nil
}

// findPoint goes on with a scan, up to a height or the epoch's end; nil: the point has been found before, is yet to come, or the epoch has none. It counts as
// SyncPoint does. The end may be of a fold behind the one that the list of epochs is of.
func (e *Engine) findPoint(s *syncScan, end primitives.Height) (*syncPoint, error) {
	for !s.found && s.next < end {
		at, err := e.store.NextBlock(s.next)
		if err != nil || at.Height >= end {
			if errors.Is(err, storage.ErrNotFound) {
				err = nil
			}
			return nil, err
		}
		rec, err := e.store.Block(at)
		if err != nil {
			return nil, err
		}
		if rec.Epoch() != s.epoch.Epoch {
			return nil, nil
		}
		s.next = at.Height + 1
		if rec.Prev() == ref(e.genesis) {
			continue
		}
		var h primitives.BlockHeader // which tells of new chunks: where the folder begins there are blocks without a body
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
		if err != nil || len(chunks) == 0 { // here there is no state of it, and nothing that leads to it
			return nil, err
		}
		return &syncPoint{at, s.epoch, chunks}, nil
	}
	return nil, nil
}

// chunksIn are the chunk headers of a block; none: its header alone is here.
func chunksIn(rec *storage.Record) ([]*primitives.ChunkHeader, error) {
	var body primitives.BlockBody
	raw, err := rec.Body()
	if err == nil {
		err = borsh.Unmarshal(raw, &body)
	}
	return body.Chunks, err
}

// snapshotPoint stores the states of a snapshot that are not stored yet, of the shards that are held; base is folded and held.
func (e *Engine) snapshotPoint(p *syncPoint, base *BlockNode) error {
	made := false
	for i, h := range p.chunks {
		rec, err := e.store.BlockByHash(h.PrevBlockHash)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
			continue // before the blocks that the folder began with
		}
		if err != nil {
			return err
		}
		index := primitives.ShardIndex(i)
		if _, there := e.snapshotOf(rec.Ref().Hash, index); there {
			continue
		}
		pin := storage.StateSnapshot{Shard: h.ShardID, Index: index, At: rec.Ref(), Of: p.at, Root: h.PrevStateRoot}
		if pin.Accounts, err = e.accountsIn(p.begin.Epoch, h.ShardID); err != nil {
			return err
		}
		ok, err := e.snapshotShard(&pin, base)
		if err != nil {
			return fmt.Errorf("state of shard %d after block %d: %w", h.ShardID, pin.At.Height, err)
		}
		made = made || ok
	}
	if !made {
		return nil
	}
	return e.readSnapshots()
}

func (e *Engine) accountsIn(epoch primitives.EpochID, shard primitives.ShardID) (storage.AccountRange, error) {
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	layout, err := e.epochs.ShardLayout(epoch)
	if err != nil {
		return storage.AccountRange{}, err
	}
	return Accounts(layout, shard)
}

// SnapshotsGivenUp counts the shards of snapshots that were not made since too much had changed: others get no parts of these states here.
func (e *Engine) SnapshotsGivenUp() uint64 { return e.stateSnapshots.givenUp.Load() }

// snapshotShard stores one state; false: it is not held, or was not then, or is given up.
func (e *Engine) snapshotShard(pin *storage.StateSnapshot, base *BlockNode) (bool, error) {
	root, err := e.stateAfter(pin, base)
	if errors.Is(err, ErrFarBehind) {
		e.stateSnapshots.givenUp.Add(1)
		if e.o.Warn != nil {
			e.o.Warn(err)
		}
		return false, nil
	}
	if err != nil || root == nil {
		return false, err
	}
	defer root.Release()
	return e.storeSnapshot(pin, root)
}

// storeSnapshot stores a state as a snapshot; false: the store does not have it.
func (e *Engine) storeSnapshot(pin *storage.StateSnapshot, root *trie.Root) (bool, error) {
	if root.Hash() != pin.Root {
		return false, fmt.Errorf("%w: it has root %v, the chunk behind it says %v", ErrInconsistent, root.Hash(), pin.Root)
	}
	var stubs []storage.Stub
	for level := snapshotLevel; level < trie.Levels; level++ {
		entries, err := root.Frontier(level)
		if err != nil {
			return false, err
		}
		for i := range entries {
			stubs = append(stubs, stubOf(level, &entries[i]))
		}
	}
	err := e.store.SnapshotState(*pin, slices.Values(stubs))
	if errors.Is(err, storage.ErrGone) || errors.Is(err, storage.ErrNotFound) { // the shard has come in, or left, since
		return false, nil
	}
	return err == nil, err
}

// stateAfter is a shard's state after a block, for the caller to release: as it is in memory, or that of a later folded block of which the
// changes since are taken back. nil: it is not held. ErrFarBehind: too much has changed.
func (e *Engine) stateAfter(pin *storage.StateSnapshot, base *BlockNode) (*trie.Root, error) {
	if x := e.Imported(pin.At.Hash); x != nil && x.Acquire() {
		defer x.Release()
		if s := &x.Shards[pin.Index]; s.root != nil {
			return s.root.Retain(), nil
		}
		return nil, nil
	}
	if e.store.LacksState(pin.At, pin.Shard) { // before all that has changed is read
		return nil, nil
	}
	return e.undoTo(pin.At, pin.Shard, base, cmp.Or(e.stateSnapshots.undoLimit, maxUndoBytes))
}

// undoTo is a shard's state after a block before base, which is held, for the caller to release: that of base without what has changed since. nil: the shard
// is not held there, or not since then. ErrFarBehind: more bytes have changed than most.
func (e *Engine) undoTo(to storage.BlockRef, shard primitives.ShardID, base *BlockNode, most int) (*trie.Root, error) {
	i, err := base.Layout.Index(shard)
	if err != nil || base.Shards[i].root == nil {
		return nil, nil // it was split since, and a fold passed that without this one
	}
	then, size := map[string][]byte{}, 0
	for at := ref(base); at != to; {
		rec, err := e.store.Block(at)
		if err == nil {
			_, err = rec.Extra(shard)
		}
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
			return nil, nil // the shard came in later
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
			then[string(c.Key)] = bytes.Clone(c.Old) // or it keeps all that was read with it
		}
		if size > most {
			return nil, fmt.Errorf("%w: of shard %d after block %d more than %d MiB have changed up to block %d; the next epoch has its snapshot again",
				ErrFarBehind, shard, to.Height, most>>20, base.Height())
		}
		if at = rec.Prev(); at.Height < to.Height {
			return nil, fmt.Errorf("%w: block %v is not behind block %v", ErrInconsistent, ref(base), to)
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

// dropOldSnapshots gives up all but the newest snapshots: those of three epochs, and of an older point if there is no newer one.
func (e *Engine) dropOldSnapshots(epochs []storage.EpochBegin) error {
	list, err := e.store.StateSnapshots()
	if err != nil {
		return err
	}
	var points []storage.BlockRef // newest last
	for i := range list {
		if !slices.Contains(points, list[i].Of) {
			points = append(points, list[i].Of)
		}
	}
	slices.SortFunc(points, func(a, b storage.BlockRef) int { return int(int64(a.Height) - int64(b.Height)) })
	oldest := points[max(0, len(points)-keptSnapshots):]
	below := epochs[max(0, len(epochs)-keptSnapshotEpochs)].Height
	if p := e.lastKept(); p != nil {
		below = min(below, p.begin.Height)
	}
	for i := range list {
		if p := &list[i]; !slices.Contains(oldest, p.Of) { // an epoch's states are all above those of the one before
			below = max(below, p.At.Height+1)
		}
	}
	if len(list) == 0 || list[0].At.Height >= below {
		return nil
	}
	if err := e.store.DropStateSnapshot(below); err != nil {
		return err
	}
	return e.readSnapshots()
}

// lendSnapshot lends a state that a snapshot has. What is loaded for it does not stay in memory.
func (e *Engine) lendSnapshot(p *storage.StateSnapshot, use func(*trie.Root) error) error {
	o := e.o.Tries
	if o.Frontier == 0 {
		o.Frontier = trie.DefaultFrontier
	}
	o.Frontier <<= 4 * snapshotLevel // what is its lowest level is the lowest that there is
	rows := func(level int, path []byte, yield func(trie.FrontierEntry) bool) error {
		return e.store.SnapshotFrontier(p, uint8(level), path, func(s storage.Stub) bool { return yield(entryOf(s)) })
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
			return e.store.Load(p.At, p.Shard, p.Accounts, from, to, yield)
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
