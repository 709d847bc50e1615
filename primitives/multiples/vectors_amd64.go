//go:build amd64 && !purego && !force32bit

package multiples

import (
	"reflect"
	"sync"
	_ "unsafe" // for linkname

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// vector is a point in the layout of the library's AVX2 functions: as the destination of an
// addition, or prepared as an operand (cachedPoint). If a version of the library changes the
// layout, hasVectors is false and TestVectorsAreUsedWithAVX2 fails.
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

// hasVectors returns whether the CPU has AVX2 and the library's functions are the expected ones:
// verdicts on signatures must not depend on which functions are used. The check runs once and
// takes some two milliseconds.
var hasVectors = sync.OnceValue(func() bool {
	return supported && sameLayout(reflect.TypeFor[curve.EdwardsBasepointTable]()) && sums(ofWindows) == knownSums
})

// sameLayout returns whether the library's base point table consists of vectors. With a larger type
// its functions would write out of bounds.
func sameLayout(table reflect.Type) bool {
	f, ok := table.FieldByName("innerVector")
	if !ok || f.Type.Kind() != reflect.Pointer {
		return false
	}
	t := f.Type.Elem()
	for range 2 { // rows, then points
		if t.Kind() != reflect.Array {
			return false
		}
		t = t.Elem()
	}
	// Each type wraps the next as its last field, after fields of size zero.
	for t.Kind() == reflect.Struct && t.NumField() > 0 {
		last := t.Field(t.NumField() - 1)
		if last.Offset != 0 || last.Type.Size() != t.Size() {
			return false
		}
		t = last.Type
	}
	return t == reflect.TypeFor[[5][8]uint32]()
}

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
		add(&first, &at, &row[half-1]) // the first point of the next row is twice the last point of this row
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
	var ofPoint, ofBase [64]int8
	b := base()
	digits(ofPoint[:count(t.bits)], k, uint(t.bits))
	digits(ofBase[:count(b.bits)], s, uint(b.bits))
	t.touch(ofPoint[:])
	b.touch(ofBase[:])
	at := zero()
	t.addTo(&at, ofPoint[:])
	b.addTo(&at, ofBase[:])
	toPoint(p, &at)
}

// touch reads one byte of each cache line that addTo needs, so that the CPU loads these lines in
// parallel. Each addition waits for the one before; without touch it would also wait for a load of
// its own. The result is unused.
//
//go:noinline
func (t *windows) touch(list []int8) (x uint32) {
	half := 1 << (t.bits - 1)
	for w, d := range list[:count(t.bits)] {
		if d < 0 {
			d = -d
		}
		if d != 0 {
			v := &t.multiples[w*half+int(d)-1]
			x ^= v[0][0] ^ v[2][0] ^ v[4][0] ^ v[4][7]
		}
	}
	return x
}

func (t *windows) addTo(at *vector, list []int8) {
	half := 1 << (t.bits - 1)
	for w, d := range list[:count(t.bits)] {
		switch {
		case d > 0:
			add(at, at, &t.multiples[w*half+int(d)-1])
		case d < 0:
			subtract(at, at, &t.multiples[w*half-int(d)-1])
		}
	}
}
