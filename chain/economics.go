package chain

import (
	"github.com/holiman/uint256"
	"github.com/troupe-chain/troupe/primitives"
)

// Rational is a fraction of a genesis or epoch config.
type Rational struct{ Num, Den uint64 }

// GasPricing are the bounds and the speed of the gas price.
type GasPricing struct {
	Min, Max   primitives.Balance
	Adjustment Rational
}

// NewGasPricing applies the limit that nearcore puts on every chain: the maximum is min(max, 20·min) (chain/chain/src/types.rs:189).
func NewGasPricing(minPrice, maxPrice primitives.Balance, adjustment Rational) GasPricing {
	if limit, ok := minPrice.Mul64(20); ok && limit.Less(maxPrice) {
		maxPrice = limit
	}
	return GasPricing{Min: minPrice, Max: maxPrice, Adjustment: adjustment}
}

func u256(b primitives.Balance) *uint256.Int { return &uint256.Int{b.Lo, b.Hi, 0, 0} }

// Next returns the next block's gas price from the parent's price and the new chunks' gas (nearcore block.rs:440):
// p·(2·den·limit + 2·num·used − num·limit) / (2·den·limit), clamped. ok is false on overflow.
func (g GasPricing) Next(price primitives.Balance, used, limit primitives.Gas) (next primitives.Balance, ok bool) {
	if limit == 0 {
		return price, true
	}
	den, num := g.Adjustment.Den, g.Adjustment.Num
	mul := func(a, b uint64) (primitives.Balance, bool) {
		v, o1 := primitives.Yocto(2).Mul64(a)
		v, o2 := v.Mul64(b)
		return v, o1 && o2
	}
	denominator, o1 := mul(den, uint64(limit))
	plus, o2 := mul(num, uint64(used))
	minus, o3 := primitives.Yocto(num).Mul64(uint64(limit))
	numerator, o4 := denominator.Add(plus)
	numerator, o5 := numerator.Sub(minus)
	if !(o1 && o2 && o3 && o4 && o5) || denominator.IsZero() {
		return price, false
	}
	v := new(uint256.Int)
	v.Mul(u256(price), u256(numerator)) // two u128 factors: it fits
	v.Div(v, u256(denominator))
	switch lo, hi := u256(g.Min), u256(g.Max); {
	case v.Lt(lo):
		return g.Min, true
	case v.Gt(hi):
		return g.Max, true
	}
	return primitives.Balance{Hi: v[1], Lo: v[0]}, true
}

// ChunkGas sums gas used and gas limit over the new chunks of a block; ok is false on overflow.
func ChunkGas(chunks []*primitives.ChunkHeader, height primitives.Height) (used, limit primitives.Gas, ok bool) {
	for _, c := range chunks {
		if c.HeightIncluded != height {
			continue
		}
		if used+c.PrevGasUsed < used || limit+c.GasLimit < limit {
			return 0, 0, false
		}
		used, limit = used+c.PrevGasUsed, limit+c.GasLimit
	}
	return used, limit, true
}

// TotalSupply is the header's total_supply: the parent's, plus what the epoch that begins here mints, minus what the
// chunks before burnt (nearcore block.rs:111). ok is false on overflow.
func TotalSupply(prev, minted primitives.Balance, chunks []*primitives.ChunkHeader, height primitives.Height) (primitives.Balance, bool) {
	burnt := primitives.Balance{}
	for _, c := range chunks {
		if c.HeightIncluded != height {
			continue
		}
		var ok bool
		if burnt, ok = burnt.Add(c.PrevBalanceBurnt); !ok {
			return burnt, false
		}
	}
	sum, ok := prev.Add(minted)
	if !ok {
		return sum, false
	}
	return sum.Sub(burnt)
}
