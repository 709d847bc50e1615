package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"unicode/utf8"
)

// ErrInvalid is wrapped by every error of Decode.
var ErrInvalid = errors.New("wire: invalid message")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// kind is how the value of a field is decoded.
type kind byte

const (
	bytesKind   kind = iota + 1
	stringKind       // a string, valid UTF-8
	uint32Kind       // a varint of at most five bytes
	uint64Kind       // a varint, for uint64 and int64
	int32Kind        // an int64 varint that must fit into 32 bits; also for enums
	boolKind         // every varint except 0 is true
	messageKind      // a message whose schema is in field of
	uint64sKind      // repeated varints, packed or not
)

// The wire types of protobuf.
const (
	varintType, fixed64Type, lenType, startGroup, endGroup, fixed32Type = 0, 1, 2, 3, 4, 5
)

// field describes a field of a message.
type field struct {
	num  uint32
	kind kind
	of   *schema
}

func (f *field) wireType() uint32 {
	switch f.kind {
	case bytesKind, stringKind, messageKind:
		return lenType
	}
	return varintType
}

// schema is the layout of a message.
type schema struct {
	name   string
	fields []field
}

// item is a decoded field. v is the value of a number. b is the value of bytes, a string or a
// message.
type item struct {
	num uint32
	v   uint64
	b   []byte
}

// varint reads a number of at most ten bytes.
func varint(in []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(in)
	if n <= 0 {
		return 0, nil, invalid("a varint of %d bytes does not end or is too large", min(len(in), binary.MaxVarintLen64))
	}
	return v, in[n:], nil
}

// varint32 reads a number that fits into 32 bits and has at most five bytes. rust-protobuf requires
// this of tags, lengths and uint32.
func varint32(in []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(in)
	if n <= 0 || n > 5 || v > math.MaxUint32 {
		return 0, nil, invalid("a varint does not fit into 32 bits")
	}
	return uint32(v), in[n:], nil
}

func take(in []byte, n uint64) ([]byte, []byte, error) {
	if n > uint64(len(in)) {
		return nil, nil, invalid("a field states %d bytes, but %d are left", n, len(in))
	}
	return in[:n:n], in[n:], nil
}

// next reads a field of in, which must not be empty. f is nil if the schema does not have the
// field, or has the field with a different wire type.
func (s *schema) next(in []byte) (it item, f *field, rest []byte, err error) {
	tag, rest, err := varint32(in)
	if err != nil {
		return it, nil, nil, err
	}
	num, wt := tag>>3, tag&7
	for i := range s.fields {
		if s.fields[i].num != num {
			continue
		}
		if c := &s.fields[i]; c.wireType() == wt {
			it, rest, err = read(c, rest)
			return it, c, rest, err
		} else if c.kind == uint64sKind && wt == lenType {
			it.num = num
			it.b, rest, err = lengthDelimited64(rest)
			return it, c, rest, err
		}
		break
	}
	rest, err = skip(num, wt, rest)
	return it, nil, rest, err
}

// read reads the value of f.
func read(f *field, in []byte) (it item, rest []byte, err error) {
	it.num = f.num
	switch f.kind {
	case bytesKind, stringKind:
		var n uint32
		if n, rest, err = varint32(in); err == nil {
			it.b, rest, err = take(rest, uint64(n))
		}
		if err == nil && f.kind == stringKind && !utf8.Valid(it.b) {
			err = invalid("field %d is not UTF-8", f.num)
		}
	case messageKind:
		it.b, rest, err = lengthDelimited64(in)
	case uint32Kind:
		var v uint32
		v, rest, err = varint32(in)
		it.v = uint64(v)
	case int32Kind:
		if it.v, rest, err = varint(in); err == nil && int64(it.v) != int64(int32(it.v)) {
			err = invalid("field %d does not fit into 32 bits", f.num)
		}
	default:
		it.v, rest, err = varint(in)
	}
	return it, rest, err
}

// lengthDelimited64 reads a value with a length of up to ten bytes: messages and packed numbers.
func lengthDelimited64(in []byte) ([]byte, []byte, error) {
	n, rest, err := varint(in)
	if err != nil {
		return nil, nil, err
	}
	return take(rest, n)
}

// skip skips the value of an unknown field. A group ends when its nesting depth returns to 0,
// regardless of the field numbers of the end tags.
func skip(num, wt uint32, in []byte) (rest []byte, err error) {
	if num == 0 {
		return nil, invalid("the field number 0 is not allowed")
	}
	for depth := 0; ; {
		switch wt {
		case varintType:
			_, in, err = varint(in)
		case fixed64Type:
			_, in, err = take(in, 8)
		case fixed32Type:
			_, in, err = take(in, 4)
		case lenType:
			var n uint32
			if n, in, err = varint32(in); err == nil {
				_, in, err = take(in, uint64(n))
			}
		case startGroup:
			depth++
		case endGroup:
			if depth--; depth < 0 {
				err = invalid("a group ends without a start")
			}
		default:
			err = invalid("unknown wire type %d", wt)
		}
		if err != nil || depth == 0 {
			return in, err
		}
		var tag uint32
		if tag, in, err = varint32(in); err != nil {
			return nil, err
		}
		if wt = tag & 7; tag>>3 == 0 {
			return nil, invalid("the field number 0 is not allowed")
		}
	}
}

// check returns an error unless all of in decodes by s, including nested messages. If a field that
// is not repeated occurs twice, the last value is used, but all values must decode.
func (s *schema) check(in []byte) error {
	for len(in) > 0 {
		it, f, rest, err := s.next(in)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if in = rest; f == nil {
			continue
		}
		switch {
		case f.kind == messageKind:
			err = f.of.check(it.b)
		case f.kind == uint64sKind && it.b != nil:
			for p := it.b; len(p) > 0 && err == nil; {
				_, p, err = varint(p)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// items yields the known fields of in, which check must have accepted. Packed numbers are yielded
// one by one.
func (s *schema) items(in []byte) iter.Seq[item] {
	return func(yield func(item) bool) {
		for len(in) > 0 {
			it, f, rest, err := s.next(in)
			if err != nil {
				panic(fmt.Sprintf("wire: %s read without a check: %v", s.name, err))
			}
			in = rest
			switch {
			case f == nil:
			case f.kind == uint64sKind && it.b != nil:
				for p := it.b; len(p) > 0; {
					var v uint64
					if v, p, _ = varint(p); !yield(item{num: it.num, v: v}) {
						return
					}
				}
			case !yield(it):
				return
			}
		}
	}
}

func appendTag(b []byte, num, wt uint32) []byte {
	return binary.AppendUvarint(b, uint64(num)<<3|uint64(wt))
}

// appendUint appends a number field. appendUint appends nothing if the number is 0.
func appendUint(b []byte, num uint32, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(appendTag(b, num, varintType), v)
}

func appendBool(b []byte, num uint32, v bool) []byte {
	if !v {
		return b
	}
	return append(appendTag(b, num, varintType), 1)
}

// appendBytes appends a bytes field. appendBytes appends nothing if the field is empty.
func appendBytes[T string | []byte](b []byte, num uint32, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return append(binary.AppendUvarint(appendTag(b, num, lenType), uint64(len(v))), v...)
}

// appendMessage appends a message field with the fields that body appends, even if body appends
// none.
func appendMessage(b []byte, num uint32, body func([]byte) []byte) []byte {
	b = append(appendTag(b, num, lenType), 0) // reserve one byte for the length
	start := len(b)
	b = body(b)
	n := len(b) - start
	if n < 0x80 {
		b[start-1] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	l := binary.PutUvarint(length[:], uint64(n))
	b = append(b, length[:l-1]...)
	copy(b[start+l-1:], b[start:start+n])
	copy(b[start-1:], length[:l])
	return b
}
