package network

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/primitives"
)

// blockRates are those of the blocks that a peer sends unasked: how many, how many bytes of long ones, and how many of each of the last heights.
type blockRates struct {
	blocks *rate.Limiter
	paid   int64 // ms; when the long ones that have come are paid for
	// heights are those that came last, with how many of each.
	heights [16]struct {
		height primitives.Height
		n      int
	}
	next int // of heights
}

func newBlockRates() *blockRates {
	return &blockRates{blocks: rate.NewLimiter(blockRate, 2*blockRate)}
}

func (r *blockRates) allow(now int64, height primitives.Height, size int) bool {
	return r.another(height) && r.blocks.AllowN(time.UnixMilli(now), 1) && (size <= longBlock || r.spend(now, size))
}

// another tells whether one more of a height may come. A peer hands on what it has adopted, of which there are few, and some that it has not: what a producer has signed besides waits for
// no more than that, whoever brings it, until it is known what to think of who does.
func (r *blockRates) another(height primitives.Height) bool {
	for i := range r.heights {
		if x := &r.heights[i]; x.n > 0 && x.height == height {
			x.n++
			return x.n <= maxOfHeight
		}
	}
	r.heights[r.next].height, r.heights[r.next].n = height, 1
	r.next = (r.next + 1) % len(r.heights)
	return true
}

// spend takes a long one if those before it are paid for, however long it is.
func (r *blockRates) spend(now int64, size int) bool {
	if r.paid > now {
		return false
	}
	r.paid = max(r.paid, now-1000) + int64(size)*1000/longRate
	return true
}
