package load

import "math"

// verdict is what came of one trial: of this rate it was kept up with, or not.
type verdict struct {
	rate  float64
	holds bool
}

// A trial's verdict is chance near the knee: a pause of the target falls into it or does not. So the part of the trials that hold falls from all to none
// over some rates, and the knee is where it is one half. The fit is that of a logistic curve, by Bayes' rule on a grid of knees and widths.
const (
	// lapse is the part of the trials whose verdict is not the target's at all, but that of what passes by on the machine.
	lapse = 0.02
	// Widths of the curve, as parts of the knee: between the rates that 73 % and 27 % of the trials hold there are two of them.
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
	from, to float64                // rates
	at       [knees]float64         // logarithms of rates
	log      [knees][widths]float64 // of the probability of all verdicts
	weight   [knees][widths]float64 // sums to one
	known    int                    // verdicts
}

// widthsOf are the widths.
var widthsOf = func() (out [widths]float64) {
	for i := range out {
		out[i] = narrowest * math.Pow(widest/narrowest, float64(i)/(widths-1))
	}
	return out
}()

// chance is that of a trial to hold at a distance below a knee, both as logarithms.
func chance(below, width float64) float64 {
	return lapse + (1-2*lapse)/(1+math.Exp(-below/width))
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

// learn adds verdicts. Where they say that the knee is not on the grid they are told to a wider one, which is returned; all are those until now.
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
			for _, v := range more {
				p := chance(c.at[i]-math.Log(v.rate), widthsOf[w])
				if !v.holds {
					p = 1 - p
				}
				c.log[i][w] += math.Log(p)
			}
			most = max(most, c.log[i][w])
		}
	}
	total := 0.0
	for i := range c.weight {
		for w := range c.weight[i] {
			c.weight[i][w] = math.Exp(c.log[i][w] - most)
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

// spread is how far apart the rates lie that nine tenths and one tenth of the trials hold, as a part of the knee.
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
