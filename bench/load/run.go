package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Target is a system under load. Its operations run concurrently in lanes: a lane runs one
// operation at a time.
type Target interface {
	// Do performs operation number of a run and returns when it is complete. There are no concurrent
	// calls with the same lane.
	Do(ctx context.Context, lane int, number uint64) error
	// Lanes returns the number of lanes.
	Lanes() int
}

// Repeater is a Target that repeats requests for which the system had no time.
type Repeater interface {
	// Again returns the number of repeated requests since the target was created.
	Again() int
}

// Plan configures one run.
type Plan struct {
	Rate    float64       // operations per second; 0: each lane starts the next operation when the last one is complete
	Arrival Arrival       // used if Rate is not 0
	Warm    time.Duration // duration of the warm-up before the measurement
	Ease    float64       // the share of Rate during the warm-up, so that nothing is queued when the measurement starts; 0: all
	For     time.Duration // duration of the measurement
	Grace   time.Duration // time for operations under way at the end to complete
	Seed    uint64
	// Behind ends the run as soon as an operation has been due for this long without being
	// started; 0: no limit.
	Behind   time.Duration
	Progress func(part float64, what string) // nil: no progress
}

// A target counts as stopped if deadCount operations in a row did not reach it and it has not
// answered for deadAfter.
const (
	deadAfter = 3 * time.Second
	deadCount = 16
)

// ErrStopped reports that a target no longer answers.
var ErrStopped = errors.New("the target has stopped answering")

// Unreachable wraps the error of an operation that did not reach the target, or got no reply.
type Unreachable struct{ Err error }

func (e *Unreachable) Error() string { return e.Err.Error() }
func (e *Unreachable) Unwrap() error { return e.Err }

// run is the state of one run.
type run struct {
	Plan
	target Target
	due    []time.Duration // times at which operations are due; nil: without a rate
	start  time.Time
	next   atomic.Int64
	behind atomic.Bool
	dead   health
	again  int // repeated requests of the target before the run
	stop   context.CancelCauseFunc
}

// errBehind stops a run that exceeds Plan.Behind. It is not returned as an error.
var errBehind = errors.New("requests wait too long before they can be sent")

// Run generates the load and measures. With ErrStopped it also returns the phase measured until
// then.
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

// arrivals returns the times at which operations are due, including the warm-up.
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

// work is one worker: it performs the due operations one after another. If all workers are busy an
// operation waits, which counts as latency.
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

// sleep waits for d. It returns false if the context ends before.
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

// health detects that a target has stopped.
type health struct {
	last  atomic.Int64 // time of the last answer
	since atomic.Int64 // operations since then that did not reach the target
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
	p := &Phase{Rate: r.Rate, Arrival: string(r.Arrival), Seconds: r.For.Seconds(), Warm: r.Warm.Seconds(), Lanes: len(records), Behind: r.behind.Load()}
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
	if n := int(min(r.next.Load(), int64(len(r.due)))); p.Behind && n < len(r.due) { // the remaining operations were not started
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
