package congestion

import (
	"math"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Control computes the congestion of one shard according to its chunk header in a block (nearcore
// CongestionControl with ExtendedCongestionInfo).
type Control struct {
	Config *parameters.CongestionControl
	Info   primitives.CongestionInfo // congestion info in the shard's chunk header in the block
	Missed uint64                    // chunks missed since that chunk: block height - height_included
}

// Level returns the shard's congestion, the maximum of the four levels. Exactly 1 means fully
// congested.
func (c *Control) Level() float64 {
	return max(c.IncomingLevel(), c.OutgoingLevel(), c.MemoryLevel(), c.MissedLevel())
}

// IncomingLevel returns the gas of delayed receipts divided by MaxCongestionIncomingGas, at most 1.
func (c *Control) IncomingLevel() float64 {
	return fraction(c.Info.DelayedReceiptsGas, uint64(c.Config.MaxCongestionIncomingGas))
}

// OutgoingLevel returns the gas of buffered receipts divided by MaxCongestionOutgoingGas, at most
// 1.
func (c *Control) OutgoingLevel() float64 {
	return fraction(c.Info.BufferedReceiptsGas, uint64(c.Config.MaxCongestionOutgoingGas))
}

// MemoryLevel returns the bytes of queued receipts divided by MaxCongestionMemoryConsumption, at
// most 1.
func (c *Control) MemoryLevel() float64 {
	return fraction(primitives.Yocto(c.Info.ReceiptBytes), c.Config.MaxCongestionMemoryConsumption)
}

// MissedLevel returns the number of missed chunks divided by MaxCongestionMissedChunks. If only one
// chunk was missed, MissedLevel returns 0.
func (c *Control) MissedLevel() float64 {
	if c.Missed <= 1 {
		return 0
	}
	return fraction(primitives.Yocto(c.Missed), c.Config.MaxCongestionMissedChunks)
}

// FullyCongested returns whether only the allowed shard may send to this shard.
func (c *Control) FullyCongested() bool { return c.Level() == 1 } // fraction returns exactly 1 at and above the maximum

// OutgoingGasLimit returns the maximum gas of receipts that sender may send to this shard in one
// chunk. A shard has no limit towards itself; the caller must handle that case.
func (c *Control) OutgoingGasLimit(sender primitives.ShardID) primitives.Gas {
	level := c.Level()
	if level == 1 {
		if sender == primitives.ShardID(c.Info.AllowedShard) {
			return c.Config.AllowedShardOutgoingGas
		}
		return 0
	}
	return mixGas(c.Config.MaxOutgoingGas, c.Config.MinOutgoingGas, level)
}

// ProcessTxLimit returns the gas that this shard may spend on converting transactions in one chunk.
func (c *Control) ProcessTxLimit() primitives.Gas {
	return mixGas(c.Config.MaxTxGas, c.Config.MinTxGas, c.IncomingLevel())
}

// Refusal is the reason why a shard accepts no transactions. The zero value means that the shard
// accepts transactions.
type Refusal struct {
	Refused bool
	// Stuck means that the shard has missed Missed chunks (ShardStuck). If Stuck is false, the
	// shard's congestion level is Level (ShardCongested).
	Stuck  bool
	Missed uint64
	Level  float64
}

// RefusesTransactions returns whether the shard rejects transactions to its accounts, and why.
func (c *Control) RefusesTransactions() Refusal {
	level, missed := c.Level(), c.MissedLevel()
	t := c.Config.RejectTxCongestionThreshold
	if level < float64(t.Num)/float64(t.Den) {
		return Refusal{}
	}
	if missed >= level {
		return Refusal{Refused: true, Stuck: true, Missed: c.Missed}
	}
	return Refusal{Refused: true, Level: level}
}

// AllowedShard returns the shard that may send to the shard with index own while that shard is
// fully congested. The shards take turns in layout order, by height. Every chunk sets an allowed
// shard, even if the chunk's shard is not congested (congestion_info.rs finalize_allowed_shard).
func AllowedShard(height primitives.Height, own primitives.ShardIndex, shards []primitives.ShardID) primitives.ShardID {
	turn := uint64(height) + uint64(own) // wraps around, as in nearcore
	return shards[turn%uint64(len(shards))]
}

// fraction returns value/limit, and exactly 1 if value is limit or more. limit must not be 0.
func fraction(value primitives.Balance, limit uint64) float64 {
	if value.Hi != 0 || value.Lo >= limit {
		return 1
	}
	return float64(value.Lo) / float64(limit)
}

func mixGas(left, right primitives.Gas, ratio float64) primitives.Gas {
	return primitives.Gas(mix(uint64(left), uint64(right), ratio))
}

// mix interpolates from left to right as ratio goes from 0 to 1, and rounds half away from zero.
// Near 10^17 the result is off by up to 16, as in nearcore.
func mix(left, right uint64, ratio float64) uint64 {
	leftPart := float64(float64(left) * (1 - ratio))
	rightPart := float64(float64(right) * ratio)
	total := math.Round(leftPart + rightPart)
	if total >= 1<<64 {
		return math.MaxUint64 // Rust's `as u64` saturates; Go's conversion would be undefined
	}
	return uint64(total)
}
