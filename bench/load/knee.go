package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Search says what the knee is and how it is looked for. The knee is the highest rate at which a target keeps up: the 99th percentile of the
// latency, from when a thing was due, stays within P99, and at least Kept of what is offered is done without an error.
type Search struct {
	P99  time.Duration
	Kept float64 // 0.99
	From float64 // the first rate that is tried
	Most float64 // beyond which it is not looked for
	// Within is the part of the knee by which it may be missed: the search ends when the lowest rate that failed is no more than that above the
	// highest that was kept up with.
	Within float64
	Trials int           // in all, at most
	Pause  time.Duration // between trials
}

// Of the ramp, and of the way down where the first rate was too much.
const (
	growth  = 1.5
	descent = 4
)

// DefaultSearch has what is taken where nothing is said.
func DefaultSearch() Search {
	return Search{P99: 2 * time.Second, Kept: 0.99, From: 100, Most: 100_000, Within: 0.02, Trials: 60, Pause: 500 * time.Millisecond}
}

// Knee is what a search found.
type Knee struct {
	Rate    float64 `json:"rate"`  // 0: not even the first was kept up with
	Above   float64 `json:"above"` // the lowest that was not; 0: none was tried
	P99     float64 `json:"p99_bound_seconds"`
	Kept    float64 `json:"kept_bound"`
	Phases  []Phase `json:"phases"` // in the order in which they were tried
	AtMost  bool    `json:"at_most,omitempty"`
	Reached bool    `json:"reached"` // the search came to its end within its trials
}

// Holds tells whether a phase is below the knee.
func (s *Search) Holds(p *Phase) bool {
	return !p.Behind && p.Kept() >= s.Kept && p.Latency.P99 <= s.P99.Seconds()
}

// FindKnee looks for the knee: rates go up by half until one fails, and then the middle of the highest that held and the lowest that failed is tried. A rate
// that fails is tried once more, and has failed only if it fails twice: what passes by on the machine is not the target's.
func FindKnee(ctx context.Context, s Search, try func(ctx context.Context, rate float64, n int) (*Phase, error)) (*Knee, error) {
	if s.P99 <= 0 || !(s.Kept > 0 && s.Kept <= 1) || !(s.From > 0) || s.Most < s.From || !(s.Within > 0 && s.Within < 1) || s.Trials < 1 {
		return nil, fmt.Errorf("load: a search that makes no sense: %+v", s)
	}
	k := &Knee{P99: s.P99.Seconds(), Kept: s.Kept}
	once := func(rate float64) (bool, error) {
		if len(k.Phases) > 0 && s.Pause > 0 && !sleep(ctx, s.Pause) {
			return false, ctx.Err()
		}
		p, err := try(ctx, rate, len(k.Phases))
		if p != nil {
			p.Series = nil // the whole has its histogram; there are many of them
			k.Phases = append(k.Phases, *p)
		}
		if err != nil {
			return false, err
		}
		return s.Holds(p), nil
	}
	holds := func(rate float64) (bool, error) {
		ok, err := once(rate)
		if err != nil || ok || len(k.Phases) >= s.Trials {
			return ok, err
		}
		return once(rate)
	}
	for rate := s.From; k.Above == 0; {
		ok, err := holds(rate)
		switch {
		case err != nil:
			return k, err
		case !ok:
			k.Above = rate
		case rate >= s.Most:
			k.Rate, k.AtMost, k.Reached = rate, true, true
			return k, nil
		default:
			k.Rate = rate
			rate = min(rate*growth, s.Most)
		}
		if len(k.Phases) >= s.Trials {
			return k, nil
		}
	}
	for least := s.From / 65536; k.Above > k.Rate*(1+s.Within); {
		rate := (k.Rate + k.Above) / 2
		if k.Rate == 0 {
			rate = k.Above / descent // somewhere below; the middle is taken from there
		}
		if rate < least {
			break // nothing is kept up with
		}
		if len(k.Phases) >= s.Trials {
			return k, nil
		}
		ok, err := holds(rate)
		if err != nil {
			return k, err
		}
		if ok {
			k.Rate = rate
		} else {
			k.Above = rate
		}
	}
	k.Reached = k.Rate > 0
	return k, nil
}

// Knees are several searches and how far they lie apart.
type Knees struct {
	Runs   []Knee  `json:"runs"`
	Mean   float64 `json:"mean"`
	Spread float64 `json:"spread"` // of the highest and the lowest, as a part of the mean
}

// Together sums up what several searches found.
func Together(runs []Knee) Knees {
	all := Knees{Runs: runs}
	lowest, highest := math.Inf(1), 0.0
	for i := range runs {
		all.Mean += runs[i].Rate / float64(len(runs))
		lowest, highest = min(lowest, runs[i].Rate), max(highest, runs[i].Rate)
	}
	if all.Mean > 0 {
		all.Spread = (highest - lowest) / all.Mean
	}
	return all
}

// ErrNoKnee says that a search found none.
var ErrNoKnee = errors.New("load: not even the lowest rate was kept up with")
