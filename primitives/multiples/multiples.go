// Package multiples computes sums of multiples of ed25519's base point and of frequent points, from
// tables, in variable time. It must not be used with secrets.
//
//	in      a point, once; numbers below the group's order
//	out     k·P + s·B, encoded
//	state   only the tables, which have the multiples of a point for each window of a number: 130 KiB
//	        for P, 370 KiB for B, which is made on first use
//	units   numbers are little-endian
//	bound   the caller bounds the number of tables
//	errors  none
//	source  our own. With AVX2, points are added by curve25519-voi's internal functions, which it
//	        does not export; before the first table is made they must reproduce known sums.
//	        Otherwise it uses the library's constant-time table of a base point
package multiples

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// Table is the table of a point. It is immutable and safe for concurrent use.
type Table struct {
	plain   *curve.EdwardsBasepointTable // nil: windows is used
	windows *windows
}

// New returns the table of p.
func New(p *curve.EdwardsPoint) *Table {
	if hasVectors() {
		return ofWindows(p)
	}
	return newPlain(p)
}

func ofWindows(p *curve.EdwardsPoint) *Table { return &Table{windows: newWindows(p, pointBits)} }

// knownSums is the result of sums with correct tables.
const knownSums = "9c378e00b75e5b97c7eb2fd7f4be1c623027b4edf18ad58a36fafeb4bd83353d"

// sums returns a hash of sums that are computed with the tables that the function `of` makes. The
// points are of the prime order, of order 8, and a sum of both; the numbers are edge cases and
// ordinary ones.
func sums(of func(*curve.EdwardsPoint) *Table) string {
	small := curve.CompressedEdwardsY{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05}
	var torsion, mixed curve.EdwardsPoint
	if _, err := torsion.SetCompressedY(&small); err != nil {
		panic("multiples: " + err.Error()) // cannot happen: it is a valid point
	}
	mixed.Add(&torsion, curve.ED25519_BASEPOINT_POINT)
	one := scalar.One()
	numbers := []*scalar.Scalar{scalar.New(), one, scalar.New().Neg(one)}
	for i := range byte(24) {
		wide := sha512.Sum512([]byte{i})
		n, err := scalar.NewFromBytesModOrderWide(wide[:])
		if err != nil {
			panic("multiples: " + err.Error()) // only the length can be wrong
		}
		numbers = append(numbers, n)
	}
	h := sha256.New()
	for i, p := range []*curve.EdwardsPoint{curve.ED25519_BASEPOINT_POINT, &torsion, &mixed} {
		t := of(p)
		for j, k := range numbers {
			sum := t.Sum(k, numbers[(j*5+i)%len(numbers)])
			h.Write(sum[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func newPlain(p *curve.EdwardsPoint) *Table { return &Table{plain: curve.NewEdwardsBasepointTable(p)} }

// Sum returns k·P + s·B.
func (t *Table) Sum(k, s *scalar.Scalar) (out curve.CompressedEdwardsY) {
	var p, q curve.EdwardsPoint
	if t.windows != nil {
		sum(&p, t.windows, k, s)
	} else {
		p.MulBasepoint(t.plain, k)
		q.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, s)
		p.Add(&p, &q)
	}
	out.SetEdwardsPoint(&p)
	return out
}

// Bits of a window. For each window, a table has the multiples from 1 to 2^(bits-1). Negative
// multiples are computed from these.
const (
	pointBits = 5
	baseBits  = 7
)

// digits splits a number below 2^255 into signed digits of `bits` bits, -2^(bits-1) < d <=
// 2^(bits-1), the lowest first. out has room for 256 bits.
func digits(out []int8, n *scalar.Scalar, bits uint) {
	var b [40]byte
	if err := n.ToBytes(b[:32]); err != nil {
		panic("multiples: " + err.Error()) // only the length can be wrong
	}
	carry := 0
	for i := range out {
		at := uint(i) * bits
		d := int(uint(b[at>>3])|uint(b[at>>3+1])<<8)>>(at&7)&(1<<bits-1) + carry
		if carry = 0; d > 1<<(bits-1) {
			d, carry = d-1<<bits, 1
		}
		out[i] = int8(d)
	}
}

// count returns how many windows cover a number.
func count(bits int) int { return (256 + bits - 1) / bits }
