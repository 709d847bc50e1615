package check

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

func june(v primitives.ProtocolVersion) *parameters.Wasm {
	return &parameters.MustGet(parameters.June(v)).Wasm
}

// TestInstrumentedSizeMatchesNearcore: sizes computed by nearcore's near-vm-runner at commit
// f0c7706f1.
func TestInstrumentedSizeMatchesNearcore(t *testing.T) {
	memory := sec(sectionMemory, vec([]byte{0, 1}))
	grow := wasm(sec(sectionType, vec(fn(""))), sec(sectionFunction, vec(leb(0))), memory,
		sec(sectionExport, vec(exportOf("main", kindFunc, 0))),
		sec(sectionCode, vec(code(opI32Const, 1, opMemoryGrow, 0, opDrop))))
	reexport := wasm(sec(sectionType, vec(fn(""))), sec(sectionImport, vec(importOf("env", "panic", kindFunc, 0))),
		sec(sectionExport, vec(exportOf("main", kindFunc, 0))))
	for _, c := range []struct {
		name    string
		code    []byte
		in, out int
	}{
		{"empty module", wasm(), 8, 28},
		{"empty main", mainModule("", code()), 34, 275},
		{"main calls itself", mainModule("", code(opCall, 0)), 36, 304},
		{"main calls itself, named", append(mainModule("", code(opCall, 0)), sec(sectionCustom, cat(4, "name", 1, 4, 1, 0, 1, "f"))...), 49, 304},
		{"import exported again", reexport, 39, 167},
		{"memory.grow", grow, 44, 395},
		{"one if with a nop", wasm(sec(sectionType, vec(fn("i32"))), sec(sectionFunction, vec(leb(0))), sec(sectionExport, vec(exportOf("f", kindFunc, 0))),
			sec(sectionCode, vec(code(opLocalGet, 0, opIf, none, opNop, opEnd)))), 38, 338},
		{"one if", mainModule("i32", code(opLocalGet, 0, opIf, none, opEnd)), 40, 311},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Prepare(c.code, june(86))
			if err != nil {
				t.Errorf("prepare: %v", err)
				return
			}
			if len(c.code) != c.in || m.Size != c.out {
				t.Errorf("%d -> %d bytes, want %d -> %d", len(c.code), m.Size, c.in, c.out)
			}
		})
	}
}
