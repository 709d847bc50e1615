package state

import "github.com/troupe-chain/troupe/primitives/borsh"

// arena holds encoded values: many small ones share a slab, so that a write costs no allocation of its own.
type arena struct{ buf []byte }

const (
	slabSize = 1 << 16
	slabRoom = 1 << 10 // a slab with less room is left
)

// room makes sure that appending n bytes, or a value of common size, does not copy the slab.
func (a *arena) room(n int) {
	if n = max(n, slabRoom); cap(a.buf)-len(a.buf) < n {
		a.buf = make([]byte, 0, max(n, slabSize))
	}
}

// encode returns the encoding of v.
func (a *arena) encode(v borsh.Appender) []byte {
	a.room(0)
	from := len(a.buf)
	a.buf = v.AppendBorsh(a.buf)
	return a.take(from)
}

// take cuts off what was appended behind from.
func (a *arena) take(from int) []byte { return a.buf[from:len(a.buf):len(a.buf)] }

func (a *arena) copy(b []byte) []byte {
	a.room(len(b))
	from := len(a.buf)
	a.buf = append(a.buf, b...)
	return a.take(from)
}

func (a *arena) copyString(s string) []byte {
	a.room(len(s))
	from := len(a.buf)
	a.buf = append(a.buf, s...)
	return a.take(from)
}
