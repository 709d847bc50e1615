package curve

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fp"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
)

// Sizes of one element of the alt_bn128 functions, in bytes. All integers are little-endian and 32
// bytes long. A point of G1 is x ‖ y, a point of G2 is Re x ‖ Im x ‖ Re y ‖ Im y. In arguments and
// results, (0, 0) is the point at infinity.
const (
	altBN128MultiexpItem = 64 + 32   // a point and a scalar
	altBN128SumItem      = 1 + 64    // a sign and a point
	altBN128PairingItem  = 64 + 2*64 // point of G1, point of G2
)

// AltBN128G1MultiexpElements returns the number of elements in data. The caller charges for the
// elements before the computation.
func AltBN128G1MultiexpElements(data []byte) (n uint64, err error) {
	return altBN128Elements(data, altBN128MultiexpItem)
}

// AltBN128G1SumElements returns the number of elements in data.
func AltBN128G1SumElements(data []byte) (n uint64, err error) {
	return altBN128Elements(data, altBN128SumItem)
}

// AltBN128PairingElements returns the number of elements in data.
func AltBN128PairingElements(data []byte) (n uint64, err error) {
	return altBN128Elements(data, altBN128PairingItem)
}

func altBN128Elements(data []byte, item int) (uint64, error) {
	if len(data)%item != 0 {
		return 0, InvalidInput(fmt.Sprintf("slice of size %d cannot be precisely split into chunks of size %d", len(data), item))
	}
	return uint64(len(data) / item), nil
}

// AltBN128G1Multiexp returns the sum of the products of each point and its scalar, which must be
// below the group order. AltBN128G1Multiexp multiplies the points one by one. A bucket method would
// be a little faster on long inputs, but the gas of an element does not require that.
func AltBN128G1Multiexp(data []byte) (out [64]byte, err error) {
	if _, err := AltBN128G1MultiexpElements(data); err != nil {
		return out, err
	}
	var sum, product bn254.G1Jac // the zero value is the point at infinity
	var scalar big.Int
	for ; len(data) > 0; data = data[altBN128MultiexpItem:] {
		p, err := altBN128G1(data[:64])
		if err != nil {
			return out, err
		}
		raw := data[64:altBN128MultiexpItem]
		s, err := fr.LittleEndian.Element((*[32]byte)(raw))
		if err != nil {
			return out, altBN128Invalid("fr", raw)
		}
		product.FromAffine(&p)
		product.ScalarMultiplication(&product, s.BigInt(&scalar))
		sum.AddAssign(&product)
	}
	return altBN128Encode(&sum), nil
}

// AltBN128G1Sum returns the sum of the points. Points with sign 1 are negated first.
func AltBN128G1Sum(data []byte) (out [64]byte, err error) {
	if _, err := AltBN128G1SumElements(data); err != nil {
		return out, err
	}
	var sum bn254.G1Jac
	for ; len(data) > 0; data = data[altBN128SumItem:] {
		if data[0] > 1 {
			return out, altBN128Invalid("bool", data[:1])
		}
		p, err := altBN128G1(data[1:altBN128SumItem])
		if err != nil {
			return out, err
		}
		if data[0] == 1 {
			p.Neg(&p)
		}
		sum.AddMixed(&p)
	}
	return altBN128Encode(&sum), nil
}

// AltBN128PairingCheck returns whether the product of all pairings is one. The pairing of a point
// at infinity is one, and so is the product of an empty list.
func AltBN128PairingCheck(data []byte) (bool, error) {
	n, err := AltBN128PairingElements(data)
	if err != nil {
		return false, err
	}
	ps, qs := make([]bn254.G1Affine, 0, n), make([]bn254.G2Affine, 0, n)
	for ; len(data) > 0; data = data[altBN128PairingItem:] {
		p, err := altBN128G1(data[:64])
		if err != nil {
			return false, err
		}
		q, err := altBN128G2(data[64:altBN128PairingItem])
		if err != nil {
			return false, err
		}
		if !p.IsInfinity() && !q.IsInfinity() {
			ps, qs = append(ps, p), append(qs, q)
		}
	}
	if len(ps) == 0 {
		return true, nil
	}
	one, err := bn254.PairingCheck(ps, qs)
	return err == nil && one, nil // err is nil, because ps and qs have the same length
}

// altBN128G1 decodes a point of 64 bytes. Every point of the curve is in G1, so there is no
// subgroup check.
func altBN128G1(raw []byte) (p bn254.G1Affine, err error) {
	if p.X, err = altBN128Fq(raw[:32]); err != nil {
		return p, err
	}
	if p.Y, err = altBN128Fq(raw[32:]); err != nil {
		return p, err
	}
	if !p.IsInfinity() && !p.IsOnCurve() {
		return p, altBN128Invalid("g1", raw)
	}
	return p, nil
}

// altBN128G2 decodes a point of 128 bytes, which must be in the subgroup G2.
func altBN128G2(raw []byte) (q bn254.G2Affine, err error) {
	for i, c := range []*fp.Element{&q.X.A0, &q.X.A1, &q.Y.A0, &q.Y.A1} {
		if *c, err = altBN128Fq(raw[32*i : 32*i+32]); err != nil {
			return q, err
		}
	}
	if !q.IsInfinity() && !q.IsInSubGroup() {
		return q, altBN128Invalid("g2", raw)
	}
	return q, nil
}

func altBN128Fq(raw []byte) (fp.Element, error) {
	x, err := fp.LittleEndian.Element((*[32]byte)(raw))
	if err != nil { // the integer is not below the modulus
		return x, altBN128Invalid("fq", raw)
	}
	return x, nil
}

func altBN128Encode(p *bn254.G1Jac) (out [64]byte) {
	var a bn254.G1Affine
	a.FromJacobian(p) // the point at infinity becomes (0, 0)
	fp.LittleEndian.PutElement((*[32]byte)(out[:32]), a.X)
	fp.LittleEndian.PutElement((*[32]byte)(out[32:]), a.Y)
	return out
}

// altBN128Invalid returns nearcore's error text. The text shows the bytes as Rust's {:X?} prints
// bytes: [1, AB, 0].
func altBN128Invalid(what string, raw []byte) error {
	var b strings.Builder
	b.WriteString("invalid " + what + ": [")
	for i, x := range raw {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%X", x)
	}
	b.WriteString("]")
	return InvalidInput(b.String())
}
