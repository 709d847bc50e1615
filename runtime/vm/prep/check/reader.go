package check

import "unicode/utf8"

// maxName is the longest name that wasmparser reads, in bytes.
const maxName = 100_000

// reader reads a slice of the code. After the first failure, bad is set and the position is at the
// end, so that loops over items end too.
type reader struct {
	buf  []byte
	pos  int
	base int // offset of buf in the contract's code
	bad  string
}

func (r *reader) eof() bool { return r.pos >= len(r.buf) }

// offset returns the position in the code.
func (r *reader) offset() int { return r.base + r.pos }

func (r *reader) fail(why string) {
	if r.bad == "" {
		r.bad = why
	}
	r.pos = len(r.buf)
}

func (r *reader) err() *Error {
	if r.bad == "" {
		return nil
	}
	return invalid(r.offset(), r.bad)
}

func (r *reader) peek() byte {
	if r.pos >= len(r.buf) {
		r.fail("unexpected end")
		return 0
	}
	return r.buf[r.pos]
}

func (r *reader) u8() byte {
	if r.pos >= len(r.buf) {
		r.fail("unexpected end")
		return 0
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

// u32 reads an unsigned LEB128 of at most five bytes, in any encoding, not only the shortest.
func (r *reader) u32() uint32 {
	if r.pos < len(r.buf) {
		if b := r.buf[r.pos]; b < 0x80 {
			r.pos++
			return uint32(b)
		}
	}
	return r.u32Long()
}

func (r *reader) u32Long() uint32 {
	var v uint32
	for shift := 0; ; shift += 7 {
		b := r.u8()
		if shift == 28 && b > 0x0f {
			r.fail("integer too large")
			return 0
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// signed reads a signed LEB128 of at most the given number of bits (32, 33 or 64).
func (r *reader) signed(bits uint) int64 {
	var v int64
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		v |= int64(b&0x7f) << shift
		if left := bits - shift; left <= 7 {
			// The last possible byte must have no continuation bit, and its unused bits must repeat
			// the sign.
			if rest := int8(b<<1) >> left; b >= 0x80 || rest != 0 && rest != -1 {
				r.fail("integer too large")
				return 0
			}
			return v << (64 - bits) >> (64 - bits)
		}
		if b < 0x80 {
			return v << (57 - shift) >> (57 - shift)
		}
	}
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.buf)-r.pos {
		r.fail("unexpected end")
		return nil
	}
	b := r.buf[r.pos : r.pos+n]
	r.pos += n
	return b
}

// sub returns a reader of the next n bytes.
func (r *reader) sub(n int) reader {
	base := r.offset()
	return reader{buf: r.bytes(n), base: base}
}

// name reads a UTF-8 string. The result aliases the code.
func (r *reader) name() []byte {
	n := r.u32()
	if n > maxName {
		r.fail("name too long")
		return nil
	}
	b := r.bytes(int(n))
	if !utf8.Valid(b) {
		r.fail("name is not UTF-8")
	}
	return b
}
