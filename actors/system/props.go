// Package system wraps protoactor for this node. It defines how actors are spawned, asked, measured
// and stopped.
//
//	in      PIDs and Props of protoactor
//	out     messages.Sender and messages.Asker, which do not mention PIDs
//	state   a process-wide dispatcher that reuses goroutines, bounded dispatchers; mailboxes
//	        with counters by actor kind and shard
//	units   durations as time.Duration; counters since the process began
//	bound   Ask waits at most its limit; idle dispatcher goroutines end after one to two
//	        minutes; mailboxes are unbounded
//	errors  the error that the asked actor replies; ErrTimeout; ErrFailed if the actor failed
//	        or had ended; the context's error
//	source  measured on protoactor-go v0.0.0-20240822202345: its default dispatcher starts a
//	        goroutine for each wake-up (7 µs a message instead of 1), its bounded mailboxes
//	        spin, its OpenTelemetry metrics cost 1.6 µs a message, its default mailbox records
//	        no times, and its middleware does not see a message whose handler panics
package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
)

var (
	// ErrTimeout means that an actor did not reply within the limit.
	ErrTimeout = errors.New("actor: no reply in time")
	// ErrFailed means that an actor failed before it replied, or has ended.
	ErrFailed = errors.New("actor: the actor failed before it replied")
	// ErrUnhandled wraps ErrFailed: no actor received the message. Sending the message again is
	// safe.
	ErrUnhandled = fmt.Errorf("%w: the actor has ended", ErrFailed)
)

// Dispatcher runs mailboxes on goroutines that it reuses. Safe for concurrent use.
type Dispatcher struct{ work chan func() }

// NewDispatcher returns a dispatcher. The process uses one dispatcher (shared); tests create their
// own dispatchers.
func NewDispatcher() *Dispatcher { return &Dispatcher{work: make(chan func())} }

// idle is the minimum time for which a goroutine without work is kept. The maximum is twice as
// long.
const idle = time.Minute

// Schedule runs fn on an idle goroutine, or on a new one. Schedule does not block.
func (d *Dispatcher) Schedule(fn func()) {
	select {
	case d.work <- fn:
	default:
		go d.run(fn)
	}
}

// run runs functions until it has had no function to run for one period of idle. It does not reset
// its timer for each function, because a reset costs as much as a small message.
func (d *Dispatcher) run(fn func()) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	fn()
	for worked := true; ; {
		select {
		case fn = <-d.work:
			fn()
			worked = true
		case <-timer.C:
			if !worked {
				return
			}
			worked = false
			timer.Reset(idle)
		}
	}
}

// Throughput implements actor.Dispatcher. The result is how many messages a mailbox handles before
// it checks the time.
func (d *Dispatcher) Throughput() int { return 300 }

var shared = NewDispatcher()

// Props returns the protoactor properties of one actor. The actor gets a mailbox that reports to
// meter under kind, and the process-wide dispatcher unless more overrides it. The result contains
// the mailbox, so the caller must use the result for one actor only.
func Props(kind string, meter *Meter, producer func() actor.Actor, more ...actor.PropsOption) *actor.Props {
	b := newBox(kind, meter)
	opts := append([]actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox { return b }), actor.WithDispatcher(shared),
	}, more...)
	return actor.PropsFromProducer(func() actor.Actor { return &meteredActor{producer(), b} }, opts...)
}

// Request is a question to an actor with a channel for the reply. Reply may be called from any
// goroutine. Only the first call has an effect.
type Request[Q, R any] struct {
	Question Q
	answer   chan Answer[R]
}

// Answer is the reply to a Request.
type Answer[R any] struct {
	Value R
	Err   error
}

// NewRequest returns a request that has not been sent.
func NewRequest[Q, R any](q Q) Request[Q, R] {
	return Request[Q, R]{Question: q, answer: make(chan Answer[R], 1)}
}

// Answer returns the channel that receives the reply.
func (q Request[Q, R]) Answer() <-chan Answer[R] { return q.answer }

// Reply sends the reply. Reply does not block.
func (q Request[Q, R]) Reply(v R, err error) {
	select {
	case q.answer <- Answer[R]{v, err}:
	default:
	}
}

// Failed replies with an error. Failed implements Answerable.
func (q Request[Q, R]) Failed(err error) {
	var none R
	q.Reply(none, err)
}

// Ask returns an Asker that sends a Request[Q, R] to pid and waits for the reply until ctx ends or
// limit has passed. If limit is 0 or negative, the Asker does not wait.
func Ask[Q, R any](root *actor.RootContext, pid *actor.PID, limit time.Duration) messages.Asker[Q, R] {
	return func(ctx context.Context, q Q) (R, error) {
		request := NewRequest[Q, R](q)
		root.Send(pid, request)
		timer := time.NewTimer(max(limit, 0))
		defer timer.Stop()
		var none R
		select {
		case r := <-request.Answer():
			return r.Value, r.Err
		case <-timer.C:
			return none, fmt.Errorf("%w: request %T after %v", ErrTimeout, q, limit)
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}
