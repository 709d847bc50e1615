package rpc

import "unsafe"

// The scheduler cannot preempt the copying of megabytes. With freshly mapped pages, such a copy
// takes tens of milliseconds, and every stop-the-world phase, for example of a garbage collection,
// waits until the copy is complete. So the server copies in pieces any text that a client can make
// as long as a body. If a parser only reads the text, the text is not copied at all.

// copyStep is the number of bytes that are copied at once.
const copyStep = 64 << 10

func copyPieces(dst, src []byte) {
	for n := min(len(dst), len(src)); n > 0; {
		k := copy(dst, src[:min(n, copyStep)])
		dst, src, n = dst[k:], src[k:], n-k
	}
}

// appendPieces returns append(b, text...), copied in pieces.
func appendPieces(b, text []byte) []byte {
	if len(b)+len(text) <= copyStep {
		return append(b, text...)
	}
	n := len(b)
	b = growPieces(b, len(text))[:n+len(text)]
	copyPieces(b[n:], text)
	return b
}

// growPieces returns b with capacity for n more bytes, and for the few that usually follow.
func growPieces(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	const few = 64
	out := make([]byte, len(b), len(b)+n+max(few, len(b)/4))
	copyPieces(out, b)
	return out
}

// cloneString returns string(text), copied in pieces.
func cloneString(text []byte) string {
	if len(text) <= copyStep {
		return string(text)
	}
	return borrowString(appendPieces(nil, text))
}

// borrowString returns text as a string without a copy. Use it only for parsers that keep no part
// of the string.
func borrowString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }
