package txtext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
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

// JSON returns JSON with indentation, ended by a new line. Characters that are not printable are
// escaped as JSON does it (\u202e), which does not change what it means. Errors: text that is not JSON.
func JSON(text []byte) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(json.RawMessage(text)); err != nil {
		return nil, err
	}
	if !bytes.ContainsFunc(b.Bytes(), isUnprintable) {
		return b.Bytes(), nil
	}
	var out []byte
	for _, r := range b.String() {
		switch {
		case !isUnprintable(r):
			out = utf8.AppendRune(out, r)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
	}
	return out, nil
}

func isUnprintable(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
