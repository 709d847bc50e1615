package congestion

import (
	"math"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Limit is what may still be forwarded to one shard in this chunk: gas of receipts and bytes of
// their encodings.
type Limit struct {
	Gas  primitives.Gas
	Size uint64
}

// Unlimited is the gas limit towards the own shard and towards shards without congestion info.
// Sizes are never unlimited: without a grant nothing is sent.
const Unlimited primitives.Gas = math.MaxUint64

// Admission holds the parameters that Forward needs.
type Admission struct {
	MaxGas  primitives.Gas // a receipt asks for at most this: AllowedShardOutgoingGas (ClampOutgoingGasAdmission)
	MaxSize uint64         // and at most this: MaxReceiptSize, since larger receipts exist
}

// NewAdmission takes them from the parameters of a version.
func NewAdmission(c *parameters.RuntimeConfig) Admission {
	a := Admission{MaxGas: Unlimited, MaxSize: c.Wasm.Limits.MaxReceiptSize}
	if c.Version.Has(parameters.ClampOutgoingGasAdmission) {
		a.MaxGas = c.CongestionControl.AllowedShardOutgoingGas
	}
	return a
}

// Forward tells whether a receipt of the given congestion gas and size may leave, and if so takes
// it off the limit (nearcore congestion_control.rs try_forward). All of its gas is taken, as far as
// there is any: a receipt with more gas than any limit leaves once the clamped part fits.
func (l *Limit) Forward(a Admission, gas primitives.Gas, size uint64) bool {
	size = min(size, a.MaxSize)
	if min(gas, a.MaxGas) > l.Gas || size > l.Size {
		return false
	}
	l.Gas -= min(gas, l.Gas)
	l.Size -= size
	return true
}
