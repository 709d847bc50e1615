package txtext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns untrusted text for one line of a terminal: at most limit bytes of it, with every
// character that is not printable written as an escape (\n, \x1b, \u202e). So text cannot move the
// cursor, change colors, start a new line or reverse the direction of writing. If text is longer,
// the result ends in "... (N bytes)".
func Line(text string, limit int) string {
	cut := text
	if len(cut) > limit {
		cut = cut[:limit]
		for len(cut) > 0 && !utf8.RuneStart(text[len(cut)]) { // keep whole characters
			cut = cut[:len(cut)-1]
		}
	}
	var b strings.Builder
	for i := 0; i < len(cut); {
		r, n := utf8.DecodeRuneInString(cut[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, cut[i])
		case unicode.IsPrint(r):
			b.WriteString(cut[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	if len(cut) < len(text) {
		fmt.Fprintf(&b, "... (%d bytes)", len(text))
	}
	return b.String()
}
