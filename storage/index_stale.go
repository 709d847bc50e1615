package storage

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// staleIndex is the index as it was at a step some time ago, by cursors that were made then. A cursor keeps the tables of its moment, so what has
// been flushed since is not looked into: one block is read in place of one for each flush. Who can tell by a hash whether what he reads is
// what he wants reads here first: nearly all of a large state has not changed for long.
type staleIndex struct {
	mu     sync.Mutex
	free   []cursor
	inUse  int // cursors that are in use
	closed bool
	hits   int // of the last reads, how many found what they wanted
	misses int
}

// Of an early index.
const (
	staleCursors  = 8    // and as many readers at once; more of them read the index as it is
	staleSample   = 1024 // after so many reads, if a quarter of them are in vain, it is made anew
	staleMinSteps = 64   // steps between two of them at least
)

// DefaultStaleReadSize is the size of an index that has more than a few flushes.
const DefaultStaleReadSize = 64 << 20

// staleState is what a store has of it. All but now is under indexMu.
type staleState struct {
	mu         sync.Mutex
	now        *staleIndex // nil: there is none
	step       uint64      // by which it was made
	fresh      bool        // nothing was written since: the journal's memory is its own too
	maxFlushes int         // flushes that lay above the levels since
}

// StaleReader reads an index that may be older than the folded block; one goroutine uses it, and gives it back by Done.
type StaleReader struct {
	index *staleIndex
	cur   cursor
}

// Early returns a reader; nil: there is none just now.
func (s *Store) StaleReader() *StaleReader {
	s.stale.mu.Lock()
	x := s.stale.now
	s.stale.mu.Unlock()
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

// Done gives the reader back. right tells whether it has found what was wanted.
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
		_ = r.cur.done() // it had no error when it was last used
		return
	}
	x.free = append(x.free, r.cur)
}

// Load yields pairs of a shard as Store.Load does.
func (r *StaleReader) Load(shard primitives.ShardID, accounts AccountRange, from, to []byte, yield func(key, value []byte) bool) error {
	for _, rg := range flatRanges(shard, accounts, from, to) {
		if more, err := loadRange(r.scan, rg, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// Frontier yields entries as Store.Frontier does.
func (r *StaleReader) Frontier(shard primitives.ShardID, level uint8, below []byte, yield func(FrontierNode) bool) error {
	return scanFrontier(r.scan, shard, level, below, yield)
}

func (r *StaleReader) scan(lo, hi []byte, yield func(key, value []byte) (more bool, err error)) (more bool, err error) {
	if r.cur == nil {
		return false, fmt.Errorf("storage: an early reader that has come to its end")
	}
	more, ended, err := scanBy(r.cur, lo, hi, yield)
	if ended {
		r.cur = nil
	}
	return more, err
}

// maintainStale makes an early index anew where that pays: when what was flushed since the last one has been merged, or when much of what is
// read there has changed. Under indexMu, behind a step.
func (s *Store) maintainStale(n uint64) error {
	e := &s.stale
	if e.now == nil && n%staleMinSteps != 0 {
		return nil
	}
	if e.fresh { // what is written from now on is to lie in another piece of memory
		e.fresh = false
		return s.db.rotate()
	}
	flushes, size := s.db.flushes()
	switch {
	case size < s.o.StaleReadSize:
		return nil
	case e.now == nil:
	case n < e.step+staleMinSteps:
		e.maxFlushes = max(e.maxFlushes, flushes)
		return nil
	case flushes >= e.maxFlushes && !e.now.outdated():
		e.maxFlushes = flushes
		return nil
	}
	if err := s.db.rotate(); err != nil {
		return err
	}
	s.renewStale(n)
	return nil
}

// openStale makes the first one of a store that has just been opened, if it is large.
func (s *Store) openStale() {
	if _, size := s.db.flushes(); size >= s.o.StaleReadSize {
		s.renewStale(s.steps)
	}
}

func (s *Store) renewStale(n uint64) {
	x := &staleIndex{free: s.db.frozen(staleCursors)}
	flushes, _ := s.db.flushes()
	s.dropStale()
	e := &s.stale
	e.mu.Lock()
	e.now = x
	e.mu.Unlock()
	e.step, e.fresh, e.maxFlushes = n, true, flushes
}

// dropStale gives up what an early index keeps: tables that have been merged since.
func (s *Store) dropStale() {
	e := &s.stale
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

// outdated tells whether too much of what is looked for has changed since, or no cursor is left.
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

// scanFrontier yields the rows of a level of a shard's frontier below a path.
func scanFrontier(scan scanFunc, shard primitives.ShardID, level uint8, below []byte, yield func(FrontierNode) bool) error {
	lo := frontier.dbKey(frontierKey{shard, level, string(below)})
	_, err := scan(lo, PrefixEnd(lo), func(key, value []byte) (bool, error) {
		if len(value) != frontierValueSize {
			return false, fmt.Errorf("%s %x: %w", frontier.name, key, damaged("%d bytes", len(value)))
		}
		return yield(FrontierNode{level, key[10:], primitives.Hash(value[:32]), binary.LittleEndian.Uint64(value[32:])}), nil
	})
	return err
}
