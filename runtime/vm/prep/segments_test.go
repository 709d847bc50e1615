package prep

import (
	"bytes"
	"testing"
)

// TestFarData: data whose image would be far larger than its segments keeps the engine from making one; other data is copied
// as it stands.
func TestFarData(t *testing.T) {
	data := func(offset int, content string) []byte {
		return cat(0, opI32Const, appendSigned(nil, int64(offset)), opEnd, sized([]byte(content)))
	}
	passive := cat(1, sized([]byte("p")))
	for _, c := range []struct {
		what  string
		items [][]byte
		far   bool
	}{
		{"none", nil, false},
		{"one far away", [][]byte{data(16_000_000, "x")}, false},
		{"two, near", [][]byte{data(0, "x"), data(65_000, "x")}, false},
		{"two bytes 16 MB apart", [][]byte{data(0, "x"), data(16_776_900, "x")}, true},
		{"the first behind a passive one", [][]byte{passive, data(16_776_900, "x"), data(0, "x")}, true},
		{"16 MB apart as negative numbers", [][]byte{data(-1<<30, "x"), data(-1<<30+1<<24, "x")}, true},
		{"far apart but large", [][]byte{data(0, string(make([]byte, 100_000))), data(1_600_000, "x")}, false},
	} {
		section := sec(sectionData, vec(c.items...))
		m, err := Prepare(wasm(sec(sectionMemory, vec(cat(0, 1))), section), june(86))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if kept := c.items == nil || bytes.HasSuffix(m.Code, section); kept == c.far {
			t.Errorf("%s: section as it was: %v", c.what, kept)
		}
		if sums := bytes.Count(m.Code, cat(opI32Const, 0, opI32Add, opEnd)); sums != 0 && !c.far || sums != 1 && c.far {
			t.Errorf("%s: %d sums", c.what, sums)
		}
	}
}
