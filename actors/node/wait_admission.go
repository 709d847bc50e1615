package node

import (
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/session"
)

// fewBegin is how many waits may be beginning whatever the last one has taken.
const fewBegin = 64

// begins tells how long waits take to begin: from when a client hands one in until milestones knows of its waiter. All of them take the same way,
// one behind the other, so the next one takes as long as the last. A node that is asked for more than its processor allows falls behind here first.
type begins struct {
	onWay   atomic.Int64
	last    atomic.Int64 // ns that the last ones took
	moved   atomic.Int64 // when one began last, or the first came; ns since started
	refused atomic.Uint64
}

// started is where the clock of begins begins.
var started = time.Now()

func (b *begins) add() {
	if b.onWay.Add(1) == 1 {
		b.moved.Store(int64(time.Since(started)))
	}
}

// took notes that a request has begun.
func (b *begins) took(r session.Request) {
	took, first := r.Took()
	if !first {
		return
	}
	b.onWay.Add(-1)
	b.moved.Store(int64(time.Since(started)))
	if last := time.Duration(b.last.Load()); took < last {
		took = (7*last + took) / 8
	}
	b.last.Store(int64(took))
}

// end notes that nobody waits for a request any more, whether it has begun or not.
func (b *begins) end(r session.Request) {
	if _, first := r.Took(); first {
		b.onWay.Add(-1)
	}
}

// takes is how long the next request would take to begin.
func (b *begins) takes() time.Duration {
	if b.onWay.Load() == 0 {
		return 0
	}
	return max(time.Duration(b.last.Load()), time.Since(started)-time.Duration(b.moved.Load()))
}

// late tells whether the next request would take longer than a limit; 0: there is none.
func (b *begins) late(limit time.Duration) bool {
	return limit > 0 && b.onWay.Load() >= fewBegin && b.takes() > limit
}
