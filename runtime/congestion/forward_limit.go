package congestion

import (
	"math"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Limit is the gas and the encoded bytes of receipts that may still be forwarded to one shard in
// this chunk.
type Limit struct {
	Gas  primitives.Gas
	Size uint64
}

// Unlimited is the gas limit towards the own shard and towards shards without congestion info. The
// size limit is never unlimited: without a bandwidth grant nothing is sent.
const Unlimited primitives.Gas = math.MaxUint64

// Admission has the clamps that Forward applies to a receipt.
type Admission struct {
	// MaxGas clamps the gas of a receipt before the gas is compared with the limit. MaxGas is
	// AllowedShardOutgoingGas from feature ClampOutgoingGasAdmission on, and Unlimited before.
	MaxGas primitives.Gas
	// MaxSize clamps the size of a receipt before the size is compared with the limit. MaxSize is
	// the parameter MaxReceiptSize. Receipts above that size exist, and no grant would cover them.
	MaxSize uint64
}

// NewAdmission returns the admission parameters of a version.
func NewAdmission(c *parameters.RuntimeConfig) Admission {
	a := Admission{MaxGas: Unlimited, MaxSize: c.Wasm.Limits.MaxReceiptSize}
	if c.Version.Has(parameters.ClampOutgoingGasAdmission) {
		a.MaxGas = c.CongestionControl.AllowedShardOutgoingGas
	}
	return a
}

// Forward returns whether a receipt with this congestion gas and size may leave. If so, Forward
// subtracts gas and size from the limit (nearcore congestion_control.rs try_forward). Forward
// compares the clamped gas with the limit, but subtracts all of the gas, down to 0.
func (l *Limit) Forward(a Admission, gas primitives.Gas, size uint64) bool {
	size = min(size, a.MaxSize)
	if min(gas, a.MaxGas) > l.Gas || size > l.Size {
		return false
	}
	l.Gas -= min(gas, l.Gas)
	l.Size -= size
	return true
}
