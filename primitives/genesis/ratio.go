package genesis

import (
	"cmp"
	"fmt"
)

// Ratio is a fraction in lowest terms; JSON has it as [num, den]. The zero value is not a ratio.
type Ratio struct{ Num, Den uint32 }

// ratioBits bounds numerator and denominator: nearcore's Rational32 has signed 32-bit numbers, and
// a Ratio is never negative.
const ratioBits = 31

// NewRatio reduces num/den, as nearcore does when it reads a ratio. den must not be 0.
func NewRatio(num, den uint32) Ratio {
	a, b := num, den
	for b != 0 {
		a, b = b, a%b
	}
	return Ratio{num / a, den / a}
}

// Cmp compares r and o.
func (r Ratio) Cmp(o Ratio) int {
	return cmp.Compare(uint64(r.Num)*uint64(o.Den), uint64(o.Num)*uint64(r.Den))
}

// String returns e.g. 9/10.
func (r Ratio) String() string { return fmt.Sprintf("%d/%d", r.Num, r.Den) }

// ratio reads [num, den].
func (c *cursor) ratio() Ratio {
	var v [2]uint64
	n := 0
	c.array(func() {
		if n < 2 {
			v[n] = c.uint(ratioBits)
		} else {
			c.skip()
		}
		n++
	})
	switch {
	case c.err != nil:
	case n != 2:
		c.failf("invalid length %d, expected a tuple of size 2", n)
	case v[1] == 0:
		c.failf("invalid value: integer `0`, expected a ratio with non-zero denominator")
	default:
		return NewRatio(uint32(v[0]), uint32(v[1]))
	}
	return Ratio{}
}
