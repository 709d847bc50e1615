//go:build amd64 && !purego && !force32bit

package multiples

import (
	"sync"
	_ "unsafe" // for linkname

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// vector is a point as the library's functions for AVX2 have it: as it is added to, or ready to be added (its cachedPoint). TestSum fails if a version
// of the library has another.
type vector [5][8]uint32

//go:linkname supported github.com/oasisprotocol/curve25519-voi/curve.supportsVectorizedEdwards
var supported bool

//go:noescape
//go:linkname add github.com/oasisprotocol/curve25519-voi/curve.(*extendedPoint).AddExtendedCached
func add(out, a, b *vector) *vector

//go:noescape
//go:linkname subtract github.com/oasisprotocol/curve25519-voi/curve.(*extendedPoint).SubExtendedCached
func subtract(out, a, b *vector) *vector

//go:noescape
//go:linkname ready github.com/oasisprotocol/curve25519-voi/curve.(*cachedPoint).SetExtended
func ready(out, a *vector) *vector

//go:noescape
//go:linkname fromPoint github.com/oasisprotocol/curve25519-voi/curve.(*extendedPoint).SetEdwards
func fromPoint(out *vector, p *curve.EdwardsPoint) *vector

//go:noescape
//go:linkname toPoint github.com/oasisprotocol/curve25519-voi/curve.(*EdwardsPoint).setExtended
func toPoint(out *curve.EdwardsPoint, a *vector) *curve.EdwardsPoint

func hasVectors() bool { return supported }

// windows are a point's multiples: multiples[w·half + d - 1] is d·2^(bits·w)·P.
type windows struct {
	bits      int
	multiples []vector
}

func newWindows(p *curve.EdwardsPoint, bits int) *windows {
	half := 1 << (bits - 1)
	t := &windows{bits: bits, multiples: make([]vector, count(bits)*half)}
	var first, at vector
	fromPoint(&first, p)
	for w := range count(bits) {
		row := t.multiples[w*half:][:half]
		ready(&row[0], &first)
		at = first
		for d := 1; d < half; d++ {
			add(&at, &at, &row[0])
			ready(&row[d], &at)
		}
		add(&first, &at, &row[half-1]) // twice the last one
	}
	return t
}

var base = sync.OnceValue(func() *windows { return newWindows(curve.ED25519_BASEPOINT_POINT, baseBits) })

var zero = sync.OnceValue(func() (v vector) {
	var p curve.EdwardsPoint
	fromPoint(&v, p.Identity())
	return v
})

// sum sets p to k·P + s·B.
func sum(p *curve.EdwardsPoint, t *windows, k, s *scalar.Scalar) {
	at := zero()
	t.addTo(&at, k)
	base().addTo(&at, s)
	toPoint(p, &at)
}

func (t *windows) addTo(at *vector, n *scalar.Scalar) {
	var room [256]int8
	list := room[:count(t.bits)]
	digits(list, n, uint(t.bits))
	half := 1 << (t.bits - 1)
	for w, d := range list {
		switch {
		case d > 0:
			add(at, at, &t.multiples[w*half+int(d)-1])
		case d < 0:
			subtract(at, at, &t.multiples[w*half-int(d)-1])
		}
	}
}
