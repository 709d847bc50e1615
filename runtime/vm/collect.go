package vm

import (
	"runtime/debug"
	"sync"
	"time"
)

// collector runs the garbage collector and returns memory to the system.
//
// A collection visits all memory of the node, and any account can cause a collection by deploying,
// calling or tracing large contracts. So after each collection the collector rests for collectRest
// times its duration. However large the heap is and however many contracts arrive, at most a
// twentieth of the time is spent on collections.
//
// The collector collects once more when run was not called for collectLast. By then the flat head
// has advanced past the transactions, and their clients have received responses. Without that final
// collection, an idle node would keep the garbage until its heap has grown again.
type collector struct {
	mu   sync.Mutex
	next time.Time
	free func() // collects garbage; nil: debug.FreeOSMemory

	lastMu sync.Mutex
	last   *time.Timer // timer of the final collection; nil: none is scheduled
	closed bool
}

const (
	collectRest = 20
	collectLast = 30 * time.Second
)

// run collects, unless a collection is running or the last collection ended too recently. run also
// schedules the final collection.
func (c *collector) run() {
	c.later(collectLast)
	c.collect()
}

// collect collects and returns 0. If the collector must rest now, collect returns how long to wait.
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

// later schedules the final collection after d, replacing a final collection that was already
// scheduled.
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
