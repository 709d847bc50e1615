package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// drifting is a machine whose speed is a random walk around one, with a deviation of 7 % and a
// correlation time of a minute.
type drifting struct {
	begin time.Time
	log   []float64 // of each second
}

func newDrifting(seed uint64) *drifting {
	const deviation, forgets = 0.07, 60.0
	rng := rand.New(rand.NewPCG(seed, 11))
	d := &drifting{begin: time.Now(), log: make([]float64, 4*3600)}
	keeps := math.Exp(-1 / forgets)
	at := deviation * rng.NormFloat64()
	for i := range d.log {
		d.log[i] = at
		at = at*keeps + deviation*math.Sqrt(1-keeps*keeps)*rng.NormFloat64()
	}
	return d
}

func (d *drifting) at(now time.Time) float64 {
	return math.Exp(d.log[min(max(int(now.Sub(d.begin)/time.Second), 0), len(d.log)-1)])
}

// driftingKnees runs three searches on a server of 250/s on a drifting machine. Each trial has a
// new server, whose rate differs by 3 %.
func driftingKnees(t *testing.T, seed uint64, turns bool) *Knees {
	var out *Knees
	synctest.Test(t, func(t *testing.T) {
		machine, rng := newDrifting(seed), rand.New(rand.NewPCG(seed, 12))
		s := DefaultSearch()
		s.P99, s.From, s.Fresh, s.Trials = time.Second, 150, true, 28
		var err error
		out, err = FindKnees(t.Context(), s, 3, turns, func(ctx context.Context, i int, rate float64, n int) (*Phase, error) {
			q := &queue{service: time.Duration(float64(time.Second) / (250 * math.Exp(0.03*rng.NormFloat64()))), lanes: 512, speed: machine.at}
			return Run(ctx, q, Plan{Rate: rate, Arrival: Poisson, Warm: 5 * time.Second, Ease: TrialEase, For: 10 * time.Second, Grace: 5 * time.Second, Seed: 1000*uint64(i) + uint64(n) + seed,
				Behind: 2 * s.P99})
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return out
}

// TestInterleavedSearchesCancelDrift: on a machine that is faster in one minute than in another,
// three searches in turns find knees nearer to each other than three of which one follows the
// other, since the drift reaches all alike.
func TestInterleavedSearchesCancelDrift(t *testing.T) {
	const groups = 5
	var apart [2][]float64
	for seed := range uint64(groups) {
		for i, turns := range []bool{false, true} {
			k := driftingKnees(t, seed, turns)
			t.Logf("in turns %v: %.1f, %.1f, %.1f, %.1f %% apart", turns, k.Runs[0].Rate, k.Runs[1].Rate, k.Runs[2].Rate, 100*k.Spread)
			apart[i] = append(apart[i], k.Spread)
			if k.Turns != turns || len(k.Runs) != 3 {
				t.Errorf("%d searches, in turns %v", len(k.Runs), k.Turns)
			}
		}
	}
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	t.Logf("on average %.1f %% apart one behind the other, %.1f %% in turns; at most %.1f and %.1f %%", 100*mean(apart[0]), 100*mean(apart[1]), 100*slices.Max(apart[0]), 100*slices.Max(apart[1]))
	if mean(apart[1]) > 0.6*mean(apart[0]) || slices.Max(apart[1]) > 0.05 {
		t.Errorf("in turns: %v, one after the other: %v", apart[1], apart[0])
	}
}

// TestKneeSearchesTakeTurns: searches make one trial each in turn, until each has ended. An error
// ends all, with the measurements so far.
func TestKneeSearchesTakeTurns(t *testing.T) {
	s := Search{P99: time.Second, Kept: 0.99, From: 10, Most: 1000, Within: 0.02, Trials: 60, Fresh: true}
	knee := []float64{500, 100, 900}
	var order []string
	try := func(_ context.Context, i int, rate float64, n int) (*Phase, error) {
		order = append(order, fmt.Sprint(i, n))
		p := &Phase{Rate: rate, Offered: 100, Done: 100, Latency: Latency{P99: 0.1}}
		if rate > knee[i] {
			p.Latency.P99 = 2
		}
		return p, nil
	}
	k, err := FindKnees(t.Context(), s, 3, true, try)
	if err != nil || !k.Turns || !slices.Equal(order[:7], []string{"0 0", "1 0", "2 0", "0 1", "1 1", "2 1", "0 2"}) {
		t.Fatalf("order %v, error %v", order, err)
	}
	for i := range knee {
		alone, err := FindKnee(t.Context(), s, func(ctx context.Context, rate float64, n int) (*Phase, error) { return try(ctx, i, rate, n) })
		if err != nil || k.Runs[i].Rate != alone.Rate || len(k.Runs[i].Phases) != len(alone.Phases) {
			t.Errorf("search %d: %v in %d trials in turns, %v in %d alone, %v", i, k.Runs[i].Rate, len(k.Runs[i].Phases), alone.Rate, len(alone.Phases), err)
		}
	}
	order = nil
	if k, err = FindKnees(t.Context(), s, 2, false, try); err != nil || k.Turns || order[1] != "0 1" {
		t.Errorf("one after the other: %v, %v", order, err)
	}
	stopped := func(ctx context.Context, i int, rate float64, n int) (*Phase, error) {
		p, err := try(ctx, i, rate, n)
		if i == 1 && n == 2 {
			err = ErrStopped
		}
		return p, err
	}
	order = nil
	if k, err = FindKnees(t.Context(), s, 3, true, stopped); !errors.Is(err, ErrStopped) || len(k.Runs) != 3 || len(k.Runs[0].Phases) != 3 || len(k.Runs[1].Phases) != 3 || len(k.Runs[2].Phases) != 2 || len(order) != 8 {
		t.Errorf("one stops: %v, %v, %+v", order, err, k)
	}
	knee = []float64{500, 0, 900}
	for _, turns := range []bool{false, true} {
		if k, err = FindKnees(t.Context(), s, 3, turns, try); !errors.Is(err, ErrNoKnee) || turns != (len(k.Runs) == 3) || !turns != (len(k.Runs) == 2) {
			t.Errorf("one without a knee, in turns %v: %v, %+v", turns, err, k)
		}
	}
	s.Fresh = false
	if _, err := FindKnees(t.Context(), s, 2, true, try); err == nil {
		t.Error("interleaved searches on one target were accepted")
	}
	s.Trials = 0
	if _, err := FindKnees(t.Context(), s, 2, false, try); err == nil {
		t.Error("a search without trials was accepted")
	}
}
