package chain

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// nextEconomics returns next_gas_price and total_supply of a block of the given height.
// nextEconomics computes both from the parent's values and from the gas and burnt balances of the
// new chunks (nearcore core/primitives/src/block.rs:440).
func nextEconomics(f *BlockFacts, parent *primitives.BlockHeader, chunks []*primitives.ChunkHeader,
	height primitives.Height) (price, supply primitives.Balance, err error) {
	var used, limit primitives.Gas
	var burnt []primitives.Balance
	for _, c := range chunks {
		if c.HeightIncluded != height {
			continue
		}
		if used+c.PrevGasUsed < used || limit+c.GasLimit < limit {
			return price, supply, invalidf(ArithmeticOverflow, "the sum of the chunks' gas overflows")
		}
		used, limit = used+c.PrevGasUsed, limit+c.GasLimit
		burnt = append(burnt, c.PrevBalanceBurnt)
	}
	if price, err = f.Pricing.Next(parent.NextGasPrice, used, limit); err != nil {
		return price, supply, invalidf(ArithmeticOverflow, "%w", err)
	}
	if supply, err = epoch.TotalSupply(parent.TotalSupply, f.Minted, burnt); err != nil {
		return price, supply, invalidf(ArithmeticOverflow, "%w", err)
	}
	return price, supply, nil
}
