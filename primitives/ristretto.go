package primitives

import (
	"math/big"
	"slices"

	"github.com/oasisprotocol/curve25519-voi/curve"
)

// The curve library has no conversion between Edwards and ristretto points, so a public key is
// converted by its encoding: RFC 9496 section 4.3.2 on the affine point. Keys are public and few,
// so math/big is sufficient.

func fieldConst(decimal string) *big.Int {
	v, ok := new(big.Int).SetString(decimal, 10)
	if !ok {
		panic("primitives: " + decimal)
	}
	return v
}

// Constants of RFC 9496 section 4.1: the prime 2^255-19, d, √-1 and 1/√(a-d) with a = -1.
var (
	fieldPrime     = fieldConst("57896044618658097711785492504343953926634992332820282019728792003956564819949")
	fieldD         = fieldConst("37095705934669439343138083508754565189542113879843219016388785533085940283555")
	fieldSqrtM1    = fieldConst("19681161376707505956807079304988542015446066515923890162744021073123829784752")
	invSqrtAMinusD = fieldConst("54469307008909316920995813868745141605393597292927456921205312896311721017578")
	sqrtExponent   = new(big.Int).Rsh(new(big.Int).Sub(fieldPrime, big.NewInt(5)), 3) // (p-5)/8
	fieldOne       = big.NewInt(1)
)

func fieldMul(factors ...*big.Int) *big.Int {
	out := new(big.Int).Set(factors[0])
	for _, f := range factors[1:] {
		out.Mod(out.Mul(out, f), fieldPrime)
	}
	return out.Mod(out, fieldPrime)
}

func fieldAdd(a, b *big.Int) *big.Int {
	s := new(big.Int).Add(a, b)
	return s.Mod(s, fieldPrime)
}

func fieldSub(a, b *big.Int) *big.Int {
	s := new(big.Int).Sub(a, b)
	return s.Mod(s, fieldPrime)
}

// negateIf returns -a when neg, else a. A field element is called negative when it is odd.
func negateIf(neg bool, a *big.Int) *big.Int {
	if neg {
		return fieldSub(new(big.Int), a)
	}
	return a
}

func isNegative(a *big.Int) bool { return a.Bit(0) == 1 }

// sqrtRatio returns the nonnegative root of u/v, or of √-1·u/v if that is the square (RFC 9496
// section 4.2).
func sqrtRatio(u, v *big.Int) *big.Int {
	v3 := fieldMul(v, v, v)
	r := new(big.Int).Exp(fieldMul(u, v3, v3, v), sqrtExponent, fieldPrime)
	r = fieldMul(r, u, v3)
	check := fieldMul(v, r, r)
	minusU := negateIf(true, u)
	if check.Cmp(minusU) == 0 || check.Cmp(fieldMul(minusU, fieldSqrtM1)) == 0 {
		r = fieldMul(r, fieldSqrtM1)
	}
	return negateIf(isNegative(r), r)
}

// ristrettoOf returns the ristretto encoding of a point without torsion.
func ristrettoOf(p *curve.EdwardsPoint) (out [32]byte) {
	// The affine coordinates, from the compressed form.
	var c curve.CompressedEdwardsY
	c.SetEdwardsPoint(p)
	b := slices.Clone(c[:])
	slices.Reverse(b)
	odd := b[0]>>7 == 1
	b[0] &= 0x7f
	y := new(big.Int).SetBytes(b)
	yy := fieldMul(y, y)
	x := sqrtRatio(fieldSub(yy, fieldOne), fieldAdd(fieldMul(yy, fieldD), fieldOne))
	x = negateIf(odd != isNegative(x), x)

	// z = 1, t = x·y
	t := fieldMul(x, y)
	u1 := fieldMul(fieldAdd(fieldOne, y), fieldSub(fieldOne, y))
	inv := sqrtRatio(fieldOne, fieldMul(u1, t, t)) // u2 = t
	den1, den2 := fieldMul(inv, u1), fieldMul(inv, t)
	zInv := fieldMul(den1, den2, t)
	denInv := den2
	if isNegative(fieldMul(t, zInv)) { // rotate by a point of order 4
		x, y = fieldMul(y, fieldSqrtM1), fieldMul(x, fieldSqrtM1)
		denInv = fieldMul(den1, invSqrtAMinusD)
	}
	y = negateIf(isNegative(fieldMul(x, zInv)), y)
	s := fieldMul(denInv, fieldSub(fieldOne, y))
	negateIf(isNegative(s), s).FillBytes(out[:])
	slices.Reverse(out[:])
	return out
}
