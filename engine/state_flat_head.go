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

// folding is a fold that runs beside the blocks: it writes the state of final blocks to disk, which takes longer than a block.
type folding struct {
	from, to  *BlockNode
	inherited []ShardState // what from left, by the shards of to
	done      chan error   // one result
	hurry     func()       // ends its rest
}

// wait is for its result, which somebody needs now.
func (f *folding) wait() error {
	f.hurry()
	return <-f.done
}

// Bounds of what may wait while a fold runs, in final blocks and in bytes of changes, which with their outcomes take some
// ten times that in memory. Beyond them the next block waits for the fold.
const (
	maxUnfolded      = 32 * storage.DefaultFoldBlocks
	maxUnfoldedBytes = 8 * storage.DefaultFoldBytes
)

// RestFolds has a fold that begins wait for as long as ask says, unless much waits for it: it takes a core for some milliseconds just when a block has been stored, of which
// others are being told. Safe from any goroutine.
func (e *Engine) PauseFlatHead(ask func() time.Duration) { e.foldRest.Store(&ask) }

// foldPresses tells whether the next blocks would soon wait for a fold up to a block, were it to rest.
func (e *Engine) foldPresses(to *BlockNode) bool {
	return to.Height()-min(to.Height(), e.foldedAt.Height()) >= maxUnfolded/2 || e.store.PendingBytes() >= maxUnfoldedBytes/2
}

// fold takes over what a fold has done, and begins the next one when enough final blocks wait. One that failed for want of room is not
// tried again: the store is to be opened again, and a start has those blocks from the log.
func (e *Engine) fold() error {
	if err := e.foldNext(); !errors.Is(err, storage.ErrFull) {
		return err
	}
	return nil
}

func (e *Engine) foldNext() error {
	e.shed()
	if e.folding != nil {
		final := e.Final().Height
		if final-min(final, e.folding.to.Height()) < maxUnfolded && e.store.PendingBytes() < maxUnfoldedBytes {
			select {
			case err := <-e.folding.done:
				return e.endFold(err)
			default:
				return nil
			}
		}
		return e.endFold(e.folding.wait())
	}
	upto, due := e.store.FlatHeadDue()
	if !due {
		return nil
	}
	return e.beginFold(e.foldable(upto))
}

func (e *Engine) beginFold(upto storage.BlockRef) error {
	to, from := e.Adopted(upto.Hash), e.foldedAt
	if to == nil || !to.stored.Load() {
		return nil
	}
	if to = e.beforeSplit(to); to == from {
		return nil
	}
	var err error
	if to.light {
		if to, err = e.revive(to); err != nil {
			return err
		}
	}
	f := &folding{from: from, to: to, done: make(chan error, 1)}
	if f.inherited, err = e.inherited(from, to.Layout); err != nil {
		return err
	}
	if !to.Acquire() || !from.Acquire() {
		return fmt.Errorf("engine: the states of blocks %d and %d are gone before they were folded", from.Height(), to.Height())
	}
	e.folding = f
	var rested context.Context
	rested, f.hurry = context.WithCancel(context.Background())
	rest := time.Duration(0)
	if ask := e.foldRest.Load(); ask != nil && !e.foldPresses(to) {
		rest = (*ask)()
	}
	go func() {
		if rest > 0 {
			select {
			case <-rested.Done():
			case <-time.After(rest):
			}
		}
		f.hurry()
		err := e.writeFold(f)
		from.Release()
		to.Release()
		f.done <- err // last: who waits for it finds nothing held
	}()
	return nil
}

// beforeSplit returns the oldest block, above the folded one and not above to, behind which the layout changes, else to: a
// fold goes from one layout to at most one other, and the change is its first step.
func (e *Engine) beforeSplit(to *BlockNode) *BlockNode {
	for x := to; x != nil && x != e.foldedAt; {
		parent := e.Adopted(x.Header().PrevHash)
		if parent != nil && parent != e.foldedAt && !parent.Layout.Equal(x.Layout) {
			to = parent
		}
		x = parent
	}
	return to
}

// writeFold stores what changed between two blocks. It runs beside the writer and touches nothing of the engine's but the proofs.
func (e *Engine) writeFold(f *folding) error {
	var changes []storage.FrontierChange
	for i := range f.to.Shards {
		s, old := &f.to.Shards[i], f.inherited[i].root
		if s.root == nil { // not held, or on one of the blocks between for the last time
			if s = e.lastHeld(f, i); s == nil {
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
	if err := e.pin(f.from); err != nil { // what a crash has left undone
		return err
	}
	e.pins.under.Store(true)
	defer e.pins.under.Store(false)
	if err := e.store.AdvanceFlatHead(ref(f.to), changes); err != nil {
		return fmt.Errorf("engine: fold to block %d: %w", f.to.Height(), err)
	}
	return e.pin(f.to)
}

// lastHeld is the newest state of a shard between the two blocks of a fold if the first of them has it and the last one has not: a start
// has found a shard that came in on some of the blocks. nil: it has none.
func (e *Engine) lastHeld(f *folding, i int) *ShardState {
	if f.inherited[i].root == nil {
		return nil
	}
	for x := f.to; x != nil && x != f.from; x = e.Adopted(x.Header().PrevHash) {
		if s := &x.Shards[i]; s.root != nil {
			return s
		}
	}
	return nil
}

// endFold ends a fold.
func (e *Engine) endFold(err error) error {
	f := e.folding
	e.folding = nil
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
	e.forget(f.to)
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
		if e.folding != nil {
			if err := e.endFold(e.folding.wait()); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := e.beginFold(e.foldable(e.Final())); err != nil || e.folding == nil {
			return err
		}
	}
}

// forget drops the entries that neither are nor descend from the folded block.
func (e *Engine) forget(folded *BlockNode) {
	defer func() { // after mu is given back: with them go their chunks, results and receipts
		e.warm = slices.DeleteFunc(e.warm, func(x *BlockNode) bool { return e.Adopted(x.Hash) != x })
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
		if x.stored.Load() && !descends(x) { // what is on its way to the disk goes once it is there
			delete(e.entries, hash)
			if !x.light {
				x.Release()
			}
		}
	}
	e.foldedAt = folded
}

// Close waits for adopted blocks to come to the disk, and for a fold that runs. The store is the caller's to close, after
// this.
func (e *Engine) Close() error {
	e.haste.looks.Wait()
	e.leaving.Wait()
	_, err := e.Flush()
	if e.folding != nil {
		err = errors.Join(err, e.endFold(e.folding.wait()))
	}
	return err
}
