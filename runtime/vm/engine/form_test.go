//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

import "testing"

// TestForm: an engine with less address space is another one, and says so.
func TestForm(t *testing.T) {
	seen := map[string]bool{"public": true}
	for _, most := range []uint64{1 << 50, 100 << 30, 0} {
		f := form(choose(func(bytes uint64) bool { return bytes <= most }))
		if seen[f] {
			t.Errorf("two are %s", f)
		}
		seen[f] = true
	}
	if !seen["shim-4096"] || !seen["shim-128"] || !seen["shim-0"] {
		t.Errorf("%v", seen)
	}
	if f := Form(); f != "shim-4096" && f != "shim-128" {
		t.Error("this one is", f)
	}
}
