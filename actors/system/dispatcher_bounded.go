package system

import (
	"runtime"
	"sync"
	"time"
)

// BoundedDispatcher runs mailboxes on a bounded number of goroutines, in the order in which they
// were scheduled. Its goroutines yield the processor between mailboxes. A block wakes thousands of
// waiters or subscribers; on the process-wide Dispatcher, all of them would run before a request
// that arrives after the block. Actors on one BoundedDispatcher must not wait for each other. Safe
// for concurrent use.
type BoundedDispatcher struct {
	maxGoroutines int
	yieldEvery    time.Duration // time after which a goroutine yields; 0: each goroutine yields after each mailbox

	mu      sync.Mutex
	ready   []func()
	running int
}

// NewBoundedDispatcher returns a dispatcher with at most `most` goroutines. Each goroutine yields
// the processor after it has worked for the time every, or after each mailbox if every is 0.
func NewBoundedDispatcher(most int, every time.Duration) *BoundedDispatcher {
	return &BoundedDispatcher{maxGoroutines: most, yieldEvery: every}
}

// Schedule queues fn. Schedule implements actor.Dispatcher and does not block.
func (d *BoundedDispatcher) Schedule(fn func()) {
	d.mu.Lock()
	d.ready = append(d.ready, fn)
	more := d.running < d.maxGoroutines
	if more {
		d.running++
	}
	d.mu.Unlock()
	if more {
		go d.run()
	}
}

func (d *BoundedDispatcher) run() {
	for from := clock(); ; {
		d.mu.Lock()
		if len(d.ready) == 0 {
			d.ready = nil // free the memory of a long queue
			d.running--
			d.mu.Unlock()
			return
		}
		fn := d.ready[0]
		d.ready[0] = nil
		d.ready = d.ready[1:]
		d.mu.Unlock()
		fn()
		if d.yieldEvery == 0 || clock()-from >= int64(d.yieldEvery) {
			runtime.Gosched()
			from = clock()
		}
	}
}

// Throughput implements actor.Dispatcher. The result is how many messages an actor handles before
// it checks the time.
func (d *BoundedDispatcher) Throughput() int { return 300 }
