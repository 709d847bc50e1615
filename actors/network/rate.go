package network

import (
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/primitives"
)

// blockLimits bounds the unrequested blocks of a peer: the rate of these blocks, the bytes of long
// blocks, and the number of blocks of each recent height.
type blockLimits struct {
	blocks *rate.Limiter
	paid   int64 // time in ms before which the actor accepts no further long block
	// heights are the most recent heights, with the accepted blocks of each height.
	heights [16]struct {
		height primitives.Height
		taken  []primitives.Hash
	}
	next int // index in heights of the entry to replace next
}

func newBlockLimits() *blockLimits {
	return &blockLimits{blocks: rate.NewLimiter(blockRate, 2*blockRate)}
}

func (r *blockLimits) allow(now int64, height primitives.Height, hash primitives.Hash, size int) bool {
	return r.admitHeight(height, hash) && r.blocks.AllowN(time.UnixMilli(now), 1) &&
		(size <= longBlock || r.admitLong(now, size))
}

// admitHeight returns whether the actor accepts a block of a height from the peer. It accepts known
// blocks and the first maxOfHeight blocks of a height. An honest peer relays only the blocks that
// it imports and a few further blocks.
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

// admitLong returns whether the actor accepts a long block. It does so if the long blocks before
// this one are within longRate. The size of this block counts only for the blocks after it.
func (r *blockLimits) admitLong(now int64, size int) bool {
	if r.paid > now {
		return false
	}
	r.paid = max(r.paid, now-1000) + int64(size)*1000/longRate
	return true
}
