package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// flatHeadUpdate is a running update (advance) of the flat head.
//
// Problem. The store keeps one full copy of the state, the flat state: the state after one block,
// the flat head (nearcore: flat storage head). The store has the blocks after the flat head only as
// changes. Advancing the flat head rewrites many rows and takes longer than a block, so the import
// of blocks must not wait for the update.
//
// Invariants. (1) The flat head is a final block, so it is never reverted. The flat head does not
// pass the block that was final when the oldest revert point was made. (2) All blocks above the
// flat head are in memory. Blocks that do not descend from the flat head are dropped. (3) An update
// crosses at most one change of the shard layout, and only as its first step. (4) While an update
// runs, at most maxAboveFlatHead final blocks or maxAboveFlatHeadBytes of changes accumulate. Then
// the next block waits for the update. (5) A crash at any time leaves the old flat head and the log
// of the blocks after it. From the flat head and the log the next start rebuilds the tries
// (state_reopen.go).
//
// Outline. After each persisted block, stepFlatHead asks the store whether an update is due. If so,
// beginFlatHeadUpdate holds the states of the old and the new flat head and starts a goroutine. The
// goroutine computes which frontier rows change, saves the state transitions that witnesses of
// blocks after the new flat head still need (witness_store.go), advances the store's flat head, and
// makes the state snapshots that are due (statesync_snapshot.go). The next stepFlatHead after that
// finishes the update on the engine's goroutine: from then on forests read from the new flat state,
// and the engine drops the blocks below the new flat head from memory.
//
// Rejected. Updating the flat state with each block: the changes of every block would be written
// twice at once, and blocks on an abandoned branch would have to be undone on disk. Updating on the
// engine's goroutine: imports would stop meanwhile.
type flatHeadUpdate struct {
	from, to  *BlockNode   // the old and the new flat head, whose states the update holds
	inherited []ShardState // states after from, by shard index in the layout of to
	done      chan error   // receives the result of the update once
	endPause  func()       // ends the pause before the update (PauseFlatHead) early
}

// wait ends the pause, waits until the update has ended, and returns its result.
func (f *flatHeadUpdate) wait() error {
	f.endPause()
	return <-f.done
}

// Limits of the final blocks and of the bytes of changes that accumulate while the flat head is
// updated. The next block waits for the update if a limit is exceeded. In memory, changes and
// outcomes take about ten times the size of the changes.
const (
	maxAboveFlatHead      = 32 * storage.DefaultFlatHeadBlocks
	maxAboveFlatHeadBytes = 8 * storage.DefaultFlatHeadBytes
)

// PauseFlatHead makes each update of the flat head wait before it starts its work, unless the
// limits are near. ask returns how long the update waits. An update uses a core for some
// milliseconds. Without the pause, the update would run right after a block is persisted, when the
// node sends that block to peers and clients. Safe for concurrent use.
func (e *Engine) PauseFlatHead(ask func() time.Duration) { e.flatHeadPause.Store(&ask) }

// flatHeadUrgent returns whether an update to the block `to` must not pause, because half of a
// limit is reached.
func (e *Engine) flatHeadUrgent(to *BlockNode) bool {
	return to.Height()-min(to.Height(), e.flatHead.Height()) >= maxAboveFlatHead/2 ||
		e.store.PendingBytes() >= maxAboveFlatHeadBytes/2
}

// stepFlatHead finishes an update that has ended, or starts an update if the store wants one.
// stepFlatHead returns nil if an update failed because the disk was full. stepFlatHead does not
// retry that update, because the store accepts no more writes until the store is opened again. No
// block is lost, because the log has all blocks.
func (e *Engine) stepFlatHead() error {
	if err := e.tryStepFlatHead(); !errors.Is(err, storage.ErrFull) {
		return err
	}
	return nil
}

func (e *Engine) tryStepFlatHead() error {
	e.evictBlocks()
	if e.flatHeadUpdate != nil {
		final := e.Final().Height
		if final-min(final, e.flatHeadUpdate.to.Height()) < maxAboveFlatHead &&
			e.store.PendingBytes() < maxAboveFlatHeadBytes {
			select {
			case err := <-e.flatHeadUpdate.done:
				return e.finishFlatHeadUpdate(err)
			default:
				return nil
			}
		}
		return e.finishFlatHeadUpdate(e.flatHeadUpdate.wait())
	}
	upto, due := e.store.FlatHeadDue()
	if !due {
		return nil
	}
	return e.beginFlatHeadUpdate(e.flatHeadLimit(upto))
}

func (e *Engine) beginFlatHeadUpdate(upto storage.BlockRef) error {
	to, from := e.Imported(upto.Hash), e.flatHead
	if to == nil || !to.persisted.Load() {
		return nil
	}
	if to = e.beforeSplit(to); to == from {
		return nil
	}
	var err error
	if to.evicted {
		if to, err = e.restoreEvicted(to); err != nil {
			return err
		}
	}
	f := &flatHeadUpdate{from: from, to: to, done: make(chan error, 1)}
	if f.inherited, err = e.inherited(from, to.Layout); err != nil {
		return err
	}
	if !to.Acquire() || !from.Acquire() {
		return fmt.Errorf(
			"engine: the states of blocks %d and %d were removed from memory before the flat head advanced from one to the other",
			from.Height(),
			to.Height(),
		)
	}
	e.flatHeadUpdate = f
	var rested context.Context
	rested, f.endPause = context.WithCancel(context.Background())
	rest := time.Duration(0)
	if ask := e.flatHeadPause.Load(); ask != nil && !e.flatHeadUrgent(to) {
		rest = (*ask)()
	}
	go func() {
		if rest > 0 {
			select {
			case <-rested.Done():
			case <-time.After(rest):
			}
		}
		f.endPause()
		err := e.writeFlatHeadUpdate(f)
		from.Release()
		to.Release()
		f.done <- err // sent last, because the receiver relies on the releases
	}()
	return nil
}

// beforeSplit returns the last block before the first layout change between the flat head and the
// block `to`. If no such block is above the flat head, beforeSplit returns `to`.
func (e *Engine) beforeSplit(to *BlockNode) *BlockNode {
	for x := to; x != nil && x != e.flatHead; {
		parent := e.Imported(x.Header().PrevHash)
		if parent != nil && parent != e.flatHead && !parent.Layout.Equal(x.Layout) {
			to = parent
		}
		x = parent
	}
	return to
}

// writeFlatHeadUpdate writes the changes between the old and the new flat head to the store.
// writeFlatHeadUpdate runs concurrently with the engine's goroutine.
func (e *Engine) writeFlatHeadUpdate(f *flatHeadUpdate) error {
	var changes []storage.FrontierChange
	for i := range f.to.Shards {
		s, old := &f.to.Shards[i], f.inherited[i].root
		if s.root == nil { // the shard is not held after f.to, but may have been held after a block before f.to
			if s = e.lastHeldState(f, i); s == nil {
				continue
			}
		}
		if !f.from.Layout.Has(s.ID) {
			old = nil // the shard is new, so write all its frontier rows
		}
		var err error
		if changes, err = appendFrontier(changes, s.ID, old, s.root); err != nil {
			return fmt.Errorf("engine: store the upper trie levels of shard %d: %w", s.ID, err)
		}
	}
	if err := e.proofs.save(f.to); err != nil {
		return err
	}
	if err := e.snapshots.makeSnapshots(f.from); err != nil { // make the snapshots that a crash prevented
		return err
	}
	e.snapshots.updating.Store(true)
	defer e.snapshots.updating.Store(false)
	if err := e.store.AdvanceFlatHead(ref(f.to), changes); err != nil {
		return fmt.Errorf("engine: advance the flat head to block %d: %w", f.to.Height(), err)
	}
	return e.snapshots.makeSnapshots(f.to)
}

// lastHeldState returns the newest state of a shard in the blocks after the old flat head, up to
// the new flat head. The caller needs lastHeldState for a shard that the old flat head holds and
// the new flat head does not. Such a shard exists after a start if an interrupted catchup left its
// results for only some of these blocks. lastHeldState returns nil if no block between the two flat
// heads holds the shard.
func (e *Engine) lastHeldState(f *flatHeadUpdate, i int) *ShardState {
	if f.inherited[i].root == nil {
		return nil
	}
	for x := f.to; x != nil && x != f.from; x = e.Imported(x.Header().PrevHash) {
		if s := &x.Shards[i]; s.root != nil {
			return s
		}
	}
	return nil
}

// finishFlatHeadUpdate ends an update on the engine's goroutine. err is the result of the update.
func (e *Engine) finishFlatHeadUpdate(err error) error {
	f := e.flatHeadUpdate
	e.flatHeadUpdate = nil
	if err != nil {
		return err
	}
	for i := range f.from.Shards {
		if s := &f.from.Shards[i]; !f.to.Layout.Has(s.ID) && s.root != nil {
			s.root.Forest().Abandon()
		}
	}
	// The flat state is now the state after f.to, so the forests read from the flat state. A load
	// that still uses the previous source reads the values before f.to from the state history. A
	// split shard that is not fully loaded also reads from the state history. The forests of new
	// shards no longer need their parents' forests.
	for i := range f.to.Shards {
		if r := f.to.Shards[i].root; r != nil {
			r.Forest().SetSource(e.source(ref(f.to), f.to.Layout, i))
		}
	}
	e.dropBelowFlatHead(f.to)
	return nil
}

// AdvanceFlatHead waits for a running update and then advances the flat head to the last final
// block. A clean stop calls AdvanceFlatHead, so that the next start need not apply blocks from the
// log.
func (e *Engine) AdvanceFlatHead() error { return e.AdvanceFlatHeadWithin(context.Background()) }

// AdvanceFlatHeadWithin does the same as AdvanceFlatHead, but starts no update after ctx is done.
// In that case the next start applies more blocks from the log.
func (e *Engine) AdvanceFlatHeadWithin(ctx context.Context) error {
	if _, err := e.Flush(); err != nil || e.parent != nil {
		return err
	}
	for {
		if e.flatHeadUpdate != nil {
			if err := e.finishFlatHeadUpdate(e.flatHeadUpdate.wait()); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := e.beginFlatHeadUpdate(e.flatHeadLimit(e.Final())); err != nil || e.flatHeadUpdate == nil {
			return err
		}
	}
}

// dropBelowFlatHead drops all nodes from memory except the new flat head and its descendants.
func (e *Engine) dropBelowFlatHead(folded *BlockNode) {
	// Deferred before the unlock of mu, so that it runs after the unlock: freeing the nodes takes
	// time.
	defer func() {
		e.resident = slices.DeleteFunc(e.resident, func(x *BlockNode) bool { return e.Imported(x.Hash) != x })
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	keep := map[primitives.Hash]bool{folded.Hash: true}
	descends := func(x *BlockNode) bool {
		var path []*BlockNode
		for x != nil && !keep[x.Hash] && x.Height() > folded.Height() {
			path = append(path, x)
			x = e.entries[x.Header().PrevHash]
		}
		ok := x != nil && keep[x.Hash]
		for _, p := range path {
			keep[p.Hash] = ok
		}
		return ok
	}
	for hash, x := range e.entries {
		// a block that is not on disk yet must stay; a further update drops the block
		if x.persisted.Load() && !descends(x) {
			delete(e.entries, hash)
			if !x.evicted {
				x.Release()
			}
		}
	}
	e.flatHead = folded
}

// Close waits until all imported blocks are on disk and background work has ended. No job may be
// running. Afterwards the caller closes the store.
func (e *Engine) Close() error {
	e.DropOptimistic()
	e.precompiler.looks.Wait()
	e.removalsDone.Wait()
	_, err := e.Flush()
	if e.flatHeadUpdate != nil {
		err = errors.Join(err, e.finishFlatHeadUpdate(e.flatHeadUpdate.wait()))
	}
	return err
}
