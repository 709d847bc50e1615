package genesis

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Bounds of the memory that a file can make the reader use.
const (
	MaxDepth = 128 // maximum nesting of arrays and objects, as in serde_json
	// maximum bytes of one record or field without comments and blanks, enough for a contract of 48
	// MB
	MaxValue = 64 << 20
)

// Error is an error in a file, with its position. Line and column count from 1, columns in bytes.
type Error struct {
	Line, Column int
	Path         string // path of the value, such as records[3].Account.account.amount; empty: the file as a whole
	Err          error
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("line %d column %d: %v", e.Line, e.Column, e.Err)
	}
	return fmt.Sprintf("line %d column %d: %s: %v", e.Line, e.Column, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// errSyntax is wrapped by syntax errors.
var errSyntax = errors.New("invalid JSON")

// scanner splits a JSON document into the values that are decoded one at a time. It checks the
// syntax of everything it passes, and drops blanks and comments. The first error sticks; after it
// the document seems to end.
type scanner struct {
	r         io.Reader
	buf       []byte // bytes that were read; those from pos on are not scanned yet
	pos       int
	ended     bool   // r is at its end
	base      int64  // offset of buf[0] in the file
	line      int    // lines completed so far
	lineStart int64  // offset of the current line
	path      []step // path of the value that is being extracted, for errors
	err       error
	removals  bool // see cursor
}

func newScanner(r io.Reader) *scanner { return &scanner{r: r, buf: make([]byte, 0, 64<<10)} }

// fail sets the error, with the current position unless err is an *Error.
func (s *scanner) fail(err error) {
	if s.err == nil {
		if e := new(Error); !errors.As(err, &e) {
			err = &Error{Line: s.line + 1, Column: int(s.base+int64(s.pos)-s.lineStart) + 1, Path: pathString(s.path), Err: err}
		}
		s.err = err
	}
	s.buf, s.pos, s.ended = s.buf[:0], 0, true
}

func (s *scanner) syntax(format string, args ...any) {
	s.fail(fmt.Errorf("%w: %s", errSyntax, fmt.Sprintf(format, args...)))
}

// fill reads more input if all of buf has been scanned. It returns false at the end of the input.
func (s *scanner) fill() bool {
	if s.pos < len(s.buf) {
		return true
	}
	s.base += int64(len(s.buf))
	s.buf, s.pos = s.buf[:0], 0
	for tries := 0; !s.ended; tries++ {
		n, err := s.r.Read(s.buf[:cap(s.buf)])
		s.buf = s.buf[:n]
		switch {
		case err == io.EOF:
			s.ended = true
		case err != nil:
			s.fail(err)
			return false
		case n == 0 && tries == 100:
			s.fail(io.ErrNoProgress)
			return false
		}
		if n > 0 {
			return true
		}
	}
	return false
}

// peek returns the next byte, 0 at the end. A NUL in the file is refused everywhere.
func (s *scanner) peek() byte {
	if s.pos < len(s.buf) || s.fill() {
		return s.buf[s.pos]
	}
	return 0
}

// newline notes the end of a line at buf[i].
func (s *scanner) newline(i int) {
	s.line++
	s.lineStart = s.base + int64(i) + 1
}

// space skips blanks and comments, and returns the next byte.
func (s *scanner) space() byte {
	for {
		switch c := s.peek(); c {
		case ' ', '\t', '\r':
			s.pos++
		case '\n':
			s.newline(s.pos)
			s.pos++
		case '#':
			s.lineComment()
		case '/':
			s.pos++
			switch s.peek() {
			case '/':
				s.lineComment()
			case '*':
				s.pos++
				s.blockComment()
			default:
				s.syntax("a lone slash")
			}
		default:
			return c
		}
	}
}

func (s *scanner) lineComment() {
	for s.fill() {
		i := bytes.IndexByte(s.buf[s.pos:], '\n')
		if i >= 0 {
			s.pos += i
			return
		}
		s.pos = len(s.buf)
	}
}

func (s *scanner) blockComment() {
	for star := false; s.fill(); s.pos++ {
		c := s.buf[s.pos]
		if c == '\n' {
			s.newline(s.pos)
		}
		if star && c == '/' {
			s.pos++
			return
		}
		star = c == '*'
	}
	s.syntax("comment without an end")
}

// expect skips blanks and then c.
func (s *scanner) expect(c byte) bool {
	if got := s.space(); got != c {
		if s.err == nil && got == 0 && !s.fill() {
			s.syntax("the file ends where %q should be", c)
		}
		s.syntax("%q where %q should be", got, c)
		return false
	}
	s.pos++
	return true
}

// object calls f with the key of each member; f must consume its value.
func (s *scanner) object(f func(key string)) {
	if !s.expect('{') {
		return
	}
	if s.space() == '}' {
		s.pos++
		return
	}
	for s.err == nil {
		if s.space() != '"' {
			s.syntax("a key must be a string")
			return
		}
		key := s.str(nil)
		if s.err != nil {
			return
		}
		text, err := unquote(key)
		if err != nil {
			s.fail(err)
		}
		if !s.expect(':') {
			return
		}
		f(text)
		if s.space() == ',' {
			s.pos++
			continue
		}
		s.expect('}')
		return
	}
}

// array calls f before each item; f must consume it.
func (s *scanner) array(f func()) {
	if !s.expect('[') {
		return
	}
	if s.space() == ']' {
		s.pos++
		return
	}
	for s.err == nil {
		f()
		if s.space() == ',' {
			s.pos++
			continue
		}
		s.expect(']')
		return
	}
}

// end checks that nothing follows.
func (s *scanner) end() {
	if c := s.space(); c != 0 || s.fill() {
		s.syntax("%q after the end", c)
	}
}

// value appends the next value to b, without blanks and comments.
func (s *scanner) value(b []byte, depth int) []byte {
	if depth > MaxDepth {
		s.syntax("nested deeper than %d", MaxDepth)
		return b
	}
	if len(b) > MaxValue {
		s.syntax("a value of more than %d bytes", MaxValue)
		return b
	}
	switch c := s.space(); {
	case c == '"':
		return s.str(b)
	case c == '{':
		s.pos++
		b = append(b, c)
		if s.space() == '}' {
			s.pos++
			return append(b, '}')
		}
		for s.err == nil {
			if s.space() != '"' {
				s.syntax("a key must be a string")
				return b
			}
			b = s.str(b)
			s.expect(':')
			b = s.value(append(b, ':'), depth+1)
			if s.space() != ',' {
				s.expect('}')
				return append(b, '}')
			}
			s.pos++
			b = append(b, ',')
		}
	case c == '[':
		s.pos++
		b = append(b, c)
		if s.space() == ']' {
			s.pos++
			return append(b, ']')
		}
		for s.err == nil {
			b = s.value(b, depth+1)
			if s.space() != ',' {
				s.expect(']')
				return append(b, ']')
			}
			s.pos++
			b = append(b, ',')
		}
	case c == '-' || c >= '0' && c <= '9':
		return s.word(b, isNumber, "number")
	case c >= 'a' && c <= 'z':
		return s.word(b, isLiteral, "literal")
	case c == 0 && s.err == nil && !s.fill():
		s.syntax("the file ends where a value should be")
	default:
		s.syntax("%q where a value should be", c)
	}
	return b
}

// str appends a string with its quotes; the opening quote is next.
func (s *scanner) str(b []byte) []byte {
	from := len(b)
	b = append(b, '"')
	s.pos++
	for escaped := false; s.fill(); {
		i := s.pos
		for i < len(s.buf) {
			c := s.buf[i]
			if c < 0x20 {
				s.pos = i
				s.syntax("control character %#02x in a string", c)
				return b
			}
			i++
			if escaped {
				escaped = false
			} else if c == '\\' {
				escaped = true
			} else if c == '"' {
				b = append(b, s.buf[s.pos:i]...)
				s.pos = i
				if !utf8.Valid(b[from:]) {
					s.syntax("a string is not UTF-8")
				}
				return b
			}
		}
		b = append(b, s.buf[s.pos:i]...)
		s.pos = i
		if len(b) > MaxValue {
			s.syntax("a value of more than %d bytes", MaxValue)
			return b
		}
	}
	s.syntax("string without an end")
	return b
}

// word appends a number or literal.
func (s *scanner) word(b []byte, ok func([]byte) bool, what string) []byte {
	from := len(b)
	for {
		c := s.peek()
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '+' && c != '.' && c != 'E' {
			break
		}
		b = append(b, c)
		s.pos++
		if len(b)-from > 400 { // longer than any number that a field can hold
			break
		}
	}
	if s.err == nil && !ok(b[from:]) {
		s.syntax("%.40q is no %s", b[from:], what)
	}
	return b
}

func isLiteral(b []byte) bool {
	return string(b) == "null" || string(b) == "true" || string(b) == "false"
}

// isNumber checks the grammar of JSON numbers.
func isNumber(b []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(b) && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		b = b[n:]
		return n > 0
	}
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	if len(b) > 1 && b[0] == '0' && b[1] >= '0' && b[1] <= '9' || !digits() {
		return false
	}
	if len(b) > 0 && b[0] == '.' {
		b = b[1:]
		if !digits() {
			return false
		}
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b = b[1:]
		if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(b) == 0
}

// skip skips a value. It only checks that strings end and brackets match, so that the pass that
// does not need the records is fast.
func (s *scanner) skip() {
	var open []byte // closing brackets that are still to come
	for {
		c := s.space()
		switch c {
		case '"':
			s.skipString()
		case '{', '[':
			s.pos++
			if open = append(open, c+2); len(open) > MaxDepth { // '{'+2 is '}', '['+2 is ']'
				s.syntax("nested deeper than %d", MaxDepth)
			}
			continue
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				s.syntax("%q where a value should be", c)
				return
			}
			s.pos++
			open = open[:len(open)-1]
		case 0:
			s.syntax("the file ends inside a value")
		default:
			s.pos++
			if len(open) == 0 { // a number or literal by itself
				s.pos--
				s.value(nil, 0)
			}
		}
		if len(open) == 0 || s.err != nil {
			return
		}
	}
}

func (s *scanner) skipString() {
	s.pos++
	for escaped := false; s.fill(); {
		for i, c := range s.buf[s.pos:] {
			if escaped {
				escaped = false
			} else if c == '\\' {
				escaped = true
			} else if c == '"' {
				s.pos += i + 1
				return
			}
		}
		s.pos = len(s.buf)
	}
	s.syntax("string without an end")
}
