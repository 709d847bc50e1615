package system

import (
	"runtime"
	"sync"
	"time"
)

// BoundedDispatcher is a dispatcher that runs mailboxes on a few goroutines at most, in the order in which they were woken, and lets all else go first between
// two of them. What a block wakes by the thousand so takes its turns beside what somebody waits for, and not all of them before it. Its actors must
// not wait for each other.
type BoundedDispatcher struct {
	maxGoroutines  int
	yieldEvery time.Duration // so long one of its goroutines works before it lets all else go first

	mu      sync.Mutex
	ready   []func()
	running int
}

// NewBoundedDispatcher returns a dispatcher with so many goroutines. One that has worked for a while lets all else go first; 0: after each piece of work.
func NewBoundedDispatcher(most int, every time.Duration) *BoundedDispatcher {
	return &BoundedDispatcher{maxGoroutines: most, yieldEvery: every}
}

// Schedule is part of actor.Dispatcher.
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
			d.ready = nil // what it has grown to may have been much
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

// Throughput is part of actor.Dispatcher: how many messages an actor handles before it lets others run.
func (d *BoundedDispatcher) Throughput() int { return 300 }
