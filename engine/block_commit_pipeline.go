package engine

import (
	"errors"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// MaxAhead bounds the blocks that are adopted and not on disk. Two or three of them keep the disk and the chain busy; the rest
// is for a disk that pauses. What they hold in memory is what a block of the chain holds anyway until it is folded.
const MaxAhead = 8

// commitPipeline is the way of adopted blocks to the disk: a goroutine that runs while there are any writes as many of them as have
// come with one sync, shows them to readers and says so. The engine's own goroutine puts blocks in at one end (push) and
// takes them over at the other (Stored).
type commitPipeline struct {
	mu      sync.Mutex
	list    []*inFlightBlock // adopted and not taken over, parents first
	done    int              // of list, from its start: on disk and seen by readers
	err     error            // why the rest of list does not come there
	writing bool
	idle    *sync.Cond // writing has ended
}

// inFlightBlock is an adopted block. It holds its parent's states until it is taken over.
type inFlightBlock struct {
	imp         *BlockImport
	changes     epoch.Changes
	accepted    *Accepted
	onPersisted func() // called once it is on disk, or will not come there; nil: nobody asks
}

func (a *commitPipeline) init() { a.idle = sync.NewCond(&a.mu) }

// Adopt joins the results of a block's jobs and makes it part of the chain, so that the next block may be made on it, before
// it is on disk: until then readers do not see it, and nothing that leaves the node may rest on it. Blocks come to the disk in
// the order of their adoption; stored is called then, or when they cannot, from any goroutine, and Stored tells which.
//
// On an error nothing has changed. ErrOld and ErrChunk are the block's fault, all others the node's.
func (e *Engine) FinishImport(p *BlockImport, stored func()) (*Accepted, error) {
	q := &e.pipeline
	q.mu.Lock()
	err := q.err
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}
	a, err := e.importBlock(p, stored)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.writing && q.err == nil { // else Stored tells
		q.writing = true
		go e.runPipeline()
	}
	return a, nil
}

// Ahead returns how many adopted blocks Stored has not told yet.
func (e *Engine) InFlight() int {
	e.pipeline.mu.Lock()
	defer e.pipeline.mu.Unlock()
	return len(e.pipeline.list)
}

// Stored takes over the adopted blocks that have come to the disk since it was called last, parents first. After an error no
// advance block does, before Abandon. ErrFull comes only where the store has ended the waits for room.
func (e *Engine) Stored() ([]*Accepted, error) {
	all, err := e.reap()
	if err != nil || len(all) == 0 {
		return all, err
	}
	return all, e.stepFlatHead()
}

// Abandon goes back to what is on disk after an error of Stored: the blocks that were adopted beyond it are forgotten as if they
// had never been, and the tip is the head again. After ErrFull of the store the engine may go on from there; after all other
// errors it takes no further block.
func (e *Engine) Abandon() {
	for _, u := range slices.Backward(e.abandonInFlight()) {
		u.imp.Drop()
	}
}

// Flush waits until the adopted blocks are on disk, and is Stored then.
func (e *Engine) Flush() ([]*Accepted, error) {
	q := &e.pipeline
	q.mu.Lock()
	for q.writing {
		q.idle.Wait()
	}
	q.mu.Unlock()
	return e.Stored()
}

// reap ends the part of stored blocks in ahead.
func (e *Engine) reap() (all []*Accepted, err error) {
	q := &e.pipeline
	q.mu.Lock()
	done := slices.Clone(q.list[:q.done])
	q.list, q.done, err = slices.Delete(q.list, 0, q.done), 0, q.err
	q.mu.Unlock()
	for _, u := range done {
		u.imp.parent.Release()
		all = append(all, u.accepted)
	}
	return all, err
}

// abandonInFlight takes back what adopting did, for the blocks that do not come to the disk. They are the caller's to drop.
func (e *Engine) abandonInFlight() []*inFlightBlock {
	q := &e.pipeline
	q.mu.Lock()
	lost := q.list
	q.list, q.done, q.err = nil, 0, nil
	q.mu.Unlock()
	e.epochMu.Lock()
	for _, u := range slices.Backward(lost) {
		e.epochs.Forget(&u.changes)
	}
	e.epochMu.Unlock()
	e.mu.Lock()
	for _, u := range lost {
		delete(e.entries, u.imp.entry.Hash)
		u.imp.imported = false
	}
	e.mu.Unlock()
	e.tip.Store(e.view.Load())
	return lost
}

// runPipeline is the goroutine of ahead. On a full disk it waits for room, unless the store says that nobody is to.
func (e *Engine) runPipeline() {
	q := &e.pipeline
	for {
		room := e.store.AwaitRoom()
		q.mu.Lock()
		next := slices.Clone(q.list[q.done:])
		if len(next) == 0 || q.err != nil {
			q.writing = false
			q.idle.Broadcast()
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		e.persist(next, room)
	}
}

// persist stores adopted blocks and shows them to readers, in their order. again: what finds no room is left for the next try.
func (e *Engine) persist(next []*inFlightBlock, again bool) {
	n, err := e.storeBlocks(next)
	for _, u := range next[:n] {
		u.imp.entry.persisted.Store(true)
		if u.accepted.IsHead {
			e.view.Store(&head{entry: u.imp.entry, final: u.accepted.Final})
		}
	}
	if again && errors.Is(err, storage.ErrFull) {
		next, err = next[:n], nil
	}
	q := &e.pipeline
	q.mu.Lock()
	q.done += n
	q.err = err
	q.mu.Unlock()
	if err != nil {
		n = len(next)
	}
	for _, u := range next[:n] {
		if u.onPersisted != nil {
			u.onPersisted()
		}
	}
}

// epochChanges calls f for what adopted blocks add to the epochs' rows, the newest first, until it returns true.
func (a *commitPipeline) epochChanges(f func(*epoch.Changes) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range slices.Backward(a.list) {
		if u.changes.BlockInfo != nil && f(&u.changes) {
			return
		}
	}
}

// Tip returns the block that the next one is made on: the head once all adopted blocks are on disk. Nothing that leaves the
// node may rest on it.
func (e *Engine) Tip() *BlockNode { return e.tip.Load().entry }

// TipFinal returns the last final block of the tip's chain.
func (e *Engine) TipFinal() storage.BlockRef { return e.tip.Load().final }

// Adopted returns a recent block by hash that is on disk or on its way there; see Tip.
func (e *Engine) Imported(hash primitives.Hash) *BlockNode {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.entries[hash]
}
