package node

import (
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/session"
)

// minPending is the number of beginning waits up to which no wait is refused.
const minPending = 64

// waitAdmission measures how long waits take to begin: from the client's request until txtracker
// knows the waiter. All waits pass through the same actors in order, so the next one takes about as
// long as the last. On an overloaded node this time grows first. The node then refuses further
// waits (isSlow). Safe for concurrent use.
type waitAdmission struct {
	pending  atomic.Int64 // number of requests whose waits have not begun
	last     atomic.Int64 // smoothed time in ns that waits take to begin
	lastMove atomic.Int64 // when a wait last began or pending became 1, in ns since admissionStart
	refused  atomic.Uint64
}

// admissionStart is the origin of lastMove.
var admissionStart = time.Now()

func (b *waitAdmission) add() {
	if b.pending.Add(1) == 1 {
		b.lastMove.Store(int64(time.Since(admissionStart)))
	}
}

// began records that the wait of a request has begun.
func (b *waitAdmission) began(r session.Request) {
	took, first := r.BeginTime()
	if !first {
		return
	}
	b.pending.Add(-1)
	b.lastMove.Store(int64(time.Since(admissionStart)))
	if last := time.Duration(b.last.Load()); took < last {
		took = (7*last + took) / 8
	}
	b.last.Store(int64(took))
}

// end records that a request has ended, whether or not its wait has begun.
func (b *waitAdmission) end(r session.Request) {
	if _, first := r.BeginTime(); first {
		b.pending.Add(-1)
	}
}

// delay returns an estimate of how long the next wait would take to begin.
func (b *waitAdmission) delay() time.Duration {
	if b.pending.Load() == 0 {
		return 0
	}
	return max(time.Duration(b.last.Load()), time.Since(admissionStart)-time.Duration(b.lastMove.Load()))
}

// isSlow returns whether the next wait would take longer than limit to begin. isSlow returns false
// if limit is 0.
func (b *waitAdmission) isSlow(limit time.Duration) bool {
	return limit > 0 && b.pending.Load() >= minPending && b.delay() > limit
}
