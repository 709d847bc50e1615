package prep

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/internal/contracts"
	"github.com/troupe-chain/troupe/internal/contracts/bombs"
)

// TestModel: what is written of any shape is not much longer than the shape, and the shapes that would keep the compiler busy have
// their locals and operands in memory.
func TestModel(t *testing.T) {
	w := june86()
	heavy := map[string]bool{"operands under ifs": true, "ten of operands under ifs": true, "locals in loops": true,
		"br_table-32 over operands": true, "if over operands": true, "table.get over operands": true, "ten times 4900 deep in 3": true}
	seen := 0
	for i, s := range append(bombs.Known(), bombs.Listed()...) {
		if i%8 != 0 && !heavy[s.Name] {
			continue
		}
		code := s.Encode()
		e := newEmitter(w)
		m, err := e.prepare(code, w)
		if err != nil || m.CompileFails || m.LoadFails {
			continue
		}
		if heavy[s.Name] {
			if seen++; !e.memory {
				t.Errorf("%s: all in values", s.Name)
			}
		}
		if most := 40*len(code) + 64<<10; len(m.Code) > most {
			t.Errorf("%s: %d bytes of %d", s.Name, len(m.Code), len(code))
		}
	}
	if seen != len(heavy) {
		t.Errorf("%d of %d shapes were prepared", seen, len(heavy))
	}
}

// TestModelOfOrdinary: contracts as compilers write them keep their locals as values.
func TestModelOfOrdinary(t *testing.T) {
	files, err := filepath.Glob("../../../internal/contracts/c/*.wasm")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d contracts, %v", len(files), err)
	}
	ordinary := map[string][]byte{"250 KB": contracts.Large(250_000, 1)}
	for _, f := range files {
		if ordinary[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	for name, code := range ordinary {
		e := newEmitter(june86())
		if _, err := e.prepare(code, june86()); err != nil || e.memory {
			t.Errorf("%s: in memory %v, %v", name, e.memory, err)
		}
	}
}
