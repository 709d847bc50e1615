package check

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// functions returns a module of n functions of one type with the same body.
func functions(n int, sig string, body []byte, more ...[]byte) []byte {
	return wasm(append([][]byte{sec(sectionType, vec(fn(sig))),
		sec(sectionFunction, cat(leb(uint64(n)), bytes.Repeat([]byte{0}, n))),
		sec(sectionCode, cat(leb(uint64(n)), bytes.Repeat(body, n)))}, more...)...)
}

func many(n int, word string) string { return strings.TrimSpace(strings.Repeat(word+" ", n)) }

// bodyOf returns a body of exactly n bytes besides its length: no locals, nops, end.
func bodyOf(n int) []byte { return sized(cat(0, bytes.Repeat([]byte{opNop}, n-2), opEnd)) }

// localsOf returns a body with one group of n locals.
func localsOf(n int, t ValType) []byte { return sized(cat(1, leb(uint64(n)), t, opEnd)) }

func times(n int, ops ...any) []byte { return bytes.Repeat(cat(ops...), n) }

// TestLimitsAreCheckedInNearcoresOrder tests values at and above each limit, in the order in which
// nearcore checks them (prepare_v3.rs, instrument_v3.rs).
func TestLimitsAreCheckedInNearcoresOrder(t *testing.T) {
	types := func(n int) []byte { return sec(sectionType, cat(leb(uint64(n)), bytes.Repeat(fn(""), n))) }
	imports := func(n int) []byte {
		return sec(sectionImport, cat(leb(uint64(n)), bytes.Repeat(importOf("env", "x", kindFunc, 0), n)))
	}
	tables := func(limits ...any) []byte { return sec(sectionTable, vec(cat(FuncRef, cat(limits...)))) }
	one := sec(sectionType, vec(fn("")))
	push := func(n int) []byte { return code(times(n, opI64Const, 0), times(n, opDrop)) }
	blocks := func(n int, op int) []byte {
		if op == opIf {
			return code(times(n, opI32Const, 0, opIf, none, opEnd))
		}
		return code(times(n, op, none, opEnd))
	}
	name := func(n, kind int) []byte {
		return wasm(one, sec(sectionFunction, vec(leb(0))), tables(0, 0), sec(sectionMemory, vec(cat(0, 0))),
			sec(sectionGlobal, vec(cat(I32, 0, opI32Const, 0, opEnd))),
			sec(sectionExport, vec(exportOf(strings.Repeat("a", n), kind, 0))), sec(sectionCode, vec(code())))
	}
	brTable := func(n int) []byte { // in a loop, so that the targets have small numbers
		return code(opI32Const, 0, opBrTable, leb(uint64(n)), bytes.Repeat([]byte{0}, n), 0)
	}
	const ok = "ok"
	for _, c := range []struct {
		what string
		code []byte
		want string
	}{
		{"types at the limit", wasm(types(1024)), ok},
		{"types over it", wasm(types(1025)), "TooManyTypes"},
		{"types over it, and invalid", wasm(sec(sectionType, cat(leb(1025), 0x11))), "TooManyTypes"},
		{"types over it, out of order", wasm(one, types(1025)), "TooManyTypes"},
		{"import of another module", wasm(one, sec(sectionImport, vec(importOf("wasi", "x", kindFunc, 0)))), "Instantiate"},
		{"import of a table", wasm(sec(sectionImport, vec(importOf("env", "x", kindTable, FuncRef, 0, 0)))), "Instantiate"},
		{"import of a global", wasm(sec(sectionImport, vec(importOf("env", "x", kindGlobal, I32, 0)))), "Instantiate"},
		{"import of a memory", wasm(sec(sectionImport, vec(importOf("env", "memory", kindMemory, 0, 1)))), "Memory"},
		{"import of a memory from another module", wasm(sec(sectionImport, vec(importOf("x", "m", kindMemory, 0, 1)))), "Instantiate"},
		{"import of an invalid memory", wasm(sec(sectionImport, vec(importOf("env", "m", kindMemory, 1, 17, 1)))), "Deserialization"},
		{"import of a tag", wasm(one, sec(sectionImport, vec(importOf("env", "x", kindTag, 0, 0)))), "Deserialization"},
		{"bad import behind one of another module", wasm(one, sec(sectionImport, vec(importOf("x", "x", kindFunc, 0),
			importOf("env", "x", kindFunc, 1)))), "Deserialization"},
		{"imports at the limit", wasm(one, imports(10_000)), ok},
		{"imports over it", wasm(one, imports(10_001)), "TooManyFunctions"},
		{"two tables", wasm(sec(sectionTable, vec(cat(FuncRef, 0, 0), cat(FuncRef, 0, 0)))), "TooManyTables"},
		{"a hundred and one tables", wasm(sec(sectionTable, cat(101, bytes.Repeat(cat(FuncRef, 0, 0), 101)))), "Deserialization"},
		{"table at the limit", wasm(tables(0, leb(10_000))), ok},
		{"table over it", wasm(tables(0, leb(10_001))), "TooManyTableElements"},
		{"table with a large maximum", wasm(tables(1, leb(10_000), leb(1<<32-1))), ok},
		{"table of externref", wasm(sec(sectionTable, vec(cat(0x6f, 0, 0)))), "Deserialization"},
		{"functions at the limit", functions(10_000, "", code()), ok},
		{"functions over it", functions(10_001, "", code()), "TooManyFunctions"},
		{"functions over it, without section", wasm(one, sec(sectionCode, cat(leb(10_001)))), "TooManyFunctions"},
		{"functions over it, code cut", functions(10_001, "", code())[:40_000], "TooManyFunctions"},
		{"imports and functions", wasm(one, imports(9_999), sec(sectionFunction, vec(leb(0), leb(0))),
			sec(sectionCode, vec(code(), code()))), "TooManyFunctions"},
		{"body at the limit", functions(1, "", bodyOf(196_608)), ok},
		{"body over it", functions(1, "", bodyOf(196_609)), "FunctionBodyTooLarge"},
		{"body over it behind an invalid one", wasm(one, sec(sectionFunction, vec(leb(0), leb(0))),
			sec(sectionCode, vec(code(opDrop), bodyOf(196_609)))), "Deserialization"},
		{"locals at the limit", functions(20, "", localsOf(50_000, I32)), ok},
		{"locals over it", functions(21, "", localsOf(50_000, I32)), "TooManyLocals"},
		{"locals over both limits", functions(1, "", localsOf(1_000_001, I32)), "TooManyLocals"},
		{"locals over wasm's limit", functions(1, "", localsOf(50_001, I32)), "Deserialization"},
		{"locals and parameters over it", functions(1, "i32", localsOf(50_000, I32)), "Deserialization"},
		{"locals over the limit behind a bad type", functions(1, "", sized(cat(2, 1, 0x6f, leb(1_000_001), I32, opEnd))), "TooManyLocals"},
		{"parameters at the limit", functions(781, many(64, "i32"), code()), ok},
		{"parameters over it", functions(782, many(64, "i32"), code()), "TooManyParamsPerContract"},
		{"parameters of one function", functions(1, many(65, "i32"), code()), "TooManyParamsPerFunction"},
		{"both", functions(782, many(65, "i32"), code()), "TooManyParamsPerFunction"},
		{"parameters, and functions", functions(10_001, many(65, "i32"), code()), "TooManyFunctions"},
		{"6 parameters", functions(10_000, many(6, "i32"), code()), "TooManyParamsPerContract"},
		{"parameters of an import", wasm(sec(sectionType, vec(fn(many(1_000, "i64")))),
			sec(sectionImport, vec(importOf("env", "x", kindFunc, 0)))), ok},
		{"parameters of a type", wasm(sec(sectionType, vec(fn(many(1_001, "i64"))))), "Deserialization"},
		{"parameters over the limit, and an invalid body behind", wasm(sec(sectionType, vec(fn(many(65, "i32")))),
			sec(sectionFunction, vec(leb(0), leb(0))), sec(sectionCode, vec(code(), code(opDrop)))), "Deserialization"},
		{"operand stack at the limit", functions(1, "", push(1_024)), ok},
		{"operand stack over it", functions(1, "", push(1_025)), "OperandStackTooLarge"},
		{"parameters before operand stack", functions(1, many(65, "i32"), push(1_025)), "TooManyParamsPerFunction"},
		{"operand stack before blocks", functions(1, "", code(times(1_025, opI64Const, 0), times(1_025, opDrop),
			times(5_001, opBlock, none, opEnd))), "OperandStackTooLarge"},
		{"blocks at the limit", functions(1, "", blocks(5_000, opBlock)), ok},
		{"loops at the limit", functions(1, "", blocks(5_000, opLoop)), ok},
		{"ifs at the limit", functions(1, "", blocks(5_000, opIf)), ok},
		{"blocks over it", functions(1, "", blocks(5_001, opBlock)), "TooManyBlocksPerFunction"},
		{"loops over it", functions(1, "", blocks(5_001, opLoop)), "TooManyBlocksPerFunction"},
		{"ifs over it", functions(1, "", blocks(5_001, opIf)), "TooManyBlocksPerFunction"},
		{"blocks of all functions", functions(10, "", blocks(5_000, opBlock)), ok},
		{"blocks of all functions, over", functions(11, "", blocks(4_546, opBlock)), "TooManyBlocksPerContract"},
		{"name", name(99_999, kindFunc), ok},
		{"name at the limit", name(100_000, kindFunc), "Serialization"},
		{"name of a table", name(100_000, kindTable), "Serialization"},
		{"name of a global", name(100_000, kindGlobal), "Serialization"},
		{"name of a memory", name(100_000, kindMemory), ok},
		{"name over it", name(100_001, kindFunc), "Deserialization"},
		{"targets of br_table", functions(1, "", brTable(131_072)), ok},
		{"too many targets", functions(1, "", brTable(131_073)), "Deserialization"},
		{"data segments", wasm(sec(sectionData, cat(leb(100_000), times(100_000, 1, 0)))), ok},
		{"too many data segments", wasm(sec(sectionData, cat(leb(100_001), times(100_001, 1, 0)))), "Deserialization"},
		{"element segments", wasm(sec(sectionElement, cat(leb(100_000), times(100_000, 1, 0, 0)))), ok},
		{"too many element segments", wasm(sec(sectionElement, cat(leb(100_001), times(100_001, 1, 0, 0)))), "Deserialization"},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, m := verdict(c.code)
			if m != nil {
				got = ok
			}
			if got != c.want {
				_, err := Prepare(c.code, june(86))
				t.Errorf("got %s, want %s (%v)", got, c.want, err)
			}
		})
	}
}

// TestLocalsLimitDependsOnContractSize: from version 87 on each local requires two bytes of code,
// custom sections included. The absolute limit still applies (near-vm-runner 0.38.0
// src/prepare.rs:55).
func TestLocalsLimitDependsOnContractSize(t *testing.T) {
	padded := func(code []byte, n int) []byte {
		return append(bytes.Clone(code), sec(sectionCustom, cat(sized([]byte("padding")), bytes.Repeat([]byte{0}, n)))...)
	}
	const locals = 100
	compact := functions(1, "", localsOf(locals, I64))
	exact := padded(compact, 2*locals-len(compact)-11) // 11: id, size and name of the custom section
	if len(compact) >= 2*locals || len(exact) != 2*locals {
		t.Fatalf("%d and %d bytes", len(compact), len(exact))
	}
	for _, c := range []struct {
		what  string
		code  []byte
		limit uint64 // absolute; 0: that of the version
		at    primitives.ProtocolVersion
		fails bool
	}{
		{"compact", compact, 0, 87, true},
		{"compact, at 88", compact, 0, 88, true},
		{"compact, at 86", compact, 0, 86, false},
		{"exact", exact, 0, 87, false},
		{"one more local", padded(functions(1, "", localsOf(locals+1, I64)), 2*locals-len(compact)-11), 0, 87, true},
		{"rounded down", padded(functions(1, "", localsOf(locals+1, I64)), 2*locals-len(compact)-10), 0, 87, true},
		{"one more local, two more bytes", padded(functions(1, "", localsOf(locals+1, I64)), 2*locals-len(compact)-9), 0, 87, false},
		{"padded", padded(compact, 2*locals), 0, 87, false},
		{"padded, over the absolute limit", padded(compact, 2*locals), locals - 1, 87, true},
		{"parameters are no locals", functions(1, many(64, "i64"), code()), 0, 87, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := parameters.MustGet(parameters.Release(c.at)).Wasm
			if c.limit != 0 {
				w.Limits.MaxLocalsPerContract = c.limit
			}
			if _, err := Prepare(c.code, &w); c.fails != (err != nil) || c.fails && kindOf(err) != primitives.PrepareTooManyLocals {
				t.Errorf("got error %v, want too many locals: %v", err, c.fails)
			}
		})
	}
}

// TestInstrumentedSizeIsCheckedLast: the size of nearcore's instrumented module is limited too, and
// checked last.
func TestInstrumentedSizeIsCheckedLast(t *testing.T) {
	w := *june(86)
	wasm := functions(200, "i32", code(opLocalGet, 0, opIf, none, opNop, opEnd))
	m, err := Prepare(wasm, &w)
	if err != nil {
		t.Fatal(err)
	}
	w.Limits.MaxInstrumentedCodeSize = uint64(m.Size)
	if _, err := Prepare(wasm, &w); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	w.Limits.MaxInstrumentedCodeSize--
	if _, err := Prepare(wasm, &w); kindOf(err) != primitives.PrepareInstrumentedCodeTooLarge {
		t.Errorf("over the limit: %v", err)
	}
	w.Limits.MaxBlocksPerContract = 199
	if _, err := Prepare(wasm, &w); kindOf(err) != primitives.PrepareTooManyBlocksPerContract {
		t.Errorf("over both limits: %v", err)
	}
}

func kindOf(err error) primitives.PrepareError {
	if e, ok := err.(*Error); ok {
		return e.Kind
	}
	return 255
}

// TestAddedLocalsCountTowardCompilerLimit: with the two locals that nearcore adds, a function must
// still be within the compiler's limit.
func TestAddedLocalsCountTowardCompilerLimit(t *testing.T) {
	for _, c := range []struct {
		sig    string
		locals int
		fails  bool
	}{{"", 49_998, false}, {"", 49_999, true}, {"", 50_000, true}, {"i32 i32", 49_996, false}, {"i32 i32", 49_997, true}} {
		m, err := Prepare(functions(1, c.sig, localsOf(c.locals, F64)), june(86))
		if err != nil || m.CompileFails != c.fails {
			t.Errorf("%q and %d locals: %v, fails %v, want %v", c.sig, c.locals, err, m != nil && m.CompileFails, c.fails)
		}
	}
}

// TestInstanceSizeIsLimited tests instances at and above the size that nearcore's pool holds, for
// each kind of item.
func TestInstanceSizeIsLimited(t *testing.T) {
	globals := func(n int) []byte {
		return sec(sectionGlobal, cat(leb(uint64(n)), times(n, I32, 0, opI32Const, 0, opEnd)))
	}
	one := sec(sectionType, vec(fn("")))
	for _, c := range []struct {
		what  string
		code  []byte
		fails bool
	}{
		{"65,505 globals and an export", wasm(one, sec(sectionFunction, vec(leb(0))), globals(65_505),
			sec(sectionExport, vec(exportOf("main", kindFunc, 0))), sec(sectionCode, vec(code()))), false},
		{"65,506 globals and an export", wasm(one, sec(sectionFunction, vec(leb(0))), globals(65_506),
			sec(sectionExport, vec(exportOf("main", kindFunc, 0))), sec(sectionCode, vec(code()))), true},
		{"65,507 globals", wasm(globals(65_507)), false},
		{"65,508 globals", wasm(globals(65_508)), true},
		{"65,506 globals and a table", wasm(sec(sectionTable, vec(cat(FuncRef, 0, 0))), globals(65_506)), false},
		{"65,507 globals and a table", wasm(sec(sectionTable, vec(cat(FuncRef, 0, 0))), globals(65_507)), true},
		{"65,503 globals and an import that is exported", wasm(one, sec(sectionImport, vec(importOf("env", "x", kindFunc, 0))),
			globals(65_503), sec(sectionExport, vec(exportOf("main", kindFunc, 0)))), false},
		{"65,504 globals and an import", wasm(one, sec(sectionImport, vec(importOf("env", "x", kindFunc, 0))), globals(65_504)), true},
		{"65,505 globals and a start function", wasm(one, sec(sectionFunction, vec(leb(0))), globals(65_505),
			sec(sectionStart, leb(0)), sec(sectionCode, vec(code()))), false},
		{"65,505 globals, a start function and a declared one", wasm(one, sec(sectionFunction, vec(leb(0), leb(0))), globals(65_505),
			sec(sectionStart, leb(0)), sec(sectionElement, vec(cat(3, 0, vec(leb(1))))), sec(sectionCode, vec(code(), code()))), true},
	} {
		t.Run(c.what, func(t *testing.T) {
			m, err := Prepare(c.code, june(86))
			if err != nil || m.LoadFails != c.fails {
				t.Errorf("got LoadFails %v, %v, want %v", m != nil && m.LoadFails, err, c.fails)
			}
		})
	}
}
