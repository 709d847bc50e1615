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

// maxIndent is the number of levels of JSON that are indented. The indentation of deeper text would
// be larger than the text by a factor of its depth.
const maxIndent = 64

// JSON returns JSON with indentation, ended by a new line. JSON with more than maxIndent levels is on
// one line. Characters that are not printable are escaped as JSON does it (\u202e), which does not
// change what it means; bytes that are not UTF-8 become U+FFFD, as every JSON parser reads them.
// Errors: text that is not JSON.
func JSON(text []byte) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if depth(text) <= maxIndent {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(json.RawMessage(text)); err != nil {
		return nil, err
	}
	if !bytes.ContainsFunc(b.Bytes(), isUnprintable) && utf8.Valid(b.Bytes()) {
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

// depth returns the number of levels of JSON text.
func depth(text []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

// Lines returns untrusted text of several lines. It formats each of the first maxLines lines as
// Line does, but keeps the tabs at the beginning of a line. After these lines, it states the number
// of the remaining lines.
func Lines(text string) string {
	const maxLines, maxLine = 100, 8000
	var b strings.Builder
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		if n++; n > maxLines {
			continue
		}
		if n > 1 {
			b.WriteByte('\n')
		}
		text := strings.TrimLeft(line, "\t")
		b.WriteString(strings.Repeat("\t", min(len(line)-len(text), maxIndent)))
		b.WriteString(Line(text, maxLine))
	}
	if n > maxLines {
		fmt.Fprintf(&b, "\n... (%d lines)", n)
	}
	return b.String()
}

func isUnprintable(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
