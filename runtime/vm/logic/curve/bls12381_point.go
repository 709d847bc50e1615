package curve

import (
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// Points have ZCash's serialisation. Integers are big-endian, the imaginary part of an Fp2 element
// comes first, and the top three bits of the first byte are flags. In an uncompressed point, the
// compressed flag and the sign flag are 0. In the point at infinity, all bits but its flags are 0.
// gnark-crypto reads this form, but is stricter than blst in some cases and less strict than blst
// in other cases. So this file reads the flags itself.
const (
	blsFpSize = 48
	blsP1Size = 2 * blsFpSize
	blsP2Size = 4 * blsFpSize

	blsCompressed = 0x80
	blsInfinity   = 0x40
	blsSign       = 0x20 // y is the larger of the two roots
	blsFlags      = blsCompressed | blsInfinity | blsSign
)

// blsFp reads a field element. ok is false if the element is not below the modulus.
func blsFp(raw []byte) (x fp.Element, ok bool) {
	return x, x.SetBytesCanonical(raw) == nil
}

func blsFp2(raw []byte) (x bls12381.E2, ok bool) {
	re, ok0 := blsFp(raw[blsFpSize:])
	im, ok1 := blsFp(raw[:blsFpSize])
	return bls12381.E2{A0: re, A1: im}, ok0 && ok1
}

// blsFlagged checks the flags of an uncompressed point. inf is whether the point is at infinity. ok
// is false if the flags are invalid, or if a point at infinity has other bits set.
func blsFlagged(raw []byte) (inf, ok bool) {
	switch raw[0] & blsFlags {
	case 0:
		return false, true
	case blsInfinity:
		return true, onlyFlag(raw, blsInfinity)
	}
	return false, false
}

func onlyFlag(raw []byte, flag byte) bool {
	if raw[0] != flag {
		return false
	}
	for _, b := range raw[1:] {
		if b != 0 {
			return false
		}
	}
	return true
}

// blsP1 reads an uncompressed point of E(Fp). ok is false if the point is invalid. Unless fix is
// set (the correction of NEP-488), ok is also false for the two points with x = 0.
func blsP1(raw []byte, fix bool) (p bls12381.G1Affine, ok bool) {
	if inf, ok := blsFlagged(raw); inf || !ok {
		return p, ok
	}
	x, ok0 := blsFp(raw[:blsFpSize])
	y, ok1 := blsFp(raw[blsFpSize:])
	if !ok0 || !ok1 || x.IsZero() && (y.IsZero() || !fix) {
		return p, false // (0, 0) is not on the curve, but gnark-crypto takes it for the point at infinity
	}
	p = bls12381.G1Affine{X: x, Y: y}
	return p, p.IsOnCurve()
}

// blsP2 reads an uncompressed point of E'(Fp2). No point has x = 0: 4(1+u) is not a square.
func blsP2(raw []byte, _ bool) (p bls12381.G2Affine, ok bool) {
	if inf, ok := blsFlagged(raw); inf || !ok {
		return p, ok
	}
	x, ok0 := blsFp2(raw[:2*blsFpSize])
	y, ok1 := blsFp2(raw[2*blsFpSize:])
	if !ok0 || !ok1 || x.IsZero() {
		return p, false
	}
	p = bls12381.G2Affine{X: x, Y: y}
	return p, p.IsOnCurve()
}

// blsXOnly splits a compressed point. inf and ok are as in blsFlagged. blsXOnly writes the
// coordinate without flags to x. larger is the sign flag.
func blsXOnly(raw []byte, x []byte) (inf, larger, ok bool) {
	switch {
	case raw[0]&blsCompressed == 0:
		return false, false, false
	case raw[0]&blsInfinity != 0:
		return true, false, onlyFlag(raw, blsCompressed|blsInfinity)
	}
	copy(x, raw)
	x[0] &^= blsFlags
	return false, raw[0]&blsSign != 0, true
}

// blsP1Compressed reads a compressed point of E(Fp). ok and fix are as for blsP1.
func blsP1Compressed(raw []byte, fix bool) (p bls12381.G1Affine, ok bool) {
	var buf [blsFpSize]byte
	inf, larger, ok := blsXOnly(raw, buf[:])
	if inf || !ok {
		return p, ok
	}
	x, ok := blsFp(buf[:])
	if !ok || x.IsZero() && !fix {
		return p, false
	}
	_, b := bls12381.CurveCoefficients()
	var y fp.Element
	y.Square(&x).Mul(&y, &x).Add(&y, &b)
	if y.Sqrt(&y) == nil {
		return p, false
	}
	if y.LexicographicallyLargest() != larger {
		y.Neg(&y)
	}
	return bls12381.G1Affine{X: x, Y: y}, true
}

// blsTwistB is the constant of E': y² = x³ + 4(1+u).
var blsTwistB = func() (b bls12381.E2) {
	b.A0.SetUint64(4)
	b.A1.SetUint64(4)
	return b
}()

// blsP2Compressed reads a compressed point of E'(Fp2).
func blsP2Compressed(raw []byte, _ bool) (p bls12381.G2Affine, ok bool) {
	var buf [2 * blsFpSize]byte
	inf, larger, ok := blsXOnly(raw, buf[:])
	if inf || !ok {
		return p, ok
	}
	x, ok := blsFp2(buf[:])
	if !ok {
		return p, false
	}
	var y bls12381.E2
	y.Square(&x).Mul(&y, &x).Add(&y, &blsTwistB)
	if y.Legendre() == -1 { // Sqrt also returns a value for an element that is not a square
		return p, false
	}
	y.Sqrt(&y)
	if y.LexicographicallyLargest() != larger {
		y.Neg(&y)
	}
	return bls12381.G2Affine{X: x, Y: y}, true
}

func blsAppendP1(out []byte, p *bls12381.G1Affine) []byte {
	if p.IsInfinity() {
		out = append(out, make([]byte, blsP1Size)...)
		out[len(out)-blsP1Size] = blsInfinity
		return out
	}
	x, y := p.X.Bytes(), p.Y.Bytes()
	return append(append(out, x[:]...), y[:]...)
}

func blsAppendP2(out []byte, p *bls12381.G2Affine) []byte {
	if p.IsInfinity() {
		out = append(out, make([]byte, blsP2Size)...)
		out[len(out)-blsP2Size] = blsInfinity
		return out
	}
	for _, c := range []*fp.Element{&p.X.A1, &p.X.A0, &p.Y.A1, &p.Y.A0} {
		b := c.Bytes()
		out = append(out, b[:]...)
	}
	return out
}

func blsAppendP1Jac(out []byte, p *bls12381.G1Jac) []byte {
	var a bls12381.G1Affine
	a.FromJacobian(p)
	return blsAppendP1(out, &a)
}

func blsAppendP2Jac(out []byte, p *bls12381.G2Jac) []byte {
	var a bls12381.G2Affine
	a.FromJacobian(p)
	return blsAppendP2(out, &a)
}
