package bandwidth

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// NumValues is the number of sizes that a request can choose from.
const NumValues = 40

// ErrParams means that no schedule exists for the parameters. Either there are no shards, or
// MaxSingleGrant is below MaxReceiptSize or above MaxShard.
var ErrParams = errors.New("bandwidth: invalid parameters")

// Params are the parameters of a schedule, in bytes (nearcore BandwidthSchedulerParams).
type Params struct {
	Base           uint64 // bytes granted on every open link
	MaxShard       uint64 // maximum that a shard sends in total, and receives in total
	MaxSingleGrant uint64 // maximum that can be requested on one link
	MaxReceiptSize uint64
	MaxAllowance   uint64
}

// NewParams returns the parameters for a number of shards. NewParams chooses Base so that one link
// of a shard can have the largest grant while all other links of the shard have Base.
func NewParams(c *parameters.RuntimeConfig, numShards int) (Params, error) {
	s := &c.BandwidthScheduler
	p := Params{
		MaxShard: s.MaxShardBandwidth, MaxSingleGrant: s.MaxSingleGrant,
		MaxReceiptSize: c.Wasm.Limits.MaxReceiptSize, MaxAllowance: s.MaxAllowance,
	}
	if numShards < 1 || p.MaxSingleGrant < p.MaxReceiptSize || p.MaxSingleGrant > p.MaxShard {
		return Params{}, fmt.Errorf("%w: %d shards, %+v", ErrParams, numShards, p)
	}
	p.Base = min((p.MaxShard-p.MaxSingleGrant)/uint64(max(1, numShards-1)), s.MaxBaseBandwidth, p.MaxSingleGrant)
	return p, nil
}

// Values returns the sizes that the bits of a request stand for, rising to MaxSingleGrant.
func (p *Params) Values() (values [NumValues]uint64) {
	for i := range values {
		values[i] = p.Base + (p.MaxSingleGrant-p.Base)*uint64(i+1)/NumValues
	}
	return values
}

// Request builds the request for the receipts that wait for shard to. sizes are the sizes of the
// receipts, or of their groups, in queue order. ok is false if the base grant suffices. A size
// above MaxReceiptSize counts as MaxReceiptSize.
//
// The request is a bitmap over Values (core/primitives/src/bandwidth_scheduler.rs:84). For each
// position in the queue, consider the receipts up to this position. If the base grant does not
// cover them, the bit of the smallest value that covers them is set.
func (p *Params) Request(to primitives.ShardID, sizes []uint64) (request primitives.BandwidthRequest, ok bool) {
	request.ToShard = uint16(to) // ids in requests are u16; no shard has a larger id
	values := p.Values()
	next := 0
	var total uint64 // cannot overflow: the loop ends once total reaches the largest value
	for _, size := range sizes {
		total += min(size, p.MaxReceiptSize)
		if total <= p.Base {
			continue
		}
		for next < NumValues && values[next] < total {
			next++
		}
		if next == NumValues {
			break
		}
		request.Bitmap[next/8] |= 1 << (next % 8)
		ok = true
	}
	if !ok {
		return primitives.BandwidthRequest{}, false
	}
	return request, true
}
