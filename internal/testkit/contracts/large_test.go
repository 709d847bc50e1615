package contracts

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// TestLargeContractHasItsSize: the contract is about as long as requested, differs by seed, and can
// be deployed and run.
func TestLargeContractHasItsSize(t *testing.T) {
	cfg := parameters.MustGet(parameters.June(86))
	for _, size := range []int{1, 10_000, 250_000, 1_000_000} {
		code := Large(size, 1)
		if size > 1000 && (len(code) < size*8/10 || len(code) > size*12/10) {
			t.Errorf("Large(%d) has %d bytes", size, len(code))
		}
		if bytes.Equal(code, Large(size, 2)) || !bytes.Equal(code, Large(size, 1)) {
			t.Errorf("Large(%d) does not depend on the seed alone", size)
		}
		if m, err := prep.Prepare(code, &cfg.Wasm); err != nil || m.CompileFails || m.LoadFails {
			t.Errorf("Large(%d): %v", size, err)
		}
	}
}
