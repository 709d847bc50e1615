package vm

import (
	"testing"

	"github.com/troupe-chain/troupe/internal/contracts/bombs"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/config"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

// TestArtifactsOfBombs: the artifacts of shapes that once had the largest for a byte of wasm are within the bound. They are the same
// bytes on every machine of a kind; what compiling takes is for internal/bombs to measure.
func TestArtifactsOfBombs(t *testing.T) {
	v := newVM(t)
	small := map[string]bool{"two far bytes of data": true, "locals in loops": true, "operands under ifs": true, "two bytes 33 KB apart": true,
		"one element at the table's end": true, "a byte of data a page": true, "br_table-32 over operands": true, "1,000 types": true}
	for _, s := range append(bombs.Known(), bombs.Listed()...) {
		if !small[s.Name] {
			continue
		}
		delete(small, s.Name)
		code := s.Encode()
		a, err := v.build(&task{hash: primitives.HashBytes(code), code: code, rules: &config.MustGet(config.June(86)).Wasm})
		if err != nil || len(a.Code) == 0 {
			t.Errorf("%s: %d bytes, %v", s.Name, len(a.Code), err)
		} else if most := compiler.BoundOf(len(code)).Output; int64(len(a.Code)) > most {
			t.Errorf("%s: %d bytes of %d, at most %d", s.Name, len(a.Code), len(code), most)
		}
	}
	if len(small) > 0 {
		t.Errorf("not there: %v", small)
	}
}
