package contracts

import (
	"bytes"
	"testing"
)

// TestBadModulesMayBeDeployed: none is larger than what a contract may be but those that are too long on purpose, and each is
// made alike every time.
func TestBadModulesMayBeDeployed(t *testing.T) {
	const most = 4 << 20
	seen := map[string]bool{}
	for _, b := range BadModules() {
		code := b.Make()
		if len(code) > most {
			t.Errorf("%s: %d bytes, at most %d", b.Name, len(code), most)
		}
		if !bytes.Equal(code, b.Make()) {
			t.Errorf("%s: two of it differ", b.Name)
		}
		if seen[b.Name] && b.Name != "cut off" {
			t.Errorf("two are called %s", b.Name)
		}
		seen[b.Name] = true
	}
}
