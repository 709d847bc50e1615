package vm

import (
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/compilebombs"
	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// TestArtifactsOfHostileModulesAreBounded compiles modules whose shapes once had the largest
// artifacts per byte of wasm, and checks that the artifacts are within the bound. Their size is the
// same on all machines of an architecture. internal/testkit/bombs measures the time and memory of their
// compilation.
func TestArtifactsOfHostileModulesAreBounded(t *testing.T) {
	v := newVM(t)
	small := map[string]bool{"two far bytes of data": true, "locals in loops": true, "operands under ifs": true, "two bytes 33 KB apart": true,
		"one element at the table's end": true, "a byte of data a page": true, "br_table-32 over operands": true, "1,000 types": true}
	for _, s := range append(compilebombs.Known(), compilebombs.Listed()...) {
		if !small[s.Name] {
			continue
		}
		delete(small, s.Name)
		code := s.Encode()
		a, err := v.build(&task{hash: primitives.HashBytes(code), code: code, rules: &parameters.MustGet(parameters.June(86)).Wasm})
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

// TestLargestPreparedFunctionIsBounded checks the function that prep extends most, with the longest
// indexes of locals. Its output must leave enough room in a compiler request for a contract of many
// such functions. A contract that did not fit would halt every node whose block calls it.
func TestLargestPreparedFunctionIsBounded(t *testing.T) {
	const size = 190_000
	w := parameters.MustGet(parameters.June(86)).Wasm
	inMemory := func(f *wasmasm.Func, of wasmasm.ValType) {
		f.Locals(20_000, of)
		for range 1_000 {
			f.Block("", wasmasm.Void).I32(0).Op(0x0d, 0).End()
		}
		for range 10_000 { // joints times accesses are too many
			f.Get(0).Op(wasmasm.Drop)
		}
	}
	operands := func(of wasmasm.ValType, op ...byte) func(*wasmasm.Module, *wasmasm.Func) {
		return func(_ *wasmasm.Module, f *wasmasm.Func) {
			inMemory(f, of)
			for f.Len() < size {
				n := 500
				for range n {
					f.Get(0)
				}
				f.Block("", wasmasm.Void).End()
				for i := range n - 1 {
					f.Op(op[i%len(op)])
				}
				f.Op(wasmasm.Drop)
			}
		}
	}
	n := 0
	operandsOf := func(of wasmasm.ValType, piece func(f *wasmasm.Func)) func(*wasmasm.Module, *wasmasm.Func) {
		return func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Memory(1, -1)
			for inMemory(f, of); f.Len() < size; {
				piece(f)
			}
		}
	}
	most := 0.0
	for name, body := range map[string]func(*wasmasm.Module, *wasmasm.Func){
		"square roots": func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.Locals(20_000, wasmasm.F64).F64(1)
			for f.Len() < size {
				f.Op(wasmasm.F64Sqrt)
			}
			f.Set(0)
		},
		"square roots looked at": func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.Locals(20_000, wasmasm.F64).F64(1)
			for f.Len() < size {
				f.Op(wasmasm.F64Sqrt, wasmasm.I64Bits, 0xbf)
			}
			f.Set(0)
		},
		"square roots in locals": func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.Locals(20_000, wasmasm.F64).F64(1)
			for f.Len() < size {
				f.Op(wasmasm.F64Sqrt).Tee(0)
			}
			f.Set(0)
		},
		"integers":               operands(wasmasm.I64, wasmasm.I64Add),
		"floats":                 operands(wasmasm.F64, 0xa0),
		"floats and signs":       operands(wasmasm.F64, 0xa0, 0xa6),
		"small floats and signs": operands(wasmasm.F32, 0x92, 0x98),
		"selects": operandsOf(wasmasm.I64, func(f *wasmasm.Func) {
			for range 500 {
				f.MemorySize()
			}
			for range 249 {
				f.Op(wasmasm.Select)
			}
			f.Op(wasmasm.Drop, wasmasm.Drop)
		}),
		"divisions": operandsOf(wasmasm.I32, func(f *wasmasm.Func) {
			for range 400 {
				f.MemorySize()
			}
			for range 399 {
				f.Op(0x6d)
			}
			f.Op(wasmasm.Drop)
		}),
		"memory grown by what it was": func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Memory(1, -1)
			for f.I32(0); f.Len() < size; {
				f.MemoryGrow()
			}
			f.Op(wasmasm.Drop)
		},
		"results of blocks": operandsOf(wasmasm.I64, func(f *wasmasm.Func) {
			if n++; n < 4_000 {
				f.Block("", byte(wasmasm.I32)).MemorySize().MemorySize().Op(0x0d, 0).End().Op(wasmasm.Drop)
			} else {
				f.Op(wasmasm.Nop)
			}
		}),
		"references moved": operandsOf(wasmasm.FuncRef, func(f *wasmasm.Func) { f.Get(0).Set(1) }),
		"references as arguments": func(m *wasmasm.Module, f *wasmasm.Func) {
			inMemory(f, wasmasm.FuncRef)
			params := make([]wasmasm.ValType, 64)
			for i := range params {
				params[i] = wasmasm.FuncRef
			}
			to := m.Func(params, nil).Index
			for f.Len() < size {
				for range params {
					f.Get(0)
				}
				f.Block("", wasmasm.Void).End().Call(to)
			}
		},
	} {
		m := &wasmasm.Module{}
		f := m.Func(nil, nil)
		body(m, f)
		code := m.Encode()
		p, err := prep.Prepare(code, &w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		times := float64(len(p.Code)) / float64(len(code))
		most = max(most, times)
		t.Logf("%s: %.1f times", name, times)
		if limit := float64(compiler.MaxRequest) / float64(w.Limits.MaxContractSize); times > limit*3/4 {
			t.Errorf("%s: %d bytes became %d, %.1f times; a request has room for %.1f", name, len(code), len(p.Code), times, limit)
		}
	}
	if most < 12 {
		t.Errorf("the longest is %.1f times: these are not the shapes that are written at length", most)
	}
}
