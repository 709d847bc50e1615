package load

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestKneeIsFoundWithin5Percent: three searches with different arrivals find the knee of a server
// with a fixed rate within 5 %, from any first rate.
func TestKneeIsFoundWithin5Percent(t *testing.T) {
	for _, perSecond := range []float64{333, 2000} {
		synctest.Test(t, func(t *testing.T) {
			var runs []Knee
			for seed := range uint64(3) {
				s := DefaultSearch()
				s.P99, s.From = 200*time.Millisecond, []float64{10, 100, 20_000}[seed]
				k, err := FindKnee(t.Context(), s, func(ctx context.Context, rate float64, n int) (*Phase, error) {
					q := &queue{service: time.Duration(float64(time.Second) / perSecond), lanes: 512}
					return Run(ctx, q, Plan{Rate: rate, Arrival: Poisson, Warm: 2 * time.Second, For: 10 * time.Second, Grace: 5 * time.Second, Seed: 100*seed + uint64(n), Behind: time.Second})
				})
				if err != nil || !k.Reached {
					t.Fatalf("%v in %d trials, %v", k.Rate, len(k.Phases), err)
				}
				if math.Abs(k.Rate-perSecond) > 0.05*perSecond || k.High > k.Low*1.061 {
					t.Errorf("%v a second: the knee is %v, %v to %v, in %d trials", perSecond, k.Rate, k.Low, k.High, len(k.Phases))
				}
				runs = append(runs, *k)
			}
			if all := Together(runs); all.Spread > 0.05 {
				t.Errorf("%v a second: %v, spread %v", perSecond, all.Mean, all.Spread)
			}
		})
	}
}

// TestKneeSearchEndsOnAnyTarget: searches on a target that sustains every rate, one that sustains
// none, one with two trials that fail by chance, one with too few trials, and one that stops.
func TestKneeSearchEndsOnAnyTarget(t *testing.T) {
	trial := func(p99 float64) *Phase { return &Phase{Offered: 100, Done: 100, Latency: Latency{P99: p99}} }
	s := Search{P99: time.Second, Kept: 0.99, From: 10, Most: 1000, Within: 0.02, Trials: 60}
	k, err := FindKnee(t.Context(), s, func(context.Context, float64, int) (*Phase, error) { return trial(0.1), nil })
	if err != nil || !k.AtMost || k.Rate != 1000 {
		t.Errorf("always: %+v, %v", k, err)
	}
	if k, err = FindKnee(t.Context(), s, func(context.Context, float64, int) (*Phase, error) { return trial(2), nil }); err != nil || k.Reached || k.Rate != 0 || len(k.Phases) > 30 {
		t.Errorf("never: %v in %d trials, %v", k.Rate, len(k.Phases), err)
	}
	bad := map[int]bool{0: true, 3: true} // a moment of others, twice
	if k, err = FindKnee(t.Context(), s, func(_ context.Context, rate float64, n int) (*Phase, error) {
		if rate > 500 || bad[n] {
			return trial(2), nil
		}
		return trial(0.1), nil
	}); err != nil || !k.Reached || math.Abs(k.Rate-500) > 12 {
		t.Errorf("with bad moments: %+v, %v", k, err)
	}
	s.Trials = 3
	if k, err = FindKnee(t.Context(), s, func(context.Context, float64, int) (*Phase, error) { return trial(0.1), nil }); err != nil || k.Reached || len(k.Phases) != 3 {
		t.Errorf("three trials: %+v, %v", k, err)
	}
	if k, err = FindKnee(t.Context(), s, func(context.Context, float64, int) (*Phase, error) { return trial(0.1), ErrStopped }); !errors.Is(err, ErrStopped) || len(k.Phases) != 1 {
		t.Errorf("one that stops: %+v, %v", k, err)
	}
	if _, err := FindKnee(t.Context(), Search{}, nil); err == nil {
		t.Error("a search without options was accepted")
	}
	for want, p := range map[bool]*Phase{true: {Offered: 100, Done: 99, Latency: Latency{P99: 1}}, false: {Offered: 100, Done: 98, Latency: Latency{P99: 0.1}}} {
		if got := s.Holds(p); got != want {
			t.Errorf("%d of 100 at %v s: holds %v", p.Done, p.Latency.P99, got)
		}
	}
}

// TestDisturbedTrialIsRepeated: a trial during which other programs used the processor does not
// count and is repeated, at most as often as a search has trials; then all count.
func TestDisturbedTrialIsRepeated(t *testing.T) {
	s := Search{P99: time.Second, Kept: 0.99, From: 10, Most: 1000, Within: 0.02, Trials: 60, Quiet: 0.02}
	trial := func(rate float64, n int, disturbed func(int) bool) *Phase {
		p := &Phase{Rate: rate, Offered: 100, Done: 100, Latency: Latency{P99: 0.1}, Others: 0.019}
		if disturbed(n) {
			p.Others, p.Latency.P99 = 0.021, 2
		} else if rate > 500 {
			p.Latency.P99 = 2
		}
		return p
	}
	for name, c := range map[string]struct {
		disturbed func(int) bool
		not       func(k *Knee) bool
	}{
		"every second one": {func(n int) bool { return n%2 == 0 }, func(k *Knee) bool {
			return k.Disturbed < refined || k.Disturbed > 60 || math.Abs(k.Rate-500) > 12 || !k.Reached
		}},
		"all": {func(int) bool { return true }, func(k *Knee) bool { return k.Disturbed != 60 || k.Rate != 0 || k.Trials() < 2 || k.Trials() > 60 }},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := FindKnee(t.Context(), s, func(_ context.Context, rate float64, n int) (*Phase, error) { return trial(rate, n, c.disturbed), nil })
			n := 0
			for i := range k.Phases {
				if k.Phases[i].Disturbed {
					n++
				}
			}
			if err != nil || n != k.Disturbed || c.not(k) {
				t.Errorf("%v in %d trials, %d more disturbed, %d reported; %v", k.Rate, k.Trials(), k.Disturbed, n, err)
			}
		})
	}
	s.Quiet = 0
	k, err := FindKnee(t.Context(), s, func(_ context.Context, rate float64, n int) (*Phase, error) {
		return trial(rate, n, func(int) bool { return n == 3 }), nil
	})
	if err != nil || k.Disturbed != 0 || k.Trials() != len(k.Phases) {
		t.Errorf("not asked: %v, %d disturbed, %v", k.Rate, k.Disturbed, err)
	}
	s.Quiet = math.NaN()
	if _, err := FindKnee(t.Context(), s, nil); err == nil {
		t.Error("NaN is no part")
	}
}

// merging is a server that at random times uses half of its capacity for work of its own, like
// compactions of a store.
func merging(seed uint64, perSecond float64) *queue {
	rng := rand.New(rand.NewPCG(seed, 7))
	from, to := 0.0, 0.0
	return &queue{service: time.Duration(float64(time.Second) / perSecond), lanes: 512, slow: func(now time.Duration) bool {
		for now.Seconds() >= to {
			from = to + 4*rng.ExpFloat64()
			to = from + 0.3 + 0.9*rng.Float64()
		}
		return now.Seconds() >= from
	}}
}

// TestKneesOfMergingServerAgree: three searches on a merging server find knees within 5 % of each
// other, although the merges are at other times for each, and each interval contains the others or
// nearly so. A search by bisection, in which two failures of a rate decided, found knees up to 10.7
// % apart.
func TestKneesOfMergingServerAgree(t *testing.T) {
	for group := range uint64(4) {
		var runs []Knee
		for seed := 3 * group; seed < 3*group+3; seed++ {
			synctest.Test(t, func(t *testing.T) {
				q, s := merging(seed, 200), DefaultSearch()
				s.P99 = time.Second
				k, err := FindKnee(t.Context(), s, func(ctx context.Context, rate float64, n int) (*Phase, error) {
					return Run(ctx, q, Plan{Rate: rate, Arrival: Poisson, Warm: 2 * time.Second, For: 10 * time.Second, Grace: 5 * time.Second, Seed: 100*seed + uint64(n), Behind: 2 * s.P99})
				})
				if err != nil || k.Low >= k.Rate || k.High <= k.Rate || k.Chance < 0.05 {
					t.Fatalf("got %+v, error %v", k, err)
				}
				t.Log(k.words())
				runs = append(runs, *k)
			})
		}
		all := Together(runs)
		if t.Logf("%.1f %% between the highest and the lowest", all.Spread*100); all.Spread > 0.05 {
			t.Errorf("the knees %.1f, %.1f and %.1f are %.1f %% apart", runs[0].Rate, runs[1].Rate, runs[2].Rate, all.Spread*100)
		}
		for i := range runs {
			if runs[i].Low > all.Mean*1.01 || runs[i].High < all.Mean*0.99 {
				t.Errorf("the interval of search %d is %.1f to %.1f, and the mean of three %.1f", i+1, runs[i].Low, runs[i].High, all.Mean)
			}
		}
	}
}

// TestOverloadedTrialMeasuresShortfall: a trial above its target's rate estimates how much lower
// the target's rate is, whether the trial ran to its end or not.
func TestOverloadedTrialMeasuresShortfall(t *testing.T) {
	s := DefaultSearch()
	s.P99 = time.Second
	for _, over := range []float64{1.05, 1.08, 1.1, 1.15, 1.2, 1.3, 1.5} {
		synctest.Test(t, func(t *testing.T) {
			const does = 1000
			p, err := Run(t.Context(), &queue{service: time.Second / does, lanes: 512}, Plan{Rate: does * over, Arrival: Poisson, Warm: 2 * time.Second, For: 10 * time.Second, Grace: 5 * time.Second, Seed: 3,
				Behind: 2 * s.P99})
			if err != nil || p.Behind && over < 1.18 || !p.Behind && over > 1.25 {
				t.Fatalf("%v times: behind %v, %v", over, p.Behind, err)
			}
			x := s.measured(p)
			// Twelve seconds at 1 + 1/12 times the server's rate end with a second of waiting.
			if got := over * math.Exp(-x.by); !x.known || math.Abs(got-(1+1.0/12)) > 0.03 || x.by > x.least != (over > 1.04) {
				t.Errorf("%v times: estimated sustainable share %.3f, want %.3f", over, got, 1+1.0/12)
			}
		})
	}
	for name, p := range map[string]*Phase{
		"with errors": {Rate: 1, Seconds: 10, Failed: 3, Latency: Latency{P99: 1}},
		"of no time":  {Rate: 1, Latency: Latency{P99: 1}},
		"nothing":     {Rate: 1, Seconds: 10, Behind: true, Series: []Second{{}}},
		"no series":   {Rate: 1, Seconds: 10, Behind: true},
	} {
		if x := s.measured(p); x.known {
			t.Errorf("%s: got %+v", name, x)
		}
	}
}

// TestKneeOfUnevenTargetsIsTheMedian: if each trial has a target of its own with another rate,
// three searches are within 3 % of the rate that half of the targets sustain, and of each other, in
// at most 32 trials: each failed trial has measured its target's rate.
func TestKneeOfUnevenTargetsIsTheMedian(t *testing.T) {
	for group := range uint64(2) {
		var runs []Knee
		for seed := 3 * group; seed < 3*group+3; seed++ {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				s := DefaultSearch()
				s.P99, s.From, s.Fresh = time.Second, 500, true
				k, err := FindKnee(t.Context(), s, func(ctx context.Context, rate float64, n int) (*Phase, error) {
					q := &queue{service: time.Duration(float64(time.Second) / (1000 * math.Exp(0.04*rng.NormFloat64()))), lanes: 512}
					return Run(ctx, q, Plan{Rate: rate, Arrival: Poisson, Warm: 2 * time.Second, For: 10 * time.Second, Grace: 5 * time.Second, Seed: 100*seed + uint64(n), Behind: 2 * s.P99})
				})
				if err != nil {
					t.Fatal(err)
				}
				if t.Log(k.words()); !k.Reached || len(k.Phases) > 32 || math.Abs(k.Rate/1083-1) > 0.03 {
					t.Errorf("words %s", k.words())
				}
				runs = append(runs, *k)
			})
		}
		if all := Together(runs); all.Spread > 0.03 {
			t.Errorf("%.1f %% between the highest and the lowest", all.Spread*100)
		}
	}
}

// TestKneesAreRightOnAverage: if trials succeed by a known random curve, knees are right on
// average, as precise as requested, and within their intervals as often as these claim.
func TestKneesAreRightOnAverage(t *testing.T) {
	for _, width := range []float64{0.005, 0.02, 0.04} {
		rng := rand.New(rand.NewPCG(1, uint64(width*1000)))
		const searches, knee = 40, 1000.0
		var sum, squares, trials float64
		var held int
		for range searches {
			s := DefaultSearch()
			s.From, s.Pause, s.Trials = 300, 0, 200
			k, err := FindKnee(t.Context(), s, func(_ context.Context, rate float64, _ int) (*Phase, error) {
				p := &Phase{Rate: rate, Offered: 100, Done: 100}
				if rng.Float64() > 1/(1+math.Exp(-math.Log(knee/rate)/width)) {
					p.Latency.P99 = 10
				}
				return p, nil
			})
			if err != nil || !k.Reached || k.High > k.Low*math.Pow(1+s.Within, 2)*1.001 {
				t.Fatalf("width %v: %+v, %v", width, k, err)
			}
			d := math.Log(k.Rate / knee)
			sum, squares, trials = sum+d, squares+d*d, trials+float64(len(k.Phases))
			if k.Low <= knee && knee <= k.High {
				held++
			}
		}
		deviation := math.Sqrt(squares / searches)
		t.Logf("width %v: %.2f %% off on average, deviation %.2f %%, %d of %d intervals hold the knee, %.1f trials", width, 100*sum/searches, 100*deviation, held, searches, trials/searches)
		if math.Abs(sum/searches) > 0.006 || deviation > 0.018 || held < 35 { // 38 are due
			t.Errorf("width %v: %.2f %% off on average, deviation %.2f %%, %d of %d intervals hold the knee", width, 100*sum/searches, 100*deviation, held, searches)
		}
	}
}
