package storage

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// staleReader is the index as it was at a step some time ago, by cursors that were made then. A cursor keeps the tables of its moment, so what has
// been flushed since is not looked into: one block is read in place of one for each flush. Who can tell by a hash whether what he reads is
// what he wants reads here first: nearly all of a large state has not changed for long.
type staleReader struct {
	mu    sync.Mutex
	free  []cursor
	out   int // cursors that are in use
	gone  bool
	right int // of the last reads, how many found what they wanted
	wrong int
}

// Of an early index.
const (
	earlyCursors = 8    // and as many readers at once; more of them read the index as it is
	earlyReads   = 1024 // after so many reads, if a quarter of them are in vain, it is made anew
	earlyPause   = 64   // steps between two of them at least
)

// DefaultEarlyFrom is the size of an index that has more than a few flushes.
const DefaultEarlyFrom = 64 << 20

// earlies is what a store has of it. All but now is under foldMu.
type earlies struct {
	mu    sync.Mutex
	now   *staleReader // nil: there is none
	step  uint64       // by which it was made
	young bool         // nothing was written since: the journal's memory is its own too
	most  int          // flushes that lay above the levels since
}

// StaleReader reads an index that may be older than the folded block; one goroutine uses it, and gives it back by Done.
type StaleReader struct {
	of  *staleReader
	cur cursor
}

// Early returns a reader; nil: there is none just now.
func (s *Store) StaleReader() *StaleReader {
	s.earlies.mu.Lock()
	x := s.earlies.now
	s.earlies.mu.Unlock()
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
	x.out++
	return &StaleReader{x, cur}
}

// Done gives the reader back. right tells whether it has found what was wanted.
func (r *StaleReader) Done(right bool) {
	x := r.of
	x.mu.Lock()
	defer x.mu.Unlock()
	x.out--
	if right {
		x.right++
	} else {
		x.wrong++
	}
	if r.cur == nil {
		return
	}
	if x.gone {
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
func (r *StaleReader) Frontier(shard primitives.ShardID, level uint8, below []byte, yield func(Stub) bool) error {
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

// tendEarly makes an early index anew where that pays: when what was flushed since the last one has been merged, or when much of what is
// read there has changed. Under foldMu, behind a step.
func (s *Store) tendEarly(n uint64) error {
	e := &s.earlies
	if e.now == nil && n%earlyPause != 0 {
		return nil
	}
	if e.young { // what is written from now on is to lie in another piece of memory
		e.young = false
		return s.db.rotate()
	}
	flushes, size := s.db.flushes()
	switch {
	case size < s.o.EarlyFrom:
		return nil
	case e.now == nil:
	case n < e.step+earlyPause:
		e.most = max(e.most, flushes)
		return nil
	case flushes >= e.most && !e.now.poor():
		e.most = flushes
		return nil
	}
	if err := s.db.rotate(); err != nil {
		return err
	}
	s.makeEarly(n)
	return nil
}

// openEarly makes the first one of a store that has just been opened, if it is large.
func (s *Store) openEarly() {
	if _, size := s.db.flushes(); size >= s.o.EarlyFrom {
		s.makeEarly(s.steps)
	}
}

func (s *Store) makeEarly(n uint64) {
	x := &staleReader{free: s.db.frozen(earlyCursors)}
	flushes, _ := s.db.flushes()
	s.dropEarly()
	e := &s.earlies
	e.mu.Lock()
	e.now = x
	e.mu.Unlock()
	e.step, e.young, e.most = n, true, flushes
}

// dropEarly gives up what an early index keeps: tables that have been merged since.
func (s *Store) dropEarly() {
	e := &s.earlies
	e.mu.Lock()
	x := e.now
	e.now = nil
	e.mu.Unlock()
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone = true
	for _, cur := range x.free {
		_ = cur.done()
	}
	x.free = nil
}

// poor tells whether too much of what is looked for has changed since, or no cursor is left.
func (x *staleReader) poor() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.free)+x.out == 0 {
		return true
	}
	if x.right+x.wrong < earlyReads {
		return false
	}
	poor := x.wrong > x.right/3
	x.right, x.wrong = 0, 0
	return poor
}

// scanFrontier yields the rows of a level of a shard's frontier below a path.
func scanFrontier(scan scanFunc, shard primitives.ShardID, level uint8, below []byte, yield func(Stub) bool) error {
	lo := frontier.dbKey(frontierKey{shard, level, string(below)})
	_, err := scan(lo, PrefixEnd(lo), func(key, value []byte) (bool, error) {
		if len(value) != stubSize {
			return false, fmt.Errorf("%s %x: %w", frontier.name, key, damaged("%d bytes", len(value)))
		}
		return yield(Stub{level, key[10:], primitives.Hash(value[:32]), binary.LittleEndian.Uint64(value[32:])}), nil
	})
	return err
}
