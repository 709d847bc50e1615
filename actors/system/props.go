// Package system wraps protoactor for this node: how an actor is spawned, addressed, asked,
// measured and ended.
//
//	in      PIDs and Props of protoactor
//	out     messages.Sender and messages.Asker, which know no PID
//	state   a process-wide dispatcher that reuses goroutines, bounded dispatchers; mailboxes
//	        with counters by actor kind and shard
//	units   durations as time.Duration; counters since the process began
//	bound   an Ask waits at most its limit; idle dispatcher goroutines end after one to two
//	        minutes; mailboxes are unbounded
//	errors  what the asked actor replies; ErrTimeout; ErrFailed if it failed or ended; the
//	        context's error
//	source  measured on protoactor-go v0.0.0-20240822202345: the default dispatcher starts a
//	        goroutine for each wake-up (7 µs a hop against 1), bounded mailboxes spin, the
//	        OpenTelemetry metrics cost 1.6 µs a message, the default mailbox records no times,
//	        and middleware loses count of a message if its handler panics
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
	ErrTimeout = errors.New("actor: it did not reply in time")
	// ErrFailed means that an actor failed before it replied, or has ended.
	ErrFailed = errors.New("actor: it failed before it replied")
	// ErrUnhandled is the ErrFailed of a message that no actor has received. Sending it again is
	// safe.
	ErrUnhandled = fmt.Errorf("%w: the actor has ended", ErrFailed)
)

// Dispatcher runs mailboxes on goroutines that are kept for the next wake-up. Safe for
// concurrent use.
type Dispatcher struct{ work chan func() }

// NewDispatcher returns a dispatcher. One serves the whole process.
func NewDispatcher() *Dispatcher { return &Dispatcher{work: make(chan func())} }

// idle is how long a goroutine without work lives at least. It lives at most twice as long.
const idle = time.Minute

// Schedule runs fn on an idle goroutine, or on a new one. It does not wait.
func (d *Dispatcher) Schedule(fn func()) {
	select {
	case d.work <- fn:
	default:
		go d.run(fn)
	}
}

// run checks now and then whether it has had work since the last check. A timer that is reset
// for each piece of work would cost as much as a small message.
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

// Throughput is part of actor.Dispatcher: how many messages a mailbox handles before it checks
// the time.
func (d *Dispatcher) Throughput() int { return 300 }

var shared = NewDispatcher()

// Props returns the properties of one actor of a kind: its own mailbox, which reports to meter,
// and the process-wide dispatcher. more may override them. Use the Props once: the mailbox
// belongs to one actor. Actors that clients create share a kind.
func Props(kind string, meter *Meter, producer func() actor.Actor, more ...actor.PropsOption) *actor.Props {
	b := newBox(kind, meter)
	opts := append([]actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox { return b }), actor.WithDispatcher(shared),
	}, more...)
	return actor.PropsFromProducer(func() actor.Actor { return &meteredActor{producer(), b} }, opts...)
}

// Request is a question on its way to an actor. Reply may be called from any goroutine; only
// the first call counts.
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

// Answer returns the channel that receives the one reply.
func (q Request[Q, R]) Answer() <-chan Answer[R] { return q.answer }

// Reply answers the request. It does not wait.
func (q Request[Q, R]) Reply(v R, err error) {
	select {
	case q.answer <- Answer[R]{v, err}:
	default:
	}
}

// Failed replies with an error. It implements Answerable.
func (q Request[Q, R]) Failed(err error) {
	var none R
	q.Reply(none, err)
}

// Ask returns an Asker that sends a Request[Q, R] to pid and waits for the reply, until ctx
// ends or limit has passed. A limit of at most 0 does not wait.
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
