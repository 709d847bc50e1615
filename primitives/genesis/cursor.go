package genesis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// cursor decodes one value that a scanner has extracted: the syntax of the value is valid, and the
// value has no blanks. The first error sticks.
type cursor struct {
	b    []byte // the part that is not read yet
	path []step
	err  error
	at   string // path of the value that caused the error

	removals bool // null in place of a record's content means that it is to be removed
	gone     bool // such a null was read
}

// step is an element of a path: a member's name, or an index if the name is empty.
type step struct {
	name  string
	index int
}

// pathString joins steps: records[3].Account.account.amount.
func pathString(path []step) string {
	var b strings.Builder
	for i, s := range path {
		switch {
		case s.name == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case i > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// errWrongType is the error of a value whose type is not its field's.
var errWrongType = errors.New("invalid type")

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err, c.at = err, pathString(c.path)
	}
	c.b = nil
}

func (c *cursor) failf(format string, args ...any) { c.fail(fmt.Errorf(format, args...)) }

// next returns the next byte without taking it; 0 after an error.
func (c *cursor) next() byte {
	if len(c.b) == 0 {
		return 0
	}
	return c.b[0]
}

// want returns whether the next byte is `first`, and otherwise fails with nearcore's text.
func (c *cursor) want(first byte, what string) bool {
	if c.next() == first {
		return true
	}
	if c.err == nil {
		c.failf("%w: %s, expected %s", errWrongType, c.kind(), what)
	}
	return false
}

// maxShown bounds the text of a value in an error, in bytes.
const maxShown = 200

// kind describes the next value as serde's Unexpected does, without consuming it.
func (c *cursor) kind() string {
	at := *c
	switch b := c.next(); b {
	case '"':
		text := at.str()
		if len(text) > maxShown {
			text = append(text[:maxShown:maxShown], "..."...)
		}
		return "string " + primitives.RustDebug(strings.ToValidUTF8(string(text), ""))
	case '{':
		return "map"
	case '[':
		return "sequence"
	case 't', 'f':
		return "boolean `" + string(at.word()) + "`"
	case 'n':
		return "null"
	}
	w := string(at.word())
	_, unsigned := strconv.ParseUint(w, 10, 64)
	if _, signed := strconv.ParseInt(w, 10, 64); unsigned != nil && signed != nil {
		return "floating point `" + w[:min(len(w), maxShown)] + "`"
	}
	return "integer `" + w + "`"
}

// null consumes a null if a null is next, and returns whether it consumed one.
func (c *cursor) null() bool {
	if c.next() == 'n' {
		c.b = c.b[4:]
		return true
	}
	return false
}

// absent consumes a null if removals are allowed and a null is next. absent returns whether it
// consumed a null.
func (c *cursor) absent() bool {
	if !c.removals || !c.null() {
		return false
	}
	c.gone = true
	return true
}

// object calls f for each member. f consumes the value and returns true, or returns false for a key
// that it does not know.
func (c *cursor) object(f func(key []byte) bool) {
	if !c.want('{', "an object") {
		return
	}
	c.b = c.b[1:]
	for c.err == nil && c.next() != '}' {
		key := c.str()
		if c.err != nil {
			return
		}
		c.b = c.b[1:] // skips the colon
		c.path = append(c.path, step{name: "?"})
		if !f(key) {
			c.skip()
		}
		c.path = c.path[:len(c.path)-1]
		if c.next() == ',' {
			c.b = c.b[1:]
		}
	}
	if c.err == nil {
		c.b = c.b[1:]
	}
}

// field records the name of the member that is being read, for errors.
func (c *cursor) field(name string) *cursor {
	c.path[len(c.path)-1].name = name
	return c
}

// array calls f for each item.
func (c *cursor) array(f func()) {
	if !c.want('[', "a sequence") {
		return
	}
	c.b = c.b[1:]
	c.path = append(c.path, step{})
	for c.err == nil && c.next() != ']' {
		f()
		c.path[len(c.path)-1].index++
		if c.next() == ',' {
			c.b = c.b[1:]
		}
	}
	c.path = c.path[:len(c.path)-1]
	if c.err == nil {
		c.b = c.b[1:]
	}
}

// variant reads an enum: its name alone, or an object with one key, whose value f consumes. For a
// bare name f is called with bare set. f returns false for a name that it does not know, or that
// cannot be bare.
func (c *cursor) variant(enum string, f func(name string, bare bool) bool) {
	if c.next() == '"' {
		name := string(c.str())
		if c.err == nil && !f(name, true) {
			c.failf("unknown variant `%s` of %s", name, enum)
		}
		return
	}
	n := 0
	c.object(func(key []byte) bool {
		name := string(key)
		if n++; n > 1 {
			c.failf("invalid value: map, expected map with a single key")
			return true
		}
		c.field(name)
		if !f(name, false) {
			c.failf("unknown variant `%s` of %s", name, enum)
		}
		return true
	})
	if n == 0 && c.err == nil {
		c.failf("invalid value: map, expected map with a single key")
	}
}

// skip consumes a value.
func (c *cursor) skip() {
	switch c.next() {
	case '"':
		c.str()
	case '{':
		c.object(func([]byte) bool { return false })
	case '[':
		c.array(c.skip)
	default:
		c.word()
	}
}

// raw consumes the next value and returns its text.
func (c *cursor) raw() []byte {
	from := c.b
	c.skip()
	return from[:len(from)-len(c.b)]
}

// word consumes a number or literal.
func (c *cursor) word() []byte {
	i := 0
	for i < len(c.b) && c.b[i] != ',' && c.b[i] != '}' && c.b[i] != ']' {
		i++
	}
	w := c.b[:i]
	c.b = c.b[i:]
	return w
}

// str consumes a string. The result aliases the input unless it has escapes.
func (c *cursor) str() []byte {
	if !c.want('"', "a string") {
		return nil
	}
	i := bytes.IndexByte(c.b[1:], '"') + 1
	if raw := c.b[1:i]; bytes.IndexByte(raw, '\\') < 0 {
		c.b = c.b[i+1:]
		return raw
	}
	for i = 1; c.b[i] != '"'; i++ {
		if c.b[i] == '\\' {
			i++
		}
	}
	text, err := unquote(c.b[:i+1])
	if err != nil {
		c.fail(err)
		return nil
	}
	c.b = c.b[i+1:]
	return []byte(text)
}

// unquote decodes a string in quotes.
func unquote(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return "", fmt.Errorf("%w: %w", errSyntax, err)
	}
	return text, nil
}

// boolean consumes true or false.
func (c *cursor) boolean() bool {
	if b := c.next(); b != 't' && b != 'f' {
		if c.err == nil {
			c.failf("%w: %s, expected a boolean", errWrongType, c.kind())
		}
		return false
	}
	return string(c.word()) == "true"
}

// uint consumes an unsigned integer of the given width.
func (c *cursor) uint(bits int) uint64 {
	if b := c.next(); b != '-' && (b < '0' || b > '9') {
		if c.err == nil {
			c.failf("%w: %s, expected u%d", errWrongType, c.kind(), bits)
		}
		return 0
	}
	w := string(c.word())
	v, err := strconv.ParseUint(w, 10, bits)
	if err != nil {
		c.failf("invalid value: integer `%s`, expected u%d", w, bits)
	}
	return v
}

// balance consumes a u128: a string of digits, or a number.
func (c *cursor) balance() primitives.Balance {
	var text []byte
	if b := c.next(); b == '"' {
		text = c.str()
	} else if b >= '0' && b <= '9' {
		text = c.word()
	} else if c.err == nil {
		c.failf("%w: %s, expected a string of digits", errWrongType, c.kind())
	}
	if c.err != nil {
		return primitives.Balance{}
	}
	v, err := primitives.ParseBalance(string(text))
	if err != nil {
		c.fail(err)
	}
	return v
}

// text consumes a string and parses it.
func text[T any](c *cursor, parse func(string) (T, error)) (v T) {
	s := c.str()
	if c.err != nil {
		return v
	}
	v, err := parse(string(s))
	if err != nil {
		c.fail(err)
	}
	return v
}

func (c *cursor) account() primitives.AccountID { return text(c, primitives.ParseAccountID) }
func (c *cursor) key() primitives.PublicKey     { return text(c, primitives.ParsePublicKey) }
func (c *cursor) hash() primitives.Hash         { return text(c, primitives.ParseHash) }
func (c *cursor) handle() primitives.PublicKeyHandle {
	return text(c, primitives.ParsePublicKeyHandle)
}
func (c *cursor) signature() primitives.Signature { return text(c, primitives.ParseSignature) }

// base64 consumes bytes, with or without padding. The result is not nil unless there was an error.
func (c *cursor) base64() []byte {
	if !c.want('"', "a base64 encoded string") {
		return nil
	}
	s := c.str()
	if c.err != nil {
		return nil
	}
	out, err := primitives.DecodeBase64AnyPadding(s)
	if err != nil {
		c.fail(err)
	}
	return out
}

// required fails unless all names are in seen, in which bit i stands for names[i].
func (c *cursor) required(seen uint, names ...string) {
	for i, name := range names {
		if seen&(1<<i) == 0 && c.err == nil {
			c.failf("missing field `%s`", name)
		}
	}
}

// once marks field bit as read in the mask; a second time is an error.
func (c *cursor) once(seen *uint, bit int) {
	if *seen&(1<<bit) != 0 {
		c.failf("duplicate field")
	}
	*seen |= 1 << bit
}
