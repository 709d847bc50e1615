package primitives

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// Base64Error is the error of invalid base64 text. The texts are the texts of the base64 crate
// 0.21.0, which nearcore shows to its clients.
type Base64Error struct{ Text string }

func (e *Base64Error) Error() string { return e.Text }

// DecodeBase64 decodes standard base64 with canonical padding, as nearcore reads signed
// transactions. The error is a *Base64Error.
func DecodeBase64(text []byte) ([]byte, error) { return decodeBase64(text, true) }

// DecodeBase64AnyPadding decodes standard base64 with full, partial or no padding, as nearcore
// reads every other field (serde_with's Base64 uses the crate's PAD_INDIFFERENT). Padding, if
// present, must be at the end. The error is a *Base64Error.
func DecodeBase64AnyPadding(text []byte) ([]byte, error) { return decodeBase64(text, false) }

func decodeBase64(text []byte, padded bool) ([]byte, error) {
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)+3))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	if err == nil && !bytes.ContainsAny(text, "\r\n") { // Go's decoder would skip line breaks
		return out[:n], nil
	}
	if err := base64Fault(text, padded); err != nil {
		return nil, err
	}
	n, err = base64.RawStdEncoding.Strict().Decode(out, bytes.TrimRight(text, "="))
	if err != nil { // unreachable: base64Fault has accepted the text by the rules of the decoder
		return nil, &Base64Error{err.Error()}
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

// base64Fault returns the error of a text, nil if the text is valid. base64Fault makes the crate's
// checks in the crate's order: the length, then all bytes except the last one to eight, then these
// bytes together with the padding.
func base64Fault(text []byte, padded bool) error {
	fault := func(format string, args ...any) error { return &Base64Error{fmt.Sprintf(format, args...)} }
	badByte := func(i int) error { return fault("Invalid byte %d, offset %d.", text[i], i) }
	n := len(text)
	if n%4 == 1 {
		if _, ok := base64Value(text[n-1]); !ok && text[n-1] != '=' {
			return badByte(n - 1)
		}
		return fault("Encoded text cannot have a 6-bit remainder.")
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
	case padded && (symbols+pads)%4 != 0:
		return fault("Invalid padding")
	case symbols%4 == 2 && last&0xf != 0, symbols%4 == 3 && last&3 != 0:
		return fault("Invalid last symbol %d, offset %d.", text[lastAt], lastAt)
	}
	return nil
}
