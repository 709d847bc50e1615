package rpc

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// decodeBase64 decodes padded standard base64. Its errors are those of the base64 crate that nearcore uses, 0.21.0.
func decodeBase64(text []byte) ([]byte, error) {
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") { // which Go would skip
		return nil, base64Error(text)
	}
	return out[:n], nil
}

func base64Value(c byte) (v byte, ok bool) {
	switch {
	case c >= 'A' && c <= 'Z':
		return c - 'A', true
	case c >= 'a' && c <= 'z':
		return c - 'a' + 26, true
	case c >= '0' && c <= '9':
		return c - '0' + 52, true
	case c == '+':
		return 62, true
	case c == '/':
		return 63, true
	}
	return 0, false
}

// base64Error says what is wrong with a text that does not decode: the crate's checks in its order. It decodes all but
// the last up to eight bytes in one loop, then those with regard to padding.
func base64Error(text []byte) error {
	badByte := func(i int) error { return textError(fmt.Sprintf("Invalid byte %d, offset %d.", text[i], i)) }
	n := len(text)
	if n%4 == 1 && text[n-1] != '=' {
		if _, ok := base64Value(text[n-1]); !ok {
			return badByte(n - 1)
		}
	}
	tail := n - n%8
	if tail == n {
		tail -= 8
	}
	tail = max(tail, 0)
	for i := range tail {
		if _, ok := base64Value(text[i]); !ok {
			return badByte(i)
		}
	}
	pads, firstPad, symbols := 0, 0, 0
	var last, lastAt = byte(0), 0
	for i := range n - tail {
		c := text[tail+i]
		if c == '=' {
			if pads == 0 {
				firstPad = i
			}
			if i%4 < 2 {
				return badByte(tail + firstPad)
			}
			pads++
			continue
		}
		if pads > 0 {
			return badByte(tail + firstPad)
		}
		v, ok := base64Value(c)
		if !ok {
			return badByte(tail + i)
		}
		symbols, last, lastAt = symbols+1, v, tail+i
	}
	switch {
	case symbols%4 == 1:
		return textError("Encoded text cannot have a 6-bit remainder.")
	case (symbols+pads)%4 != 0:
		return textError("Invalid padding")
	case symbols%4 == 2 && last&0xf != 0, symbols%4 == 3 && last&3 != 0:
		return textError(fmt.Sprintf("Invalid last symbol %d, offset %d.", text[lastAt], lastAt))
	}
	return textError("Invalid padding")
}
