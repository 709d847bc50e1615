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

// flatHeadUpdate is a fold that runs beside the blocks: it writes the state of final blocks to disk, which takes longer than a block.
type flatHeadUpdate struct {
	from, to  *BlockNode
	inherited []ShardState // what from left, by the shards of to
	done      chan error   // one result
	endPause  func()       // ends its rest
}

// wait is for its result, which somebody needs now.
func (f *flatHeadUpdate) wait() error {
	f.endPause()
	return <-f.done
}

// Bounds of what may wait while a fold runs, in final blocks and in bytes of changes, which with their outcomes take some
// ten times that in memory. Beyond them the next block waits for the fold.
const (
	maxAboveFlatHead      = 32 * storage.DefaultFoldBlocks
	maxAboveFlatHeadBytes = 8 * storage.DefaultFoldBytes
)

// RestFolds has a fold that begins wait for as long as ask says, unless much waits for it: it takes a core for some milliseconds just when a block has been stored, of which
// hasOtherValidators are being told. Safe from any goroutine.
func (e *Engine) PauseFlatHead(ask func() time.Duration) { e.flatHeadPause.Store(&ask) }

// flatHeadUrgent tells whether the next blocks would soon wait for a fold up to a block, were it to rest.
func (e *Engine) flatHeadUrgent(to *BlockNode) bool {
	return to.Height()-min(to.Height(), e.flatHead.Height()) >= maxAboveFlatHead/2 || e.store.PendingBytes() >= maxAboveFlatHeadBytes/2
}

// stepFlatHead takes over what a fold has done, and begins the next one when enough final blocks wait. One that failed for want of room is not
// tried again: the store is to be opened again, and a start has those blocks from the log.
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
		if final-min(final, e.flatHeadUpdate.to.Height()) < maxAboveFlatHead && e.store.PendingBytes() < maxAboveFlatHeadBytes {
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
		return fmt.Errorf("engine: the states of blocks %d and %d are gone before they were folded", from.Height(), to.Height())
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
		f.done <- err // last: who waits for it finds nothing held
	}()
	return nil
}

// beforeSplit returns the oldest block, above the folded one and not above to, behind which the layout changes, else to: a
// stepFlatHead goes from one layout to at most one other, and the change is its first step.
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

// writeFlatHeadUpdate stores what changed between two blocks. It runs beside the writer and touches nothing of the engine's but the proofs.
func (e *Engine) writeFlatHeadUpdate(f *flatHeadUpdate) error {
	var changes []storage.FrontierChange
	for i := range f.to.Shards {
		s, old := &f.to.Shards[i], f.inherited[i].root
		if s.root == nil { // not held, or on one of the blocks between for the last time
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
	if err := e.makeSnapshots(f.from); err != nil { // what a crash has left undone
		return err
	}
	e.stateSnapshots.updating.Store(true)
	defer e.stateSnapshots.updating.Store(false)
	if err := e.store.AdvanceFlatHead(ref(f.to), changes); err != nil {
		return fmt.Errorf("engine: fold to block %d: %w", f.to.Height(), err)
	}
	return e.makeSnapshots(f.to)
}

// lastHeldState is the newest state of a shard between the two blocks of a fold if the first of them has it and the last one has not: a start
// has found a shard that came in on some of the blocks. nil: it has none.
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

// finishFlatHeadUpdate ends a fold.
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
	// The flat state is of this block now. What is being loaded by the source before, and what a shard that was split off has not loaded,
	// is read from the history; the forests of new shards need the old ones no more.
	for i := range f.to.Shards {
		if r := f.to.Shards[i].root; r != nil {
			r.Forest().SetSource(e.source(ref(f.to), f.to.Layout, i))
		}
	}
	e.dropBelowFlatHead(f.to)
	return nil
}

// Fold waits for a fold that runs and moves the stored state to the last final block. A clean stop calls it, so that the next
// start has nothing to apply again.
func (e *Engine) AdvanceFlatHead() error { return e.AdvanceFlatHeadWithin(context.Background()) }

// FoldWithin is Fold that begins no step more when ctx has ended: a start then applies more blocks from the log.
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

// dropBelowFlatHead drops the entries that neither are nor descend from the folded block.
func (e *Engine) dropBelowFlatHead(folded *BlockNode) {
	defer func() { // after mu is given back: with them go their chunks, results and receipts
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
		if x.persisted.Load() && !descends(x) { // what is on its way to the disk goes once it is there
			delete(e.entries, hash)
			if !x.evicted {
				x.Release()
			}
		}
	}
	e.flatHead = folded
}

// Close waits for adopted blocks to come to the disk, and for a fold that runs. The store is the caller's to close, after
// this.
func (e *Engine) Close() error {
	e.precompiler.looks.Wait()
	e.removalsDone.Wait()
	_, err := e.Flush()
	if e.flatHeadUpdate != nil {
		err = errors.Join(err, e.finishFlatHeadUpdate(e.flatHeadUpdate.wait()))
	}
	return err
}
