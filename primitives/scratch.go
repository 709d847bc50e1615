package primitives

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// scratch is where values are encoded that nobody keeps the encoding of: how long one is, is not
// known before.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch is the longest that is kept for the next one.
const maxScratch = 1 << 20

// lend gives what write appends to use, which must not keep it.
func lend(write func(b []byte) []byte, use func(b []byte)) {
	s := scratch.Get().(*[]byte)
	*s = write((*s)[:0])
	use(*s)
	if cap(*s) <= maxScratch {
		scratch.Put(s)
	}
}

// Encoded gives the encoding of a value to use, which must not keep it.
func Encoded(v borsh.Appender, use func(b []byte)) { lend(v.AppendBorsh, use) }

// hashOf returns sha256 of what write appends.
func hashOf(write func(b []byte) []byte) (h Hash) {
	lend(write, func(b []byte) { h = sha256.Sum256(b) })
	return h
}

// SameReceipts tells whether two lists are the same, to the last byte.
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
