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

// Unlimited is the gas limit towards the own shard and towards shards without congestion info.
// Sizes are never unlimited: without a grant nothing is sent.
const Unlimited primitives.Gas = math.MaxUint64

// Admission has the parameters of Forward.
type Admission struct {
	// MaxGas clamps the gas of a receipt before the gas is compared with the limit. It is
	// AllowedShardOutgoingGas from feature ClampOutgoingGasAdmission on, and Unlimited before.
	MaxGas primitives.Gas
	// MaxSize clamps the size of a receipt before the size is compared with the limit. It is
	// MaxReceiptSize, since larger receipts exist.
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

// Forward returns whether a receipt with this congestion gas and size may leave. If so, it
// subtracts them from the limit (nearcore congestion_control.rs try_forward). All of the gas is
// subtracted, down to 0: a receipt with more gas than any limit leaves once its clamped gas fits.
func (l *Limit) Forward(a Admission, gas primitives.Gas, size uint64) bool {
	size = min(size, a.MaxSize)
	if min(gas, a.MaxGas) > l.Gas || size > l.Size {
		return false
	}
	l.Gas -= min(gas, l.Gas)
	l.Size -= size
	return true
}
