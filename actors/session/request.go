package session

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Request is an AwaitTransaction with a channel for the answer. The methods of a Request are safe
// for concurrent use.
type Request struct {
	messages.AwaitTransaction
	*pending
}

// pending is the state of a request that its caller and the actors share.
type pending struct {
	answer  chan messages.Awaited
	takenBy atomic.Pointer[chan struct{}]
	stage   atomic.Int32
	timed   atomic.Bool             // true: BeginTime was called
	reached atomic.Pointer[reached] // last level recorded by Reached; nil: none
	begun   time.Time
	until   time.Time // time at which the wait ends
	spare   time.Duration
}

// Stages of a request.
const (
	onItsWay int32 = iota
	waiting        // the session has started a waiter for the request
	givenUp        // the caller gave up before a waiter was started
)

// NewRequest returns a request whose wait ends at until. The waiter waits until `until` plus spare,
// so that a caller with its own timer times out first.
func NewRequest(m messages.AwaitTransaction, until time.Time, spare time.Duration) Request {
	return Request{m, &pending{answer: make(chan messages.Awaited, 1), begun: time.Now(), until: until, spare: spare}}
}

// Answer returns the channel that receives the answer.
func (w *pending) Answer() <-chan messages.Awaited { return w.answer }

// Patience returns the maximum wait of a waiter that starts now.
func (w *pending) Patience() time.Duration { return max(time.Until(w.until), 0) + w.spare }

// Reply sends the answer. Only the first call has an effect.
func (w *pending) Reply(a messages.Awaited) {
	select {
	case w.answer <- a:
	default:
	}
}

// Failed sends the answer in place of an actor that failed or ended. Failed implements
// system.Answerable.
func (w *pending) Failed(why error) {
	if errors.Is(why, system.ErrUnhandled) {
		w.Reply(messages.Awaited{Err: ErrUnhandled})
		return
	}
	w.Reply(messages.Awaited{Err: ErrFailed})
}

// Ended returns whether the session that received the request has failed since.
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

// GiveUp is for a caller that no longer waits. If the result is true, no waiter was started and none
// will be, so the transaction of the request is never submitted. If the result is false, the caller
// must send ForgetTransaction.
func (w *pending) GiveUp() bool { return w.stage.CompareAndSwap(onItsWay, givenUp) }

// begin returns whether the session must start a waiter. begin returns false if the caller has
// given up.
func (w *pending) begin() bool { return w.stage.CompareAndSwap(onItsWay, waiting) }

// expired returns whether no waiter is needed, because the caller has given up or the time of the
// request is over. If the time is over, expired also answers the request with view.ErrTimeout.
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

// reached is the level of a transaction as of a block.
type reached struct {
	level view.ExecutionLevel
	head  primitives.Height
}

// Reached records the level that the transaction has reached with the block at height head. A
// caller that gives up reads that level with Level.
func (w *pending) Reached(l view.ExecutionLevel, head primitives.Height) {
	w.reached.Store(&reached{l, head})
}

// Level returns what Reached recorded last. looked is false if Reached was not called.
func (w *pending) Level() (l view.ExecutionLevel, head primitives.Height, looked bool) {
	if r := w.reached.Load(); r != nil {
		return r.level, r.head, true
	}
	return view.LevelNone, 0, false
}

// BeginTime returns the time from NewRequest to the first call of BeginTime. The waiter makes that
// call when the wait begins or ends. first is false on all calls after the first.
func (w *pending) BeginTime() (took time.Duration, first bool) {
	if !w.timed.CompareAndSwap(false, true) {
		return 0, false
	}
	return time.Since(w.begun), true
}
