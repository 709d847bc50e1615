package primitives

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// The protocol's errors are Rust enums whose JSON clients parse. Here each enum is one flat struct:
// a tag, and the fields of all its variants, some of which apply to the tag. One table per enum
// (error_*.go) lists the variants and their fields. Encoding, decoding and the test against
// nearcore's OpenAPI document use this table.
//
// In JSON, a variant without fields is its name as a string. A variant that wraps a value is
// {"Name": value}. A variant with fields is {"Name": {fields}}. Keys are in alphabetical order at
// every depth, as nearcore's RPC prints them. Balances are strings.

// errField is a field of a variant: its JSON name and a pointer to its value.
type errField struct {
	name string
	at   any
}

// errRow describes a variant. Either fields or inner is set, or neither for a variant that consists
// of its name.
type errRow[E any] struct {
	name   string
	fields func(*E) []errField // returns the fields in alphabetical order
	// order is the order of the fields in borsh, as indices in fields; "" means the same order. A
	// ? precedes the index of an optional field.
	order string
	inner func(*E) any // pointer to the wrapped value
}

// jsonAppender is a value that appends its own JSON.
type jsonAppender interface{ AppendJSON(b []byte) []byte }

// errName returns the name of a variant, or a text with the bad tag.
func errName[E any](rows []errRow[E], enum string, tag int) string {
	if tag < len(rows) && rows[tag].name != "" {
		return rows[tag].name
	}
	return fmt.Sprintf("%s(%d)", enum, tag)
}

// appendError appends e's JSON. It panics on a tag that is not in the table.
func appendError[E any](b []byte, rows []errRow[E], tag int, e *E) []byte {
	if tag >= len(rows) || rows[tag].name == "" {
		panic(fmt.Sprintf("primitives: no variant %d of %T", tag, *e))
	}
	row := &rows[tag]
	if row.fields == nil && row.inner == nil {
		return AppendJSONString(b, row.name)
	}
	b = append(AppendJSONString(append(b, '{'), row.name), ':')
	if row.inner != nil {
		return append(appendErrValue(b, row.inner(e)), '}')
	}
	for i, f := range row.fields(e) {
		b = append(b, "{,"[min(i, 1)])
		b = appendErrValue(append(AppendJSONString(b, f.name), ':'), f.at)
	}
	return append(b, "}}"...)
}

// appendErrValue appends the JSON of the value to which the pointer at points.
func appendErrValue(b []byte, at any) []byte {
	switch v := at.(type) {
	case *string:
		return AppendJSONString(b, *v)
	case *AccountID:
		return AppendJSONString(b, string(*v))
	case *uint16:
		return strconv.AppendUint(b, uint64(*v), 10)
	case **uint16:
		if *v == nil {
			return append(b, "null"...)
		}
		return strconv.AppendUint(b, uint64(**v), 10)
	case *uint32:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *uint64:
		return strconv.AppendUint(b, *v, 10)
	case *Nonce:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *Gas:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *ProtocolVersion:
		return strconv.AppendUint(b, uint64(*v), 10)
	case *json.Number:
		return append(b, *v...)
	case *Balance:
		return append(v.AppendText(append(b, '"')), '"')
	case *PublicKey:
		if *v == "" { // an empty key stands for None
			return append(b, "null"...)
		}
		return AppendJSONString(b, v.String())
	case *Hash:
		return AppendJSONString(b, v.String())
	case jsonAppender: // nested errors
		return v.AppendJSON(b)
	}
	panic(fmt.Sprintf("primitives: no JSON form of %T", at))
}

// errJSON is wrapped by every error of decodeError.
var errJSON = errors.New("primitives: invalid JSON of an error")

// decodeError reads JSON into e and returns the variant's tag. Unknown fields are ignored, missing
// ones are an error.
func decodeError[E any](in []byte, rows []errRow[E], e *E) (tag int, err error) {
	var name string
	var value json.RawMessage
	if json.Unmarshal(in, &name) != nil {
		var one map[string]json.RawMessage
		if err := json.Unmarshal(in, &one); err != nil || len(one) != 1 {
			return 0, fmt.Errorf("%w: want a name, or an object with one key", errJSON)
		}
		for name, value = range one { // one has exactly one member
		}
	}
	for tag := range rows {
		row := &rows[tag]
		if row.name != name || name == "" { // gaps in the numbering of variants have no name
			continue
		}
		if bare := row.fields == nil && row.inner == nil; bare != (value == nil) {
			return 0, fmt.Errorf("%w: %s: fields missing or too many", errJSON, name)
		}
		switch {
		case row.inner != nil:
			err = json.Unmarshal(value, row.inner(e))
		case row.fields != nil:
			err = decodeErrFields(value, row.fields(e))
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %s: %w", errJSON, name, err)
		}
		return tag, nil
	}
	return 0, fmt.Errorf("%w: unknown variant %q", errJSON, name)
}

func decodeErrFields(in []byte, fields []errField) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(in, &object); err != nil {
		return err
	}
	for _, f := range fields {
		value, ok := object[f.name]
		if !ok {
			return fmt.Errorf("missing field %q", f.name)
		}
		if err := json.Unmarshal(value, f.at); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// AppendJSON appends {"hash": ...} or {"account_id": ...}.
func (g *GlobalContractID) AppendJSON(b []byte) []byte {
	if g.Account != "" {
		return append(AppendJSONString(append(b, `{"account_id":`...), string(g.Account)), '}')
	}
	return append(AppendJSONString(append(b, `{"hash":`...), g.Hash.String()), '}')
}

// UnmarshalJSON reads what AppendJSON writes.
func (g *GlobalContractID) UnmarshalJSON(in []byte) error {
	var v struct {
		Hash    *Hash      `json:"hash"`
		Account *AccountID `json:"account_id"`
	}
	if err := json.Unmarshal(in, &v); err != nil {
		return err
	}
	switch {
	case v.Hash != nil && v.Account == nil:
		*g = GlobalContractID{Hash: *v.Hash}
	case v.Account != nil && v.Hash == nil:
		*g = GlobalContractID{Account: *v.Account}
	default:
		return fmt.Errorf("%w: a global contract is named by hash or account_id", errJSON)
	}
	return nil
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends s in quotes, escaped as serde_json does: the quote, the backslash and
// control characters below 0x20 only. s must be UTF-8.
func AppendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}
