package network

import (
	"time"

	"golang.org/x/time/rate"
)

// blockRates are those of the blocks that a peer sends unasked: how many, and how many bytes of long ones.
type blockRates struct {
	blocks *rate.Limiter
	paid   int64 // ms; when the long ones that have come are paid for
}

func newBlockRates() *blockRates {
	return &blockRates{blocks: rate.NewLimiter(blockRate, 2*blockRate)}
}

func (r *blockRates) allow(now int64, size int) bool {
	return r.blocks.AllowN(time.UnixMilli(now), 1) && (size <= longBlock || r.spend(now, size))
}

// spend takes a long one if those before it are paid for, however long it is.
func (r *blockRates) spend(now int64, size int) bool {
	if r.paid > now {
		return false
	}
	r.paid = max(r.paid, now-1000) + int64(size)*1000/longRate
	return true
}
