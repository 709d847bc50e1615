package rpc

import "unicode/utf8"

// What a refusal repeats of a request is cut off: a reply that grows with what was sent costs the
// node more than the sender.
const (
	maxEcho = 256  // bytes of one value
	maxText = 1024 // bytes of a refusal's text in all
	clipped = "..."
)

// clipText shortens what is repeated to maxEcho bytes, at the end of a character.
func clipText(text []byte) []byte {
	if len(text) <= maxEcho {
		return text
	}
	return append(cut(text, maxEcho), clipped...)
}

// clipTo shortens a text to n bytes.
func clipTo(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return string(cut([]byte(text[:n+1]), n)) + clipped
}

// abort returns a copy of the first n bytes or up to three less, so that no character is torn.
func cut(text []byte, n int) []byte {
	for k := n; k > n-utf8.UTFMax; k-- {
		if utf8.RuneStart(text[k]) {
			n = k
			break
		}
	}
	return append(make([]byte, 0, n+len(clipped)), text[:n]...)
}
