package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// form is the kind of a shape. It determines which fields of the shape are in use.
type form byte

const (
	isAny form = iota
	isNull
	isScalar  // fields in use: name
	isRef     // fields in use: name
	isLiteral // fields in use: text, with its quotes
	isObject  // fields in use: members, closed
	isMap     // fields in use: items[0]
	isList    // fields in use: items[0], size
	isTuple   // fields in use: items
	isNullOr  // fields in use: items[0]
	isOneOf   // fields in use: items
	isAnyOf   // fields in use: items
	isAllOf   // fields in use: items
)

// shape describes a JSON value.
type shape struct {
	form    form
	name    string
	items   []shape
	members []shapeMember
	closed  bool
	size    int // fixed number of items of a list; 0: any number
}

type shapeMember struct {
	name     string
	optional bool
	shape    shape
	standing string // JSON of the value that a missing member means; empty: not documented
}

var scalars = []string{"u8", "u16", "u32", "u64", "uint", "i32", "i64", "double", "bool", "string", "base64", "time"}

// parser parses the notation of shapes.
type parser struct {
	in string
	at int
}

func (p *parser) fail(what string) {
	panic(fmt.Errorf("at %q: %s", p.in[p.at:min(p.at+40, len(p.in))], what))
}

func (p *parser) space() {
	for p.at < len(p.in) && (p.in[p.at] == ' ' || p.in[p.at] == '\n') {
		p.at++
	}
}

// next consumes token if it comes next, and returns whether it has consumed the token.
func (p *parser) next(token string) bool {
	p.space()
	if !strings.HasPrefix(p.in[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *parser) need(token string) {
	if !p.next(token) {
		p.fail("no " + token)
	}
}

func (p *parser) word() string {
	p.space()
	from := p.at
	for p.at < len(p.in) && (p.in[p.at] == '_' || p.in[p.at]|0x20 >= 'a' && p.in[p.at]|0x20 <= 'z' || p.in[p.at] >= '0' && p.in[p.at] <= '9') {
		p.at++
	}
	if from == p.at {
		p.fail("no name")
	}
	return p.in[from:p.at]
}

// shape parses shapes joined by operators. The operator & binds closest, then ||, then |.
func (p *parser) shape() shape {
	all := func() shape { return p.joined(isAllOf, "&", p.single) }
	return p.joined(isOneOf, "|", func() shape { return p.joined(isAnyOf, "||", all) })
}

// joined parses one part, or several joined by operator.
func (p *parser) joined(form form, operator string, part func() shape) shape {
	items := []shape{part()}
	for p.next(operator) {
		items = append(items, part())
	}
	if len(items) == 1 {
		return items[0]
	}
	return shape{form: form, items: items}
}

// single parses one shape, with any question marks after it.
func (p *parser) single() shape {
	s := p.bare()
	for p.next("?") {
		s = shape{form: isNullOr, items: []shape{s}}
	}
	return s
}

func (p *parser) bare() shape {
	switch {
	case p.next("("):
		s := p.shape()
		p.need(")")
		return s
	case p.next("{"):
		return p.object()
	case p.next("["):
		s := shape{form: isList, items: []shape{p.shape()}}
		if p.next(";") {
			n, err := strconv.Atoi(p.word())
			if err != nil || n == 0 {
				p.fail("no length")
			}
			s.size = n
		}
		for p.next(",") {
			s.form = isTuple
			s.items = append(s.items, p.shape())
		}
		p.need("]")
		return s
	case p.next(`"`):
		end := strings.IndexByte(p.in[p.at:], '"')
		if end < 0 {
			p.fail("no end of a text")
		}
		p.at += end + 1
		return shape{form: isLiteral, name: p.in[p.at-end-1 : p.at-1]}
	}
	switch w := p.word(); {
	case w == "any":
		return shape{}
	case w == "null":
		return shape{form: isNull}
	case slices.Contains(scalars, w):
		if p.at < len(p.in) && p.in[p.at] == '+' {
			p.at++
			w += "+"
		}
		return shape{form: isScalar, name: w}
	default:
		return shape{form: isRef, name: w}
	}
}

func (p *parser) object() shape {
	s := shape{form: isObject, closed: p.next("!")}
	if p.next("*") {
		p.need(":")
		s = shape{form: isMap, items: []shape{p.shape()}}
		p.need("}")
		return s
	}
	for !p.next("}") {
		m := shapeMember{name: p.word(), optional: p.next("?")}
		p.need(":")
		m.shape = p.shape()
		if p.next("=") {
			m.standing = p.json()
		}
		s.members = append(s.members, m)
		if p.next("}") {
			break
		}
		p.need(",")
	}
	return s
}

// json parses a JSON value and returns the text of that value.
func (p *parser) json() string {
	p.space()
	d := json.NewDecoder(strings.NewReader(p.in[p.at:]))
	var v json.RawMessage
	if err := d.Decode(&v); err != nil {
		p.fail(err.Error())
	}
	p.at += int(d.InputOffset())
	return string(v)
}

// parseShape parses a text that is exactly one shape.
func parseShape(text string) (s shape, err error) {
	defer func() {
		if e, ok := recover().(error); ok {
			err = e
		}
	}()
	p := parser{in: text}
	s = p.shape()
	if p.space(); p.at < len(text) {
		p.fail("more than one shape")
	}
	return s, nil
}
