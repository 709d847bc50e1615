package epoch

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// slowGasPrice computes the gas price with fractions: price·(1 + (used/limit − 1/2)·rate), rounded
// down and limited to the bounds. ok is false if the factor is negative.
func slowGasPrice(g GasPriceRules, price primitives.Balance, used, limit primitives.Gas) (next *big.Int, ok bool) {
	if limit == 0 {
		return price.Big(), true
	}
	load := new(big.Rat).SetFrac(bigUint(uint64(used)), bigUint(uint64(limit)))
	load.Sub(load, big.NewRat(1, 2))
	factor := load.Mul(load, big.NewRat(int64(g.AdjustmentRate.Num), int64(g.AdjustmentRate.Den)))
	factor.Add(factor, big.NewRat(1, 1))
	if factor.Sign() < 0 {
		return nil, false
	}
	factor.Mul(factor, new(big.Rat).SetInt(price.Big()))
	next = new(big.Int).Quo(factor.Num(), factor.Denom())
	if lowest := g.Min.Big(); next.Cmp(lowest) < 0 {
		return lowest, true
	}
	if highest := g.Max.Big(); next.Cmp(highest) > 0 {
		return highest, true
	}
	return next, true
}

// TestGasPriceStaysWithinBounds uses the settings of nearcore's tests
// (integration-tests/src/tests/client/process_blocks.rs:818, 1467, 1531 and
// features/cap_max_gas_price.rs). Prices stay within [min, min(max, 20·min)] and equal those of
// slowGasPrice.
func TestGasPriceStaysWithinBounds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		min, max string
		rate     Ratio
		limit    primitives.Gas
		used     func(block int) primitives.Gas
		end      string // after 100 blocks
	}{
		"test_minimum_gas_price":    {"100", "10000000000000000000000", Ratio{1, 10}, 1e15, func(int) primitives.Gas { return 0 }, "100"},
		"test_gas_price_overflow":   {"1000000", "100000000000000000000", Ratio{1, 1}, 450_000_000_000, func(int) primitives.Gas { return 446_365_125_000 }, "20000000"},
		"test_capped_gas_price":     {"100000000", "10000000000000000000000", Ratio{2, 1}, 1e12, func(int) primitives.Gas { return 1e12 }, "2000000000"},
		"a rate of 2, nothing used": {"100000000", "10000000000000000000000", Ratio{2, 1}, 1e12, func(int) primitives.Gas { return 0 }, "100000000"},
		"half full stays":           {"100000000", "10000000000000000000000", Ratio{1, 100}, 1e15, func(int) primitives.Gas { return 5e14 }, "100000000"},
		"full for 10 blocks, then empty": {"100000000", "10000000000000000000000", Ratio{1, 100}, 1e15, func(b int) primitives.Gas {
			if b < 10 {
				return 1e15
			}
			return 0
		}, "100000000"},
		"full for 100 blocks": {"100000000", "10000000000000000000000", Ratio{1, 100}, 1e15, func(int) primitives.Gas { return 1e15 }, "164666786"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGasPriceRules(86, primitives.MustParseBalance(tt.min), primitives.MustParseBalance(tt.max), tt.rate)
			price := g.Min
			for b := range 100 {
				next, err := g.Next(price, tt.used(b), tt.limit)
				want, _ := slowGasPrice(g, price, tt.used(b), tt.limit)
				if err != nil || next.Big().Cmp(want) != 0 {
					t.Fatalf("block %d: %v after %v, %v, want %v", b, next, price, err, want)
				}
				if next.Less(g.Min) || g.Max.Less(next) {
					t.Fatalf("block %d: %v is outside of [%v, %v]", b, next, g.Min, g.Max)
				}
				price = next
			}
			if price.String() != tt.end {
				t.Errorf("%v after 100 blocks, want %s", price, tt.end)
			}
		})
	}
}

func TestGasPriceEqualsFractions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 10))
	for range 20_000 {
		g := GasPriceRules{
			Min:            primitives.Balance{Hi: rng.Uint64() >> (rng.IntN(64) + 1), Lo: rng.Uint64()},
			AdjustmentRate: Ratio{int32(rng.Int32N(300)), int32(1 + rng.Int32N(200))},
		}
		g.Max = g.Min.SaturatingAdd(primitives.Balance{Hi: rng.Uint64() >> (rng.IntN(64) + 1), Lo: rng.Uint64()})
		price := primitives.Balance{Hi: rng.Uint64() >> rng.IntN(64), Lo: rng.Uint64()}
		limit := primitives.Gas(rng.Uint64() >> rng.IntN(64))
		used := primitives.Gas(rng.Uint64() >> rng.IntN(64))
		if rng.IntN(3) > 0 {
			used = primitives.Gas(rng.Uint64N(max(uint64(limit), 1)))
		}
		got, err := g.Next(price, used, limit)
		want, ok := slowGasPrice(g, price, used, limit)
		switch {
		case ok != (err == nil):
			t.Fatalf("%+v price %v used %d of %d: %v, want one: %v", g, price, used, limit, err, ok)
		case err != nil && !errors.Is(err, primitives.ErrOverflow):
			t.Fatalf("error %v, want ErrOverflow", err)
		case ok && got.Big().Cmp(want) != 0:
			t.Fatalf("%+v price %v used %d of %d: %v, want %v", g, price, used, limit, got, want)
		}
	}
}
