package load

import (
	"context"
	"errors"
	"iter"
	"math"
)

// Knees are several searches and how far they lie apart.
type Knees struct {
	Runs   []Knee  `json:"runs"`
	Mean   float64 `json:"mean"`
	Spread float64 `json:"spread"` // of the highest and the lowest, as a part of the mean
	// Turns: the searches' trials were made in turns, so that all had the same minutes of the
	// machine.
	Turns bool `json:"turns,omitempty"`
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
var ErrNoKnee = errors.New("load: the target did not sustain even the lowest rate")

// Trial is made by a search, counted from 0; n counts the trials of that search.
type Trial func(ctx context.Context, search int, rate float64, n int) (*Phase, error)

// errTurnsOver ends the searches whose turn does not come any more.
var errTurnsOver = errors.New("load: the search was stopped because another search failed")

// FindKnees makes several searches. In turns, each makes one trial and then the next search does,
// until all have ended; each goes by its own trials alone. A machine is faster in one minute than
// in another; in turns that reaches all alike, and is not taken for what lies between them. That
// wants trials of which none has what another has left, so that a search which is not Fresh is
// refused. Otherwise one search follows the other. The knees are those begun until an error, with
// what was measured.
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
			if found[i], err = FindKnee(ctx, s, func(ctx context.Context, rate float64, n int) (*Phase, error) { return try(ctx, i, rate, n) }); err != nil || found[i].Rate == 0 {
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

// inTurns lets each search go on by one trial, one behind the other. The first error ends all.
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
