package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// folding is a fold that runs beside the blocks: it writes the state of final blocks to disk, which takes longer than a block.
type folding struct {
	to   *Entry
	done chan error // one result
}

// Bounds of what may wait while a fold runs, in final blocks and in bytes of changes, which with their outcomes take some
// ten times that in memory. Beyond them the next block waits for the fold.
const (
	maxUnfolded      = 32 * storage.DefaultFoldBlocks
	maxUnfoldedBytes = 8 * storage.DefaultFoldBytes
)

// fold takes over what a fold has done, and begins the next one when enough final blocks wait.
func (e *Engine) fold() error {
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
		return e.endFold(<-e.folding.done)
	}
	upto, due := e.store.FoldDue()
	if !due {
		return nil
	}
	return e.beginFold(upto)
}

func (e *Engine) beginFold(upto storage.BlockRef) error {
	to, from := e.Entry(upto.Hash), e.foldedAt
	if to == nil || to == from {
		return nil
	}
	if !to.Acquire() || !from.Acquire() {
		return fmt.Errorf("engine: the states of blocks %d and %d are gone before they were folded", from.Height(), to.Height())
	}
	f := &folding{to: to, done: make(chan error, 1)}
	e.folding = f
	go func() {
		defer to.Release()
		defer from.Release()
		f.done <- e.writeFold(from, to)
	}()
	return nil
}

// writeFold stores what changed between two blocks. It runs beside the writer and touches nothing of the engine's.
func (e *Engine) writeFold(from, to *Entry) error {
	var changes []storage.FrontierChange
	for i := range to.Shards {
		put, removed, err := to.Shards[i].root.FrontierSince(from.Shards[i].root)
		if err != nil {
			return fmt.Errorf("engine: frontier of shard %d: %w", to.Shards[i].ID, err)
		}
		changes = appendFrontier(changes, to.Shards[i].ID, put, removed)
	}
	if err := e.store.Fold(ref(to), changes); err != nil {
		return fmt.Errorf("engine: fold to block %d: %w", to.Height(), err)
	}
	return nil
}

// endFold ends a fold.
func (e *Engine) endFold(err error) error {
	to := e.folding.to
	e.folding = nil
	if err == nil {
		e.forget(to)
	}
	return err
}

// Fold waits for a fold that runs and moves the stored state to the last final block. A clean stop calls it, so that the next
// start has nothing to apply again.
func (e *Engine) Fold() error {
	for {
		if e.folding != nil {
			if err := e.endFold(<-e.folding.done); err != nil {
				return err
			}
		}
		if err := e.beginFold(e.Final()); err != nil || e.folding == nil {
			return err
		}
	}
}

// forget drops the entries that neither are nor descend from the folded block.
func (e *Engine) forget(folded *Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	keep := map[primitives.Hash]bool{folded.Hash: true}
	descends := func(x *Entry) bool {
		var path []*Entry
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
		if !descends(x) {
			delete(e.entries, hash)
			x.Release()
		}
	}
	e.foldedAt = folded
}

// Close waits for a fold that runs. The store is the caller's to close, after this.
func (e *Engine) Close() error {
	if e.folding == nil {
		return nil
	}
	return e.endFold(<-e.folding.done)
}
