package load

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestIntervalsContainTheTrueRatio: intervals at 95 % contain the true ratio about that often,
// where it is known: latencies of one distribution that is one and a half times as long in the
// second report, and knees whose runs are normally distributed and twice as high. They are not much
// wider than necessary.
func TestIntervalsContainTheTrueRatio(t *testing.T) {
	const trials, ratio = 80, 1.5
	held, width := map[string]int{}, 0.0
	for i := range uint64(trials) {
		rows, err := phaseRows("run", &made(t, 0.01, 30, 1000+2*i).Phases[0], &made(t, ratio*0.01, 30, 1001+2*i).Phases[0])
		if err != nil {
			t.Fatal(err)
		}
		for k, f := range figures {
			if r := &rows[k]; r.Interval[0] <= ratio && ratio <= r.Interval[1] {
				held[f.name]++
			}
			if f.name == "mean" {
				width += (rows[k].Interval[1] - rows[k].Interval[0]) / trials
			}
		}
	}
	for _, name := range []string{"mean", "p50", "p90", "p99"} { // 95 % of 80 is 76, with a standard deviation of 2
		if n := held[name]; n < 68 {
			t.Errorf("the intervals of %s hold the true ratio %d of %d times", name, n, trials)
		}
	}
	// The mean of a second is exponential over 200, times a uniform factor from 1 to 1.2.
	one := (1+0.04/12/1.21)/200 + 0.04/12/1.21
	if want := 2 * 1.96 * ratio * math.Sqrt(2*one/30); width < 0.75*want || width > 1.25*want {
		t.Errorf("the intervals of the mean are %.3f wide, want about %.3f", width, want)
	}
	t.Logf("of %d intervals that hold the true ratio: %v; those of the mean are %.3f wide", trials, held, width)

	rng := rand.New(rand.NewPCG(5, 5))
	const many = 4000
	for _, x := range []struct{ ratio, sd float64 }{{1, 0.03}, {2, 0.03}, {0.5, 0.05}} {
		hold := 0
		for range many {
			runs := func(mean float64, n int) *Knees {
				k := new(Knees)
				for range n {
					v := mean * (1 + x.sd*rng.NormFloat64())
					k.Runs = append(k.Runs, Knee{Rate: v})
					k.Mean += v / float64(n)
				}
				return k
			}
			if r := kneeRow(runs(1000, 5), runs(x.ratio*1000, 5)); r.Interval[0] <= x.ratio && x.ratio <= r.Interval[1] {
				hold++
			}
		}
		if share := float64(hold) / many; share < 0.935 || share > 0.97 {
			t.Errorf("ratio of knees %v: %.1f %% of the intervals contain it", x.ratio, 100*share)
		}
	}
}
