package rpc

import (
	"bytes"
	"runtime"
	"strconv"
)

// floatDigits is the number of digits of a number that shortNumber keeps. At most 767 digits decide
// the rounding of a float. shortNumber may add one digit; the number then has at most the 800
// digits that strconv handles exactly.
const floatDigits = 799

// parseFloat is strconv.ParseFloat for a valid JSON number, which may be as long as a body. strconv
// alone would run for tens of milliseconds without a preemption point, and stop-the-world phases
// would wait for it.
func parseFloat(raw []byte) (float64, error) {
	if len(raw) > floatDigits {
		raw = shortNumber(raw)
	}
	return strconv.ParseFloat(string(raw), 64)
}

// shortNumber returns a shorter number that rounds to the same float. If any dropped digit is not
// 0, shortNumber puts a single 1 in place of the dropped digits (a sticky digit), so that the float
// is rounded as if all digits were present.
func shortNumber(raw []byte) []byte {
	mantissa, exponent := raw, int64(0)
	if at := indexE(raw); at >= 0 {
		mantissa, exponent = raw[:at], shortExponent(raw[at+1:])
	}
	out := make([]byte, 0, floatDigits+32)
	if mantissa[0] == '-' {
		out, mantissa = append(out, '-'), mantissa[1:]
	}
	digits, point, rest := 0, false, false
	for i, c := range mantissa {
		if i%yieldBytes == yieldBytes-1 {
			runtime.Gosched()
		}
		switch {
		case c == '.':
			point = true
			continue
		case digits == 0 && c == '0':
		case digits < floatDigits:
			out = append(out, c)
			if digits++; !point {
				continue // a digit before the point leaves the exponent unchanged
			}
		default:
			rest = rest || c != '0'
			if !point {
				exponent++
			}
			continue
		}
		if point {
			exponent--
		}
	}
	switch {
	case digits == 0:
		return append(out, '0')
	case rest:
		out = append(out, '1')
		exponent--
	}
	return strconv.AppendInt(append(out, 'e'), exponent, 10)
}

// indexE returns the index of a number's exponent mark; -1 if it has none.
func indexE(raw []byte) int {
	if at := bytes.IndexByte(raw, 'e'); at >= 0 {
		return at
	}
	return bytes.IndexByte(raw, 'E')
}

// shortExponent parses an exponent. The result saturates at 2^40; no body has as many digits.
func shortExponent(text []byte) int64 {
	sign, n := int64(1), int64(0)
	switch text[0] {
	case '-':
		sign, text = -1, text[1:]
	case '+':
		text = text[1:]
	}
	for i, c := range text {
		if i%yieldBytes == yieldBytes-1 {
			runtime.Gosched()
		}
		if n < 1<<40 {
			n = n*10 + int64(c-'0')
		}
	}
	return sign * n
}
