package load

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Search says what the knee is and how it is looked for. A rate is kept up with in a trial if the
// 99th percentile of the latency, from when a thing was due, stays within P99, and at least Kept of
// what is offered is done without an error. Near the knee that is a matter of chance, so the knee
// is the rate that half of the trials keep up with.
type Search struct {
	P99  time.Duration
	Kept float64 // 0.99
	From float64 // the first rate that is tried
	Most float64 // beyond which it is not looked for
	// Within is the part of the knee by which it may be missed: the search ends when the knee lies
	// within an interval that goes no further than that to both sides, with a probability of 95 %.
	Within float64
	Trials int // in all, at most
	// Pause is between trials. Behind one that failed it is longer by the longest latency of that:
	// so far behind the target is.
	Pause time.Duration
	// Fresh: each trial has a target of its own, which is behind nothing. There is no pause.
	Fresh bool
	// Quiet is the part of the machine's processor time that others may have in a trial. One in
	// which they had more says what they did and is made again, as often in a search as it has
	// trials, then it counts all the same; 0, and where it is not known: all count.
	Quiet float64
}

// Of the ramp, and of the way down where the first rate was too much.
const (
	growth  = 1.5
	descent = 4
	// refined trials are made behind the ramp: with less than that the curve's width is a guess.
	refined = 16
	// longestPause bounds how long a target is given that has fallen behind.
	longestPause = 10 * time.Second
)

// DefaultSearch has what is taken where nothing is said.
func DefaultSearch() Search {
	return Search{P99: 2 * time.Second, Kept: 0.99, From: 100, Most: 100_000, Within: 0.03, Trials: 60, Pause: 500 * time.Millisecond, Quiet: 0.02}
}

// TrialEase is the part of its rate at which a trial warms up: what a young target has done slowly
// at first is done when measuring begins, and does not wait before all that is measured. At the
// same rate, near the most that the target does, it would never be caught up with.
const TrialEase = 0.5

// Knee is what a search found.
type Knee struct {
	Rate float64 `json:"rate"` // 0: not even the least was kept up with
	Low  float64 `json:"low"`  // the knee is not below, at 95 % together with High
	High float64 `json:"high"` // nor above
	// Chance is how far the rates that nine tenths and one tenth of the trials keep up with lie
	// apart, as a part of the knee. Longer trials have less.
	Chance  float64 `json:"chance"`
	P99     float64 `json:"p99_bound_seconds"`
	Kept    float64 `json:"kept_bound"`
	Phases  []Phase `json:"phases"` // in the order in which they were tried
	AtMost  bool    `json:"at_most,omitempty"`
	Reached bool    `json:"reached"` // the search came to its end within its trials
	// Disturbed is how many of the phases do not count, since others had the machine.
	Disturbed int `json:"disturbed,omitempty"`
}

// Trials is how many count.
func (k *Knee) Trials() int { return len(k.Phases) - k.Disturbed }

// Holds returns whether a phase is below the knee.
func (s *Search) Holds(p *Phase) bool {
	return !p.Behind && p.Kept() >= s.Kept && p.Latency.P99 <= s.P99.Seconds()
}

// search is one under way.
type search struct {
	Search
	k     *Knee
	try   func(ctx context.Context, rate float64, n int) (*Phase, error)
	all   []verdict
	pause time.Duration
}

// FindKnee looks for the knee. Rates go up by half until one fails twice; a first rate that fails
// twice is divided by four until one holds. From there on each trial is made at the rate that will
// tell most, as all verdicts together have it, until they say where the knee is.
func FindKnee(ctx context.Context, s Search, try func(ctx context.Context, rate float64, n int) (*Phase, error)) (*Knee, error) {
	if s.P99 <= 0 || !(s.Kept > 0 && s.Kept <= 1) || !(s.From > 0) || s.Most < s.From || !(s.Within > 0 && s.Within < 1) || s.Trials < 1 || !(s.Quiet >= 0 && s.Quiet <= 1) {
		return nil, fmt.Errorf("load: the options of the search are invalid: %+v", s)
	}
	x := &search{Search: s, k: &Knee{P99: s.P99.Seconds(), Kept: s.Kept}, try: try}
	low, high, err := x.ramp(ctx)
	if err != nil || low == 0 || high == 0 {
		return x.k, err
	}
	c := newCurve(low, high)
	for behind := 0; ; behind++ {
		c = c.learn(x.all)
		l, h := c.interval()
		x.k.Rate, x.k.Low, x.k.High, x.k.Chance = math.Exp(c.quantile(0.5)), math.Exp(l), math.Exp(h), c.spread()
		if behind >= refined && h-l <= 2*math.Log1p(s.Within) {
			x.k.Reached = true
			return x.k, nil
		}
		if len(x.all) >= s.Trials {
			return x.k, nil
		}
		if _, err := x.once(ctx, min(c.next(), s.Most)); err != nil {
			return x.k, err
		}
	}
}

// once makes a trial, again where others had the machine meanwhile.
func (x *search) once(ctx context.Context, rate float64) (bool, error) {
	for {
		holds, counts, err := x.trial(ctx, rate)
		if counts || err != nil {
			return holds, err
		}
	}
}

func (x *search) trial(ctx context.Context, rate float64) (holds, counts bool, err error) {
	if x.pause > 0 && !sleep(ctx, x.pause) {
		return false, false, ctx.Err()
	}
	p, err := x.try(ctx, rate, len(x.k.Phases))
	var by shortfall
	if p != nil {
		by = x.measured(p)
		p.Disturbed = err == nil && x.Quiet > 0 && p.Others > x.Quiet && x.k.Disturbed < x.Trials
		p.Series = nil // the whole has its histogram; there are many of them
		x.k.Phases = append(x.k.Phases, *p)
	}
	if err != nil {
		return false, false, err
	}
	holds = x.Holds(p)
	if x.Fresh {
		x.pause = 0
	} else if x.pause = x.Pause; !holds {
		x.pause += min(time.Duration(p.Latency.Max*float64(time.Second)), longestPause)
	}
	if p.Disturbed {
		x.k.Disturbed++
		return holds, false, nil
	}
	x.all = append(x.all, verdict{rate, holds, by})
	return holds, true, nil
}

// ramp finds a rate that holds and one above it that fails twice. 0: there is none, or no trial was
// left for one.
func (x *search) ramp(ctx context.Context) (low, high float64, err error) {
	for rate := x.From; ; {
		holds, err := x.once(ctx, rate)
		if err == nil && !holds && len(x.all) < x.Trials {
			holds, err = x.once(ctx, rate)
		}
		if err != nil {
			return 0, 0, err
		}
		if holds {
			low = rate
			x.k.Rate = rate // as far as is known
		} else {
			high = rate
		}
		switch {
		case low > 0 && high > 0:
			return low, high, nil
		case low >= x.Most:
			x.k.AtMost, x.k.Reached = true, true
			return low, 0, nil
		case len(x.all) >= x.Trials, high > 0 && high/descent < x.From/65536: // nothing is kept up with
			return low, high, nil
		case low > 0:
			rate = min(rate*growth, x.Most)
		default:
			rate /= descent
		}
	}
}
