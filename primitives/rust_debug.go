package primitives

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// RustDebug returns text as Rust's {:?} writes a str. Clients of neard compare such texts.
func RustDebug(text string) string {
	out := []byte{'"'}
	for _, r := range text {
		if r == '\'' {
			out = append(out, '\'')
		} else {
			out = AppendRustChar(out, r)
		}
	}
	return string(append(out, '"'))
}

// AppendRustChar appends a character as Rust escapes it in debug output.
func AppendRustChar(b []byte, r rune) []byte {
	switch r {
	case '"', '\\', '\'':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	case 0:
		return append(b, `\0`...)
	}
	if r < 0x20 || r == 0x7f || !unicode.IsPrint(r) {
		return fmt.Appendf(b, `\u{%x}`, r)
	}
	return utf8.AppendRune(b, r)
}
