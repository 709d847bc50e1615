package primitives

import "errors"

// Errors of StripJSONComments.
var (
	errJSONSlash = errors.New("a / outside of a string does not start a comment")
	ErrJSONEnd   = errors.New("the text ends within a string or comment")
)

// StripJSONComments returns a copy of in with the comments that nearcore allows in its files (//, #
// and /* */) replaced by spaces, so that offsets and lines are unchanged.
func StripJSONComments(in []byte) ([]byte, error) {
	out := append(make([]byte, 0, len(in)), in...)
	for i := 0; i < len(out); i++ {
		switch out[i] {
		case '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
			if i >= len(out) {
				return nil, ErrJSONEnd
			}
		case '#':
			i = blankLine(out, i)
		case '/':
			switch {
			case i+1 < len(out) && out[i+1] == '/':
				i = blankLine(out, i)
			case i+1 < len(out) && out[i+1] == '*':
				end := i + 2
				for ; end+1 < len(out) && (out[end] != '*' || out[end+1] != '/'); end++ {
				}
				if end+1 >= len(out) {
					return nil, ErrJSONEnd
				}
				for ; i < end+2; i++ {
					if out[i] != '\n' {
						out[i] = ' '
					}
				}
				i--
			default:
				return nil, errJSONSlash
			}
		}
	}
	return out, nil
}

// blankLine replaces the rest of a line by spaces and returns the index of its last byte.
func blankLine(b []byte, i int) int {
	for ; i < len(b) && b[i] != '\n'; i++ {
		b[i] = ' '
	}
	return i
}
