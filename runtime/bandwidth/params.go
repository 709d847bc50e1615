package bandwidth

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// NumValues is how many sizes a request can choose from.
const NumValues = 40

// ErrParams says that no schedule exists for the parameters: no shards, or a single grant that is
// below the largest receipt or above what a shard may send.
var ErrParams = errors.New("bandwidth: impossible parameters")

// Params are the bytes a schedule goes by (nearcore BandwidthSchedulerParams).
type Params struct {
	Base           uint64 // granted on every link
	MaxShard       uint64 // what a shard sends in all, and what it receives
	MaxSingleGrant uint64 // the most that can be asked for on one link
	MaxReceiptSize uint64
	MaxAllowance   uint64
}

// NewParams returns those for a number of shards: the base is what each other link can have while
// one takes the largest grant.
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

// Values are the sizes that the bits of a request stand for, rising to MaxSingleGrant.
func (p *Params) Values() (values [NumValues]uint64) {
	for i := range values {
		values[i] = p.Base + (p.MaxSingleGrant-p.Base)*uint64(i+1)/NumValues
	}
	return values
}

// Request asks for what lets the receipts go that wait for shard to, by their sizes or those of
// their groups in queue order; ok is false if the base suffices. A size above MaxReceiptSize counts
// as that. One bit is set for each place in the queue at which a greater value is needed
// (core/primitives/src/bandwidth_scheduler.rs:84).
func (p *Params) Request(to primitives.ShardID, sizes []uint64) (request primitives.BandwidthRequest, ok bool) {
	request.ToShard = uint16(to) // ids of requests are u16; larger ones do not exist
	values := p.Values()
	next := 0
	var total uint64 // leaves the loop at the greatest value, long before it could overflow
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
