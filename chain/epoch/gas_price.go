package epoch

import (
	"fmt"
	"math/big"

	"github.com/troupe-chain/troupe/primitives"
)

// GasPriceRules are the rules of the gas price. The genesis determines them.
type GasPriceRules struct {
	Min            primitives.Balance
	Max            primitives.Balance // the genesis's maximum, but at most 20 times Min
	AdjustmentRate Ratio
}

// minGasPriceOfProdGenesis replaces min_gas_price on chains whose genesis has version 29.
const minGasPriceOfProdGenesis = 100_000_000

// NewGasPriceRules applies nearcore's overrides (chain/chain/src/types.rs:189) to the values of a
// genesis.
func NewGasPriceRules(genesis primitives.ProtocolVersion, minPrice, maxPrice primitives.Balance,
	rate Ratio) GasPriceRules {
	if genesis == primitives.ProdGenesisProtocolVersion {
		minPrice = primitives.Yocto(minGasPriceOfProdGenesis)
	}
	if limit, ok := minPrice.Mul64(20); ok && limit.Less(maxPrice) {
		maxPrice = limit
	}
	return GasPriceRules{minPrice, maxPrice, rate}
}

// Next returns a header's next_gas_price. price is the parent's next_gas_price. used and limit are
// the gas used and the gas limit of the block's new chunks. Without new chunks the price does not
// change (nearcore core/primitives/src/block.rs:440). Errors: primitives.ErrOverflow.
func (g GasPriceRules) Next(price primitives.Balance, used, limit primitives.Gas) (primitives.Balance, error) {
	if limit == 0 {
		return price, nil
	}
	num, den := big.NewInt(int64(g.AdjustmentRate.Num)), big.NewInt(int64(g.AdjustmentRate.Den))
	l, u, two := bigUint(uint64(limit)), bigUint(uint64(used)), big.NewInt(2)
	denominator := bigMul(two, den, l)
	numerator := new(big.Int).Add(denominator, bigMul(two, num, u))
	numerator.Sub(numerator, bigMul(num, l))
	if numerator.Sign() < 0 || denominator.Sign() <= 0 {
		return price, fmt.Errorf("gas price: %w", primitives.ErrOverflow)
	}
	next := bigMul(price.Big(), numerator)
	next.Quo(next, denominator)
	if next.Cmp(g.Min.Big()) < 0 {
		return g.Min, nil
	}
	if next.Cmp(g.Max.Big()) > 0 {
		return g.Max, nil
	}
	out, _ := primitives.BalanceFromBig(next) // cannot overflow, because next is at most Max
	return out, nil
}
