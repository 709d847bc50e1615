package load

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Search configures the search for the knee. A trial sustains its rate if two conditions hold: the
// 99th percentile of the latency, measured from the due time, is at most P99, and at least the
// share Kept of the operations succeeds. Near the knee the result is random. So the knee is defined
// as the rate that half of the trials sustain.
type Search struct {
	P99  time.Duration
	Kept float64 // share of the operations that must succeed
	From float64 // rate of the first trial, in operations per second
	Most float64 // highest rate of a trial, in operations per second
	// Within is the required precision. The search ends when the 95 % interval extends from the
	// knee by at most this share of the knee to each side.
	Within float64
	Trials int // maximum number of trials
	// Pause is the time between two trials. After a failed trial, the longest latency of that trial
	// is added to Pause, so that the target can process its queue.
	Pause time.Duration
	// Fresh means that each trial has a new target. In that case there is no pause.
	Fresh bool
	// Quiet is the maximum share of the machine's processor time that other processes may use
	// during a trial. A trial with a higher share is repeated and does not count, at most Trials
	// times in a search; after that, trials with a higher share count too. If Quiet is 0 or the
	// share is unknown, all trials count.
	Quiet float64
}

// Factors between the rates of successive trials until one succeeds and one fails: growth while the
// target sustains the rate, descent if it does not sustain the first rate.
const (
	growth  = 1.5
	descent = 4
	// refined is the minimum number of trials after the ramp. With fewer trials the width of the
	// curve would be a guess.
	refined = 16
	// longestPause is the maximum pause after a failed trial.
	longestPause = 10 * time.Second
)

// DefaultSearch returns the default options.
func DefaultSearch() Search {
	return Search{P99: 2 * time.Second, Kept: 0.99, From: 100, Most: 100_000, Within: 0.03, Trials: 60,
		Pause: 500 * time.Millisecond, Quiet: 0.02}
}

// TrialEase is the value of Plan.Ease in trials. A new target is slow at first. At half of the
// rate, the target completes its initial work during the warm-up. At the full rate, which is close
// to its capacity, the target would never process the queue from the warm-up.
const TrialEase = 0.5

// Knee is the result of FindKnee.
type Knee struct {
	Rate float64 `json:"rate"` // estimated knee; 0: even the lowest rate was not sustained
	Low  float64 `json:"low"`  // lower end of the 95 % interval
	High float64 `json:"high"` // upper end of the 95 % interval
	// Chance is the distance between the rates that nine tenths and one tenth of the trials
	// sustain, relative to the knee. Longer trials make Chance smaller.
	Chance  float64 `json:"chance"`
	P99     float64 `json:"p99_bound_seconds"`
	Kept    float64 `json:"kept_bound"`
	Phases  []Phase `json:"phases"` // one phase for each trial, in order
	AtMost  bool    `json:"at_most,omitempty"`
	Reached bool    `json:"reached"` // true: the search reached the required precision within Trials
	// Disturbed is the number of phases that do not count because of the load of other programs on
	// the machine.
	Disturbed int `json:"disturbed,omitempty"`
}

// Trials returns the number of trials that count, without the disturbed trials.
func (k *Knee) Trials() int { return len(k.Phases) - k.Disturbed }

// Holds returns whether the target sustained the rate of a phase.
func (s *Search) Holds(p *Phase) bool {
	return !p.Behind && p.Kept() >= s.Kept && p.Latency.P99 <= s.P99.Seconds()
}

// search is the state of one search.
type search struct {
	Search
	k     *Knee
	try   func(ctx context.Context, rate float64, n int) (*Phase, error)
	all   []verdict
	pause time.Duration
}

// FindKnee searches for the knee. FindKnee raises the rate by half until one rate fails twice. If
// the first rate fails twice, FindKnee divides the rate by four until the target sustains a rate.
// After that, each trial runs at the rate that is expected to be most informative, until the knee
// is known precisely enough.
func FindKnee(ctx context.Context, s Search, try func(ctx context.Context, rate float64, n int) (*Phase, error)) (*Knee, error) {
	if s.P99 <= 0 || !(s.Kept > 0 && s.Kept <= 1) || !(s.From > 0) || s.Most < s.From || !(s.Within > 0 && s.Within < 1) ||
		s.Trials < 1 || !(s.Quiet >= 0 && s.Quiet <= 1) {
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

// once runs a trial, and repeats the trial if other programs used too much of the machine.
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
		p.Series = nil // drop the series, because many of them would make the report large
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

// ramp finds a rate that is sustained and a higher rate that fails twice. A result of 0 means that
// there is none, or that the trials were used up.
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
			x.k.Rate = rate // this rate is preliminary
		} else {
			high = rate
		}
		switch {
		case low > 0 && high > 0:
			return low, high, nil
		case low >= x.Most:
			x.k.AtMost, x.k.Reached = true, true
			return low, 0, nil
		// If the second condition holds, no rate is sustained.
		case len(x.all) >= x.Trials, high > 0 && high/descent < x.From/65536:
			return low, high, nil
		case low > 0:
			rate = min(rate*growth, x.Most)
		default:
			rate /= descent
		}
	}
}
