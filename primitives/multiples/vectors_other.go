//go:build !amd64 || purego || force32bit

package multiples

import (
	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

func hasVectors() bool { return false }

type windows struct{}

func newWindows(*curve.EdwardsPoint, int) *windows { return nil }

func sum(*curve.EdwardsPoint, *windows, *scalar.Scalar, *scalar.Scalar) {}
