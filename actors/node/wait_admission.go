package node

import (
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/session"
)

// minPending is how many waits may be beginning whatever the last one has taken.
const minPending = 64

// waitAdmission tells how long waits take to begin: from when a client hands one in until milestones knows of its waiter. All of them take the same way,
// one behind the other, so the next one takes as long as the last. A node that is asked for more than its processor allows falls behind here first.
type waitAdmission struct {
	pending   atomic.Int64
	last    atomic.Int64 // ns that the last ones took
	lastMove   atomic.Int64 // when one began last, or the first came; ns since started
	refused atomic.Uint64
}

// admissionStart is where the clock of begins begins.
var admissionStart = time.Now()

func (b *waitAdmission) add() {
	if b.pending.Add(1) == 1 {
		b.lastMove.Store(int64(time.Since(admissionStart)))
	}
}

// began notes that a request has begun.
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

// end notes that nobody waits for a request any more, whether it has begun or not.
func (b *waitAdmission) end(r session.Request) {
	if _, first := r.BeginTime(); first {
		b.pending.Add(-1)
	}
}

// delay is how long the next request would take to begin.
func (b *waitAdmission) delay() time.Duration {
	if b.pending.Load() == 0 {
		return 0
	}
	return max(time.Duration(b.last.Load()), time.Since(admissionStart)-time.Duration(b.lastMove.Load()))
}

// isSlow tells whether the next request would take longer than a limit; 0: there is none.
func (b *waitAdmission) isSlow(limit time.Duration) bool {
	return limit > 0 && b.pending.Load() >= minPending && b.delay() > limit
}
