package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Target is a system under load. It runs operations concurrently in lanes. A lane runs one
// operation at a time.
type Target interface {
	// Do performs the operation with the given number and returns when that operation is complete.
	// Concurrent calls must use different lanes.
	Do(ctx context.Context, lane int, number uint64) error
	// Lanes returns how many lanes the target has: the maximum number of concurrent operations.
	Lanes() int
}

// Repeater is a Target that repeats requests which the system refused because the system was busy.
type Repeater interface {
	// Again returns the number of repeated requests since the target was created.
	Again() int
}

// Plan configures one run.
type Plan struct {
	// Rate is in operations per second. 0 means that each worker starts an operation when its
	// previous operation is complete.
	Rate    float64
	Arrival Arrival       // distribution of the start times; unused if Rate is 0
	Warm    time.Duration // duration of the warm-up before the measurement
	// share of Rate that is offered during the warm-up, so that no queue is left when the
	// measurement starts; 0: all of it
	Ease  float64
	For   time.Duration // duration of the measurement
	Grace time.Duration // time limit for operations that are in progress at the end
	Seed  uint64
	// Behind ends the run as soon as an operation is overdue by this time without being started. 0:
	// no limit.
	Behind   time.Duration
	Progress func(part float64, what string) // receives the progress; nil: the progress is not reported
}

// A target counts as stopped if deadCount operations in a row did not reach it and the target has
// not answered for deadAfter.
const (
	deadAfter = 3 * time.Second
	deadCount = 16
)

// ErrStopped means that a target no longer answers.
var ErrStopped = errors.New("the target has stopped answering")

// Unreachable wraps the error of an operation that did not reach the target, or got no reply.
type Unreachable struct{ Err error }

func (e *Unreachable) Error() string { return e.Err.Error() }
func (e *Unreachable) Unwrap() error { return e.Err }

// run is the state of one Run.
type run struct {
	Plan
	target Target
	due    []time.Duration // due times of the operations since start; nil: Rate is 0
	start  time.Time
	next   atomic.Int64
	behind atomic.Bool
	dead   health
	again  int // number of repeated requests before the run
	stop   context.CancelCauseFunc
}

// errBehind ends a run that exceeds Plan.Behind. Run does not return it.
var errBehind = errors.New("requests wait too long before they can be sent")

// Run generates the load and measures it. With ErrStopped it also returns the phase measured so
// far.
func Run(ctx context.Context, t Target, p Plan) (*Phase, error) {
	if p.Progress == nil {
		p.Progress = func(float64, string) {}
	}
	if t.Lanes() < 1 {
		return nil, errors.New("load: the target allows no requests; it needs at least one lane (connection)")
	}
	if p.For <= 0 || p.Warm < 0 || p.Rate < 0 || p.Ease < 0 {
		return nil, fmt.Errorf("load: rate %v, duration %v and warm-up %v must not be negative", p.Rate, p.For, p.Warm)
	}
	r := &run{Plan: p, target: t}
	if x, ok := t.(Repeater); ok {
		r.again = x.Again()
	}
	all := p.Warm + p.For
	if p.Rate > 0 {
		var err error
		if r.due, err = p.arrivals(); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	workers := t.Lanes()
	if r.due != nil {
		workers = max(min(workers, len(r.due)), 1)
	}
	r.start = time.Now()
	r.dead.last.Store(r.start.UnixNano())
	defer time.AfterFunc(all+p.Grace, func() { stop(context.DeadlineExceeded) }).Stop()
	records := make([]*record, workers)
	var wg sync.WaitGroup
	for lane := range workers {
		records[lane] = newRecord(p.Warm, p.For)
		wg.Go(func() { r.work(ctx, lane, records[lane]) })
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-ended:
			tick.Stop()
			return r.finish(ctx, records)
		case <-tick.C:
			r.say(time.Since(r.start), all, records)
		}
	}
}

// arrivals returns the due times of operations, including those of the warm-up.
func (p *Plan) arrivals() ([]time.Duration, error) {
	if p.Ease == 0 || p.Warm == 0 {
		return arrivals(p.Arrival, p.Rate, p.Warm+p.For, p.Seed)
	}
	due, err := arrivals(p.Arrival, p.Rate*p.Ease, p.Warm, p.Seed)
	if err != nil {
		return nil, err
	}
	rest, err := arrivals(p.Arrival, p.Rate, p.For, ^p.Seed)
	for _, at := range rest {
		due = append(due, p.Warm+at)
	}
	return due, err
}

// work is one worker. It performs due operations one after another. If all workers are busy, an
// operation waits. This wait is part of the operation's latency.
func (r *run) work(ctx context.Context, lane int, to *record) {
	end := r.Warm + r.For
	for ctx.Err() == nil && !r.behind.Load() {
		i := r.next.Add(1) - 1
		due := time.Since(r.start)
		if r.due != nil {
			if i >= int64(len(r.due)) {
				return
			}
			due = r.due[i]
			if wait := due - time.Since(r.start); wait > 0 {
				if !sleep(ctx, wait) {
					return
				}
			} else if r.Behind > 0 && -wait > r.Behind {
				r.behind.Store(true)
				r.stop(errBehind)
				return
			}
		} else if due >= end {
			return
		}
		err := r.target.Do(ctx, lane, uint64(i))
		took := time.Since(r.start) - due
		if ctx.Err() != nil && err != nil {
			to.add(due, took, errUnfinished)
			return
		}
		to.add(due, took, err)
		if cause := r.dead.note(err); cause != nil {
			r.stop(cause)
			return
		}
	}
}

var errUnfinished = errors.New("the request was not done when the run ended")

// sleep waits for d. sleep returns false if the context ends before d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// health detects that the target no longer answers, from the results of operations.
type health struct {
	last  atomic.Int64 // time of the last answer
	since atomic.Int64 // number of operations since last that did not reach the target
}

func (h *health) note(err error) error {
	var un *Unreachable
	if !errors.As(err, &un) {
		h.last.Store(time.Now().UnixNano())
		h.since.Store(0)
		return nil
	}
	n, silent := h.since.Add(1), time.Since(time.Unix(0, h.last.Load()))
	if n < deadCount || silent < deadAfter {
		return nil
	}
	return fmt.Errorf("%w for %.0f s: %w", ErrStopped, silent.Seconds(), un.Err)
}

func (r *run) say(at, all time.Duration, records []*record) {
	done := 0
	for _, x := range records {
		done += int(x.done.Load())
	}
	r.Progress(min(float64(at)/float64(all), 1), fmt.Sprintf("%d done, %.0f/s", done, float64(done)/at.Seconds()))
}

// finish completes the phase from the workers' records.
func (r *run) finish(ctx context.Context, records []*record) (*Phase, error) {
	p := &Phase{Rate: r.Rate, Arrival: string(r.Arrival), Seconds: r.For.Seconds(), Warm: r.Warm.Seconds(),
		Lanes: len(records), Behind: r.behind.Load()}
	if r.Ease > 0 {
		p.Warm = 0
	}
	if r.Rate == 0 {
		p.Arrival = ""
	}
	for _, d := range r.due {
		if d >= r.Warm {
			p.Offered++
		}
	}
	p.gather(records)
	if x, ok := r.target.(Repeater); ok {
		p.Again = x.Again() - r.again
	}
	if r.due == nil {
		p.Offered = p.Done + p.Failed
	}
	p.finish()
	// Behind: the remaining operations were never started.
	if n := int(min(r.next.Load(), int64(len(r.due)))); p.Behind && n < len(r.due) {
		p.Errors["was not begun"] = p.Offered - p.Done - p.Failed
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrStopped):
		return p, fmt.Errorf("%w, %.1f s into the run, %d of %d done", cause, time.Since(r.start).Seconds(), p.Done, p.Offered)
	case cause == nil, errors.Is(cause, errBehind), errors.Is(cause, context.DeadlineExceeded):
		return p, nil
	}
	return p, cause
}
