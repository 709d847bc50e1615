package session

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Request is a wait on its way, with the place for its answer.
type Request struct {
	messages.AwaitTransaction
	*pending
}

// pending is what who asks and the actors share of a request.
type pending struct {
	answer chan messages.Awaited
	takenBy  atomic.Pointer[chan struct{}]
	stage  atomic.Int32
	timed   atomic.Bool // that it has begun, or will not
	level  atomic.Int32
	begun  time.Time
	until  time.Time // when nobody waits for it any more
	spare  time.Duration
}

// The stages of a request.
const (
	onItsWay int32 = iota
	waiting        // it has a waiter
	givenUp        // it has none, and gets none
)

// NewRequest returns a request; Answer gives its one answer. Behind until it is not looked at any more; its waiter waits for a while longer where who asks
// ends it himself.
func NewRequest(m messages.AwaitTransaction, until time.Time, spare time.Duration) Request {
	return Request{m, &pending{answer: make(chan messages.Awaited, 1), begun: time.Now(), until: until, spare: spare}}
}

// Answer is where the answer comes.
func (w *pending) Answer() <-chan messages.Awaited { return w.answer }

// Patience is how long a waiter that is made now waits.
func (w *pending) Patience() time.Duration { return max(time.Until(w.until), 0) + w.spare }

// Reply answers, from any goroutine; only the first counts.
func (w *pending) Reply(a messages.Awaited) {
	select {
	case w.answer <- a:
	default:
	}
}

// Failed answers for an actor that will not: link.Answerable.
func (w *pending) Failed(why error) {
	if errors.Is(why, system.ErrUnhandled) {
		w.Reply(messages.Awaited{Err: ErrUnhandled})
		return
	}
	w.Reply(messages.Awaited{Err: ErrFailed})
}

// Ended tells whether a session has taken it that has failed since: SessionOptions.Ended.
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

// GiveUp says that nobody waits for the answer any more. True: it was on its way to its session, and no waiter is made for it; else that is to be told.
func (w *pending) GiveUp() bool { return w.stage.CompareAndSwap(onItsWay, givenUp) }

// begin tells whether a waiter is to be made; then it is on the session.
func (w *pending) begin() bool { return w.stage.CompareAndSwap(onItsWay, waiting) }

// expired tells whether nobody waits any more; then no actor need do anything for it. Who has not seen yet that his time is over is told.
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

// Reached notes how far the transaction has come, for who gives up.
func (w *pending) Reached(l view.ExecutionLevel) { w.level.Store(int32(l)) }

// Level is how far it had come when its waiter was last told of it.
func (w *pending) Level() view.ExecutionLevel { return view.ExecutionLevel(w.level.Load()) }

// BeginTime tells once how long the request has taken to begin, or to end before that.
func (w *pending) BeginTime() (took time.Duration, first bool) {
	if !w.timed.CompareAndSwap(false, true) {
		return 0, false
	}
	return time.Since(w.begun), true
}
