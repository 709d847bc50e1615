package rpc

import (
	"bytes"
	"runtime"
	"strconv"
	"unicode/utf8"
)

// maxDepth is serde_json's recursion limit. Containers that are nested deeper are rejected.
const maxDepth = 127

// syntaxError is the error of an invalid JSON text. The text, the position and the path equal those
// of serde_json and serde_path_to_error, which neard shows to clients.
type syntaxError struct {
	text string
	at   int    // offset in the text from which line and column are computed
	path []byte // path to the invalid value, outermost segment first
	over int    // the exceeded bound, overNodes or overItems; 0: the syntax is invalid
}

// maxPath is the maximum length of the path in the error text, in bytes. Inner segments beyond this
// length are left out.
const maxPath = 512

// in adds the next outer segment to the path.
func (e *syntaxError) in(segment string) {
	if len(e.path) > maxPath {
		e.path = append(e.path[:maxPath-len(clipped)], clipped...)
	}
	e.path = append([]byte(segment), e.path...)
}

// message returns "path: text at line L column C".
func (e *syntaxError) message(text []byte) string {
	at := min(e.at, len(text))
	line, column := 1, at
	for from := 0; from < at; from += yieldBytes { // the scheduler can preempt the goroutine only between two pieces
		piece := text[from:min(at, from+yieldBytes)]
		if i := bytes.LastIndexByte(piece, '\n'); i >= 0 {
			line, column = line+bytes.Count(piece, []byte("\n")), at-from-i-1
		}
	}
	out := []byte(nil)
	if len(e.path) > 0 {
		out = append(append(out, bytes.TrimPrefix(e.path, []byte("."))...), ": "...)
	}
	out = append(append(out, e.text...), " at line "...)
	out = strconv.AppendInt(out, int64(line), 10)
	return string(strconv.AppendInt(append(out, " column "...), int64(column), 10))
}

// scanner parses a text into a document. The rules and the order of the checks are serde_json's.
type scanner struct {
	*document
	pos   int
	depth int
}

// The scanner checks bounds while it reads a text. So a text that exceeds a bound costs no more
// than a text within the bounds. Zero means no bound.
type bounds struct {
	nodes int // maximum number of values and keys together
	items int // maximum number of items of an array that is the whole text
}

// The bounds that a text can exceed, for syntaxError.over.
const (
	overNodes = 1 + iota
	overItems
)

// parse reads the first JSON value of text. parse ignores the text after that value, as neard does.
// The document aliases text.
func (d *document) parse(text []byte) *syntaxError {
	d.text, d.nodes = text, d.nodes[:0]
	s := scanner{document: d}
	_, err := s.value()
	return err
}

// tooMuch returns the error of a text that exceeds a bound.
func (s *scanner) tooMuch(over int) *syntaxError { return &syntaxError{over: over, at: s.pos} }

// fail reports an error at the current position, as serde_json's Deserializer::error does. peekFail
// reports an error one position after the current one, as Deserializer::peek_error does: in these
// cases serde_json has peeked at the next character and counts that character.
func (s *scanner) fail(text string) *syntaxError { return &syntaxError{text: text, at: s.pos} }
func (s *scanner) peekFail(text string) *syntaxError {
	return &syntaxError{text: text, at: min(s.pos+1, len(s.text))}
}

// space skips blanks. space returns false at the end of the text.
func (s *scanner) space() bool {
	if s.pos < len(s.text) && s.text[s.pos] > ' ' {
		return true
	}
	return s.blanks()
}

func (s *scanner) blanks() bool {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\n', '\t', '\r':
			if s.pos++; s.pos%yieldBytes == 0 {
				runtime.Gosched()
			}
		default:
			return true
		}
	}
	return false
}

// How much is read until other goroutines may run. yieldEvery is a number of nodes, yieldBytes a
// number of bytes of one value. Reading that many nodes, or that many bytes, takes some 100 µs.
const (
	yieldEvery = 1 << 12
	yieldBytes = 1 << 16
)

func (s *scanner) add(n node) uint32 {
	if len(s.nodes)%yieldEvery == yieldEvery-1 {
		runtime.Gosched()
	}
	s.nodes = append(s.nodes, n)
	return uint32(len(s.nodes) - 1)
}

// value parses one value and returns its node.
func (s *scanner) value() (uint32, *syntaxError) {
	if !s.space() {
		return 0, s.peekFail("EOF while parsing a value")
	}
	if s.limit.nodes > 0 && len(s.nodes) >= s.limit.nodes {
		return 0, s.tooMuch(overNodes)
	}
	start := s.pos
	switch c := s.text[s.pos]; {
	case c == '"':
		s.pos++
		return s.string()
	case c == '{':
		return s.container(kObject, s.object)
	case c == '[':
		return s.container(kArray, s.array)
	case c == 'n':
		return s.ident(kNull, "null")
	case c == 't':
		return s.ident(kTrue, "true")
	case c == 'f':
		return s.ident(kFalse, "false")
	case c == '-' || c >= '0' && c <= '9':
		if err := s.number(); err != nil {
			return 0, err
		}
		return s.add(node{kind: kNumber, start: uint32(start), end: uint32(s.pos)}), nil
	}
	return 0, s.peekFail("expected value")
}

func (s *scanner) ident(k kind, word string) (uint32, *syntaxError) {
	start := s.pos
	for i := 1; i < len(word); i++ {
		s.pos++
		if s.pos >= len(s.text) {
			return 0, s.fail("EOF while parsing a value")
		}
		if s.text[s.pos] != word[i] {
			s.pos++
			return 0, s.fail("expected ident")
		}
	}
	s.pos++
	return s.add(node{kind: k, start: uint32(start), end: uint32(s.pos)}), nil
}

func (s *scanner) digits() (n int) {
	for s.pos < len(s.text) && s.text[s.pos]-'0' <= 9 {
		s.pos++
		if n++; n%yieldBytes == 0 {
			runtime.Gosched()
		}
	}
	return n
}

func (s *scanner) number() *syntaxError {
	start, plain := s.pos, true
	if s.text[s.pos] == '-' {
		s.pos++
	}
	switch {
	case s.pos >= len(s.text):
		return s.fail("EOF while parsing a value")
	case s.text[s.pos] == '0':
		s.pos++
		if s.pos < len(s.text) && s.text[s.pos]-'0' <= 9 {
			return s.peekFail("invalid number")
		}
	case s.digits() == 0:
		s.pos++
		return s.fail("invalid number")
	}
	if s.pos < len(s.text) && s.text[s.pos] == '.' {
		plain = false
		s.pos++
		if s.digits() == 0 {
			if s.pos >= len(s.text) {
				return s.peekFail("EOF while parsing a value")
			}
			return s.peekFail("invalid number")
		}
	}
	if s.pos < len(s.text) && s.text[s.pos]|0x20 == 'e' {
		plain = false
		s.pos++
		if s.pos < len(s.text) && (s.text[s.pos] == '+' || s.text[s.pos] == '-') {
			s.pos++
		}
		if s.pos >= len(s.text) {
			return s.fail("EOF while parsing a value")
		}
		if s.digits() == 0 {
			s.pos++
			return s.fail("invalid number")
		}
	}
	if plain && s.pos-start < 300 { // too short to overflow a float64
		return nil
	}
	if _, err := parseFloat(s.text[start:s.pos]); err != nil {
		return s.fail("number out of range")
	}
	return nil
}

// string parses the part of a string after its opening quote and returns its node.
func (s *scanner) string() (uint32, *syntaxError) {
	start, escaped, high := s.pos, false, byte(0)
	text := s.text[:min(len(s.text), start+yieldBytes)]
	for {
		i := s.pos
		for i < len(text) { // most bytes are neither quotes nor escapes
			c := text[i]
			if c < 0x20 || c == '"' || c == '\\' {
				break
			}
			high |= c
			i++
		}
		if s.pos = i; i >= len(text) {
			if i >= len(s.text) {
				return 0, s.fail("EOF while parsing a string")
			}
			runtime.Gosched()
			text = s.text[:min(len(s.text), i+yieldBytes)]
			continue
		}
		s.pos++
		switch text[i] {
		case '"':
			if high >= 0x80 && !validUTF8(s.text[start:i]) {
				return 0, s.fail("invalid unicode code point")
			}
			return s.add(node{kind: kString, start: uint32(start), end: uint32(i), escaped: escaped}), nil
		case '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return 0, err
			}
		default:
			return 0, s.fail(`control character (\u0000-\u001F) found while parsing a string`)
		}
	}
}

// validUTF8 is utf8.Valid in pieces, with preemption points between the pieces.
func validUTF8(text []byte) bool {
	for len(text) > yieldBytes {
		n := yieldBytes
		for n > yieldBytes-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		if !utf8.Valid(text[:n]) {
			return false
		}
		text = text[n:]
		runtime.Gosched()
	}
	return utf8.Valid(text)
}

// escape parses the part of an escape after its backslash.
func (s *scanner) escape() *syntaxError {
	if s.pos >= len(s.text) {
		return s.fail("EOF while parsing a string")
	}
	c := s.text[s.pos]
	s.pos++
	if c != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0 {
			return s.fail("invalid escape")
		}
		return nil
	}
	first, err := s.hex()
	if err != nil {
		return err
	}
	switch {
	case first >= 0xdc00 && first <= 0xdfff:
		return s.fail("lone leading surrogate in hex escape")
	case first < 0xd800 || first > 0xdbff:
		return nil
	}
	for _, want := range []byte{'\\', 'u'} {
		if s.pos >= len(s.text) {
			return s.fail("EOF while parsing a string")
		}
		s.pos++
		if s.text[s.pos-1] != want {
			return s.fail("unexpected end of hex escape")
		}
	}
	second, err := s.hex()
	if err == nil && (second < 0xdc00 || second > 0xdfff) {
		return s.fail("lone leading surrogate in hex escape")
	}
	return err
}

func (s *scanner) hex() (int32, *syntaxError) {
	if len(s.text)-s.pos < 4 {
		s.pos = len(s.text)
		return 0, s.fail("EOF while parsing a string")
	}
	v := hex4(s.text[s.pos:])
	s.pos += 4
	if v < 0 {
		return 0, s.fail("invalid escape")
	}
	return v, nil
}

// container parses an object or array. container fails if the nesting is deeper than maxDepth.
func (s *scanner) container(k kind, body func(at uint32) *syntaxError) (uint32, *syntaxError) {
	if s.depth >= maxDepth {
		return 0, s.peekFail("recursion limit exceeded")
	}
	s.depth++
	at := s.add(node{kind: k, start: uint32(s.pos)})
	s.pos++
	if err := body(at); err != nil {
		return 0, err
	}
	s.depth--
	s.nodes[at].end = uint32(s.pos)
	return at, nil
}

func (s *scanner) array(at uint32) *syntaxError {
	last := uint32(0)
	for i := 0; ; i++ {
		if !s.space() {
			return s.peekFail("EOF while parsing a list")
		}
		c := s.text[s.pos]
		if c == ']' {
			s.pos++
			return nil
		}
		if i > 0 {
			if c != ',' {
				return s.peekFail("expected `,` or `]`")
			}
			s.pos++
			if !s.space() {
				return s.peekFail("EOF while parsing a value")
			}
			if s.text[s.pos] == ']' {
				return s.peekFail("trailing comma")
			}
		}
		if s.depth == 1 && s.limit.items > 0 && i == s.limit.items {
			return s.tooMuch(overItems)
		}
		child, err := s.value()
		if err != nil {
			err.in("[" + strconv.Itoa(i) + "]")
			return err
		}
		last = s.link(at, last, child)
	}
}

// link appends child to the children of node at. last is the last child; 0: none.
func (s *scanner) link(at, last, child uint32) uint32 {
	if last == 0 {
		s.nodes[at].child = child
	} else {
		s.nodes[last].next = child
	}
	s.nodes[at].count++
	return child
}

func (s *scanner) object(at uint32) *syntaxError {
	last := uint32(0)
	for i := 0; ; i++ {
		if !s.space() {
			return s.peekFail("EOF while parsing an object")
		}
		c := s.text[s.pos]
		if c == '}' {
			s.pos++
			return nil
		}
		if i > 0 {
			if c != ',' {
				return s.peekFail("expected `,` or `}`")
			}
			s.pos++
			if !s.space() {
				return s.peekFail("EOF while parsing a value")
			}
			if c = s.text[s.pos]; c == '}' {
				return s.peekFail("trailing comma")
			}
		}
		if c != '"' {
			return s.peekFail("key must be a string")
		}
		s.pos++
		key, err := s.string()
		if err != nil {
			return err
		}
		value, err := s.member()
		if err != nil {
			err.in("." + string(clipText(val{s.document, key}.raw())))
			return err
		}
		s.nodes[key].child = value
		last = s.link(at, last, key)
	}
}

// member parses the part of a member after its key.
func (s *scanner) member() (uint32, *syntaxError) {
	if !s.space() {
		return 0, s.peekFail("EOF while parsing an object")
	}
	if s.text[s.pos] != ':' {
		return 0, s.peekFail("expected `:`")
	}
	s.pos++
	return s.value()
}
