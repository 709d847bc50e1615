package session

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Request is a wait with the channel of its answer. Its methods are safe for concurrent use.
type Request struct {
	messages.AwaitTransaction
	*pending
}

// pending is the part of a request that the caller and the actors share.
type pending struct {
	answer  chan messages.Awaited
	takenBy atomic.Pointer[chan struct{}]
	stage   atomic.Int32
	timed   atomic.Bool  // BeginTime was returned
	level   atomic.Int32 // one more than the level that Reached recorded last; 0: none
	begun   time.Time
	until   time.Time // end of the wait
	spare   time.Duration
}

// Stages of a request.
const (
	onItsWay int32 = iota
	waiting        // it has a waiter
	givenUp        // it has no waiter and gets none
)

// NewRequest returns a request that ends at until. spare is how much longer its waiter waits,
// for callers that end the wait themselves.
func NewRequest(m messages.AwaitTransaction, until time.Time, spare time.Duration) Request {
	return Request{m, &pending{answer: make(chan messages.Awaited, 1), begun: time.Now(), until: until, spare: spare}}
}

// Answer returns the channel of the one answer.
func (w *pending) Answer() <-chan messages.Awaited { return w.answer }

// Patience returns how long a waiter that starts now waits.
func (w *pending) Patience() time.Duration { return max(time.Until(w.until), 0) + w.spare }

// Reply answers; only the first call counts.
func (w *pending) Reply(a messages.Awaited) {
	select {
	case w.answer <- a:
	default:
	}
}

// Failed answers for an actor that will not. It implements system.Answerable.
func (w *pending) Failed(why error) {
	if errors.Is(why, system.ErrUnhandled) {
		w.Reply(messages.Awaited{Err: ErrUnhandled})
		return
	}
	w.Reply(messages.Awaited{Err: ErrFailed})
}

// Ended returns whether a session has taken the request and failed since.
func (w *pending) Ended() bool {
	by := w.takenBy.Load()
	if by == nil {
		return false
	}
	select {
	case <-*by:
		return true
	default:
		return false
	}
}

// GiveUp says that the caller no longer waits. It returns true if the request was on its way to
// its session; then no waiter starts. Otherwise the caller sends ForgetTransaction.
func (w *pending) GiveUp() bool { return w.stage.CompareAndSwap(onItsWay, givenUp) }

// begin returns whether the session starts a waiter.
func (w *pending) begin() bool { return w.stage.CompareAndSwap(onItsWay, waiting) }

// expired returns whether the caller no longer waits, so that no actor need do anything. It
// answers a caller that has not noticed its timeout.
func (w *pending) expired() bool {
	if w.stage.Load() == givenUp {
		return true
	}
	if time.Now().Before(w.until) {
		return false
	}
	w.Reply(messages.Awaited{Err: &view.LookupError{Kind: view.ErrTimeout}})
	return true
}

// Reached records how far the transaction has come, for a caller that gives up.
func (w *pending) Reached(l view.ExecutionLevel) { w.level.Store(int32(l) + 1) }

// Level returns the level that Reached recorded last. looked is false if it has recorded none.
func (w *pending) Level() (l view.ExecutionLevel, looked bool) {
	n := w.level.Load()
	return view.ExecutionLevel(max(n-1, 0)), n > 0
}

// BeginTime returns once how long the request has taken to begin, or to end before that. first
// is false on later calls.
func (w *pending) BeginTime() (took time.Duration, first bool) {
	if !w.timed.CompareAndSwap(false, true) {
		return 0, false
	}
	return time.Since(w.begun), true
}
