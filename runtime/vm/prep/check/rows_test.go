package check

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TestPrepareLimitsMatchNearcoresCases contains the tests of nearcore's
// near-vm-runner/src/prepare.rs that set their own limits.
func TestPrepareLimitsMatchNearcoresCases(t *testing.T) {
	memories := func(limits ...[]byte) (b []byte) {
		for _, l := range limits {
			b = append(b, importOf("env", "memory", kindMemory, l)...)
		}
		return sec(sectionImport, append(leb(uint64(len(limits))), b...))
	}
	limits := func(set func(*parameters.Limits)) func(*parameters.Wasm) {
		return func(w *parameters.Wasm) { set(&w.Limits) }
	}
	body := limits(func(l *parameters.Limits) { l.MaxFunctionBodySize = 1000 })
	perFunction := limits(func(l *parameters.Limits) { l.MaxBlocksPerFunction = 100 })
	perContract := limits(func(l *parameters.Limits) { l.MaxBlocksPerContract, l.MaxBlocksPerFunction = 50, 1<<63 })
	sixteen := limits(func(l *parameters.Limits) { l.MaxTypesPerContract = 16 })
	stack := func(n uint64) func(*parameters.Wasm) {
		return limits(func(l *parameters.Limits) { l.MaxOperandStackBytesPerFunction = n })
	}
	ifs := func(n int) []byte {
		return mainModule("i32", code(times(n, opLocalGet, 0, opIf, none, opNop, opEnd)))
	}
	many := func(n int) []byte { // main, and functions that consist of one if
		each := code(opLocalGet, 0, opIf, none, opNop, opEnd)
		return wasm(sec(sectionType, vec(fn(""), fn("i32"))), sec(sectionFunction, cat(leb(uint64(n+1)), 0, bytes.Repeat([]byte{1}, n))),
			sec(sectionExport, vec(exportOf("main", kindFunc, 0))), sec(sectionCode, cat(leb(uint64(n+1)), code(), bytes.Repeat(each, n))))
	}
	types := func(n int) []byte { // types of 0 to n-1 parameters
		var b []byte
		for i := range n {
			b = append(b, cat(0x60, leb(uint64(i)), bytes.Repeat([]byte{byte(I32)}, i), 0)...)
		}
		return wasm(sec(sectionType, cat(leb(uint64(n)), b)), sec(sectionFunction, vec(leb(0))),
			sec(sectionExport, vec(exportOf("main", kindFunc, 0))), sec(sectionCode, vec(code())))
	}
	params := func(n, functions int) []byte {
		sig := cat(0x60, leb(uint64(n)), bytes.Repeat([]byte{byte(I32)}, n), 0)
		return wasm(sec(sectionType, vec(sig)), sec(sectionFunction, cat(leb(uint64(functions)), make([]byte, functions))),
			sec(sectionCode, cat(leb(uint64(functions)), bytes.Repeat(code(), functions))))
	}
	pushes := mainModule("", code(times(16, opI64Const, 0), times(16, opDrop)))
	for _, c := range []struct {
		row  string
		code []byte
		set  func(*parameters.Wasm)
		want string // "": valid; any: nearcore's test does not check the error
	}{
		{"51 memory", wasm(sec(sectionMemory, vec(cat(1, 1, 1)))), nil, ""},
		{"60 import of 1 to 1", wasm(memories(cat(1, 1, 1))), nil, "Memory"},
		{"60 nothing", wasm(), nil, ""},
		{"60 import of 17 to 1", wasm(memories(cat(1, 17, 1))), nil, "Deserialization"},
		{"60 import of 1", wasm(memories(cat(0, 1))), nil, "Memory"},
		{"60 import of 1 to 33", wasm(memories(cat(1, 1, 33))), nil, "Memory"},
		{"104 two imports", wasm(memories(cat(1, 1, leb(2048)), cat(1, 1, leb(2048)))), nil, "any"},
		{"104 import and memory", wasm(memories(cat(1, 1, leb(2048))), sec(sectionMemory, vec(cat(0, 1)))), nil, "any"},
		{"131 another module", wasm(sec(sectionImport, vec(importOf("another_module", "memory", kindMemory, 1, 1, 1)))), nil, "Instantiate"},
		{"131 gas", wasm(sec(sectionType, vec(fn("i32"))), sec(sectionImport, vec(importOf("env", "gas", kindFunc, 0)))), nil, ""},
		{"163 1,000 nops", mainModule("", code(times(1000, opNop))), body, "FunctionBodyTooLarge"},
		{"163 500 nops", mainModule("", code(times(500, opNop))), body, ""},
		{"263 101 ifs", ifs(101), perFunction, "TooManyBlocksPerFunction"},
		{"263 100 ifs", ifs(100), perFunction, ""},
		{"285 100 functions", many(100), perContract, "TooManyBlocksPerContract"},
		{"285 50 functions", many(50), perContract, ""},
		{"340 17 types", types(17), sixteen, "TooManyTypes"},
		{"340 16 types", types(16), sixteen, ""},
		{"384 1,000 of 1", params(1, 1000), nil, ""},
		{"384 781 of 64", params(64, 781), nil, ""},
		{"384 782 of 64", params(64, 782), nil, "TooManyParamsPerContract"},
		{"384 782 of 65", params(65, 782), nil, "TooManyParamsPerFunction"},
		{"384 1 of 65", params(65, 1), nil, "TooManyParamsPerFunction"},
		{"384 10,001 of 65", params(65, 10_001), nil, "TooManyFunctions"},
		{"384 10,000 of 6", params(6, 10_000), nil, "TooManyParamsPerContract"},
		{"384 10,001 of 6", params(6, 10_001), nil, "TooManyFunctions"},
		{"479 127 bytes", pushes, stack(127), "OperandStackTooLarge"},
		{"479 128 bytes", pushes, stack(128), ""},
	} {
		t.Run(c.row, func(t *testing.T) {
			w := *june(86)
			if c.set != nil {
				c.set(&w)
			}
			_, err := Prepare(c.code, &w)
			if got := kindText(err); got != c.want && (c.want != "any" || got == "") {
				t.Errorf("prepare.rs:%s: %q, want %q", c.row, got, c.want)
			}
		})
	}
	// 357: the limit of the instrumented size, with bodies of any length.
	w := *june(86)
	w.Limits.MaxFunctionBodySize = 1 << 63
	m, err := Prepare(many(200), &w)
	if err != nil {
		t.Fatal(err)
	}
	for less, want := range []string{"", "InstrumentedCodeTooLarge"} {
		w.Limits.MaxInstrumentedCodeSize = uint64(m.Size - less)
		_, err := Prepare(many(200), &w)
		if got := kindText(err); got != want {
			t.Errorf("prepare.rs:357: %q, want %q", got, want)
		}
	}
}

func kindText(err error) string {
	if err == nil {
		return ""
	}
	return kindOf(err).String()
}
