// Package system is where protoactor meets our messages: how an actor is spawned, addressed, asked, counted and ended.
//
//	in      PIDs and Props of protoactor
//	out     messages.Sender and messages.Asker, which know no PID
//	state   one dispatcher whose goroutines are reused, and such with few goroutines; mailboxes, with counters by actor kind and shard
//	units   durations as time.Duration; counters since the process began
//	bound   an ask waits at most its limit; idle dispatcher goroutines end after one minute or two
//	errors  what the asked actor answers, ErrTimeout, ErrFailed if it fails or has ended, or the context's error
//	source  measured facts about protoactor-go v0.0.0-20240822202345: the default dispatcher starts a goroutine for each
//	        wake-up (7 µs a hop against 1), Bounded mailboxes spin, the OpenTelemetry metrics cost 1.6 µs a message; its own
//	        mailbox knows no times, and its middlewares lose count of a message whose handler panics
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
	// ErrTimeout says that an actor did not answer within the limit.
	ErrTimeout = errors.New("actor: no answer in time")
	// ErrFailed says that an actor failed before it answered, or has ended.
	ErrFailed = errors.New("actor: it failed before it answered")
	// ErrUnhandled is the ErrFailed of a message that no actor has seen.
	ErrUnhandled = fmt.Errorf("%w: it had ended", ErrFailed)
)

// Dispatcher runs mailboxes on goroutines that are kept for the next wake-up.
type Dispatcher struct{ work chan func() }

// NewDispatcher returns a dispatcher; one serves the whole process.
func NewDispatcher() *Dispatcher { return &Dispatcher{work: make(chan func())} }

// idle is how long a goroutine without work lives at least; twice as long at most.
const idle = time.Minute

// Schedule runs fn on an idle goroutine, or on a new one.
func (d *Dispatcher) Schedule(fn func()) {
	select {
	case d.work <- fn:
	default:
		go d.run(fn)
	}
}

// run looks once in a while whether it has had work: a timer that is set for each piece of it would cost as much as a small message.
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

// Throughput is how many messages a mailbox may run before it yields.
func (d *Dispatcher) Throughput() int { return 300 }

var shared = NewDispatcher()

// Props returns the house's properties for one actor of a kind: its own mailbox, which keeps account in meter, and the shared
// dispatcher. Where clients make actors, the kind is what they have in common.
func Props(kind string, meter *Meter, producer func() actor.Actor, more ...actor.PropsOption) *actor.Props {
	b := newBox(kind, meter)
	opts := append([]actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox { return b }), actor.WithDispatcher(shared),
	}, more...)
	return actor.PropsFromProducer(func() actor.Actor { return &meteredActor{producer(), b} }, opts...)
}

// Request is a question on its way: Reply is called once, from any goroutine; later calls do nothing.
type Request[Q, R any] struct {
	Question Q
	answer   chan Answer[R]
}

// Answer is what a question is answered with.
type Answer[R any] struct {
	Value R
	Err   error
}

// NewRequest puts a question on its way.
func NewRequest[Q, R any](q Q) Request[Q, R] {
	return Request[Q, R]{Question: q, answer: make(chan Answer[R], 1)}
}

// Answer is where the answer comes.
func (q Request[Q, R]) Answer() <-chan Answer[R] { return q.answer }

// Reply answers.
func (q Request[Q, R]) Reply(v R, err error) {
	select {
	case q.answer <- Answer[R]{v, err}:
	default:
	}
}

// Failed answers with an error: link.Answerable.
func (q Request[Q, R]) Failed(err error) {
	var none R
	q.Reply(none, err)
}

// Ask leads to pid and waits for its Reply, until ctx ends or limit has passed. The actor receives a Request[Q, R].
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
			return none, fmt.Errorf("%w: %T after %v", ErrTimeout, q, limit)
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}
