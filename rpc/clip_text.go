package rpc

import "unicode/utf8"

// Bounds on the parts of a request that an error reply repeats. If an error reply could grow with
// the request, it would cost the node more than the request costs the client.
const (
	maxEcho = 256  // bytes of one repeated value
	maxText = 1024 // bytes of the whole error text
	clipped = "..."
)

// clipText cuts a value to at most maxEcho bytes, at a character boundary.
func clipText(text []byte) []byte {
	if len(text) <= maxEcho {
		return text
	}
	return append(cut(text, maxEcho), clipped...)
}

// clipTo cuts a text to at most n bytes, at a character boundary.
func clipTo(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return string(cut([]byte(text[:n+1]), n)) + clipped
}

// cut returns a copy of the first n bytes of text. The copy may be up to three bytes shorter, so
// that no character is split.
func cut(text []byte, n int) []byte {
	for k := n; k > n-utf8.UTFMax; k-- {
		if utf8.RuneStart(text[k]) {
			n = k
			break
		}
	}
	return append(make([]byte, 0, n+len(clipped)), text[:n]...)
}
