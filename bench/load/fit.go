package load

import "math"

// verdict is what came of one trial: of this rate it was kept up with, or not.
type verdict struct {
	rate  float64
	holds bool
	shortfall
}

// shortfall is what a trial tells beside its verdict: by how much its rate was too high, where that
// could be measured. What is offered beyond what the target does waits, and each second longer, so
// that behind T seconds of (1 + e) times as much the latency is e x T, and the rate that the same
// trial would just have held can be told from how long its last things have waited.
type shortfall struct {
	known bool
	by    float64 // the logarithm of that part of the rate; negative: it was too low
	least float64 // below that by tells nothing: the latency is the target's own, and no waiting
}

// measured tells of a phase by how much its rate was too high.
func (s *Search) measured(p *Phase) (x shortfall) {
	all, bound := p.Warm+p.Seconds, s.P99.Seconds()
	if p.Seconds <= 0 || p.Rate <= 0 || p.Failed > 0 && !p.Behind {
		return x
	}
	at := math.Log1p(bound / all)
	x = shortfall{true, math.Log1p(p.Latency.P99/all) - at, math.Log1p(bound/2/all) - at}
	if p.Behind { // it ended early: how long what was begun last has waited, and when
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

// A trial's verdict is chance near the knee: a pause of the target falls into it or does not. So
// the part of the trials that hold falls from all to none over some rates, and the knee is where it
// is one half. The fit is that of a logistic curve, by Bayes' rule on a grid of knees and widths.
//
// Where a trial's shortfall is known and small, the rate that it would just have held is a draw
// from the same curve, and tells where the knee is without its having been made there. How much a
// rate really is too high that seems to be so much is a third dimension of the grid: latency of
// pauses is not as that of too high a rate. Beyond far, and below what is waiting, a shortfall
// tells its side alone.
const (
	far    = 0.1
	slopes = 5
	// lapse is the part of the trials whose verdict is not the target's at all, but that of what
	// passes by on the machine.
	lapse = 0.02
	// Widths of the curve, as parts of the knee: between the rates that 73 % and 27 % of the trials
	// hold there are two of them.
	narrowest, widest, widths = 0.01, 0.16, 8
	// knees is how many the grid has, from below what held to above what failed, by this factor.
	knees, around = 256, 1.5
	// farthest bounds what the grid spans.
	farthest = 64
	// probes is how many rates are weighed for the next trial.
	probes = 15
	// likely is the part of what is believed that an interval holds.
	likely = 0.95
)

// curve is what is believed of the knee.
type curve struct {
	from, to float64                        // rates
	at       [knees]float64                 // logarithms of rates
	log      [knees][widths][slopes]float64 // of the probability of all verdicts
	weight   [knees][widths]float64         // sums to one, of all slopes together
	known    int                            // verdicts
}

// widthsOf are the widths.
var widthsOf = func() (out [widths]float64) {
	for i := range out {
		out[i] = narrowest * math.Pow(widest/narrowest, float64(i)/(widths-1))
	}
	return out
}()

// slopesOf are by how much a rate is too high, as a part of what is measured.
var slopesOf = [slopes]float64{0, 0.5, 1, 2, 4}

// chance is that of a trial to hold at a distance below a knee, both as logarithms.
func chance(below, width float64) float64 {
	return lapse + (1-2*lapse)*logistic(below/width)
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// likelihood is that of a trial at a distance below a knee. Lapses are half of them anywhere within
// what can be measured, the other half beyond.
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

// newCurve believes all knees between two rates alike likely, and some beyond them.
func newCurve(from, to float64) *curve {
	c := &curve{from: from, to: to}
	low, high := math.Log(from/around), math.Log(to*around)
	for i := range c.at {
		c.at[i] = low + (high-low)*(float64(i)+0.5)/knees
	}
	return c
}

// learn adds verdicts. Where they say that the knee is not on the grid they are told to a wider
// one, which is returned; all are those until now.
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

// add sets the weights by more verdicts.
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

// quantile is the logarithm of the rate below which the knee lies with a probability.
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

// interval holds the knee with the probability likely, as logarithms.
func (c *curve) interval() (low, high float64) {
	return c.quantile((1 - likely) / 2), c.quantile((1 + likely) / 2)
}

// spread is how far apart the rates lie that nine tenths and one tenth of the trials hold, as a
// part of the knee.
func (c *curve) spread() float64 {
	mean := 0.0
	for i := range c.weight {
		for w, p := range c.weight[i] {
			mean += p * widthsOf[w]
		}
	}
	return 2 * math.Log(9) * mean
}

// next is the rate whose trial is expected to leave the least variance of the knee.
func (c *curve) next() float64 {
	low, high := c.quantile(0.01), c.quantile(0.99)
	best, least := 0.0, math.Inf(1)
	for k := range probes {
		at := low + (high-low)*float64(k)/(probes-1)
		var n, sum, squares [2]float64 // of those that hold, and that do not
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
