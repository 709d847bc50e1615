package contracts

import (
	"bytes"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// TestBadModulesHaveTheirFates: preparing each module has the result of its fate, and the expected
// error if it is refused.
func TestBadModulesHaveTheirFates(t *testing.T) {
	cfg := parameters.MustGet(parameters.June(86))
	for _, b := range BadModules() {
		code := b.Make()
		m, err := prep.Prepare(code, &cfg.Wasm)
		var kind primitives.PrepareError
		switch got := fateOf(m, err, &kind); {
		case got != b.Fate:
			t.Errorf("%s: fate %d (%v), want %d", b.Name, got, err, b.Fate)
		case kind != b.Prepare:
			t.Errorf("%s: %v, want %v", b.Name, err, b.Prepare)
		}
	}
}

func fateOf(m *prep.Module, err error, kind *primitives.PrepareError) Fate {
	switch {
	case errors.As(err, kind):
		return Refused
	case m.CompileFails:
		return NotCompiled
	case m.LoadFails:
		return NotLoaded
	}
	return Runs
}

// TestBadModulesMayBeDeployed: no module is larger than a contract may be, except those that are
// too long on purpose, and each is the same every time it is made.
func TestBadModulesMayBeDeployed(t *testing.T) {
	const most = 4 << 20
	seen := map[string]bool{}
	for _, b := range BadModules() {
		code := b.Make()
		if len(code) > most {
			t.Errorf("%s: %d bytes, at most %d", b.Name, len(code), most)
		}
		if !bytes.Equal(code, b.Make()) {
			t.Errorf("%s: two builds differ", b.Name)
		}
		if seen[b.Name] && b.Name != "cut off" {
			t.Errorf("two are called %s", b.Name)
		}
		seen[b.Name] = true
	}
}
