package epoch

import (
	"math/big"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// quoRem returns a/b and a mod b of unsigned 128-bit numbers. b must not be 0. If b >= 2^64, quoRem
// estimates the quotient from the high words. The estimate is at most one too low; quoRem then
// corrects it.
func quoRem(a, b primitives.Balance) (q, r primitives.Balance) {
	if b.Hi == 0 {
		q, rem := a.DivMod64(b.Lo)
		return q, primitives.Yocto(rem)
	}
	n := uint(bits.LeadingZeros64(b.Hi))
	top := b.Hi<<n | b.Lo>>(64-n) // if n is 0, Go's shift by 64 yields 0, as needed
	est, _ := bits.Div64(a.Hi>>1, a.Hi<<63|a.Lo>>1, top)
	est >>= 63 - n
	if est != 0 {
		est--
	}
	prod, _ := b.Mul64(est)
	r, _ = a.Sub(prod)
	if !r.Less(b) {
		est++
		r, _ = r.Sub(b)
	}
	return primitives.Yocto(est), r
}

// mulDiv returns floor(a*num/den), without intermediate overflow, and whether it fits into 128
// bits. den must not be 0.
func mulDiv(a primitives.Balance, num, den uint64) (primitives.Balance, bool) {
	x := a.Big()
	x.Mul(x, new(big.Int).SetUint64(num))
	x.Quo(x, new(big.Int).SetUint64(den))
	return primitives.BalanceFromBig(x)
}

func bigUint(v uint64) *big.Int { return new(big.Int).SetUint64(v) }

func bigMul(xs ...*big.Int) *big.Int {
	p := big.NewInt(1)
	for _, x := range xs {
		p.Mul(p, x)
	}
	return p
}

// sumStakes returns the sum of stakes. ok is false if the sum overflows.
func sumStakes(vs []primitives.ValidatorStake) (sum primitives.Balance, ok bool) {
	ok = true
	for i := range vs {
		var fits bool
		sum, fits = sum.Add(vs[i].Stake)
		ok = ok && fits
	}
	return sum, ok
}
