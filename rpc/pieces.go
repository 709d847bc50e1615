package rpc

import "unsafe"

// Copying megabytes is one run of the processor that the scheduler cannot preempt. With freshly
// mapped pages it takes tens of milliseconds, and every stop-the-world phase, such as those of each
// garbage collection, waits for it. So text that a client can make as long as a body is copied in
// pieces. If a parser only reads the text, it is not copied at all.

// copyStep is how many bytes are copied at once.
const copyStep = 64 << 10

func copyPieces(dst, src []byte) {
	for n := min(len(dst), len(src)); n > 0; {
		k := copy(dst, src[:min(n, copyStep)])
		dst, src, n = dst[k:], src[k:], n-k
	}
}

// appendPieces is append(b, text...).
func appendPieces(b, text []byte) []byte {
	if len(b)+len(text) <= copyStep {
		return append(b, text...)
	}
	n := len(b)
	b = growPieces(b, len(text))[:n+len(text)]
	copyPieces(b[n:], text)
	return b
}

// growPieces makes room for n more bytes, and for the few that usually follow.
func growPieces(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	const few = 64
	out := make([]byte, len(b), len(b)+n+max(few, len(b)/4))
	copyPieces(out, b)
	return out
}

// cloneString is string(text).
func cloneString(text []byte) string {
	if len(text) <= copyStep {
		return string(text)
	}
	return borrowString(appendPieces(nil, text))
}

// borrowString is string(text) without a copy, for a parser that keeps nothing of it.
func borrowString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }
