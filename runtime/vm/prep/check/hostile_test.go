package check

import (
	"bytes"
	"runtime"
	"testing"
)

// TestHostileModulesAreCheapToCheck runs on modules of up to 4 MiB that are made to be expensive,
// each with an expected verdict and a bound on allocations.
func TestHostileModulesAreCheapToCheck(t *testing.T) {
	const size = 4 << 20
	const body = 196_608 // the largest body
	one := sec(sectionType, vec(fn("")))
	module := func(bodies int, body []byte, more ...[]byte) []byte {
		sections := append([][]byte{one, sec(sectionFunction, cat(leb(uint64(bodies)), make([]byte, bodies)))}, more...)
		return wasm(append(sections, sec(sectionCode, cat(leb(uint64(bodies)), bytes.Repeat(body, bodies))))...)
	}
	full := func(op ...any) []byte { // a body of maximum length; only its beginning is valid
		return sized(cat(0, times(body/len(cat(op...)), op...))[:body])
	}
	nested := func(n int) []byte { return code(times(n, opBlock, none), times(n, opEnd)) }
	memory := sec(sectionMemory, vec(cat(0, 1)))
	wide := sec(sectionType, cat(1, fn(many(1_000, "i64"))))
	for _, c := range []struct {
		what string
		code []byte
		want string
	}{
		{"nothing but zeros", make([]byte, size), "Deserialization"},
		{"empty custom sections", append([]byte(header), bytes.Repeat([]byte{0, 1, 0}, size/3)...), "ok 28"},
		{"blocks open to the end", module(21, full(opBlock, none)), "Deserialization"},
		{"one body of 4 MiB of blocks", module(1, sized(cat(0, times(size/2, opBlock, none)))), "FunctionBodyTooLarge"},
		{"nested blocks, all closed", module(21, nested(body/3-10)), "TooManyBlocksPerFunction"},
		{"nested blocks, as many as may be", module(10, nested(5_000)), "ok 151026"},
		{"a million locals", module(20, localsOf(50_000, I64)), "CompileFails"},
		{"groups of no locals", module(6, sized(cat(0xa0, 0x80, 0x04, times(65_568, 0, I64), opEnd))), "ok"},
		{"br_table of a body", module(6, code(opI32Const, 0, opBrTable, leb(131_072), make([]byte, 131_073))), "ok"},
		{"br_tables", module(6, code(times(body/6-10, opI32Const, 0, opBrTable, 1, 0, 0))), "ok"},
		{"division by nothing", module(6, code(opUnreachable, times(body-10, 0x6d), opDrop)), "ok"},
		{"loads", module(21, code(opI32Const, 0, times(body/3-10, opFirstAccess, 0, 0), opDrop), memory), "InstrumentedCodeTooLarge"},
		{"calls with a thousand parameters in dead code", wasm(wide, sec(sectionFunction, cat(21, make([]byte, 21))),
			sec(sectionCode, cat(21, bytes.Repeat(code(opUnreachable, times(body/2-10, opCall, 0)), 21)))), "TooManyParamsPerFunction"},
		{"types of a thousand parameters", wasm(sec(sectionType, cat(leb(1_024), bytes.Repeat(fn(many(1_000, "i64")), 1_024)))), "ok"},
		{"exports of nothing", wasm(memory, sec(sectionExport, manyExports(250_000, kindMemory))), "ok"},
		{"exports of a function", wasm(one, sec(sectionImport, vec(importOf("env", "x", kindFunc, 0))),
			sec(sectionExport, manyExports(250_000, kindFunc))), "ok"},
		{"exports of one name", wasm(memory, sec(sectionExport, cat(leb(250_000), times(250_000, 2, "ab", kindMemory, 0)))), "Deserialization"},
		{"globals", wasm(sec(sectionGlobal, cat(leb(250_000), times(250_000, I32, 0, opI32Const, 0, opEnd)))), "LoadFails"},
		{"elements", wasm(one, sec(sectionImport, vec(importOf("env", "x", kindFunc, 0))),
			sec(sectionElement, vec(cat(1, 0, leb(1_000_000), make([]byte, 1_000_000))))), "ok"},
		{"a count without items", wasm(sec(sectionType, leb(1<<32-1))), "TooManyTypes"},
		{"imports without items", wasm(one, sec(sectionImport, leb(1<<32-1))), "Deserialization"},
		{"parameters without items", wasm(sec(sectionType, cat(1, typeFunction, leb(1_000)))), "Deserialization"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, m := verdict(c.code)
			runtime.ReadMemStats(&after)
			switch {
			case m != nil && m.CompileFails:
				got = "CompileFails"
			case m != nil && m.LoadFails:
				got = "LoadFails"
			case m != nil && c.want == "ok":
				got = "ok"
			}
			if got != c.want {
				_, err := Prepare(c.code, june(86))
				t.Errorf("got %s, want %s (%v)", got, c.want, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 40*uint64(len(c.code))+1<<20 {
				t.Errorf("%d bytes allocated for %d", used, len(c.code))
			}
		})
	}
}

// manyExports returns the content of an export section with n exports of different names.
func manyExports(n, kind int) []byte {
	b := leb(uint64(n))
	for i := range n {
		b = append(b, 3, byte('0'+i&63), byte('0'+i>>6&63), byte('0'+i>>12&63), byte(kind), 0)
	}
	return b
}
