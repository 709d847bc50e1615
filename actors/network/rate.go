package network

import (
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/primitives"
)

// blockLimits are those of the blocks that a peer sends unasked: how many, how many bytes of long ones, and how many of each of the last heights.
type blockLimits struct {
	blocks *rate.Limiter
	paid   int64 // ms; when the long ones that have come are paid for
	// heights are those that came last, with the blocks of each that were taken.
	heights [16]struct {
		height primitives.Height
		taken  []primitives.Hash
	}
	next int // of heights
}

func newBlockLimits() *blockLimits {
	return &blockLimits{blocks: rate.NewLimiter(blockRate, 2*blockRate)}
}

func (r *blockLimits) allow(now int64, height primitives.Height, hash primitives.Hash, size int) bool {
	return r.admitHeight(height, hash) && r.blocks.AllowN(time.UnixMilli(now), 1) && (size <= longBlock || r.admitLong(now, size))
}

// admitHeight tells whether a block of a height may come: one that has, which is told again where nothing moves, or one more. A peer hands on what it has adopted, of which there are few, and some that it has not: what a producer has signed besides waits for
// no more than that, whoever brings it, until it is known what to think of who does.
func (r *blockLimits) admitHeight(height primitives.Height, hash primitives.Hash) bool {
	for i := range r.heights {
		x := &r.heights[i]
		switch {
		case len(x.taken) == 0 || x.height != height:
		case slices.Contains(x.taken, hash):
			return true
		case len(x.taken) < maxOfHeight:
			x.taken = append(x.taken, hash)
			return true
		default:
			return false
		}
	}
	r.heights[r.next].height, r.heights[r.next].taken = height, []primitives.Hash{hash}
	r.next = (r.next + 1) % len(r.heights)
	return true
}

// admitLong takes a long one if those before it are paid for, however long it is.
func (r *blockLimits) admitLong(now int64, size int) bool {
	if r.paid > now {
		return false
	}
	r.paid = max(r.paid, now-1000) + int64(size)*1000/longRate
	return true
}
