package localnet

import "unicode/utf8"

// Keys that are not characters.
const (
	KeyUp rune = -1 - iota
	KeyDown
	KeyLeft
	KeyRight
	KeyPageUp
	KeyPageDown
	KeyHome
	KeyEnd
	KeyEscape
)

const ctrlC = 3

// sequences maps the end of an escape sequence, after "ESC [" or "ESC O", to the key that sends the
// sequence.
var sequences = map[string]rune{
	"A": KeyUp, "B": KeyDown, "C": KeyRight, "D": KeyLeft, "H": KeyHome, "F": KeyEnd,
	"1~": KeyHome, "7~": KeyHome, "4~": KeyEnd, "8~": KeyEnd, "5~": KeyPageUp, "6~": KeyPageDown,
}

// maxSequence is the maximum length of an escape sequence. A longer one is dropped.
const maxSequence = 16

// keyReader decodes key presses from terminal input, which may arrive in pieces. keyReader drops
// unknown escape sequences, such as the sequences of function keys.
type keyReader struct{ rest []byte }

// keys decodes the next input and returns the keys in it.
func (d *keyReader) keys(in []byte) (out []rune) {
	in = append(d.rest, in...)
	d.rest = nil
	for len(in) > 0 {
		if in[0] != 0x1b {
			r, n := utf8.DecodeRune(in)
			out, in = append(out, r), in[n:]
			continue
		}
		if len(in) == 1 || in[1] != '[' && in[1] != 'O' {
			out, in = append(out, KeyEscape), in[1:]
			continue
		}
		end := 2
		for end < len(in) && (in[end] < 0x40 || in[end] > 0x7e) {
			end++
		}
		if end == len(in) {
			if len(in) <= maxSequence {
				d.rest = in
			}
			return out
		}
		if k, ok := sequences[string(in[2:end+1])]; ok {
			out = append(out, k)
		}
		in = in[end+1:]
	}
	return out
}
