package system

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds of a histogram's buckets, from 4 µs to 17 s. Each is four times the
// previous one. One more bucket counts durations above the last bound.
var Bounds = func() (out [buckets]time.Duration) {
	for i := range out {
		out[i] = 1 << (firstBoundLog2 + 2*i)
	}
	return out
}()

const (
	buckets        = 12
	firstBoundLog2 = 12 // binary logarithm of the first bound in ns
)

// histogram counts durations. Safe for concurrent use.
type histogram struct {
	counts [buckets + 1]atomic.Uint64
	sum    atomic.Int64
}

// add counts a duration in ns. A duration equal to a bound belongs to that bound's bucket.
func (h *histogram) add(ns int64) {
	ns = max(ns, 0)
	i := 0
	if ns > 0 {
		i = max(bits.Len64(uint64(ns-1))-firstBoundLog2+1, 0) / 2
	}
	h.counts[min(i, buckets)].Add(1)
	h.sum.Add(ns)
}

// Histogram is a snapshot of a histogram.
type Histogram struct {
	Counts [buckets + 1]uint64 // number of durations in each bucket; the last bucket has no upper bound
	Sum    time.Duration
}

// Count returns the number of durations.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Within returns the smallest bound that at least the given share of the durations does not exceed.
// For an empty histogram, Within returns 0. If no bound has that share, Within returns four times
// the last bound.
func (h *Histogram) Within(share float64) time.Duration {
	all, sum := h.Count(), uint64(0)
	if all == 0 {
		return 0
	}
	for i, bound := range Bounds {
		if sum += h.Counts[i]; float64(sum) >= share*float64(all) {
			return bound
		}
	}
	return 4 * Bounds[buckets-1]
}

func (h *histogram) sample() (out Histogram) {
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	out.Sum = time.Duration(h.sum.Load())
	return out
}
