package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Target is what takes load.
type Target interface {
	// Do does one thing and returns when it is done, as far as the target is to be waited for.
	// No other call uses this lane meanwhile. number counts the things of a run.
	Do(ctx context.Context, lane int, number uint64) error
	// Lanes is how many Do may run at a time.
	Lanes() int
}

// Repeater is a target that does things again which it had no time for.
type Repeater interface {
	// Again counts how often since it was made.
	Again() int
}

// Plan is one run.
type Plan struct {
	Rate    float64       // things a second; 0: as many as the lanes let through, one behind the other
	Arrival Arrival       // with a rate
	Warm    time.Duration // before measuring, at the same rate
	Ease    float64       // or at this part of it, so that nothing waits when measuring begins; 0: the same
	For     time.Duration // what is measured
	Grace   time.Duration // for what is under way when that is over
	Seed    uint64
	// Behind ends a run in which what is due has waited so long to be begun; 0: none ends so.
	Behind   time.Duration
	Progress func(part float64, what string) // nil: no progress
}

// The times after which a target that answers no more is one that has stopped.
const (
	deadAfter = 3 * time.Second
	deadCount = 16
)

// ErrStopped says that a target answers no more.
var ErrStopped = errors.New("the target has stopped answering")

// Unreachable is an error of a thing that never came to the target, or whose reply never came back.
type Unreachable struct{ Err error }

func (e *Unreachable) Error() string { return e.Err.Error() }
func (e *Unreachable) Unwrap() error { return e.Err }

// run is one run under way.
type run struct {
	Plan
	target Target
	due    []time.Duration // nil: without a rate
	start  time.Time
	next   atomic.Int64
	behind atomic.Bool
	dead   health
	again  int // of the target, when the run began
	stop   context.CancelCauseFunc
}

// errBehind ends a run that has fallen behind; it is not an error of the run.
var errBehind = errors.New("requests wait too long before they can be sent")

// Run offers a load and measures. With ErrStopped the phase has what was measured until then.
func Run(ctx context.Context, t Target, p Plan) (*Phase, error) {
	if p.Progress == nil {
		p.Progress = func(float64, string) {}
	}
	if t.Lanes() < 1 {
		return nil, errors.New("load: the target has no connection")
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

// arrivals are those of the plan, warming up included.
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

// work takes what is due next, one thing behind the other. Where all workers are busy it waits, and
// that counts.
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

// sleep waits; false: the context has ended.
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

// health tells when a target has stopped.
type health struct {
	last  atomic.Int64 // when it answered
	since atomic.Int64 // things that never came there
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

// finish puts the workers' records together.
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
	if n := int(min(r.next.Load(), int64(len(r.due)))); p.Behind && n < len(r.due) { // the rest was never begun
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
