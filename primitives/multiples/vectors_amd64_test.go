//go:build amd64 && !purego && !force32bit

package multiples

import (
	"reflect"
	"testing"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"golang.org/x/sys/cpu"
)

// TestVectorsAreUsedWithAVX2: a machine with AVX2 uses the library's functions.
func TestVectorsAreUsedWithAVX2(t *testing.T) {
	t.Parallel()
	if hasVectors() != cpu.X86.HasAVX2 {
		t.Errorf("vectors are used: %v; the machine has AVX2: %v", hasVectors(), cpu.X86.HasAVX2)
	}
}

// TestOtherPointLayoutIsRefused: a table of points that are larger, smaller or declared otherwise
// is refused.
func TestOtherPointLayoutIsRefused(t *testing.T) {
	t.Parallel()
	type nothing [0]func()
	type vec struct {
		_ nothing
		n [5][8]uint32
	}
	type point struct {
		_ nothing
		n vec
	}
	type four struct {
		_ nothing
		n [5][4]uint64
	}
	type more struct {
		n vec
		z [8]uint32
	}
	type later struct {
		z uint64
		n vec
	}
	_, _, _, _ = point{}.n, four{}.n, more{}.n, later{}.n // only their types are used
	_, _, _ = more{}.z, later{}.z, vec{}.n
	for want, list := range map[bool][]any{
		true: {curve.EdwardsBasepointTable{}, struct{ innerVector *[32][8]point }{}},
		false: {struct{ innerVector *[32][8]four }{}, struct{ innerVector *[32][8]more }{}, struct{ innerVector *[32][8]later }{}, struct{ innerVector *[8]point }{},
			struct{ innerVector [32][8]point }{}, struct{ inner *[32][8]point }{}, struct{ innerVector *[32][8]*point }{}, struct{ innerVector *[32][8]struct{} }{}},
	} {
		for _, table := range list {
			if got := sameLayout(reflect.TypeOf(table)); got != want {
				t.Errorf("%T: %v", table, got)
			}
		}
	}
}

// TestWrongWindowChangesKnownSums: tables with one wrong window, in one lane of a vector, do not
// reproduce the known sums.
func TestWrongWindowChangesKnownSums(t *testing.T) {
	t.Parallel()
	if !hasVectors() {
		t.Skip("this machine has no AVX2")
	}
	if got := sums(ofWindows); got != knownSums {
		t.Fatalf("windows give %s", got)
	}
	half := 1 << (pointBits - 1)
	for w := range count(pointBits) - 1 { // the last window's digits are 0 below the order
		wrong := func(p *curve.EdwardsPoint) *Table {
			table := ofWindows(p)
			for i := range half {
				table.windows.multiples[w*half+i][w%5][w%8]++
			}
			return table
		}
		if sums(wrong) == knownSums {
			t.Errorf("with window %d wrong they give the known sums", w)
		}
	}
}
