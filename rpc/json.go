package rpc

import (
	"bytes"
	"math"
	"runtime"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// kind is the kind of a JSON value.
type kind byte

const (
	kNull kind = iota
	kFalse
	kTrue
	kNumber
	kString
	kArray
	kObject
)

// node is a JSON value. The members of an object are key nodes, linked by next. The child of a key
// node is the member's value.
type node struct {
	start, end  uint32 // offsets of the value's text in document.text; of a string: without the quotes
	child, next uint32 // indices of nodes; 0: none
	count       uint32 // number of items of an array or members of an object
	kind        kind
	escaped     bool // the text of the string contains backslash escapes
}

// document is a parsed JSON text. All values alias the text. The next parse reuses the document and
// invalidates its values.
type document struct {
	text  []byte
	nodes []node
	limit bounds

	asks  bool     // true: get on the root value records the requested names in asked
	asked []string // the recorded names, for unknownMember
	root  uint32
}

// val is a value of a document. The zero val is null.
type val struct {
	doc *document
	at  uint32
}

func (v val) node() *node {
	if v.doc == nil {
		return &nullNode
	}
	return &v.doc.nodes[v.at]
}

var nullNode = node{kind: kNull}

func (v val) kind() kind { return v.node().kind }

func (v val) isNull() bool { return v.kind() == kNull }

// raw returns the text of a value, without the quotes of a string.
func (v val) raw() []byte {
	if v.doc == nil {
		return []byte("null")
	}
	n := v.node()
	return v.doc.text[n.start:n.end]
}

// str returns the value of a string. The result aliases the text of the document if the string has
// no escapes.
func (v val) str() []byte {
	if v.node().escaped {
		return unescape(v.raw(), math.MaxInt)
	}
	return v.raw()
}

// start returns the value of a string if it has at most n bytes, else a prefix of more than n
// bytes. That prefix is enough to cut off or reject the string, and the cost of start does not grow
// with the string.
func (v val) start(n int) []byte {
	raw := v.raw()
	if v.node().escaped {
		return unescape(raw, n)
	}
	return raw[:min(len(raw), n+1)]
}

// len returns the number of items or members.
func (v val) len() int { return int(v.node().count) }

// item returns the i-th item of an array; null after the last item.
func (v val) item(i int) val {
	at := v.node().child
	for ; at != 0 && i > 0; i-- {
		at = v.doc.nodes[at].next
	}
	if at == 0 {
		return val{}
	}
	return val{v.doc, at}
}

// each calls f for each item of an array until f returns false.
func (v val) each(f func(val) bool) {
	for at := v.node().child; at != 0; at = v.doc.nodes[at].next {
		if !f(val{v.doc, at}) {
			return
		}
	}
}

// get returns a member of an object. If several members have that name, get returns the last of
// them, as serde_json's maps do.
func (v val) get(name string) (out val, ok bool) {
	if v.kind() != kObject {
		return val{}, false
	}
	if v.doc.asks && v.at == v.doc.root {
		v.doc.asked = append(v.doc.asked, name)
	}
	for at := v.node().child; at != 0; at = v.doc.nodes[at].next {
		if key := (val{v.doc, at}); string(key.str()) == name {
			out, ok = val{v.doc, v.doc.nodes[at].child}, true
		}
	}
	return out, ok
}

// distinct returns the number of distinct keys of an object, but at most 2. serde_json's maps keep
// one member of each key.
func (v val) distinct() int {
	if v.len() == 0 {
		return 0
	}
	first := val{v.doc, v.node().child}.str()
	for at := v.node().child; at != 0; at = v.doc.nodes[at].next {
		if !bytes.Equal(val{v.doc, at}.str(), first) {
			return 2
		}
	}
	return 1
}

// onlyKey returns the only key of an object, and its value.
func (v val) onlyKey() (key []byte, value val) {
	at := v.node().child
	key = val{v.doc, at}.str()
	if v.len() == 1 && !v.doc.asks {
		return key, val{v.doc, v.doc.nodes[at].child}
	}
	value, _ = v.get(string(key))
	return key, value
}

// uint64 returns the value of an integer in the range of u64.
func (v val) uint64() (uint64, bool) {
	if v.kind() != kNumber {
		return 0, false
	}
	raw := v.raw()
	if len(raw) > 20 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range raw {
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// isFloat returns whether serde_json would read a number as a float. serde_json reads as a float
// every number that is not an integer in the range of i64 or u64.
func (v val) isFloat() bool {
	if _, ok := v.uint64(); ok {
		return false
	}
	raw := v.raw()
	if len(raw) > len("-9223372036854775808") {
		return true
	}
	_, err := strconv.ParseInt(string(raw), 10, 64)
	return err != nil || string(raw) == "-0"
}

// unescape decodes the escapes of a valid JSON string. unescape stops when the result has more than
// n bytes.
func unescape(raw []byte, n int) []byte {
	out := make([]byte, 0, min(len(raw), n))
	for i := 0; i < len(raw) && len(out) <= n; {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		r, width := escape(raw[i:])
		out = utf8.AppendRune(out, r)
		i += width
	}
	return out
}

// escape decodes the escape at the beginning of a text and returns the length of the escape.
func escape(text []byte) (r rune, width int) {
	switch c := text[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := rune(hex4(text[2:]))
		if utf16.IsSurrogate(r) { // the scanner has checked that the low surrogate follows
			return utf16.DecodeRune(r, rune(hex4(text[8:]))), 12
		}
		return r, 6
	default: // a quote, a backslash or a slash
		return rune(c), 2
	}
}

// hex4 parses four hex digits. It returns -1 if b does not begin with four hex digits.
func hex4(b []byte) int32 {
	if len(b) < 4 {
		return -1
	}
	v := int32(0)
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		v = v<<4 | int32(c)
	}
	return v
}

// appendCompact appends a value as serde_json writes a value that it has parsed: without blanks,
// with the keys of objects sorted, and with floats in their shortest form.
func (v val) appendCompact(b []byte) []byte {
	switch v.kind() {
	case kNumber:
		if v.isFloat() {
			return appendFloat(b, v.raw())
		}
		return append(b, v.raw()...)
	case kString:
		if !v.node().escaped { // a string without escapes in the input needs none in the output
			return append(appendPieces(append(b, '"'), v.raw()), '"')
		}
		return appendJSONString(b, v.str())
	case kArray:
		b = append(b, '[')
		sep := false
		v.each(func(x val) bool {
			if sep {
				b = append(b, ',')
			}
			sep = true
			b = x.appendCompact(b)
			return true
		})
		return append(b, ']')
	case kObject:
		b = append(b, '{')
		for i, m := range v.members() {
			if i > 0 {
				b = append(b, ',')
			}
			b = m.value.appendCompact(append(appendJSONString(b, m.key), ':'))
		}
		return append(b, '}')
	}
	return append(b, v.raw()...)
}

// members returns the members of an object as serde_json's map has them: sorted by key, and of
// several members with one key only the last.
func (v val) members() []pair {
	out := make([]pair, 0, v.len())
	for at := v.node().child; at != 0; at = v.doc.nodes[at].next {
		out = append(out, pair{val{v.doc, at}.str(), val{v.doc, v.doc.nodes[at].child}})
	}
	slices.SortStableFunc(out, func(x, y pair) int { return bytes.Compare(x.key, y.key) })
	n := 0
	for i := range out {
		if i+1 < len(out) && bytes.Equal(out[i].key, out[i+1].key) {
			continue
		}
		out[n] = out[i]
		n++
	}
	return out[:n]
}

// pair is a key of an object and its value.
type pair struct {
	key   []byte
	value val
}

// appendFloat appends a float as the ryu crate does: with the fewest digits, with ".0" after
// integers, and with an exponent below 1e-5 and from 1e16 on.
func appendFloat(b, raw []byte) []byte {
	f, err := parseFloat(raw)
	if err != nil {
		return append(b, raw...)
	}
	abs := max(f, -f)
	if abs != 0 && (abs < 1e-5 || abs >= 1e16) {
		text := strconv.AppendFloat(nil, f, 'e', -1, 64) // e.g. 1e+16 or 1.5e-07
		mantissa, exponent, _ := bytes.Cut(text, []byte("e"))
		sign := ""
		if exponent[0] == '-' {
			sign = "-"
		}
		exponent = bytes.TrimLeft(exponent[1:], "0")
		return append(append(append(append(b, mantissa...), 'e'), sign...), exponent...)
	}
	from := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	if bytes.IndexByte(b[from:], '.') < 0 {
		b = append(b, ".0"...)
	}
	return b
}

// appendJSONString appends text in quotes, escaped as serde_json does.
func appendJSONString(b, text []byte) []byte { return append(appendEscaped(append(b, '"'), text), '"') }

func appendEscaped(b, text []byte) []byte {
	const digits = "0123456789abcdef"
	from := 0
	for i, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[from:i]...)
		from = i + 1
		if at := bytes.IndexByte([]byte("\"\\\b\f\n\r\t"), c); at >= 0 {
			b = append(b, '\\', `"\bfnrt`[at])
		} else {
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(b, text[from:]...)
}

// normalizeEscapes rewrites, in place, the escapes of a valid JSON string as serde_json writes
// them. normalizeEscapes returns the result. No escape becomes longer.
func normalizeEscapes(raw []byte) []byte {
	out := raw[:0]
	var one [utf8.UTFMax]byte
	for i, n := 0, 1; i < len(raw); n++ {
		at := bytes.IndexByte(raw[i:], '\\')
		if at < 0 {
			return append(out, raw[i:]...)
		}
		out = append(out, raw[i:i+at]...)
		r, width := escape(raw[i+at:])
		i += at + width
		out = appendEscaped(out, utf8.AppendRune(one[:0], r))
		if n%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
	return out
}
