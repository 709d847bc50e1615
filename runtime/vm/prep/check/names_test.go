package check

import (
	"maps"
	"testing"
)

func TestFunctionNamesAreRead(t *testing.T) {
	section := func(id byte, body ...byte) []byte { return append([]byte{id, byte(len(body))}, body...) }
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	head := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	exports := section(sectionExport, append(append(append([]byte{2}, append(text("main"), kindFunc, 3)...), append(text("mem"), kindMemory, 0)...), []byte{}...)...)
	functions := section(1, append(append([]byte{2, 0}, text("leaf")...), append([]byte{200, 1}, text("far")...)...)...)
	names := section(0, append(append(text("name"), section(0, text("module")...)...), functions...)...)
	module := func(parts ...[]byte) (out []byte) {
		out = append(out, head...)
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, c := range []struct {
		code []byte
		want map[uint32]string
	}{
		{nil, map[uint32]string{}},
		{head, map[uint32]string{}},
		{module(exports), map[uint32]string{3: "main"}},
		{module(names, exports), map[uint32]string{0: "leaf", 3: "main", 200: "far"}},
		{module(exports, names)[:40], map[uint32]string{3: "main"}},
		{module(exports, []byte{0, 255, 255, 255, 255, 15}), map[uint32]string{3: "main"}},
	} {
		if got := Names(c.code); !maps.Equal(got, c.want) {
			t.Errorf("%x: %v, want %v", c.code, got, c.want)
		}
	}
}

// FuzzNames: Names returns fewer names than there are bytes, for any bytes.
func FuzzNames(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x0e\x04name\x01\x07\x01\x00\x04leaf"))
	f.Fuzz(func(t *testing.T, code []byte) {
		if n := Names(code); len(n) > len(code) || len(n) > 2*maxNames {
			t.Errorf("%d names in %d bytes", len(n), len(code))
		}
	})
}
