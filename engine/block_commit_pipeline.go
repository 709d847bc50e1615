package engine

import (
	"errors"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// MaxAhead bounds the number of imported blocks that are not on disk. Two or three blocks are
// enough to keep the disk and the chain busy. A higher bound lets the chain continue while the disk
// stalls. A higher bound costs little memory, because every block stays in memory until the flat
// head passes it.
const MaxAhead = 8

// commitPipeline persists imported blocks in the background.
//
// Problem. A block is small and an fsync is slow. If each block waited for its own fsync, the fsync
// latency would limit the block rate.
//
// Invariants. (1) Blocks reach the disk in the order of their import, parents before children. (2)
// No message, RPC reply or approval that leaves the node depends on a block that is not persisted.
// Exception: relays of peers' blocks, which may come before the write (table in
// actors/network/gossip.go); the producer has signed such a block, and this node claims nothing.
// Readers start from Engine.Head, which is persisted. Only the importing goroutine builds on
// Engine.Tip. (3) At most MaxAhead blocks are in flight. The caller checks InFlight before it imports another
// block. (4) After a write error no block is persisted until Abandon.
//
// Outline. importBlock, on the engine's goroutine, appends a block to list. FinishImport starts the
// pipeline's goroutine if it does not run. That goroutine takes all queued blocks, writes them with
// one fsync (storage.Store.CommitAll), publishes the new head to readers, and runs the onPersisted
// callbacks. Stored, on the engine's goroutine, removes the persisted blocks from list and advances
// the flat head. On a full disk the pipeline's goroutine waits for disk space and then repeats the
// write.
//
// After a failure, Abandon undoes the import of the blocks that were not persisted: Abandon removes
// these blocks from the block tree and from the epoch manager, and the tip becomes the persisted
// head again.
//
// Rejected. Asynchronous writes without a bound would lose any number of blocks in a crash and let
// the tip advance far beyond what clients see. Persisting only every n-th block would delay each
// reply by n blocks.
type commitPipeline struct {
	mu   sync.Mutex
	list []*inFlightBlock // imported blocks that Stored has not returned yet; parents first
	done int              // number of blocks at the start of list that are on disk
	err  error            // error of the last write; nil: the write succeeded
	// writing is true while runPipeline runs.
	writing bool
	idle    *sync.Cond // signalled when writing becomes false
}

// inFlightBlock is an imported block that Stored has not returned yet. The inFlightBlock holds its
// parent's states until Stored returns the block.
type inFlightBlock struct {
	imp         *BlockImport
	changes     epoch.Changes
	accepted    *Imported
	onPersisted func() // called after the block was written or the write failed; nil: no callback
}

func (a *commitPipeline) init() { a.idle = sync.NewCond(&a.mu) }

// FinishImport takes the results of a block's jobs and adds the block to the in-memory chain. The
// caller may import a child of the block at once. The block is not on disk yet. Until the block is
// persisted, readers do not see the block, and nothing that leaves the node may depend on the
// block.
//
// The commit pipeline calls stored on its own goroutine after the block was persisted or the write
// failed. Engine.Stored then returns the block or the error. stored may be nil.
//
// On an error nothing has changed. ErrOld and ErrChunk mean that the block is stale or invalid. Any
// other error is a fault of this node (VerdictOf).
func (e *Engine) FinishImport(p *BlockImport, stored func()) (*Imported, error) {
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
	if !q.writing && q.err == nil { // after a write error nothing more is written; Stored returns the error
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

// Stored returns the blocks that were persisted since the last call of Stored, parents first. After
// an error no block is persisted until Abandon. On a full disk the pipeline normally waits, so the
// error is storage.ErrFull only if such waits were canceled.
func (e *Engine) Stored() ([]*Imported, error) {
	all, err := e.reap()
	if err != nil || len(all) == 0 {
		return all, err
	}
	return all, e.stepFlatHead()
}

// Abandon undoes the import of all blocks that are not persisted. The caller calls Abandon after an
// error of Stored. Abandon makes the persisted head the tip. If the error was storage.ErrFull, the
// engine can then import blocks again. After any other error the engine cannot.
func (e *Engine) Abandon() {
	for _, u := range slices.Backward(e.abandonInFlight()) {
		u.imp.Drop()
	}
}

// Flush waits until all imported blocks are on disk, and returns the result of Stored.
func (e *Engine) Flush() ([]*Imported, error) {
	q := &e.pipeline
	q.mu.Lock()
	for q.writing {
		q.idle.Wait()
	}
	q.mu.Unlock()
	return e.Stored()
}

// reap removes the persisted blocks from the queue and releases their parents' states.
func (e *Engine) reap() (all []*Imported, err error) {
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

// abandonInFlight undoes the import of the blocks that are not persisted, and returns these blocks.
// The caller calls Drop for each returned block.
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

// runPipeline persists queued blocks until the queue is empty or a write fails. On a full disk
// runPipeline waits for disk space, unless the store has canceled such waits.
func (e *Engine) runPipeline() {
	q := &e.pipeline
	for {
		room := e.store.DiskSpace().Await()
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

// persist writes imported blocks in order, publishes them to readers, and runs their callbacks. If
// again is set, a full disk is not an error: blocks that do not fit stay in the queue.
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

// epochChanges calls f with the epoch manager's changes of each block in the pipeline, newest
// first, until f returns true.
func (a *commitPipeline) epochChanges(f func(*epoch.Changes) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range slices.Backward(a.list) {
		if u.changes.BlockInfo != nil && f(&u.changes) {
			return
		}
	}
}

// Tip returns the in-memory head, on which the next block is built. Tip equals Head if no block is
// in flight. Nothing that leaves the node may depend on the tip.
func (e *Engine) Tip() *BlockNode { return e.tip.Load().entry }

// TipFinal returns the last final block according to the tip.
func (e *Engine) TipFinal() storage.BlockRef { return e.tip.Load().final }

// Imported returns a block of the in-memory tree, on disk or not. It returns nil if the tree lacks
// the block. The block's states may be evicted. Safe for concurrent use.
func (e *Engine) Imported(hash primitives.Hash) *BlockNode {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.entries[hash]
}
