package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrival is the distribution of the intervals between the due times of operations.
type Arrival string

// Fixed has equal intervals. Poisson has random intervals, as many independent clients have.
const (
	Fixed   Arrival = "fixed"
	Poisson Arrival = "poisson"
)

// maxArrivals is the maximum number of operations in a run. Each takes eight bytes of memory.
const maxArrivals = 8 << 20

// arrivals returns the due times of operations before end, counted from the start of a run. rate is
// in operations per second.
func arrivals(kind Arrival, rate float64, end time.Duration, seed uint64) ([]time.Duration, error) {
	switch {
	case kind != Fixed && kind != Poisson:
		return nil, fmt.Errorf("load: the arrival process is %q, must be %s or %s", kind, Poisson, Fixed)
	case !(rate > 0) || math.IsInf(rate, 0) || end <= 0:
		return nil, fmt.Errorf("load: the rate is %v and the duration %v, both must be more than 0", rate, end)
	case rate*end.Seconds() > maxArrivals:
		return nil, fmt.Errorf("load: %v transactions a second for %v exceed the limit of %d transactions", rate, end, maxArrivals)
	}
	gap := float64(time.Second) / rate
	out := make([]time.Duration, 0, int(rate*end.Seconds()*1.1)+16)
	rng := rand.New(rand.NewPCG(seed, math.Float64bits(rate)))
	for at, i := 0.0, 0; len(out) < maxArrivals; i++ {
		if kind == Poisson {
			at += rng.ExpFloat64() * gap
		} else {
			at = float64(i) * gap
		}
		if at >= float64(end) {
			break
		}
		out = append(out, time.Duration(at))
	}
	return out, nil
}
