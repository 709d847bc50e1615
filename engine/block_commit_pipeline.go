package engine

import (
	"errors"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// MaxAhead bounds the imported blocks that are not on disk. Two or three keep both the disk and the
// chain busy; the rest covers a disk that pauses. They need little extra memory: a block stays in
// memory until the flat head passes it anyway.
const MaxAhead = 8

// commitPipeline persists imported blocks in the background.
//
// Problem. A block is small and an fsync is slow. If each block waited for its own fsync, the
// chain's rate would be the disk's latency.
//
// Invariants. (1) Blocks reach the disk in the order of their import, parents before children. (2)
// Nothing that leaves the node (a message, an RPC answer, a vote) depends on a block that is not
// persisted: readers start from Engine.Head, which is persisted, and only the importer looks at
// Engine.Tip. (3) At most MaxAhead blocks are in flight; the caller checks InFlight before it
// imports another. (4) After a write error no further block is persisted until Abandon.
//
// Outline. The engine's goroutine appends a block to list (importBlock) and starts the pipeline's
// goroutine if none runs. That goroutine takes everything queued, writes it with one fsync
// (storage.Store.CommitAll), publishes the new head to readers, and then runs the onPersisted
// callbacks. The engine's goroutine calls Stored to remove the finished blocks from list; Stored
// also advances the flat head. On a full disk the goroutine waits for room and tries again.
//
// After a failure the blocks that were not persisted are taken back: Abandon removes them from the
// block tree and from the epoch manager, and the tip is the persisted head again.
//
// Rejected. Asynchronous writes without a queue bound lose arbitrarily many blocks in a crash and
// let the tip run away from what clients can see. Persisting every n-th block delays every answer
// by n blocks.
type commitPipeline struct {
	mu   sync.Mutex
	list []*inFlightBlock // imported and not reaped, parents first
	done int              // prefix of list that is on disk and visible to readers
	err  error            // why the rest of list cannot be persisted
	// runPipeline is running
	writing bool
	idle    *sync.Cond // signalled when writing becomes false
}

// inFlightBlock is an imported block that is not yet reaped. It holds its parent's states until
// then.
type inFlightBlock struct {
	imp         *BlockImport
	changes     epoch.Changes
	accepted    *Accepted
	onPersisted func() // called once it is on disk, or cannot get there; nil: no callback
}

func (a *commitPipeline) init() { a.idle = sync.NewCond(&a.mu) }

// FinishImport joins the results of a block's jobs and adds the block to the in-memory chain,
// before it is on disk. The next block may be built on it at once. Until it is persisted, readers
// do not see it and nothing that leaves the node may depend on it.
//
// stored is called from another goroutine when the block has been persisted or cannot be; Stored
// then says which. nil: no callback.
//
// On an error nothing has changed. ErrOld and ErrChunk are faults of the block; all others are
// faults of this node (VerdictOf).
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
	if !q.writing && q.err == nil { // after an error Stored reports it
		q.writing = true
		go e.runPipeline()
	}
	return a, nil
}

// InFlight returns the number of imported blocks that Stored has not returned yet.
func (e *Engine) InFlight() int {
	e.pipeline.mu.Lock()
	defer e.pipeline.mu.Unlock()
	return len(e.pipeline.list)
}

// Stored returns the imported blocks that were persisted since the last call, parents first. After
// an error no further block is persisted until Abandon. The error is storage.ErrFull only if the
// store no longer waits for room.
func (e *Engine) Stored() ([]*Accepted, error) {
	all, err := e.reap()
	if err != nil || len(all) == 0 {
		return all, err
	}
	return all, e.stepFlatHead()
}

// Abandon returns to what is on disk after an error of Stored: blocks imported beyond it are
// forgotten, and the tip is the head again. After storage.ErrFull the engine may continue from
// there. After any other error it accepts no further block.
func (e *Engine) Abandon() {
	for _, u := range slices.Backward(e.abandonInFlight()) {
		u.imp.Drop()
	}
}

// Flush waits until the imported blocks are on disk and then returns the result of Stored.
func (e *Engine) Flush() ([]*Accepted, error) {
	q := &e.pipeline
	q.mu.Lock()
	for q.writing {
		q.idle.Wait()
	}
	q.mu.Unlock()
	return e.Stored()
}

// reap removes the persisted blocks from the queue and releases their parents' states.
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

// abandonInFlight undoes the import of the blocks that do not reach the disk. The caller drops
// them.
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

// runPipeline is the pipeline's goroutine. It ends when the queue is empty or a write failed. On a
// full disk it waits for room unless the store has ended such waits.
func (e *Engine) runPipeline() {
	q := &e.pipeline
	for {
		room := e.store.AwaitDiskSpace()
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

// persist stores imported blocks in order, publishes them to readers and runs their callbacks. With
// again set, blocks that find no room stay queued for another try.
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

// epochChanges calls f with the epoch rows that in-flight blocks add, newest first, until f returns
// true.
func (a *commitPipeline) epochChanges(f func(*epoch.Changes) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range slices.Backward(a.list) {
		if u.changes.BlockInfo != nil && f(&u.changes) {
			return
		}
	}
}

// Tip returns the in-memory head, on which the next block is built. It equals Head when no block is
// in flight. Nothing that leaves the node may depend on it.
func (e *Engine) Tip() *BlockNode { return e.tip.Load().entry }

// TipFinal returns the last final block of the tip's chain.
func (e *Engine) TipFinal() storage.BlockRef { return e.tip.Load().final }

// Imported returns a block of the in-memory tree, on disk or not (see Tip), or nil. Its states may
// be evicted.
func (e *Engine) Imported(hash primitives.Hash) *BlockNode {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.entries[hash]
}
