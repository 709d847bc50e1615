package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// Limits of config.json.
const (
	maxSize  = 4 << 20
	maxDepth = 16
)

// Document is a JSON object that keeps the order of its keys. Values are *Document, []any, string,
// json.Number, bool or nil.
type Document struct {
	keys   []string
	values map[string]any
}

// NewDocument returns an empty object.
func NewDocument() *Document { return &Document{values: map[string]any{}} }

// clone returns a deep copy.
func (d *Document) clone() *Document { return cloned(d).(*Document) }

func cloned(v any) any {
	switch v := v.(type) {
	case *Document:
		out := &Document{keys: slices.Clone(v.keys), values: make(map[string]any, len(v.values))}
		for k, x := range v.values {
			out.values[k] = cloned(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = cloned(x)
		}
		return out
	}
	return v
}

// Keys returns the keys in order.
func (d *Document) Keys() []string { return d.keys }

// Get returns the value at a dotted path, and whether there is one.
func (d *Document) Get(path string) (any, bool) {
	head, rest, deeper := strings.Cut(path, ".")
	v, ok := d.values[head]
	if !ok || !deeper {
		return v, ok
	}
	sub, isDoc := v.(*Document)
	if !isDoc {
		return nil, false
	}
	return sub.Get(rest)
}

// Set sets the value at a dotted path. Set creates missing objects on the path.
func (d *Document) Set(path string, v any) {
	head, rest, deeper := strings.Cut(path, ".")
	if deeper {
		sub, ok := d.values[head].(*Document)
		if !ok {
			sub = NewDocument()
			d.put(head, sub)
		}
		sub.Set(rest, v)
		return
	}
	d.put(head, v)
}

// SetAfter is Set for a top-level key. SetAfter inserts a new key after the key `after`, so that
// the keys that init adds are where neard's writer would put them.
func (d *Document) SetAfter(key, after string, v any) {
	_, known := d.values[key]
	d.put(key, v)
	if i := slices.Index(d.keys, after); !known && i >= 0 {
		d.keys = slices.Insert(d.keys[:len(d.keys)-1], i+1, key)
	}
}

func (d *Document) put(key string, v any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = v
}

// Complete adds the keys of base that d lacks, object by object. The result is whether it added a
// key.
func (d *Document) Complete(base *Document) bool {
	added := false
	for _, k := range base.keys {
		v, ok := d.values[k]
		if !ok {
			d.put(k, base.values[k])
			added = true
			continue
		}
		mine, a := v.(*Document)
		theirs, b := base.values[k].(*Document)
		if a && b {
			added = mine.Complete(theirs) || added
		}
	}
	return added
}

// Overlay sets the keys of top in d, object by object. New keys are appended.
func (d *Document) Overlay(top *Document) {
	for _, k := range top.keys {
		mine, a := d.values[k].(*Document)
		theirs, b := top.values[k].(*Document)
		if a && b && !isDuration(theirs) {
			mine.Overlay(theirs)
			continue
		}
		d.put(k, top.values[k])
	}
}

// parseDocument parses JSON with the comments that neard allows.
func parseDocument(in []byte) (*Document, error) {
	if len(in) > maxSize {
		return nil, fmt.Errorf("the file has %d bytes, the limit is %d", len(in), maxSize)
	}
	if len(bytes.TrimSpace(in)) == 0 {
		return nil, errors.New("the file is empty; " + restore)
	}
	clean, err := primitives.StripJSONComments(in)
	if errors.Is(err, primitives.ErrJSONEnd) {
		return nil, cutOff(in, err)
	}
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(clean))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if err != nil {
		return nil, position(clean, dec, err)
	}
	doc, ok := v.(*Document)
	if !ok {
		return nil, errors.New("the file must contain one JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, position(clean, dec, errors.New("unexpected text after the JSON object"))
	}
	return doc, nil
}

// restore is the advice in errors about a truncated file.
const restore = "restore the file, or move it away and run `troupe init` to create a new one"

func cutOff(in []byte, err error) error {
	return fmt.Errorf("the file is truncated at line %d: %w; %s", 1+bytes.Count(bytes.TrimRight(in, "\n"), []byte("\n")), err, restore)
}

func position(in []byte, dec *json.Decoder, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return cutOff(in, errors.New("a closing bracket or brace is missing"))
	}
	off := min(int(dec.InputOffset()), len(in))
	line := 1 + bytes.Count(in[:off], []byte("\n"))
	col := off - bytes.LastIndexByte(in[:off], '\n')
	return fmt.Errorf("line %d column %d: %w", line, col, err)
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("objects are nested more than %d levels deep, the limit", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		doc := NewDocument()
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key := k.(string)
			if _, twice := doc.values[key]; twice {
				return nil, fmt.Errorf("key %q occurs twice", key)
			}
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			doc.put(key, v)
		}
		_, err = dec.Token()
		return doc, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	return tok, nil
}

// Format returns the JSON as neard writes it: indented by two spaces, without a final newline.
func (d *Document) Format() []byte {
	var b bytes.Buffer
	formatValue(&b, d, "")
	return b.Bytes()
}

func formatValue(b *bytes.Buffer, v any, indent string) {
	deeper := indent + "  "
	switch v := v.(type) {
	case *Document:
		if len(v.keys) == 0 {
			b.WriteString("{}")
			return
		}
		for i, k := range v.keys {
			b.WriteString([]string{"{\n", ",\n"}[min(i, 1)] + deeper)
			key, _ := json.Marshal(k)
			b.Write(key)
			b.WriteString(": ")
			formatValue(b, v.values[k], deeper)
		}
		b.WriteString("\n" + indent + "}")
	case []any:
		if len(v) == 0 {
			b.WriteString("[]")
			return
		}
		for i, x := range v {
			b.WriteString([]string{"[\n", ",\n"}[min(i, 1)] + deeper)
			formatValue(b, x, deeper)
		}
		b.WriteString("\n" + indent + "]")
	case string:
		var s bytes.Buffer
		enc := json.NewEncoder(&s)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v)
		b.Write(bytes.TrimSuffix(s.Bytes(), []byte("\n")))
	default:
		raw, _ := json.Marshal(v)
		b.Write(raw)
	}
}
