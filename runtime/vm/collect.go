package vm

import (
	"runtime/debug"
	"sync"
	"time"
)

// collector collects garbage and gives memory back to the system. That looks at all that the node has in memory, and anybody who deploys, calls
// or traces large contracts can cause it. So it rests for collectRest times as long as it has taken: at most a twentieth of the time goes there,
// however large the heap is and however many contracts come.
type collector struct {
	mu   sync.Mutex
	next time.Time
	free func() // nil: debug.FreeOSMemory
}

const collectRest = 20

// run collects, unless another does or has just now.
func (c *collector) run() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	begun := time.Now()
	if begun.Before(c.next) {
		return
	}
	if c.free == nil {
		debug.FreeOSMemory()
	} else {
		c.free()
	}
	c.next = begun.Add(collectRest * time.Since(begun))
}
