// Package link is where protoactor meets our messages: how an actor is spawned, addressed, asked, counted and ended.
//
//	in      PIDs and Props of protoactor
//	out     messages.Sender and messages.Asker, which know no PID
//	state   one dispatcher whose goroutines are reused; counters by actor name
//	units   durations as time.Duration; counters since the process began
//	bound   an ask waits at most its limit; idle dispatcher goroutines end after a minute
//	errors  what the asked actor answers, ErrTimeout, or the context's error
//	source  measured facts about protoactor-go v0.0.0-20240822202345: the default dispatcher starts a goroutine for each
//	        wake-up (7 µs a hop against 1), Bounded mailboxes spin, the OpenTelemetry metrics cost 1.6 µs a message
package link

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
)

// ErrTimeout says that an actor did not answer within the limit.
var ErrTimeout = errors.New("actor: no answer in time")

// Dispatcher runs mailboxes on goroutines that are kept for the next wake-up.
type Dispatcher struct{ work chan func() }

// NewDispatcher returns a dispatcher; one serves the whole process.
func NewDispatcher() *Dispatcher { return &Dispatcher{work: make(chan func())} }

// idle is how long a goroutine without work lives.
const idle = time.Minute

// Schedule runs fn on an idle goroutine, or on a new one.
func (d *Dispatcher) Schedule(fn func()) {
	select {
	case d.work <- fn:
	default:
		go d.run(fn)
	}
}

func (d *Dispatcher) run(fn func()) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		fn()
		timer.Reset(idle)
		select {
		case fn = <-d.work:
		case <-timer.C:
			return
		}
	}
}

// Throughput is how many messages a mailbox may run before it yields.
func (d *Dispatcher) Throughput() int { return 300 }

var shared = NewDispatcher()

// Props returns the house's properties: lock-free mailbox, the shared dispatcher, counters under name.
func Props(name string, meter *Meter, producer func() actor.Actor, more ...actor.PropsOption) *actor.Props {
	count := meter.counter(name)
	opts := append([]actor.PropsOption{
		actor.WithMailbox(actor.UnboundedLockfree(count)),
		actor.WithDispatcher(shared),
		actor.WithReceiverMiddleware(count.middleware),
	}, more...)
	return actor.PropsFromProducer(producer, opts...)
}

// Request is a question on its way: Reply is called once, from any goroutine; later calls do nothing.
type Request[Q, R any] struct {
	Question Q
	answer   chan result[R]
}

type result[R any] struct {
	value R
	err   error
}

// NewRequest returns a request and what waits for its answer, for callers that deliver it themselves.
func NewRequest[Q, R any](q Q) (Request[Q, R], func() (R, error)) {
	request := Request[Q, R]{Question: q, answer: make(chan result[R], 1)}
	return request, func() (R, error) {
		r := <-request.answer
		return r.value, r.err
	}
}

// Reply answers.
func (q Request[Q, R]) Reply(v R, err error) {
	select {
	case q.answer <- result[R]{v, err}:
	default:
	}
}

// Ask leads to pid and waits for its Reply, until ctx ends or limit has passed. The actor receives a Request[Q, R].
func Ask[Q, R any](root *actor.RootContext, pid *actor.PID, limit time.Duration) messages.Asker[Q, R] {
	return func(ctx context.Context, q Q) (R, error) {
		request := Request[Q, R]{Question: q, answer: make(chan result[R], 1)}
		root.Send(pid, request)
		timer := time.NewTimer(max(limit, 0))
		defer timer.Stop()
		var none R
		select {
		case r := <-request.answer:
			return r.value, r.err
		case <-timer.C:
			return none, fmt.Errorf("%w: %T after %v", ErrTimeout, q, limit)
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Crash is the guardian of state owners: any failure below it ends the process through Exit, because a chain actor that was
// silently restarted is worse than a crash.
type Crash struct {
	Exit func(who string, reason any, stack []byte)
}

// HandleFailure ends the process.
func (c *Crash) HandleFailure(_ *actor.ActorSystem, _ actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	c.Exit(child.GetId(), reason, debug.Stack())
}

// StopAlone is the strategy of edges: the child that failed stops, its siblings go on.
type StopAlone struct {
	Report func(who string, reason any)
}

// HandleFailure stops the child.
func (s *StopAlone) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	if s.Report != nil {
		s.Report(child.GetId(), reason)
	}
	sup.StopChildren(child)
}
