package load

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a server that handles one request at a time, each in the same time.
type queue struct {
	mu      sync.Mutex
	free    time.Time
	service time.Duration
	lanes   int
	fail    func(at time.Duration) error
	begin   time.Time
	stall   func(at time.Duration) time.Duration // end of a pause; zero: none
	slow    func(at time.Duration) bool          // whether requests that begin now take twice as long
	speed   func(at time.Time) float64           // of the machine then; nil: one
}

func (q *queue) Lanes() int { return q.lanes }

func (q *queue) Do(ctx context.Context, _ int, _ uint64) error {
	q.mu.Lock()
	now := time.Now()
	if q.begin.IsZero() {
		q.begin = now
	}
	if q.fail != nil {
		if err := q.fail(now.Sub(q.begin)); err != nil {
			q.mu.Unlock()
			sleep(ctx, 10*time.Millisecond)
			return err
		}
	}
	if q.free.Before(now) {
		q.free = now
	}
	if q.stall != nil {
		if to := q.begin.Add(q.stall(now.Sub(q.begin))); q.free.Before(to) {
			q.free = to
		}
	}
	service := q.service
	if q.slow != nil && q.slow(q.free.Sub(q.begin)) {
		service *= 2
	}
	if q.speed != nil {
		service = time.Duration(float64(service) / q.speed(q.free))
	}
	q.free = q.free.Add(service)
	wait := q.free.Sub(now)
	q.mu.Unlock()
	if !sleep(ctx, wait) {
		return ctx.Err()
	}
	return nil
}

// TestArrivalsMatchTheRate: the number of arrivals matches the rate, and they are in order. Those
// of a Poisson process have its distribution.
func TestArrivalsMatchTheRate(t *testing.T) {
	for _, kind := range []Arrival{Fixed, Poisson} {
		all, err := arrivals(kind, 1000, 100*time.Second, 1)
		if err != nil || math.Abs(float64(len(all))-100_000) > 1500 || !slices.IsSorted(all) {
			t.Fatalf("%s: %d arrivals, %v", kind, len(all), err)
		}
		gaps, sum, squares := float64(len(all)-1), 0.0, 0.0
		for i := 1; i < len(all); i++ {
			g := (all[i] - all[i-1]).Seconds() * 1000
			sum, squares = sum+g, squares+g*g
		}
		variance := squares/gaps - (sum/gaps)*(sum/gaps)
		if want := map[Arrival]float64{Fixed: 0, Poisson: 1}[kind]; math.Abs(variance-want) > 0.03 {
			t.Errorf("%s: the distances have variance %v, want %v", kind, variance, want)
		}
	}
	for _, bad := range []struct {
		kind Arrival
		rate float64
		end  time.Duration
	}{{"now and then", 1, 1}, {Fixed, 0, time.Second}, {Fixed, math.NaN(), time.Second}, {Poisson, math.Inf(1), time.Second}, {Fixed, 1, 0}, {Fixed, 1e9, time.Hour}} {
		if all, err := arrivals(bad.kind, bad.rate, bad.end, 1); err == nil {
			t.Errorf("%v: %d arrivals", bad, len(all))
		}
	}
}

// TestRunStartsWithPartOfItsRate: a run starts with a part of its rate, so that requests which had
// to wait at first no longer wait when the measurement begins. From then on the run has its whole
// rate.
func TestRunStartsWithPartOfItsRate(t *testing.T) {
	slow := func() *queue { // pauses in its first second
		q := &queue{service: time.Millisecond / 4, lanes: 64}
		q.stall = func(at time.Duration) time.Duration {
			if at < time.Second {
				return time.Second
			}
			return 0
		}
		return q
	}
	for _, ease := range []float64{0, 0.5} {
		synctest.Test(t, func(t *testing.T) {
			p, err := Run(t.Context(), slow(), Plan{Rate: 3900, Ease: ease, Arrival: Fixed, Warm: 3 * time.Second, For: 4 * time.Second, Grace: time.Minute})
			if err != nil || math.Abs(float64(p.Offered)-4*3900) > 2 || p.Done != p.Offered || p.Warm > 0 != (ease == 0) {
				t.Fatalf("%v: %d of %d, %v warm, %v", ease, p.Done, p.Offered, p.Warm, err)
			}
			if (p.Latency.P50 > 0.1) != (ease == 0) {
				t.Errorf("at %v of the rate: p50 %v", ease, p.Latency.P50)
			}
		})
	}
	if _, err := Run(t.Context(), slow(), Plan{Rate: 1, Ease: -1, For: time.Second}); err == nil {
		t.Error("a negative load was accepted")
	}
}

// TestPausedTargetCountsFromDueTime: the latency of requests that are due while a target is paused
// counts from the due time, although they could not be sent.
func TestPausedTargetCountsFromDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{service: time.Millisecond, lanes: 4, stall: func(at time.Duration) time.Duration {
			if at >= 2*time.Second && at < 4*time.Second {
				return 4 * time.Second
			}
			return 0
		}}
		p, err := Run(t.Context(), q, Plan{Rate: 100, Arrival: Fixed, For: 10 * time.Second, Grace: time.Minute})
		if err != nil || p.Offered != 1000 || p.Done != 1000 {
			t.Fatalf("got %+v, error %v", p, err)
		}
		// 200 of the 1,000 requests are due in the two seconds of the pause and wait, one second
		// on average. If only requests in the four lanes counted, four would have waited.
		if p.Latency.P50 > 0.002 || p.Latency.P90 < 0.9 || p.Latency.P99 < 1.8 || p.Latency.Max > 2.3 {
			t.Errorf("p50 %v, p90 %v, p99 %v, max %v", p.Latency.P50, p.Latency.P90, p.Latency.P99, p.Latency.Max)
		}
		if s := p.Series; s[1].Latency.Max > 0.002 || s[2].Latency.P50 < 1.3 || s[3].Latency.P50 < 0.3 || s[3].Latency.P50 > 0.8 {
			t.Errorf("the seconds: %v %v %v", s[1].Latency, s[2].Latency, s[3].Latency)
		}
	})
}

// TestRunMeasuresAfterWarmUp: requests that were due after the warm-up are measured. Errors are
// counted by text. Without a rate each connection sends the next request after a reply.
func TestRunMeasuresAfterWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal := errors.New("InvalidNonce")
		q := &queue{service: time.Millisecond, lanes: 8, fail: func(at time.Duration) error {
			if at >= 6*time.Second && at < 7*time.Second {
				return refusal
			}
			return nil
		}}
		p, err := Run(t.Context(), q, Plan{Rate: 200, Arrival: Fixed, Warm: 5 * time.Second, For: 4 * time.Second, Grace: time.Second})
		if err != nil || p.Offered != 800 || p.Done != 600 || p.Failed != 200 || p.Errors["InvalidNonce"] != 200 || p.Series[1].Failed != 200 || p.Achieved != 150 {
			t.Errorf("got %+v, error %v", p, err)
		}
		q = &queue{service: time.Millisecond, lanes: 8}
		if p, err = Run(t.Context(), q, Plan{For: 4 * time.Second, Grace: time.Second}); err != nil || math.Abs(p.Achieved-1000) > 10 || math.Abs(p.Latency.P50-0.008) > 0.001 {
			t.Errorf("without a rate: %+v, %v", p, err)
		}
		q = &queue{service: time.Second, lanes: 100}
		if p, err = Run(t.Context(), q, Plan{Rate: 100, Arrival: Fixed, For: 2 * time.Second, Grace: time.Second}); err != nil || p.Done != 3 && p.Done != 2 || p.Errors[errUnfinished.Error()] < 90 {
			t.Errorf("requests not done in time: %d of %d done, %v, %v", p.Done, p.Offered, p.Errors, err)
		}
		q = &queue{service: time.Second, lanes: 1}
		if p, err = Run(t.Context(), q, Plan{Rate: 100, Arrival: Fixed, For: time.Minute, Grace: time.Second, Behind: 5 * time.Second}); err != nil || !p.Behind || time.Since(q.begin) > 10*time.Second {
			t.Errorf("a run that falls behind: %+v, %v", p, err)
		}
	})
}

// TestSilentTargetEndsTheRun: a target that does not answer any more ends the run soon, with the
// time. One that refuses requests does not.
func TestSilentTargetEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := &Unreachable{errors.New("connection refused")}
		q := &queue{service: time.Millisecond, lanes: 8, fail: func(at time.Duration) error {
			if at > 5*time.Second {
				return gone
			}
			return nil
		}}
		begin := time.Now()
		p, err := Run(t.Context(), q, Plan{Rate: 100, Arrival: Poisson, For: time.Hour, Grace: time.Second})
		if took := time.Since(begin); !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "connection refused, 8.") || took > 9*time.Second || p.Done < 400 {
			t.Errorf("after %v: %v, %d done", took, err, p.Done)
		}
		q = &queue{service: time.Millisecond, lanes: 8, fail: func(time.Duration) error { return errors.New("no such method") }}
		if p, err = Run(t.Context(), q, Plan{Rate: 100, Arrival: Fixed, For: 10 * time.Second, Grace: time.Second}); err != nil || p.Failed != 1000 {
			t.Errorf("error %v, got %+v", err, p)
		}
		q = &queue{service: time.Millisecond, lanes: 8, fail: func(at time.Duration) error { // away for a second
			if at > time.Second && at < 2*time.Second {
				return gone
			}
			return nil
		}}
		if p, err = Run(t.Context(), q, Plan{Rate: 100, Arrival: Fixed, For: 10 * time.Second, Grace: time.Second}); err != nil || p.Failed < 90 || p.Done < 890 {
			t.Errorf("error %v, got %+v", err, p)
		}
	})
}
