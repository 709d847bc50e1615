package parameters

import (
	"fmt"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// Compute measures work against the compute limit of a chunk, in units of gas. Compute equals the
// gas of the work, except for operations that take longer than their gas suggests (NEP-455).
// Compute is never charged, stored or hashed.
type Compute uint64

// Cost is the cost of an operation: gas, which is paid, and compute, which counts against the
// chunk's limit (nearcore ParameterCost).
type Cost struct {
	Gas     primitives.Gas
	Compute Compute
}

// ErrOverflow means that a sum or product of costs does not fit u64 (nearcore
// IntegerOverflowError).
var ErrOverflow = fmt.Errorf("cost: %w", primitives.ErrOverflow)

// GasCost returns a cost with equal gas and compute.
func GasCost(g primitives.Gas) Cost { return Cost{Gas: g, Compute: Compute(g)} }

// Add returns c+o, or ErrOverflow if either part does not fit.
func (c Cost) Add(o Cost) (Cost, error) {
	gas, c1 := bits.Add64(uint64(c.Gas), uint64(o.Gas), 0)
	compute, c2 := bits.Add64(uint64(c.Compute), uint64(o.Compute), 0)
	if c1|c2 != 0 {
		return Cost{}, ErrOverflow
	}
	return Cost{primitives.Gas(gas), Compute(compute)}, nil
}

// Mul returns c·n, or ErrOverflow if either part does not fit.
func (c Cost) Mul(n uint64) (Cost, error) {
	h1, gas := bits.Mul64(uint64(c.Gas), n)
	h2, compute := bits.Mul64(uint64(c.Compute), n)
	if h1|h2 != 0 {
		return Cost{}, ErrOverflow
	}
	return Cost{primitives.Gas(gas), Compute(compute)}, nil
}

// Fee is the cost of an action. A send cost is burnt when the action is sent: SendSIR if the sender
// is the receiver, SendNotSIR otherwise. Exec is burnt when the action is executed.
type Fee struct {
	SendSIR    Cost
	SendNotSIR Cost
	Exec       Cost
}

// Send returns the send cost.
func (f *Fee) Send(senderIsReceiver bool) Cost {
	if senderIsReceiver {
		return f.SendSIR
	}
	return f.SendNotSIR
}

// MinSendAndExecGas returns the least gas that sending and executing takes: the smaller send cost
// plus the execution cost.
func (f *Fee) MinSendAndExecGas() primitives.Gas {
	return min(f.SendSIR.Gas, f.SendNotSIR.Gas) + f.Exec.Gas // cannot overflow: table values are far below 2^64
}

// Ratio is the fraction Num/Den; Den is not 0.
type Ratio struct{ Num, Den uint32 }
