package parameters

import (
	"fmt"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// Compute counts work against a chunk's limit in the unit of gas. It is the gas of the work but for
// operations that take longer than their price says (NEP-455); it is never charged, stored or
// hashed.
type Compute uint64

// Cost is what an operation takes: gas, which is paid, and compute, which fills the chunk (nearcore
// ParameterCost).
type Cost struct {
	Gas     primitives.Gas
	Compute Compute
}

// ErrOverflow says that a sum or product of costs does not fit u64: nearcore's
// IntegerOverflowError.
var ErrOverflow = fmt.Errorf("cost: %w", primitives.ErrOverflow)

// GasCost is a cost whose compute is its gas.
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

// Fee is what an action costs: to send it to oneself (sender is receiver) or to another, burnt
// where it is made, and to execute it, burnt where it runs.
type Fee struct {
	SendSIR    Cost
	SendNotSIR Cost
	Exec       Cost
}

// Send returns the sending part.
func (f *Fee) Send(senderIsReceiver bool) Cost {
	if senderIsReceiver {
		return f.SendSIR
	}
	return f.SendNotSIR
}

// MinSendAndExecGas is the least gas that sending and executing takes: the smaller sending part and
// the executing one.
func (f *Fee) MinSendAndExecGas() primitives.Gas {
	return min(f.SendSIR.Gas, f.SendNotSIR.Gas) + f.Exec.Gas // table values, far below 2^64
}

// Ratio is Num/Den of small integers; Den is not 0.
type Ratio struct{ Num, Den uint32 }
