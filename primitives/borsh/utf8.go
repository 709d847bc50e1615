package borsh

import (
	"fmt"
	"unicode/utf8"
)

// utf8Fault describes what is wrong with a text that is not UTF-8, in the words of Rust's
// Utf8Error.
func utf8Fault(b []byte) string {
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n <= 1 {
			break
		}
		at += n
	}
	n := badSequence(b[at:])
	if n == 0 {
		return fmt.Sprintf("incomplete utf-8 byte sequence from index %d", at)
	}
	return fmt.Sprintf("invalid utf-8 sequence of %d bytes from index %d", n, at)
}

// badSequence returns the length in bytes of the invalid sequence at the start of b: as many bytes
// as could begin a valid sequence, at least 1. It returns 0 if b ends before the sequence is
// complete.
func badSequence(b []byte) int {
	low, high, width := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		width = 2
	case c >= 0xe0 && c <= 0xef:
		width = 3
		if c == 0xe0 {
			low = 0xa0
		} else if c == 0xed {
			high = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		width = 4
		if c == 0xf0 {
			low = 0x90
		} else if c == 0xf4 {
			high = 0x8f
		}
	default:
		return 1
	}
	for i := 1; i < width; i++ {
		if i == len(b) {
			return 0
		}
		if b[i] < low || b[i] > high {
			return i
		}
		low, high = 0x80, 0xbf
	}
	return width
}
