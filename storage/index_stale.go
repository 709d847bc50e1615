package storage

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// Stale index reads.
//
// Problem: each flush of the write buffer adds a table on level 0 that covers the whole key space.
// A load of an uncached trie subtree has to visit each of these tables, although nearly all of a
// large state has not changed since these tables were written.
//
// Invariants: a stale read is used only for values that are verified by hash, such as trie
// subtrees. A mismatch falls back to the current index. An iterator pins its tables, so all reads
// of the iterator are of the same moment.
//
// Outline: staleIndex is the index as it was at some step in the past, read through iterators that
// were created at that step. A read visits one block instead of one block for each flush.
// staleState.maintain renews the staleIndex when the tables flushed since the staleIndex was made have
// been compacted, or when a quarter of the sampled reads found outdated values. The write buffer is
// rotated before and after the iterators are created, so that the iterators do not pin a buffer
// that is still being written. An index smaller than Options.StaleReadSize has no staleIndex.
//
// Rejected: compacting level 0 more often, because each compaction rewrites level 1.
type staleIndex struct {
	mu     sync.Mutex
	free   []cursor
	inUse  int // number of cursors in use
	closed bool
	// Since the last evaluation: hits: reads that found data with the expected hash; misses: reads
	// that did not.
	hits   int
	misses int
}

// Parameters of stale reads.
const (
	// staleCursors is also the largest number of concurrent readers. Further readers use the
	// current index.
	staleCursors = 8
	// After staleSample reads, the index is renewed if more than a quarter of them found outdated
	// data.
	staleSample   = 1024
	staleMinSteps = 64 // minimum number of index writes between two renewals
)

// DefaultStaleReadSize is the default of Options.StaleReadSize. An index of this size has enough
// flushes on level 0 for stale reads to pay.
const DefaultStaleReadSize = 64 << 20

// staleState is a store's stale index. All fields but now are guarded by indexMu.
type staleState struct {
	mu   sync.Mutex
	now  *staleIndex // the stale index; nil: none
	step uint64      // value of Store.steps when now was created
	// fresh is set until the first step after now was created: until that step, now and the index
	// share the write buffer.
	fresh      bool
	maxFlushes int // maximum number of level-0 flushes since now was created
}

// StaleReader reads an index that may be older than the flat head. Only one goroutine may use the
// reader, and must return it by Done. Use the reader only for data that is verified by hash.
type StaleReader struct {
	index *staleIndex
	cur   cursor
}

// StaleReader returns a reader, or nil if none is available now. Safe for concurrent use.
func (s *Store) StaleReader() *StaleReader { return s.stale.reader() }

func (e *staleState) reader() *StaleReader {
	e.mu.Lock()
	x := e.now
	e.mu.Unlock()
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n := len(x.free)
	if n == 0 {
		return nil
	}
	cur := x.free[n-1]
	x.free = x.free[:n-1]
	x.inUse++
	return &StaleReader{x, cur}
}

// Done returns the reader to the store. right means that the reader found data with the expected
// hash.
func (r *StaleReader) Done(right bool) {
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inUse--
	if right {
		x.hits++
	} else {
		x.misses++
	}
	if r.cur == nil {
		return
	}
	if x.closed {
		_ = r.cur.done() // cannot fail: the cursor had no error when it was last used
		return
	}
	x.free = append(x.free, r.cur)
}

// Load yields key-value pairs of a shard's state, as Store.Load does.
func (r *StaleReader) Load(shard primitives.ShardID, accounts AccountRange, from, to []byte,
	yield func(key, value []byte) bool) error {
	for _, rg := range flatRanges(shard, accounts, from, to) {
		if more, err := loadRange(r.scan, rg, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// Frontier yields frontier entries, as Store.Frontier does.
func (r *StaleReader) Frontier(shard primitives.ShardID, level uint8, below []byte,
	yield func(FrontierNode) bool) error {
	return scanFrontier(r.scan, shard, level, below, yield)
}

func (r *StaleReader) scan(lo, hi []byte, yield func(key, value []byte) (more bool, err error)) (more bool, err error) {
	if r.cur == nil {
		return false, fmt.Errorf("storage: stale reader was used after its cursor ended")
	}
	more, ended, err := scanBy(r.cur, lo, hi, yield)
	if ended {
		r.cur = nil
	}
	return more, err
}

// maintain renews the stale index of db when that pays: when the tables flushed since the stale
// index was made have been compacted, or when too many of its reads found outdated values. The
// store calls maintain after each step, with the step's number. least is Options.StaleReadSize. The
// caller holds indexMu.
func (e *staleState) maintain(db index, n uint64, least int64) error {
	if e.now == nil && n%staleMinSteps != 0 {
		return nil
	}
	if e.fresh { // rotate again, so that the writes from now on use a new write buffer
		e.fresh = false
		return db.rotate()
	}
	flushes, size := db.flushes()
	switch {
	case size < least:
		return nil
	case e.now == nil:
	case n < e.step+staleMinSteps:
		e.maxFlushes = max(e.maxFlushes, flushes)
		return nil
	case flushes >= e.maxFlushes && !e.now.outdated():
		e.maxFlushes = flushes
		return nil
	}
	if err := db.rotate(); err != nil {
		return err
	}
	e.renew(db, n)
	return nil
}

// open creates the first stale index of a store that was just opened, after step n, if the index is
// large.
func (e *staleState) open(db index, n uint64, least int64) {
	if _, size := db.flushes(); size >= least {
		e.renew(db, n)
	}
}

func (e *staleState) renew(db index, n uint64) {
	x := &staleIndex{free: db.frozen(staleCursors)}
	flushes, _ := db.flushes()
	e.drop()
	e.mu.Lock()
	e.now = x
	e.mu.Unlock()
	e.step, e.fresh, e.maxFlushes = n, true, flushes
}

// drop releases the stale index and the tables that it pins.
func (e *staleState) drop() {
	e.mu.Lock()
	x := e.now
	e.now = nil
	e.mu.Unlock()
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	for _, cur := range x.free {
		_ = cur.done()
	}
	x.free = nil
}

// outdated returns whether too many reads found outdated data, or no cursor is left.
func (x *staleIndex) outdated() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.free)+x.inUse == 0 {
		return true
	}
	if x.hits+x.misses < staleSample {
		return false
	}
	poor := x.misses > x.hits/3
	x.hits, x.misses = 0, 0
	return poor
}

// scanFrontier yields the entries of a level of a shard's frontier below a path.
func scanFrontier(scan scanFunc, shard primitives.ShardID, level uint8, below []byte,
	yield func(FrontierNode) bool) error {
	lo := frontier.dbKey(frontierKey{shard, level, string(below)})
	_, err := scan(lo, PrefixEnd(lo), func(key, value []byte) (bool, error) {
		if len(value) != frontierValueSize {
			return false, fmt.Errorf("%s %x: %w", frontier.name, key, damaged("a frontier row has %d bytes", len(value)))
		}
		return yield(FrontierNode{level, key[10:], primitives.Hash(value[:32]), binary.LittleEndian.Uint64(value[32:])}), nil
	})
	return err
}
