package rpc

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// The error texts for wrong parameters are those of serde and serde_json, which clients compare.
// The readers return the plain text. Parsing adds the prefix "Failed parsing args: " to all but
// plainError.

// plainError is an error whose text gets no prefix.
type plainError struct{ text string }

func (e *plainError) Error() string { return e.text }

func parseErrorText(err error) string {
	var plain *plainError
	if errors.As(err, &plain) {
		return clipTo(plain.text, maxText)
	}
	return "Failed parsing args: " + clipTo(err.Error(), maxText)
}

// found describes a value as serde's Unexpected does.
func found(v val) string {
	switch v.kind() {
	case kFalse, kTrue:
		return "boolean `" + string(v.raw()) + "`"
	case kNumber:
		if v.isFloat() {
			return "floating point `" + string(clipText(appendFloat(nil, v.raw()))) + "`"
		}
		return "integer `" + string(v.raw()) + "`"
	case kString:
		return "string " + primitives.RustDebug(string(clipText(v.start(maxEcho))))
	case kArray:
		return "sequence"
	case kObject:
		return "map"
	}
	return "null"
}

func typeError(v val, expected string) error {
	return fmt.Errorf("invalid type: %s, expected %s", found(v), expected)
}

func readString(v val) ([]byte, error) {
	if v.kind() != kString {
		return nil, typeError(v, "a string")
	}
	return v.str(), nil
}

func readBool(v val) (bool, error) {
	if k := v.kind(); k != kTrue && k != kFalse {
		return false, typeError(v, "a boolean")
	}
	return v.kind() == kTrue, nil
}

func readUint64(v val) (uint64, error) {
	n, ok := v.uint64()
	switch {
	case ok:
		return n, nil
	case v.kind() == kNumber && !v.isFloat():
		return 0, fmt.Errorf("invalid value: %s, expected u64", found(v))
	}
	return 0, typeError(v, "u64")
}

// readLimit reads a page size: a u32 that is not 0.
func readLimit(v val) (uint32, error) {
	n, ok := v.uint64()
	if ok && n > 0 && n <= math.MaxUint32 {
		return uint32(n), nil
	}
	if v.kind() == kNumber && !v.isFloat() {
		return 0, fmt.Errorf("invalid value: %s, expected a nonzero u32", found(v))
	}
	return 0, typeError(v, "a nonzero u32")
}

func readAccountID(v val) (primitives.AccountID, error) {
	if v.kind() != kString {
		return "", typeError(v, "a string")
	}
	text := v.start(maxEcho) // maxEcho exceeds the length of a valid account id
	id, err := primitives.ParseAccountID(string(text))
	if err != nil {
		return "", fmt.Errorf(`invalid value: "%s", %w`, clipText(text), err)
	}
	return id, nil
}

const expectedHash = "base58-encoded 256-bit hash"

func readHash(v val) (h primitives.Hash, err error) {
	if v.kind() != kString {
		return h, typeError(v, expectedHash)
	}
	text := v.str()
	raw, err := primitives.DecodeBase58(borrowString(text), len(h))
	if err != nil && !primitives.IsBase58TooLong(err) {
		return h, err
	}
	if err != nil || len(raw) != len(h) {
		return h, fmt.Errorf("invalid length %d, expected %s", len(text), expectedHash)
	}
	return primitives.Hash(raw), nil
}

// maxKeyText is the number of bytes of a public key's text that are read. Every valid key is
// shorter. Bytes after that number only affect which of two faults is returned.
const maxKeyText = 8 << 10

func readKey(v val) (primitives.PublicKey, error) {
	if v.kind() != kString {
		return "", typeError(v, "a string")
	}
	return primitives.ParsePublicKey(string(v.start(maxKeyText)))
}

// readHandle reads a key handle in the form in which lists of keys show key handles.
func readHandle(v val) (primitives.PublicKeyHandle, error) {
	if v.kind() != kString {
		return "", typeError(v, "a string")
	}
	return primitives.ParsePublicKeyHandle(string(v.start(maxKeyText)))
}

// readBase64 reads base64, with or without padding.
func readBase64(v val) ([]byte, error) {
	if v.kind() != kString {
		return nil, typeError(v, "a base64 encoded string")
	}
	return primitives.DecodeBase64AnyPadding(v.str())
}

// readList reads a sequence. readList calls readItem for each item.
func readList[T any](v val, readItem func(val) (T, error)) (out []T, err error) {
	if v.kind() != kArray {
		return nil, typeError(v, "a sequence")
	}
	out = make([]T, 0, v.len())
	v.each(func(x val) bool {
		var item T
		if item, err = readItem(x); err == nil {
			out = append(out, item)
		}
		return err == nil
	})
	return out, err
}

// unknownVariant returns the error for a name that is not one of names.
func unknownVariant(name []byte, names []string) error {
	return fmt.Errorf("unknown variant `%s`, expected %s", clipText(name), choice(names))
}

// choice lists names as serde does.
func choice(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + n + "`"
	}
	if len(names) <= 2 {
		return strings.Join(quoted, " or ")
	}
	return "one of " + strings.Join(quoted, ", ")
}

// readName reads one of names and returns its index.
func readName(v val, names []string) (int, error) { return readUnit(v, names, false) }

// readUnit is readName. flat means that the value is a member of an object that nearcore flattens.
// There serde also accepts an object with the name as its key and an empty object as its value.
func readUnit(v val, names []string, flat bool) (i int, err error) {
	if flat && v.kind() == kObject && v.distinct() == 1 {
		if key, inner := v.onlyKey(); inner.kind() == kObject && inner.len() == 0 {
			for i, name := range names {
				if string(key) == name {
					return i, nil
				}
			}
		}
	}
	err = oneKey(v, names, allUnits, func(at int, _ val) error {
		i = at
		return nil
	})
	return i, err
}

// readTag reads the variant of a tagged enum: its name or its index.
func readTag(v val, names []string) (int, error) {
	if n, ok := v.uint64(); ok {
		if n >= uint64(len(names)) {
			return 0, fmt.Errorf("invalid value: integer `%d`, expected variant index 0 <= i < %d", n, len(names))
		}
		return int(n), nil
	}
	if v.kind() != kString {
		return 0, typeError(v, "variant identifier")
	}
	return readName(v, names)
}

func allUnits(int) bool { return true }
func noUnits(int) bool  { return false }

// oneKey reads an enum: a name for a variant without a value, or an object with one key. names are
// all variants. unit returns whether variant i has no value. value reads the value of variant i.
func oneKey(v val, names []string, unit func(i int) bool, value func(i int, v val) error) error {
	var key []byte
	var inner val
	switch v.kind() {
	case kObject:
		if v.distinct() != 1 {
			return errors.New("invalid value: map, expected map with a single key")
		}
		key, inner = v.onlyKey()
	case kString:
		key = v.str()
	default:
		return typeError(v, "string or map")
	}
	for i, name := range names {
		if string(key) != name {
			continue
		}
		isName, unit := v.kind() == kString, unit(i)
		switch {
		case unit && !isName && !inner.isNull():
			return typeError(inner, "unit")
		case !unit && isName:
			return errors.New("invalid type: unit variant, expected newtype variant")
		}
		return value(i, inner)
	}
	return unknownVariant(key, names)
}

func readLevel(v val) (view.ExecutionLevel, error) {
	i, err := readName(v, view.LevelNames[:])
	return view.ExecutionLevel(i), err
}

// field is a member of a struct of parameters.
type field struct {
	name     string
	optional bool // the member may be missing or null
	read     func(val) error
}

// into returns a reader that stores the result of one in dst.
func into[T any](dst *T, one func(val) (T, error)) func(val) error {
	return func(v val) (err error) {
		*dst, err = one(v)
		return err
	}
}

// readFields reads fields from an object. readFields reports wrong values in the order of the keys,
// as serde_json's maps are sorted. Then it reports missing members in the order of fields, which is
// the order in nearcore's struct.
func readFields(v val, fields []field) error {
	for done := ""; ; {
		next := -1
		for i := range fields { // find the smallest name greater than done
			if f := &fields[i]; f.name > done && (next < 0 || f.name < fields[next].name) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		f := &fields[next]
		done = f.name
		if x, ok := v.get(f.name); ok && !(f.optional && x.isNull()) {
			if err := f.read(x); err != nil {
				return err
			}
		}
	}
	for i := range fields {
		if f := &fields[i]; !f.optional {
			if _, ok := v.get(f.name); !ok {
				return missingField(f.name)
			}
		}
	}
	return nil
}

// missingField is the error of a missing member: its name.
type missingField string

func (name missingField) Error() string { return "missing field `" + string(name) + "`" }

// unknownMember returns an error for the first member of an object whose name is not in known. The
// error suggests the nearest name.
func unknownMember(v val, known []string) error {
	for at := v.node().child; at != 0; at = v.doc.nodes[at].next {
		key := string(val{v.doc, at}.str())
		if slices.Contains(known, key) {
			continue
		}
		what := "unknown field `" + string(clipText([]byte(key))) + "`"
		names := slices.Compact(slices.Sorted(slices.Values(known)))
		if near := nearest(key, names); near != "" {
			return errors.New(what + ", did you mean `" + near + "`?")
		}
		if len(names) == 0 {
			return errors.New(what + ", there are no fields")
		}
		return fmt.Errorf("%s, expected %s", what, choice(names))
	}
	return nil
}

// maxNear is the maximum length in bytes of a name for which nearest looks for a similar one.
const maxNear = 64

// nearest returns the name with the smallest edit distance. It returns "" if that distance is more
// than max(1, a third of the name's length).
func nearest(name string, names []string) string {
	if len(name) > maxNear {
		return ""
	}
	best, at := max(1, len(name)/3)+1, ""
	for _, n := range names {
		d := editDistance(name, n)
		if strings.HasPrefix(n, name) && len(name) > 1 {
			d = min(d, best-1)
		}
		if d < best {
			best, at = d, n
		}
	}
	return at
}

// editDistance returns the Levenshtein distance of a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := before
			if a[i] != b[j] {
				d++
			}
			before = row[j+1]
			row[j+1] = min(d, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// readStruct reads a struct without flattened members: an object, or an array of the fields in
// order.
func readStruct(v val, name string, fields ...field) error {
	switch v.kind() {
	case kObject:
		return readFields(v, fields)
	case kArray:
		for i := range fields {
			f := &fields[i]
			switch {
			case i >= v.len() && !f.optional:
				return fmt.Errorf("invalid length %d, expected struct %s with %s", v.len(), name, elements(len(fields)))
			case i >= v.len() || f.optional && v.item(i).isNull():
				continue
			}
			if err := f.read(v.item(i)); err != nil {
				return err
			}
		}
		if v.len() > len(fields) {
			return tooLong(v.len())
		}
		return nil
	}
	return typeError(v, "struct "+name)
}

// tooLong is the error of an array with more items than the struct has fields.
type tooLong int

func (n tooLong) Error() string {
	return fmt.Sprintf("invalid length %d, expected fewer elements in array", int(n))
}

func elements(n int) string {
	if n == 1 {
		return "1 element"
	}
	return strconv.Itoa(n) + " elements"
}

// needObject returns an error unless v is an object, as nearcore does for structs with flattened
// members.
func needObject(v val, name string) error {
	if v.kind() != kObject {
		return typeError(v, "struct "+name)
	}
	return nil
}

// single returns the item of an array of length 1. It returns false for any other value.
func single(v val) (val, bool) {
	if v.kind() == kArray && v.len() == 1 {
		return v.item(0), true
	}
	return val{}, false
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
