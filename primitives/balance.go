package primitives

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Balance is an amount in yoctoNEAR: an unsigned 128-bit number with checked arithmetic. The zero
// value is 0. Values compare with ==.
type Balance struct{ Hi, Lo uint64 }

// ErrOverflow is the error of a sum or product that does not fit, and of a negative difference.
var ErrOverflow = errors.New("integer overflow")

// MaxBalance is 2^128 - 1.
var MaxBalance = Balance{^uint64(0), ^uint64(0)}

// Yocto returns v yoctoNEAR.
func Yocto(v uint64) Balance { return Balance{Lo: v} }

// NEAR returns v·10^24 yoctoNEAR; v must be below 3.4·10^14, else it panics.
func NEAR(v uint64) Balance {
	b, ok := Yocto(v).Mul64(1_000_000_000_000)
	if b, ok2 := b.Mul64(1_000_000_000_000); ok && ok2 {
		return b
	}
	panic("primitives: NEAR amount overflows u128")
}

// IsZero returns whether b is 0.
func (b Balance) IsZero() bool { return b == Balance{} }

// Cmp returns -1, 0 or 1.
func (b Balance) Cmp(o Balance) int {
	switch {
	case b == o:
		return 0
	case b.Hi < o.Hi || b.Hi == o.Hi && b.Lo < o.Lo:
		return -1
	}
	return 1
}

// Less returns whether b < o.
func (b Balance) Less(o Balance) bool { return b.Cmp(o) < 0 }

// Add returns b+o, and whether it fits.
func (b Balance) Add(o Balance) (Balance, bool) {
	lo, c := bits.Add64(b.Lo, o.Lo, 0)
	hi, c := bits.Add64(b.Hi, o.Hi, c)
	return Balance{hi, lo}, c == 0
}

// Sub returns b-o, and whether it is not negative.
func (b Balance) Sub(o Balance) (Balance, bool) {
	lo, c := bits.Sub64(b.Lo, o.Lo, 0)
	hi, c := bits.Sub64(b.Hi, o.Hi, c)
	return Balance{hi, lo}, c == 0
}

// SaturatingAdd returns b+o, at most MaxBalance.
func (b Balance) SaturatingAdd(o Balance) Balance {
	if s, ok := b.Add(o); ok {
		return s
	}
	return MaxBalance
}

// SaturatingSub returns b-o, at least 0.
func (b Balance) SaturatingSub(o Balance) Balance {
	if s, ok := b.Sub(o); ok {
		return s
	}
	return Balance{}
}

// Mul64 returns b·v, and whether it fits.
func (b Balance) Mul64(v uint64) (Balance, bool) {
	c, lo := bits.Mul64(b.Lo, v)
	over, hi := bits.Mul64(b.Hi, v)
	hi, carry := bits.Add64(hi, c, 0)
	return Balance{hi, lo}, over == 0 && carry == 0
}

// MulGas returns the price b of one gas times g, and whether the product fits.
func (b Balance) MulGas(g Gas) (Balance, bool) { return b.Mul64(uint64(g)) }

// DivMod64 returns b/v and b mod v; v must not be 0.
func (b Balance) DivMod64(v uint64) (Balance, uint64) {
	hi, r := b.Hi/v, b.Hi%v
	lo, r := bits.Div64(r, b.Lo, v)
	return Balance{hi, lo}, r
}

// Big returns b as a big.Int.
func (b Balance) Big() *big.Int {
	x := new(big.Int).SetUint64(b.Hi)
	return x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(b.Lo))
}

// BalanceFromBig returns x as a Balance, and whether it is in range.
func BalanceFromBig(x *big.Int) (Balance, bool) {
	if x.Sign() < 0 || x.BitLen() > 128 {
		return Balance{}, false
	}
	return Balance{new(big.Int).Rsh(x, 64).Uint64(), new(big.Int).And(x, new(big.Int).SetUint64(^uint64(0))).Uint64()}, true
}

// Float64 returns the nearest float64 (ties to even), as Rust's `as f64` does. Only congestion
// levels use it.
func (b Balance) Float64() float64 {
	if b.Hi == 0 {
		return float64(b.Lo)
	}
	f, _ := new(big.Float).SetInt(b.Big()).Float64()
	return f
}

// AppendText appends the decimal digits.
func (b Balance) AppendText(buf []byte) []byte {
	if b.Hi == 0 {
		return strconv.AppendUint(buf, b.Lo, 10)
	}
	const e19 = 10_000_000_000_000_000_000
	q, low := b.DivMod64(e19)
	buf = q.AppendText(buf)
	digits := strconv.FormatUint(low, 10)
	for range 19 - len(digits) {
		buf = append(buf, '0')
	}
	return append(buf, digits...)
}

// String returns the decimal digits.
func (b Balance) String() string { return string(b.AppendText(make([]byte, 0, 39))) }

// MarshalText returns the decimal digits.
func (b Balance) MarshalText() ([]byte, error) { return b.AppendText(nil), nil }

// UnmarshalText parses decimal digits.
func (b *Balance) UnmarshalText(text []byte) error {
	v, err := ParseBalance(string(text))
	if err == nil {
		*b = v
	}
	return err
}

// ParseBalance parses decimal digits with an optional plus sign, as Rust's u128::from_str does. The
// errors have its texts.
func ParseBalance(text string) (Balance, error) {
	digits := text
	if len(digits) > 1 && digits[0] == '+' {
		digits = digits[1:]
	}
	if digits == "" {
		return Balance{}, errors.New("cannot parse integer from empty string")
	}
	var v Balance
	for i := range len(digits) {
		d := digits[i] - '0'
		if d > 9 {
			return Balance{}, errors.New("invalid digit found in string")
		}
		m, ok := v.Mul64(10)
		s, ok2 := m.Add(Yocto(uint64(d)))
		if !ok || !ok2 {
			return Balance{}, errors.New("number too large to fit in target type")
		}
		v = s
	}
	return v, nil
}

// MustParseBalance is ParseBalance for constants; it panics on bad text.
func MustParseBalance(text string) Balance {
	v, err := ParseBalance(text)
	if err != nil {
		panic(fmt.Sprintf("primitives: balance %q: %v", text, err))
	}
	return v
}

// AppendBorsh appends 16 bytes, little-endian.
func (b Balance) AppendBorsh(buf []byte) []byte {
	return borsh.AppendUint64(borsh.AppendUint64(buf, b.Lo), b.Hi)
}

// DecodeBorsh reads 16 bytes.
func (b *Balance) DecodeBorsh(r *borsh.Reader) { b.Lo, b.Hi = r.Uint64(), r.Uint64() }

// ReadBalance reads 16 bytes.
func ReadBalance(r *borsh.Reader) Balance {
	var b Balance
	b.DecodeBorsh(r)
	return b
}
