//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

import (
	"runtime"
	"testing"
)

// TestFormDistinguishesEngines checks that engines with less address space, or with the other code
// generator, have another Form, so that their artifacts are cached separately.
func TestFormDistinguishesEngines(t *testing.T) {
	seen := map[string]bool{"public": true}
	for _, most := range []uint64{1 << 50, 100 << 30, 0} {
		for _, generator := range []string{Winch, Cranelift} {
			f := form(generator, choose(func(bytes uint64) bool { return bytes <= most }))
			if seen[f] {
				t.Errorf("two are %s", f)
			}
			seen[f] = true
		}
	}
	if !seen["shim-winch-4096"] || !seen["shim-cranelift-128"] || !seen["shim-winch-0"] {
		t.Errorf("%v", seen)
	}
	generator := "cranelift"
	if runtime.GOARCH == "amd64" {
		generator = "winch"
	}
	if f := Form(); f != "shim-"+generator+"-4096" && f != "shim-"+generator+"-128" {
		t.Error("this one is", f)
	}
}
