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

// flatHeadUpdate is a running update of the flat head.
//
// Problem. The store keeps one full copy of the state, the flat state, as of one block: the flat
// head (nearcore's flat storage head). Blocks above it exist as changes. Moving the flat head
// rewrites many rows and takes longer than a block, and the chain must not wait for it.
//
// Invariants. (1) The flat head is a final block, so it never goes back. It does not pass the block
// that was final when the oldest revert point was made. (2) Every block above it is in the block
// tree; blocks that do not descend from it are dropped. (3) An update crosses at most one change of
// the shard layout, and only as its first step. (4) At most maxAboveFlatHead final blocks or
// maxAboveFlatHeadBytes of changes accumulate while an update runs; beyond that the next block
// waits for it. (5) A crash at any time leaves the old flat head and the log of the blocks above
// it, from which the next start rebuilds the tries (state_reopen.go).
//
// Outline. After each persisted block stepFlatHead checks whether the store wants an update. If so,
// beginFlatHeadUpdate retains the states of both blocks and starts a goroutine. That goroutine
// computes the changed frontier rows, saves the transitions that witnesses above still need
// (witness_store.go), advances the store, and makes due state snapshots (statesync_snapshot.go). A
// later stepFlatHead finishes the update on the engine's goroutine: forests read from the new flat
// state, and the tree drops what is below.
//
// Rejected. Updating the flat state with each block: every final block would be written twice at
// once, and a branch would have to be undone on disk. Updating on the engine's goroutine: blocks
// would pause for the duration.
type flatHeadUpdate struct {
	from, to  *BlockNode
	inherited []ShardState // what from left, by the shards of to
	done      chan error   // receives one result
	endPause  func()       // ends the pause before the update
}

// wait waits for the result, without the pause.
func (f *flatHeadUpdate) wait() error {
	f.endPause()
	return <-f.done
}

// Limits of what accumulates while an update of the flat head runs: final blocks, and bytes of
// changes, which take about ten times that in memory with their outcomes. Beyond them the next
// block waits for the update.
const (
	maxAboveFlatHead      = 32 * storage.DefaultFlatHeadBlocks
	maxAboveFlatHeadBytes = 8 * storage.DefaultFlatHeadBytes
)

// PauseFlatHead makes each update of the flat head wait for the duration that ask returns, unless
// many blocks wait for it. An update uses a core for some milliseconds just when a block has been
// persisted and peers and clients are to receive it. Safe for concurrent use.
func (e *Engine) PauseFlatHead(ask func() time.Duration) { e.flatHeadPause.Store(&ask) }

// flatHeadUrgent reports whether blocks would soon wait for an update up to to if it paused.
func (e *Engine) flatHeadUrgent(to *BlockNode) bool {
	return to.Height()-min(to.Height(), e.flatHead.Height()) >= maxAboveFlatHead/2 ||
		e.store.PendingBytes() >= maxAboveFlatHeadBytes/2
}

// stepFlatHead finishes an update that has ended, and starts the next one when enough final blocks
// wait. It does not retry an update that failed for lack of disk space: the store has to be opened
// again, and a start has the blocks in the log.
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
			"engine: the states of blocks %d and %d were released before the flat head reached them",
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
		f.done <- err // last: the receiver finds nothing held
	}()
	return nil
}

// beforeSplit returns the oldest block above the flat head and not above to after which the layout
// changes, else to. An update crosses at most one layout change, as its first step.
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

// writeFlatHeadUpdate stores what changed between two blocks. It runs beside the engine's goroutine
// and uses none of its state except the proofs.
func (e *Engine) writeFlatHeadUpdate(f *flatHeadUpdate) error {
	var changes []storage.FrontierChange
	for i := range f.to.Shards {
		s, old := &f.to.Shards[i], f.inherited[i].root
		if s.root == nil { // not held, or dropped by one of the blocks between
			if s = e.lastHeldState(f, i); s == nil {
				continue
			}
		}
		if !f.from.Layout.Has(s.ID) {
			old = nil // a new shard: all of it
		}
		var err error
		if changes, err = appendFrontier(changes, s.ID, old, s.root); err != nil {
			return fmt.Errorf("engine: frontier of shard %d: %w", s.ID, err)
		}
	}
	if err := e.saveProofs(f.to); err != nil {
		return err
	}
	if err := e.makeSnapshots(f.from); err != nil { // what a crash left undone
		return err
	}
	e.stateSnapshots.updating.Store(true)
	defer e.stateSnapshots.updating.Store(false)
	if err := e.store.AdvanceFlatHead(ref(f.to), changes); err != nil {
		return fmt.Errorf("engine: advance the flat head to block %d: %w", f.to.Height(), err)
	}
	return e.makeSnapshots(f.to)
}

// lastHeldState returns the newest state of a shard between the two blocks of an update if the
// first block has it and the last does not. A start found a shard there that was caught up on some
// of the blocks. nil: there is none.
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

// finishFlatHeadUpdate ends an update on the engine's goroutine.
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
	// The flat state is now that of this block. What the previous source still loads, and what a
	// split shard has not loaded, is read from history. The forests of new shards no longer need
	// the old ones.
	for i := range f.to.Shards {
		if r := f.to.Shards[i].root; r != nil {
			r.Forest().SetSource(e.source(ref(f.to), f.to.Layout, i))
		}
	}
	e.dropBelowFlatHead(f.to)
	return nil
}

// AdvanceFlatHead waits for a running update and advances the flat head to the last final block. A
// clean stop calls it, so that the next start has no changes to apply.
func (e *Engine) AdvanceFlatHead() error { return e.AdvanceFlatHeadWithin(context.Background()) }

// AdvanceFlatHeadWithin is AdvanceFlatHead that starts no further update after ctx has ended. A
// start then applies more blocks from the log.
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

// dropBelowFlatHead drops the nodes that are not the new flat head or a descendant of it.
func (e *Engine) dropBelowFlatHead(folded *BlockNode) {
	// Runs after mu is unlocked: it frees chunks, results and receipts.
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
		if x.persisted.Load() && !descends(x) { // an in-flight block is dropped after it is persisted
			delete(e.entries, hash)
			if !x.evicted {
				x.Release()
			}
		}
	}
	e.flatHead = folded
}

// Close waits for in-flight blocks and for a running update of the flat head. The caller closes the
// store afterwards.
func (e *Engine) Close() error {
	e.precompiler.looks.Wait()
	e.removalsDone.Wait()
	_, err := e.Flush()
	if e.flatHeadUpdate != nil {
		err = errors.Join(err, e.finishFlatHeadUpdate(e.flatHeadUpdate.wait()))
	}
	return err
}
