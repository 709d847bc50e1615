package prep

import (
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/compilebombs"
)

// TestPreparedLengthIsBounded checks that the prepared form of a module of any shape is not much
// longer than the module.
func TestPreparedLengthIsBounded(t *testing.T) {
	w, seen := june86(), 0
	for _, s := range append(compilebombs.Known(), compilebombs.Listed()...) {
		code := s.Encode()
		m, err := Prepare(code, w)
		if err != nil || m.CompileFails || m.LoadFails {
			continue
		}
		seen++
		if most := 12*len(code) + 64<<10; len(m.Code) > most {
			t.Errorf("%s: %d bytes of %d", s.Name, len(m.Code), len(code))
		}
	}
	if seen < 200 {
		t.Errorf("%d shapes were prepared", seen)
	}
}
