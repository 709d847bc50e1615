package workload

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// counter sums the tokens in the state of a shard. The counter keeps its first error.
type counter struct {
	cfg *parameters.RuntimeConfig
	// mine returns whether a receipt is for the counted shard. mine is needed because each child of
	// a split shard has the whole queue of delayed receipts of the parent.
	mine func(*primitives.Receipt) bool
	sum  primitives.Balance
	err  error
}

func (c *counter) add(b primitives.Balance) {
	var ok bool
	if c.sum, ok = c.sum.Add(b); !ok && c.err == nil {
		c.err = primitives.ErrOverflow
	}
}

func (c *counter) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// receipt adds the deposits of a receipt and the tokens that prepay its gas. A refund prepays none,
// because its gas price is zero.
func (c *counter) receipt(r *primitives.Receipt) {
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return
	}
	deposit, err := fees.TotalDeposit(a.Actions)
	if err != nil {
		c.fail(err)
	}
	c.add(deposit)
	if a.Yield { // ReceiptGas returns 0 for a waiting yield, but its gas is prepaid
		plain, receipt := *a, *r
		plain.Yield, receipt.Body, r = false, &plain, &receipt
	}
	gas, err := fees.ReceiptGas(c.cfg, r)
	if err != nil {
		c.fail(err)
	}
	paid, ok := a.GasPrice.MulGas(gas)
	if !ok {
		c.fail(primitives.ErrOverflow)
	}
	c.add(paid)
}

// value adds the tokens in one entry of the state.
func (c *counter) value(key, value []byte) {
	k, err := primitives.ParseTrieKey(key)
	if err != nil {
		c.fail(fmt.Errorf("workload: parse state key %x: %w", key, err))
		return
	}
	r := borsh.NewReader(value)
	switch k.Column {
	case primitives.ColAccount:
		var a primitives.Account
		a.DecodeBorsh(r)
		c.add(a.Amount)
		c.add(a.Locked)
	case primitives.ColAccessKey:
		if k.HasIndex {
			break
		}
		var a primitives.AccessKey
		if a.DecodeBorsh(r); a.GasKey != nil {
			c.add(a.GasKey.Balance)
		}
	case primitives.ColPostponedReceipt, primitives.ColPromiseYieldReceipt:
		if x := primitives.ReadReceipt(r); r.Err() == nil {
			c.receipt(x)
		}
	case primitives.ColDelayedReceipt, primitives.ColBufferedReceipt:
		if len(key) == 1 { // the value is the queue's indices, not a receipt
			break
		}
		var x primitives.StoredReceipt
		x.DecodeBorsh(r)
		if sibling := k.Column == primitives.ColDelayedReceipt && !c.mine(&x.Receipt); r.Err() == nil && !sibling {
			c.receipt(&x.Receipt)
		}
	}
	if r.Err() != nil {
		c.fail(fmt.Errorf("workload: decode the state value of key %x: %w", key, r.Err()))
	}
}

// Lookup returns an imported block, even if the engine has evicted it. Nil: the block is unknown.
type Lookup func(primitives.Hash) *engine.BlockNode

// Held adds up all tokens that exist after a block. These tokens are in accounts, in the receipts
// in the state (delayed, buffered, postponed), in outgoing receipts, and in receipts for shards
// with missing chunks. Held reads the states from the store, so it also tests the flat state and
// the changes above it.
func Held(s *storage.Store, at *engine.BlockNode, find Lookup) (primitives.Balance, error) {
	c := &counter{cfg: at.Config}
	bounds := at.Layout.Boundaries()
	ref := storage.BlockRef{Height: at.Height(), Hash: at.Hash}
	for i := range at.Shards {
		var r storage.AccountRange
		if i > 0 {
			r.Lo = bounds[i-1]
		}
		if i < len(bounds) {
			r.Hi = bounds[i]
		}
		c.mine = func(x *primitives.Receipt) bool { return chain.ReceiptTarget(x, at.Layout) == primitives.ShardIndex(i) }
		err := s.Scan(ref, at.Shards[i].ID, r, nil, nil, func(key, value []byte) bool {
			c.value(key, value)
			return c.err == nil
		})
		if err != nil {
			return c.sum, err
		}
		for _, x := range at.Shards[i].Outgoing {
			c.receipt(x)
		}
		if err := waiting(at, i, find, c.receipt); err != nil {
			return c.sum, err
		}
	}
	return c.sum, c.err
}

// Supply returns the expected result of Held after a block: the header's total supply, minus the
// tokens that the block's chunks burnt. Only the next header subtracts the burnt tokens. Minted
// tokens are in the supply of the block that pays them.
func Supply(at *engine.BlockNode) (primitives.Balance, error) {
	sum := at.Header().TotalSupply
	for i := range at.Shards {
		var ok bool
		if sum, ok = sum.Sub(at.Shards[i].Extra.BalanceBurnt); !ok {
			return sum, fmt.Errorf("workload: shard %d burnt more tokens than the total supply", at.Shards[i].ID)
		}
	}
	return sum, nil
}
