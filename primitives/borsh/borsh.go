// Package borsh writes and reads NEAR's binary encoding by hand-written calls.
//
//	in      values (append functions), or untrusted bytes (Reader)
//	out     bytes, or values together with the first error of the Reader
//	units   integers little-endian; lengths and counts are u32
//	bound   a Reader never allocates more than the bytes it still holds justify
//	errors  ErrInvalid wraps every refusal; ErrTrailing: bytes left over
//	source  https://borsh.io, as used by nearcore (near/borsh-rs 1.x, strict)
package borsh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// ErrInvalid is wrapped by every decoding error.
var ErrInvalid = errors.New("borsh: invalid encoding")

// ErrEOF is the error of input that ends too early. ErrEOF wraps ErrInvalid. RPC clients see the
// text of ErrEOF, which is borsh-rs's text.
var ErrEOF = fmt.Errorf("%w: Unexpected length of input", ErrInvalid)

// ErrTrailing is the error of bytes left after the value. ErrTrailing wraps ErrInvalid. The text of
// ErrTrailing is borsh-rs's text.
var ErrTrailing = fmt.Errorf("%w: Not all bytes read", ErrInvalid)

// ErrFill is the error of input that ends within an array that nearcore reads by its own code, as
// in ML-DSA-65 keys. ErrFill wraps ErrInvalid. The text of ErrFill is the text of Rust's std::io.
var ErrFill = fmt.Errorf("%w: failed to fill whole buffer", ErrInvalid)

// ErrTooMuch is the error of a value that would take more memory than the reader allows. It wraps
// ErrInvalid.
var ErrTooMuch = fmt.Errorf("%w: Too many items", ErrInvalid)

// Appender is a value with an encoding.
type Appender interface{ AppendBorsh(b []byte) []byte }

// Decoder is a value that decodes itself; the first error sticks to the Reader.
type Decoder interface{ DecodeBorsh(r *Reader) }

// Marshal returns the encoding of v in a fresh slice.
func Marshal(v Appender) []byte { return v.AppendBorsh(nil) }

// Unmarshal decodes exactly one value from in: short, malformed and trailing bytes are errors.
// After an error the content of v is unspecified.
func Unmarshal(in []byte, v Decoder) error {
	r := NewReader(in)
	v.DecodeBorsh(r)
	return r.Close()
}

// MostPerByte bounds the memory of a list, relative to its encoding. An item of any type of the
// protocol needs at most MostPerByte times as many bytes of memory as the item's shortest encoding
// has.
const MostPerByte = 64

// RoomFor returns a room that is large enough for the lists of any value that is encoded in n
// bytes. RoomFor is for encodings that nearcore bounds by length alone, because a smaller room
// would refuse values that nearcore decodes.
func RoomFor(n int) int { return MostPerByte * n }

// UnmarshalWithin does the same as Unmarshal, for untrusted input. UnmarshalWithin returns
// ErrTooMuch, before it allocates, if the items of all lists together need more than `room` bytes
// of memory. Such a bound is needed because an item that is encoded in one byte may take fifty
// bytes of memory.
func UnmarshalWithin(in []byte, v Decoder, room int) error {
	r := NewReaderWithin(in, room)
	v.DecodeBorsh(r)
	return r.Close()
}

// AppendBool appends 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendUint16 appends v.
func AppendUint16(b []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(b, v) }

// AppendUint32 appends v.
func AppendUint32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

// AppendUint64 appends v.
func AppendUint64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// AppendLen appends a u32 count of n items. It panics if n does not fit, because the node never
// encodes so many.
func AppendLen(b []byte, n int) []byte {
	if uint64(n) > 1<<32-1 {
		panic(fmt.Sprintf("borsh: length %d does not fit u32", n))
	}
	return AppendUint32(b, uint32(n))
}

// AppendBytes appends a u32 length and the bytes.
func AppendBytes(b, v []byte) []byte { return append(AppendLen(b, len(v)), v...) }

// AppendString appends a u32 length and the UTF-8 bytes.
func AppendString(b []byte, v string) []byte { return append(AppendLen(b, len(v)), v...) }

// AppendSlice appends a count and then each item by f.
func AppendSlice[T any](b []byte, items []T, f func([]byte, *T) []byte) []byte {
	b = AppendLen(b, len(items))
	for i := range items {
		b = f(b, &items[i])
	}
	return b
}

// AppendUint64s appends a vector of u64.
func AppendUint64s(b []byte, v []uint64) []byte {
	b = AppendLen(b, len(v))
	for _, x := range v {
		b = AppendUint64(b, x)
	}
	return b
}

// Reader decodes a byte slice. The first error sticks: reads after an error return zero values. A
// Reader is not safe for concurrent use.
type Reader struct {
	buf     []byte
	err     error
	loose   bool
	inOrder bool // see NewClientReader
	bounded bool
	room    int // if bounded: bytes of memory that items of lists may take
	lists   int // bytes of memory that items of lists have taken
}

// NewReader reads from in, which must not change while values alias it (see Take and Bytes).
func NewReader(in []byte) *Reader { return &Reader{buf: in} }

// NewReaderWithin reads untrusted input within the bound of UnmarshalWithin.
func NewReaderWithin(in []byte, room int) *Reader { return &Reader{buf: in, bounded: true, room: room} }

// NewClientReader reads input of an RPC client. The Reader reports errors in borsh-rs's order: if a
// count exceeds the input, the Reader first reads the items that the input contains, and reports
// the first error in these items.
func NewClientReader(in []byte) *Reader { return &Reader{buf: in, inOrder: true} }

// Lists returns how many bytes of memory the items of the lists read so far take, without the
// memory to which the items point.
func (r *Reader) Lists() int { return r.lists }

// Loosen records that the input is not the canonical encoding. Such input is valid: borsh-rs
// accepts the entries of a map in any order and more than once.
func (r *Reader) Loosen() { r.loose = true }

// Loose returns whether the input was not the canonical encoding.
func (r *Reader) Loose() bool { return r.loose }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Remaining returns how many bytes are left.
func (r *Reader) Remaining() int { return len(r.buf) }

// Rest returns the unread bytes without consuming them; the returned bytes alias the input.
func (r *Reader) Rest() []byte { return r.buf }

// Close returns the first error, or ErrTrailing when bytes are left.
func (r *Reader) Close() error {
	if r.err != nil {
		return r.err
	}
	if len(r.buf) != 0 {
		return ErrTrailing
	}
	return nil
}

// Fail sets the error unless one is set already, and drops the rest of the input.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		if !errors.Is(err, ErrInvalid) {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		r.err = err
	}
	r.buf = nil
}

// Failf is Fail with a formatted text.
func (r *Reader) Failf(format string, args ...any) { r.Fail(fmt.Errorf(format, args...)) }

// TagError is the error of an enum tag without a variant.
type TagError struct {
	Enum string
	Tag  byte
}

func (e *TagError) Error() string {
	return fmt.Sprintf("unexpected variant tag %d of %s", e.Tag, e.Enum)
}

// BadTag fails with the unknown tag of the named enum, a *TagError.
func (r *Reader) BadTag(enum string, tag byte) { r.Fail(&TagError{enum, tag}) }

// Take returns the next n bytes, aliasing the input, or nil after an error.
func (r *Reader) Take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.buf) {
		r.Fail(ErrEOF)
		return nil
	}
	out := r.buf[:n:n]
	r.buf = r.buf[n:]
	return out
}

// Fill is Take, except that input that is too short fails with ErrFill.
func (r *Reader) Fill(n int) []byte {
	if r.err == nil && n > len(r.buf) {
		r.Fail(ErrFill)
	}
	return r.Take(n)
}

// Byte reads a u8.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Peek returns the unread byte at i, 0 for the next, without consuming it; ok is false at the end
// or after an error.
func (r *Reader) Peek(i int) (b byte, ok bool) {
	if r.err != nil || i >= len(r.buf) {
		return 0, false
	}
	return r.buf[i], true
}

// Bool reads a bool; only 0 and 1 are legal.
func (r *Reader) Bool() bool {
	switch b := r.Byte(); b {
	case 0:
		return false
	case 1:
		return true
	default:
		r.Failf("invalid bool representation: %d", b)
		return false
	}
}

// Option reads the tag of an Option and returns whether a value follows.
func (r *Reader) Option() bool {
	switch b := r.Byte(); b {
	case 0:
		return false
	case 1:
		return true
	default:
		r.Failf("invalid Option representation: %d. The first byte must be 0 or 1", b)
		return false
	}
}

// Uint16 reads a u16.
func (r *Reader) Uint16() uint16 {
	if b := r.Take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// Uint32 reads a u32.
func (r *Reader) Uint32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint64 reads a u64.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Len reads a count of items of at least minSize bytes each, and fails if the input is too short
// for these items. A minSize of 0 is taken as 1: no type of the protocol is empty, so a count
// cannot exceed the bytes left.
func (r *Reader) Len(minSize int) int {
	n := r.Uint32()
	if r.err != nil {
		return 0
	}
	if !r.inOrder && uint64(n)*uint64(max(minSize, 1)) > uint64(len(r.buf)) {
		r.Fail(ErrEOF)
		return 0
	}
	return int(n)
}

// Bytes reads a length-prefixed byte string. The result aliases the input and is not nil unless
// there was an error.
func (r *Reader) Bytes() []byte { return r.Take(r.Len(1)) }

// BytesCopy is Bytes in fresh memory.
func (r *Reader) BytesCopy() []byte {
	b := r.Bytes()
	if r.err != nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// String reads a length-prefixed UTF-8 string.
func (r *Reader) String() string {
	b := r.Bytes()
	if r.err == nil && !utf8.Valid(b) {
		r.Failf("%s", utf8Fault(b))
		return ""
	}
	return string(b)
}

// Uint64s reads a vector of u64.
func (r *Reader) Uint64s() []uint64 {
	n := r.Len(8)
	if r.err != nil {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.Uint64()
	}
	return out
}

// SliceKept does the same as Slice, except that a client reader keeps only the first `most` items
// and drops the following items after reading them. left is the number of dropped items.
func SliceKept[T any](r *Reader, minSize, most int, f func(*Reader) T) (out []T, left int) {
	if !r.inOrder {
		return Slice(r, minSize, f), 0
	}
	n := r.Len(minSize)
	for i := range n {
		item := f(r)
		switch {
		case r.err != nil:
			return nil, 0
		case i < most:
			out = append(out, item)
		}
	}
	return out, max(n-most, 0)
}

// Slice reads a count and then each item by f. minSize is the smallest encoding of an item, in
// bytes. A count of 0 returns nil.
func Slice[T any](r *Reader, minSize int, f func(*Reader) T) []T {
	n := r.Len(minSize)
	if r.err != nil || n == 0 {
		return nil
	}
	var item T
	size := int(unsafe.Sizeof(item))
	if r.bounded && n > (r.room-r.lists)/max(size, 1) {
		r.Fail(ErrTooMuch)
		return nil
	}
	r.lists += n * size
	first := min(n, 1024)
	if r.inOrder { // the list may be long: allocate it at once
		first = min(n, len(r.buf)/max(minSize, 1))
	}
	out := make([]T, 0, first)
	for range n {
		if len(out) == cap(out) { // all items so far were valid, so most of the remaining items probably are
			out = slices.Grow(out, min(n-len(out), 3*len(out)))
		}
		out = append(out, f(r))
		if r.err != nil {
			return nil
		}
	}
	return out
}
