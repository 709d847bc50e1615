package vm

import (
	"runtime/debug"
	"sync"
	"time"
)

// collector collects garbage and gives memory back to the system. That looks at all that the node
// has in memory, and anybody who deploys, calls or traces large contracts can cause it. So it rests
// for collectRest times as long as it has taken: at most a twentieth of the time goes there,
// however large the heap is and however many contracts come.
//
// It collects once more when nothing large has come for collectLast: the transactions are folded by
// then and who sent them is answered, and a node that does little would keep what they left for as
// long as its heap takes to grow again.
type collector struct {
	mu   sync.Mutex
	next time.Time
	free func() // nil: debug.FreeOSMemory

	lastMu sync.Mutex
	last   *time.Timer // of the last collection; nil: there was none yet
	closed bool
}

const (
	collectRest = 20
	collectLast = 30 * time.Second
)

// run collects, unless another does or has just now.
func (c *collector) run() {
	c.later(collectLast)
	c.collect()
}

// collect returns how long it is to rest before it would collect.
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

// later has the last collection in that time, in place of when it would have been.
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

// finish is the last collection.
func (c *collector) finish() {
	if rest := c.collect(); rest > 0 {
		c.later(rest)
	}
}

// close forgets the last collection.
func (c *collector) close() {
	c.lastMu.Lock()
	defer c.lastMu.Unlock()
	if c.closed = true; c.last != nil {
		c.last.Stop()
	}
}
