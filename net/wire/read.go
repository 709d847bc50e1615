package wire

import "io"

// ReadGrowing appends n bytes of r to b, whose memory grows as they come, since n is only what
// somebody says: to first bytes before any is there, and then to twice what is, never beyond the
// last of them. Without an error it is not nil.
func ReadGrowing(r io.Reader, b []byte, n, first int) ([]byte, error) {
	if b == nil {
		b = make([]byte, 0, min(n, first))
	}
	for left := n; left > 0; {
		at := len(b)
		k := min(left, max(first, at))
		if cap(b) < at+k {
			b = append(make([]byte, 0, at+k), b...)
		}
		b = b[:at+k]
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			return nil, err
		}
		left -= k
	}
	return b, nil
}
