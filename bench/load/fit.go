package load

import "math"

// verdict is the result of one trial: whether the target sustained the rate.
type verdict struct {
	rate  float64
	holds bool
	shortfall
}

// shortfall estimates by how much the rate of a trial was too high. Above the target's capacity,
// requests queue up: at (1 + e) times the capacity, the latency after T seconds is e*T. So the
// latency of the last operations shows the rate that the target could just have sustained.
type shortfall struct {
	known bool
	by    float64 // log(rate / sustainable rate); negative: the rate was too low
	least float64 // lower bound of by: smaller values do not result from queueing
}

// measured returns by how much the rate of a phase was too high, estimated from its latencies.
func (s *Search) measured(p *Phase) (x shortfall) {
	all, bound := p.Warm+p.Seconds, s.P99.Seconds()
	if p.Seconds <= 0 || p.Rate <= 0 || p.Failed > 0 && !p.Behind {
		return x
	}
	at := math.Log1p(bound / all)
	x = shortfall{true, math.Log1p(p.Latency.P99/all) - at, math.Log1p(bound/2/all) - at}
	if p.Behind { // the run was stopped early, so use its last second with completed operations
		n := len(p.Series) - 1
		for n > 0 && p.Series[n].Done == 0 {
			n--
		}
		if n < 0 || p.Series[n].Done == 0 {
			return shortfall{}
		}
		x.by = math.Log1p(p.Series[n].Latency.Max/(p.Warm+float64(n)+min(float64(p.Series[n].Done)/p.Rate, 1))) - at
	}
	return x
}

// Near the knee, the result of a trial is random. The result depends on whether the target pauses
// during the trial. Over a range of rates, the share of successful trials decreases from all to
// none. The knee is the rate at which the share is one half. curve fits a logistic function to the
// results by Bayes' rule, on a grid of knees and widths.
//
// If the shortfall of a trial is known and small, the trial also shows the rate that the target
// would have sustained. That rate locates the knee better than the result alone. Pauses and a too
// high rate affect the latency differently. So the factor between the measured and the true
// shortfall is a third dimension of the grid (slopes). A shortfall above far or below
// shortfall.least counts as a plain success or failure.
const (
	far    = 0.1
	slopes = 5
	// lapse is the share of trials whose result is determined by the load of other programs on the
	// machine.
	lapse = 0.02
	// Range and number of the widths on the grid, relative to the knee. The rates at which 73 % and
	// 27 % of the trials succeed are two widths apart.
	narrowest, widest, widths = 0.01, 0.16, 8
	// knees is the number of candidate knees, one dimension of the grid. The candidates range from
	// the last sustained rate divided by around to the first failed rate times around.
	knees, around = 256, 1.5
	// farthest is the maximum ratio of the highest to the lowest rate of the grid.
	farthest = 64
	// probes is the number of rates from which next chooses the rate of the next trial.
	probes = 15
	// likely is the probability that the reported interval contains the knee.
	likely = 0.95
)

// curve is the posterior distribution of two unknowns, given the trials so far: the knee, and the
// width of the range of rates in which trials may fail or succeed.
type curve struct {
	from, to float64                        // range of rates that the grid covers
	at       [knees]float64                 // logarithm of the rate of each candidate for the knee
	log      [knees][widths][slopes]float64 // log likelihood of all results
	weight   [knees][widths]float64         // posterior probabilities, summed over the slopes
	known    int                            // number of trial results that the curve contains
}

// widthsOf lists the widths of the grid.
var widthsOf = func() (out [widths]float64) {
	for i := range out {
		out[i] = narrowest * math.Pow(widest/narrowest, float64(i)/(widths-1))
	}
	return out
}()

// slopesOf lists the factors between the true and the measured shortfall.
var slopesOf = [slopes]float64{0, 0.5, 1, 2, 4}

// chance returns the probability that a trial at log distance below the knee succeeds.
func chance(below, width float64) float64 {
	return lapse + (1-2*lapse)*logistic(below/width)
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// likelihood returns the likelihood of a trial at log distance below the knee. Half of the lapses
// are spread over the measurable range, and half are beyond that range.
func (v *verdict) likelihood(below, width, slope float64) float64 {
	switch {
	case !v.known && v.holds:
		return chance(below, width)
	case !v.known:
		return 1 - chance(below, width)
	case v.by <= v.least:
		return lapse/2 + (1-2*lapse)*logistic((below+v.least*slope)/width)
	case v.by >= far:
		return lapse/2 + (1-2*lapse)*logistic(-(below+far*slope)/width)
	}
	p := logistic((below + v.by*slope) / width)
	return lapse/(far-v.least) + (1-2*lapse)*slope/width*p*(1-p)
}

// newCurve returns a curve with equal probabilities for all knees. The knees range from somewhat
// below from to somewhat above to.
func newCurve(from, to float64) *curve {
	c := &curve{from: from, to: to}
	low, high := math.Log(from/around), math.Log(to*around)
	for i := range c.at {
		c.at[i] = low + (high-low)*(float64(i)+0.5)/knees
	}
	return c
}

// learn adds the results in all that the curve does not contain yet. If the knee seems to be
// outside of the grid, learn returns a wider curve with all results.
func (c *curve) learn(all []verdict) *curve {
	for {
		c.add(all[c.known:])
		low, high := c.interval()
		from, to := c.from, c.to
		switch {
		case to/from > farthest:
			return c
		case low < c.at[3]:
			from /= around
		case high > c.at[knees-4]:
			to *= around
		default:
			return c
		}
		c = newCurve(from, to)
	}
}

// add updates the posterior probabilities with the results of more trials.
func (c *curve) add(more []verdict) {
	c.known += len(more)
	most := math.Inf(-1)
	for i := range c.at {
		for w := range widths {
			for k, slope := range slopesOf {
				for j := range more {
					c.log[i][w][k] += math.Log(more[j].likelihood(c.at[i]-math.Log(more[j].rate), widthsOf[w], slope))
				}
				most = max(most, c.log[i][w][k])
			}
		}
	}
	total := 0.0
	for i := range c.weight {
		for w := range c.weight[i] {
			c.weight[i][w] = 0
			for _, log := range c.log[i][w] {
				c.weight[i][w] += math.Exp(log - most)
			}
			total += c.weight[i][w]
		}
	}
	for i := range c.weight {
		for w := range c.weight[i] {
			c.weight[i][w] /= total
		}
	}
}

// quantile returns the log of a rate. The knee is below this rate with probability q.
func (c *curve) quantile(q float64) float64 {
	step, sum := c.at[1]-c.at[0], 0.0
	for i := range c.weight {
		here := 0.0
		for _, p := range c.weight[i] {
			here += p
		}
		if sum+here >= q && here > 0 {
			return c.at[i] + step*((q-sum)/here-0.5)
		}
		sum += here
	}
	return c.at[knees-1]
}

// interval returns the logarithms of two rates. The knee is between these rates with the
// probability that the constant likely gives.
func (c *curve) interval() (low, high float64) {
	return c.quantile((1 - likely) / 2), c.quantile((1 + likely) / 2)
}

// spread returns the distance between the rates at which nine tenths and one tenth of the trials
// succeed, relative to the knee.
func (c *curve) spread() float64 {
	mean := 0.0
	for i := range c.weight {
		for w, p := range c.weight[i] {
			mean += p * widthsOf[w]
		}
	}
	return 2 * math.Log(9) * mean
}

// next returns the rate whose trial is expected to reduce the knee's variance most.
func (c *curve) next() float64 {
	low, high := c.quantile(0.01), c.quantile(0.99)
	best, least := 0.0, math.Inf(1)
	for k := range probes {
		at := low + (high-low)*float64(k)/(probes-1)
		var n, sum, squares [2]float64 // index 0: the trial succeeds; 1: the trial fails
		for i := range c.weight {
			x := c.at[i] - c.at[0]
			held, all := 0.0, 0.0
			for w, p := range c.weight[i] {
				held += p * chance(c.at[i]-at, widthsOf[w])
				all += p
			}
			for side, p := range [2]float64{held, all - held} {
				n[side], sum[side], squares[side] = n[side]+p, sum[side]+p*x, squares[side]+p*x*x
			}
		}
		left := 0.0
		for side := range n {
			if n[side] > 0 {
				left += squares[side] - sum[side]*sum[side]/n[side]
			}
		}
		if left < least {
			best, least = at, left
		}
	}
	return math.Exp(best)
}
