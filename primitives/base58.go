package primitives

import (
	"errors"
	"fmt"
	"math/bits"
)

// Base58 with the Bitcoin alphabet, as bs58 0.4 reads and writes it. Ten digits fit a machine word
// (58^10 < 2^59), so both directions work on 64-bit limbs. The 1952 bytes of an ML-DSA key take a
// quarter of a million word operations, instead of ten million byte operations.
const (
	base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	base58Group    = 10
)

var base58Digit, base58Power = func() (digit [128]byte, power [base58Group + 1]uint64) {
	for i := range digit {
		digit[i] = 0xff
	}
	for i := range len(base58Alphabet) {
		digit[base58Alphabet[i]] = byte(i)
	}
	power[0] = 1
	for i := range base58Group {
		power[i+1] = power[i] * 58
	}
	return digit, power
}()

// errBase58TooLong is the error of a value that does not fit the expected number of bytes (bs58:
// BufferTooSmall).
var errBase58TooLong = errors.New("buffer provided to decode base58 encoded string into was too small")

// base58CharError is a character outside the alphabet. RPC clients see the texts of this error,
// which are the texts of bs58.
type base58CharError struct {
	char byte
	at   int // offset in bytes
}

func (e *base58CharError) Error() string {
	if e.char >= 0x80 {
		return fmt.Sprintf("provided string contained non-ascii character starting at byte %d", e.at)
	}
	return fmt.Sprintf("provided string contained invalid character %s at byte %d", rustCharDebug(e.char), e.at)
}

// rustCharDebug writes an ASCII character as Rust's {:?} does.
func rustCharDebug(c byte) string {
	switch {
	case c == '\t':
		return `'\t'`
	case c == '\n':
		return `'\n'`
	case c == '\r':
		return `'\r'`
	case c == 0:
		return `'\0'`
	case c == '\'' || c == '\\':
		return `'\` + string(rune(c)) + `'`
	case c < 0x20 || c == 0x7f:
		return fmt.Sprintf(`'\u{%x}'`, c)
	}
	return "'" + string(rune(c)) + "'"
}

// base58Decode decodes text into at most size bytes. As in bs58 the first error from the left is
// reported: a bad character after the point where the value exceeds size is not.
func base58Decode(text string, size int) ([]byte, error) {
	var small [9]uint64 // enough for secp256k1 signatures
	limbs := small[:0]  // little-endian
	if n := (size + 7) / 8; n > len(small) {
		limbs = make([]uint64, 0, n)
	}
	maxLimbs := (size + 7) / 8
	length := func() int { // returns the length of the value in bytes
		if len(limbs) == 0 {
			return 0
		}
		return 8*len(limbs) - bits.LeadingZeros64(limbs[len(limbs)-1])/8
	}
	// push appends n digits of value v and returns false if the value has outgrown the limbs.
	push := func(v uint64, n int) bool {
		mul := base58Power[n]
		for i, limb := range limbs {
			hi, lo := bits.Mul64(limb, mul)
			lo, carry := bits.Add64(lo, v, 0)
			limbs[i], v = lo, hi+carry // hi <= mul-1, so no overflow
		}
		if v != 0 {
			if len(limbs) == maxLimbs {
				return false
			}
			limbs = append(limbs, v)
		}
		return true
	}
	ones := 0
	for ones < len(text) && text[ones] == '1' {
		ones++
	}
	for at := ones; at < len(text); {
		var v uint64
		n := 0
		for ; n < base58Group && at < len(text); n, at = n+1, at+1 {
			c := text[at]
			if c >= 0x80 || base58Digit[c] == 0xff {
				if !push(v, n) || length() > size {
					return nil, errBase58TooLong
				}
				return nil, &base58CharError{c, at}
			}
			v = v*58 + uint64(base58Digit[c])
		}
		if !push(v, n) {
			return nil, errBase58TooLong
		}
	}
	n := length()
	if n+ones > size {
		return nil, errBase58TooLong
	}
	out := make([]byte, ones+n)
	for i := range n {
		out[len(out)-1-i] = byte(limbs[i/8] >> (i % 8 * 8))
	}
	return out, nil
}

// appendBase58 appends the text of raw.
func appendBase58(dst []byte, raw string) []byte {
	if len(raw) == 32 {
		return appendBase58Of32(dst, [32]byte([]byte(raw)))
	}
	return appendBase58ByDivision(dst, raw)
}

// appendBase58ByDivision appends the text of raw, which may have any length.
func appendBase58ByDivision(dst []byte, raw string) []byte {
	zeros := 0
	for zeros < len(raw) && raw[zeros] == 0 {
		zeros++
	}
	for range zeros {
		dst = append(dst, '1')
	}
	raw = raw[zeros:]
	var small [9]uint64
	limbs := small[:0] // big-endian
	if n := (len(raw) + 7) / 8; n > len(small) {
		limbs = make([]uint64, 0, n)
	}
	var limb uint64
	for i := range len(raw) {
		limb = limb<<8 | uint64(raw[i])
		if (len(raw)-1-i)%8 == 0 {
			limbs, limb = append(limbs, limb), 0
		}
	}
	start := len(dst)
	for len(limbs) > 0 { // least significant group first, reversed below
		var rem uint64
		for i, l := range limbs {
			limbs[i], rem = bits.Div64(rem, l, base58Power[base58Group])
		}
		for len(limbs) > 0 && limbs[0] == 0 {
			limbs = limbs[1:]
		}
		for n := 0; n < base58Group && (rem != 0 || len(limbs) > 0); n++ {
			dst = append(dst, base58Alphabet[rem%58])
			rem /= 58
		}
	}
	for i, j := start, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// DecodeBase58 decodes text into at most size bytes. RPC clients see the error texts, which are the
// texts of bs58. IsBase58TooLong distinguishes a value that is too large from bad characters.
func DecodeBase58(text string, size int) ([]byte, error) { return base58Decode(text, size) }

// IsBase58TooLong returns whether err means that the decoded value exceeds the requested size.
func IsBase58TooLong(err error) bool { return errors.Is(err, errBase58TooLong) }
