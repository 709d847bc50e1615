package state

import (
	"cmp"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// arena allocates memory for encoded values. Small values share a slab, so that a write needs no
// separate allocation. Slabs start small and double in size, because most blocks write few values
// and a slab stays in memory until the flat head advances past the block.
type arena struct {
	buf  []byte
	slab int // maximum size of a slab in bytes; 0: slabSize
}

const (
	slabFirst = 1 << 12
	slabSize  = 1 << 16
	forkSlab  = 1 << 13 // maximum size in bytes of a fork's slab; forks write little
	slabRoom  = 1 << 10 // a slab with fewer free bytes is replaced
)

// room starts a new slab if the current slab has less free space than n or slabRoom bytes. So
// append does not have to grow and copy the slab.
func (a *arena) room(n int) {
	if n = max(n, slabRoom); cap(a.buf)-len(a.buf) < n {
		size := max(slabFirst, 2*cap(a.buf))
		a.buf = make([]byte, 0, max(n, min(size, cmp.Or(a.slab, slabSize))))
	}
}

// encode returns the encoding of v.
func (a *arena) encode(v borsh.Appender) []byte {
	a.room(0)
	from := len(a.buf)
	a.buf = v.AppendBorsh(a.buf)
	return a.take(from)
}

// take returns the bytes that were appended to buf after offset from, without spare capacity.
func (a *arena) take(from int) []byte { return a.buf[from:len(a.buf):len(a.buf)] }

func (a *arena) copy(b []byte) []byte {
	if cap(a.buf)-len(a.buf) < len(b) {
		a.room(len(b))
	}
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
