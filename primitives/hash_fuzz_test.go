package primitives

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzHashText: both readers read a hash's text as the hash, and a text that is read as a hash is
// the hash's text: no hash has two texts.
func FuzzHashText(f *testing.F) {
	for zeros := range 33 {
		f.Add(append(make([]byte, zeros), bytes.Repeat([]byte{0xff}, 32-zeros)...), strings.Repeat("1", zeros))
		f.Add(append(bytes.Repeat([]byte{1}, 32-zeros), make([]byte, zeros)...), strings.Repeat("1", zeros)+"z")
	}
	f.Add(make([]byte, 32), "JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG") // 2^256-1
	f.Add(make([]byte, 32), "JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFH") // 2^256
	f.Add(make([]byte, 32), "11111111111111111111111111111112\x00")
	f.Add(make([]byte, 32), "1111111111111111111111111111111\u0131")
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		h := Hash{}
		copy(h[:], raw)
		written := h.String()
		if got, err := ParseHash(written); err != nil || got != h {
			t.Errorf("%x is read as %x: %v", h, got, err)
		}
		if got, err := DecodeBase58(written, len(h)); err != nil || !bytes.Equal(got, h[:]) {
			t.Errorf("%x is read as %x: %v", h, got, err)
		}
		if got := string(appendBase58ByDivision([]byte("x"), string(h[:]))); got != "x"+written {
			t.Errorf("%x is %s by division, %s by tables", h, got, written)
		}
		read, err := ParseHash(text)
		other, oerr := DecodeBase58(text, len(read))
		if (err == nil) != (oerr == nil && len(other) == len(read)) {
			t.Errorf("%q is %v, %v and %x, %v", text, read, err, other, oerr)
		}
		if err == nil && (read.String() != text || !bytes.Equal(other, read[:])) {
			t.Errorf("%q is read as %v and %x", text, read, other)
		}
	})
}
