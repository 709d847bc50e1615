package vm

import (
	"runtime/debug"
	"sync"
	"time"
)

// collector runs the garbage collector and returns memory to the system.
//
// A collection visits all memory of the node, and any account can cause one by deploying, calling
// or tracing large contracts. So after each collection the collector rests for collectRest times
// its duration. At most a twentieth of the time is spent on it, however large the heap is and
// however many contracts arrive.
//
// It collects once more when nothing large has arrived for collectLast. By then the flat head has
// advanced past the transactions and their clients have answers. An idle node would otherwise keep
// the garbage for as long as its heap takes to grow again.
type collector struct {
	mu   sync.Mutex
	next time.Time
	free func() // nil: debug.FreeOSMemory

	lastMu sync.Mutex
	last   *time.Timer // of the final collection; nil: none is scheduled
	closed bool
}

const (
	collectRest = 20
	collectLast = 30 * time.Second
)

// run collects, unless another call does or has just done so.
func (c *collector) run() {
	c.later(collectLast)
	c.collect()
}

// collect returns how long it must rest before it can collect; 0 if it has collected.
func (c *collector) collect() (rest time.Duration) {
	if !c.mu.TryLock() {
		return collectLast
	}
	defer c.mu.Unlock()
	begun := time.Now()
	if begun.Before(c.next) {
		return c.next.Sub(begun)
	}
	if c.free == nil {
		debug.FreeOSMemory()
	} else {
		c.free()
	}
	c.next = begun.Add(collectRest * time.Since(begun))
	return 0
}

// later schedules the final collection after d, replacing an earlier schedule.
func (c *collector) later(d time.Duration) {
	c.lastMu.Lock()
	defer c.lastMu.Unlock()
	switch {
	case c.closed:
	case c.last == nil:
		c.last = time.AfterFunc(d, c.finish)
	default:
		c.last.Reset(d)
	}
}

// finish runs the final collection.
func (c *collector) finish() {
	if rest := c.collect(); rest > 0 {
		c.later(rest)
	}
}

// close cancels the final collection.
func (c *collector) close() {
	c.lastMu.Lock()
	defer c.lastMu.Unlock()
	if c.closed = true; c.last != nil {
		c.last.Stop()
	}
}
