package load

import (
	"context"
	"errors"
	"iter"
	"math"
)

// Knees are the results of several searches of the same knee, and how much these results differ
// from each other.
type Knees struct {
	Runs   []Knee  `json:"runs"`
	Mean   float64 `json:"mean"`
	Spread float64 `json:"spread"` // highest minus lowest knee, relative to the mean
	// Turns means that the trials of the searches alternated. So changes in the machine's speed
	// affected all searches alike.
	Turns bool `json:"turns,omitempty"`
}

// Together computes the mean and the spread of several searches.
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

// ErrNoKnee means that the target did not sustain even the lowest rate.
var ErrNoKnee = errors.New("load: the target did not sustain even the lowest rate")

// Trial runs one trial. search is the index of the search, and n the index of the trial in that
// search.
type Trial func(ctx context.Context, search int, rate float64, n int) (*Phase, error)

// errTurnsOver is the error of searches that were stopped because one of the searches had failed.
var errTurnsOver = errors.New("load: the search was stopped because another search failed")

// FindKnees runs several searches. If turns is set, the searches alternate: each runs one trial at
// a time and uses only its own results. The speed of a machine varies. Alternation spreads this
// variation over all searches, so that it does not look like a difference between searches.
// Alternation requires Search.Fresh, so that trials do not affect each other. If turns is not set,
// the searches run one after another. On an error, the result contains the searches that were
// started.
func FindKnees(ctx context.Context, s Search, runs int, turns bool, try Trial) (*Knees, error) {
	if turns && !s.Fresh {
		return nil, errors.New("load: alternating searches need a new target for each trial")
	}
	var err error
	found, ends := make([]*Knee, runs), make([]error, runs)
	if turns {
		err = inTurns(ctx, s, found, ends, try)
	} else {
		for i := range runs {
			if found[i], err = FindKnee(ctx, s, func(ctx context.Context, rate float64, n int) (*Phase,
				error) {
				return try(ctx, i, rate, n)
			}); err != nil || found[i].Rate == 0 {
				break
			}
		}
	}
	var all []Knee
	for _, k := range found {
		if k == nil || len(k.Phases) == 0 {
			continue
		}
		if all = append(all, *k); err == nil && k.Rate == 0 {
			err = ErrNoKnee
		}
	}
	if len(all) == 0 {
		return nil, err
	}
	out := Together(all)
	out.Turns = turns && runs > 1
	return &out, err
}

// inTurns runs the searches one trial at a time, in turn. The first error ends all.
func inTurns(ctx context.Context, s Search, found []*Knee, ends []error, try Trial) error {
	var under []func() (struct{}, bool)
	for i := range found {
		next, stop := iter.Pull(func(yield func(struct{}) bool) {
			found[i], ends[i] = FindKnee(ctx, s, func(ctx context.Context, rate float64, n int) (*Phase, error) {
				if !yield(struct{}{}) {
					return nil, errTurnsOver
				}
				return try(ctx, i, rate, n)
			})
		})
		defer stop()
		under = append(under, next)
	}
	for left := len(under); left > 0; {
		for i, next := range under {
			if next == nil {
				continue
			}
			if _, more := next(); more {
				continue
			}
			if ends[i] != nil {
				return ends[i]
			}
			under[i], left = nil, left-1
		}
	}
	return nil
}
