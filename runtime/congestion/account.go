package congestion

import (
	"fmt"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrOverflow means that a count of queued receipts would exceed its type or fall below zero
// (nearcore UnexpectedIntegerOverflow). The chunk cannot be applied.
var ErrOverflow = fmt.Errorf("congestion info: %w", primitives.ErrOverflow)

// Account updates the congestion info of the own shard. A method that fails leaves Info unchanged.
type Account struct{ Info *primitives.CongestionInfo }

// AddBytes adds the bytes of a receipt that enters a queue.
func (a Account) AddBytes(n uint64) error {
	sum, carry := bits.Add64(a.Info.ReceiptBytes, n, 0)
	if carry != 0 {
		return fmt.Errorf("%w: adding %d receipt bytes", ErrOverflow, n)
	}
	a.Info.ReceiptBytes = sum
	return nil
}

// RemoveBytes subtracts the bytes of a receipt that leaves a queue.
func (a Account) RemoveBytes(n uint64) error {
	if n > a.Info.ReceiptBytes {
		return fmt.Errorf("%w: removing %d of %d receipt bytes", ErrOverflow, n, a.Info.ReceiptBytes)
	}
	a.Info.ReceiptBytes -= n
	return nil
}

// AddDelayedGas adds the gas of receipts that enter the delayed queue.
func (a Account) AddDelayedGas(g primitives.Gas) error {
	return add(&a.Info.DelayedReceiptsGas, g, "delayed")
}

// RemoveDelayedGas subtracts the gas of receipts that leave the delayed queue.
func (a Account) RemoveDelayedGas(g primitives.Gas) error {
	return remove(&a.Info.DelayedReceiptsGas, g, "delayed")
}

// AddBufferedGas adds the gas of a receipt that enters a buffer.
func (a Account) AddBufferedGas(g primitives.Gas) error {
	return add(&a.Info.BufferedReceiptsGas, g, "buffered")
}

// RemoveBufferedGas subtracts the gas of a receipt that is forwarded from its buffer.
func (a Account) RemoveBufferedGas(g primitives.Gas) error {
	return remove(&a.Info.BufferedReceiptsGas, g, "buffered")
}

func add(sum *primitives.Balance, g primitives.Gas, what string) error {
	v, ok := sum.Add(primitives.Yocto(uint64(g)))
	if !ok {
		return fmt.Errorf("%w: adding %d %s gas", ErrOverflow, g, what)
	}
	*sum = v
	return nil
}

func remove(sum *primitives.Balance, g primitives.Gas, what string) error {
	v, ok := sum.Sub(primitives.Yocto(uint64(g)))
	if !ok {
		return fmt.Errorf("%w: removing %d of %v %s gas", ErrOverflow, g, *sum, what)
	}
	*sum = v
	return nil
}
