package primitives

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// scratch are buffers for encodings that are not kept. The length of an encoding is not known in
// advance.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch bounds the buffers that are kept, in bytes.
const maxScratch = 1 << 20

// lend passes the bytes that the function write appends to the function use, which must not keep
// them.
func lend(write func(b []byte) []byte, use func(b []byte)) {
	s := scratch.Get().(*[]byte)
	*s = write((*s)[:0])
	use(*s)
	if cap(*s) <= maxScratch {
		scratch.Put(s)
	}
}

// Encoded passes the encoding of a value to the function use, which must not keep it.
func Encoded(v borsh.Appender, use func(b []byte)) { lend(v.AppendBorsh, use) }

// hashOf returns sha256 of what write appends.
func hashOf(write func(b []byte) []byte) (h Hash) {
	lend(write, func(b []byte) { h = sha256.Sum256(b) })
	return h
}

// SameReceipts returns whether two lists are equal byte for byte.
func SameReceipts(a, b []*Receipt) (same bool) {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		if a[i].ID != b[i].ID {
			return false
		}
		Encoded(a[i], func(x []byte) {
			Encoded(b[i], func(y []byte) { same = bytes.Equal(x, y) })
		})
		if !same {
			return false
		}
	}
	return true
}
