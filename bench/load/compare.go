package load

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Comparison is the result of Compare. A Comparison contains each figure of the two reports, with a
// confidence interval of the ratio of their values. For phases, Compare computes the intervals by
// bootstrap: it draws seconds from each report with replacement, together with all operations due
// in these seconds. Whole seconds are drawn because operations that are close in time are
// correlated. For knees the intervals are Welch's intervals over the runs.
type Comparison struct {
	A, B *Report
	Rows []Row
}

// Row is one figure, with its value in each of the two reports.
type Row struct {
	Name     string
	A, B     float64
	Ratio    float64    // result of report B divided by the result of report A
	Interval [2]float64 // 95 % confidence interval of the ratio; {0, 0}: not enough data
	Method   string     // name of the statistical method: bootstrap or Welch
	Lower    bool       // true: a lower value is better
}

// Differs returns whether the confidence interval of the ratio excludes 1: the two reports differ
// by more than chance.
func (r *Row) Differs() bool {
	return r.Interval != [2]float64{} && (r.Interval[0] > 1 || r.Interval[1] < 1)
}

const (
	resamples  = 1000
	leastParts = 5 // minimum number of seconds or runs for a confidence interval
)

// ErrUnlike means that two reports measured different loads, so that Compare cannot compare them.
var ErrUnlike = errors.New("the reports measure different loads")

// Compare compares two reports of the same load, phase by phase, and their knees. It returns
// ErrUnlike if the loads differ.
func Compare(a, b *Report) (*Comparison, error) {
	if a.Workload != b.Workload || a.Until != b.Until {
		return nil, fmt.Errorf("%w: workload %s until %q, and workload %s until %q", ErrUnlike, a.Workload, a.Until, b.Workload, b.Until)
	}
	c := &Comparison{A: a, B: b}
	for i := range min(len(a.Phases), len(b.Phases)) {
		pa, pb := &a.Phases[i], &b.Phases[i]
		if a.Knees == nil && pa.Rate != pb.Rate {
			return nil, fmt.Errorf("%w: phase %d has the rate %v/s in the first report and %v/s in the second", ErrUnlike, i+1, pa.Rate, pb.Rate)
		}
		name := pa.Name
		if name == "" {
			name = fmt.Sprintf("phase %d", i+1)
		}
		rows, err := phaseRows(name, pa, pb)
		if err != nil {
			return nil, err
		}
		c.Rows = append(c.Rows, rows...)
	}
	if a.Knees != nil && b.Knees != nil {
		if len(a.Knees.Runs) == 0 || len(b.Knees.Runs) == 0 {
			return nil, fmt.Errorf("%w: one report has no knee", ErrUnlike)
		}
		if ka, kb := a.Knees.Runs[0], b.Knees.Runs[0]; ka.P99 != kb.P99 || ka.Kept != kb.Kept {
			return nil, fmt.Errorf("%w: the knees have different p99 bounds, %s and %s", ErrUnlike, ms(ka.P99), ms(kb.P99))
		}
		c.Rows = append(c.Rows, kneeRow(a.Knees, b.Knees))
	}
	if len(c.Rows) == 0 {
		return nil, fmt.Errorf("%w: the reports have no phase or knee in common", ErrUnlike)
	}
	return c, nil
}

// figure is a measure by which Compare compares two phases. A figure is computed from a set of
// seconds of one phase.
type figure struct {
	name     string
	lower    bool
	quantile float64 // quantile of the latency; negative: mean latency; 0: operations per second
}

var figures = []figure{{"done/s", false, 0}, {"mean", true, -1}, {"p50", true, 0.5}, {"p90", true, 0.9},
	{"p99", true, 0.99}, {"p99.9", true, 0.999}}

// phaseRows returns the rows that compare one phase of report a and report b.
func phaseRows(name string, a, b *Phase) ([]Row, error) {
	sa, err := samplesOf(a)
	if err != nil {
		return nil, err
	}
	sb, err := samplesOf(b)
	if err != nil {
		return nil, err
	}
	var rows []Row
	va, vb := sa.whole(), sb.whole()
	ratios := make([][]float64, len(figures))
	if len(sa.seconds) >= leastParts && len(sb.seconds) >= leastParts {
		rng := rand.New(rand.NewPCG(1, 2)) // a fixed seed: equal reports give equal intervals
		for range resamples {
			ra, rb := sa.draw(rng), sb.draw(rng)
			for i := range figures {
				if ra[i] > 0 {
					ratios[i] = append(ratios[i], rb[i]/ra[i])
				}
			}
		}
	}
	for i, f := range figures {
		r := Row{Name: name + " " + f.name, A: va[i], B: vb[i], Lower: f.lower, Method: "bootstrap"}
		if va[i] > 0 {
			r.Ratio = vb[i] / va[i]
		}
		if n := len(ratios[i]); n > resamples/2 {
			slices.Sort(ratios[i])
			r.Interval = [2]float64{ratios[i][n*25/1000], ratios[i][n-1-n*25/1000]}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// samples contains the seconds of a phase. Latencies are rounded to the buckets of the histograms.
// So there are few distinct latencies, and all seconds have the same set of them.
type samples struct {
	values  []float64 // latencies in seconds, ascending
	seconds [][]count
	sum     []int64 // count of each value in the current bootstrap sample
}

// count is the number of occurrences of one value in a second. at is the value's index in values.
type count struct {
	at int32
	n  int64
}

func samplesOf(p *Phase) (*samples, error) {
	places := map[int64]int32{}
	bars := make([][]hdrhistogram.Bar, len(p.Series))
	var all []int64
	for i := range p.Series {
		h, err := p.Series[i].Latency.histogram()
		if err != nil {
			return nil, err
		}
		for _, b := range h.Distribution() {
			if b.Count == 0 {
				continue
			}
			bars[i] = append(bars[i], b)
			if _, known := places[b.To]; !known {
				places[b.To] = 0
				all = append(all, b.To)
			}
		}
	}
	slices.Sort(all)
	s := &samples{seconds: make([][]count, len(bars)), sum: make([]int64, len(all))}
	for i, v := range all {
		places[v] = int32(i)
		s.values = append(s.values, float64(v)/1e9)
	}
	for i := range bars {
		for _, b := range bars[i] {
			s.seconds[i] = append(s.seconds[i], count{places[b.To], b.Count})
		}
	}
	return s, nil
}

// of computes all figures for a draw of seconds. which returns the indexes of the drawn seconds.
func (s *samples) of(which func(i int) int) []float64 {
	clear(s.sum)
	for i := range s.seconds {
		for _, c := range s.seconds[which(i)] {
			s.sum[c.at] += c.n
		}
	}
	total, weighed := int64(0), 0.0
	for i, n := range s.sum {
		total += n
		weighed += s.values[i] * float64(n)
	}
	out := make([]float64, len(figures))
	for i, f := range figures {
		switch {
		case f.quantile == 0:
			out[i] = float64(total) / float64(max(len(s.seconds), 1))
		case total == 0:
		case f.quantile < 0:
			out[i] = weighed / float64(total)
		default:
			left := max(int64(math.Ceil(f.quantile*float64(total))), 1)
			for k, n := range s.sum {
				if left -= n; left <= 0 {
					out[i] = s.values[k]
					break
				}
			}
		}
	}
	return out
}

func (s *samples) whole() []float64 { return s.of(func(i int) int { return i }) }

func (s *samples) draw(rng *rand.Rand) []float64 {
	return s.of(func(int) int { return rng.IntN(len(s.seconds)) })
}

// kneeRow compares the knees of several runs by Welch's interval of the difference of the means.
func kneeRow(a, b *Knees) Row {
	values := func(k *Knees) (out []float64) {
		for i := range k.Runs {
			out = append(out, k.Runs[i].Rate)
		}
		return out
	}
	r := Row{Name: "knee", A: a.Mean, B: b.Mean, Method: "Welch"}
	if a.Mean > 0 {
		r.Ratio = b.Mean / a.Mean
		if half, ok := welch(values(a), values(b), r.Ratio); ok {
			r.Interval = [2]float64{r.Ratio - half/a.Mean, r.Ratio + half/a.Mean}
		}
	}
	return r
}

// welch returns half the width of the 95 % confidence interval of mean(b) - ratio*mean(a). welch
// returns false if a or b has fewer than two values. With ratio = mean(b)/mean(a) this difference
// is zero. Half the width divided by mean(a) is then the half width for the ratio of the means,
// including the uncertainty of a. With ratio 1 the interval is that of the plain difference.
func welch(a, b []float64, ratio float64) (half float64, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return 0, false
	}
	_, va := moments(a)
	_, vb := moments(b)
	ea, eb := ratio*ratio*va/float64(len(a)), vb/float64(len(b))
	if ea+eb == 0 {
		return 0, true
	}
	freedom := (ea + eb) * (ea + eb) / (ea*ea/float64(len(a)-1) + eb*eb/float64(len(b)-1))
	return studentT(freedom) * math.Sqrt(ea+eb), true
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, variance
}

// studentT returns the 0.975 quantile of Student's t distribution. studentT interpolates the usual
// table linearly in 1/freedom.
func studentT(freedom float64) float64 {
	table := []struct{ n, t float64 }{{1, 12.706}, {2, 4.303}, {3, 3.182}, {4, 2.776}, {5, 2.571}, {6, 2.447}, {8, 2.306},
		{10, 2.228}, {15, 2.131}, {20, 2.086}, {30, 2.042}, {60, 2.000}, {120, 1.980}, {1e9, 1.960}}
	freedom = min(max(freedom, 1), 1e9)
	for i := 1; i < len(table); i++ {
		if lo, hi := table[i-1], table[i]; freedom <= hi.n {
			part := (1/lo.n - 1/freedom) / (1/lo.n - 1/hi.n)
			return lo.t + part*(hi.t-lo.t)
		}
	}
	return 1.960
}

// WriteText writes the comparison as text for a terminal.
func (c *Comparison) WriteText(w io.Writer) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	line("A         %s; commit %s, %s", c.A.Target.words(), c.A.Commit, c.A.Time)
	line("B         %s; commit %s, %s", c.B.Target.words(), c.B.Commit, c.B.Time)
	line("%-22s %12s %12s %8s  %-20s %s", "", "A", "B", "B/A", "95 % of B/A", "")
	for i := range c.Rows {
		r := &c.Rows[i]
		say := ms
		if !r.Lower {
			say = func(v float64) string { return fmt.Sprintf("%.1f/s", v) }
		}
		interval, verdict := "too little to say", ""
		if r.Interval != [2]float64{} {
			interval = fmt.Sprintf("%.3f to %.3f", r.Interval[0], r.Interval[1])
			switch {
			case !r.Differs():
				verdict = "no difference shown"
			case (r.Ratio < 1) == r.Lower:
				verdict = "B is better"
			default:
				verdict = "B is worse"
			}
		}
		line("%-22s %12s %12s %8.3f  %-20s %s", r.Name, say(r.A), say(r.B), r.Ratio, interval, verdict)
	}
	line("95 %% confidence intervals: of phases by bootstrap over their seconds (%d draws), of knees by Welch's method over the runs. "+
		"They do not cover differences between runs", resamples)
	if c.A.Machine.CPU != c.B.Machine.CPU || c.A.Machine.Cores != c.B.Machine.Cores {
		line("the machines differ: %s with %d cores, %s with %d", c.A.Machine.CPU, c.A.Machine.Cores, c.B.Machine.CPU, c.B.Machine.Cores)
	}
	return errors.Join(errs...)
}
