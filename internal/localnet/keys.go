package localnet

import "unicode/utf8"

// The keys that are no characters.
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

// sequences are the keys by the end of their escape sequence, after "ESC [" or "ESC O".
var sequences = map[string]rune{
	"A": KeyUp, "B": KeyDown, "C": KeyRight, "D": KeyLeft, "H": KeyHome, "F": KeyEnd,
	"1~": KeyHome, "7~": KeyHome, "4~": KeyEnd, "8~": KeyEnd, "5~": KeyPageUp, "6~": KeyPageDown,
}

// maxSequence bounds an escape sequence; a longer one is dropped.
const maxSequence = 16

// keyReader decodes key presses from terminal input, which may arrive in parts. It drops escape
// sequences of other keys.
type keyReader struct{ rest []byte }

// keys returns the keys of the next input.
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
