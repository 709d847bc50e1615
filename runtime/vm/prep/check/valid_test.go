package check

import "testing"

// TestModulesAreValidAsInWasmparser lists modules that wasmparser 0.228 accepts or refuses with the
// features of contracts. The sources are nearcore's near-vm-runner/src/tests (wasm_validation.rs,
// compile_errors.rs), the core specification, and wasmparser's own rules.
func TestModulesAreValidAsInWasmparser(t *testing.T) {
	types := sec(sectionType, vec(fn(""), fn("i32>i32"), fn(">i64"), fn("funcref>funcref")))
	funcs := sec(sectionFunction, vec(leb(0), leb(1), leb(2), leb(3)))
	table := sec(sectionTable, vec(cat(FuncRef, 0, 2)))
	memory := sec(sectionMemory, vec(cat(0, 1)))
	globals := sec(sectionGlobal, vec(cat(I32, 1, opI32Const, 0, opEnd), cat(F32, 0, opF32Const, 0, 0, 0, 0, opEnd),
		cat(FuncRef, 1, opRefFunc, 1, opEnd)))
	elements := sec(sectionElement, vec(cat(0, opI32Const, 0, opEnd, vec(leb(0))), cat(1, 0, vec(leb(2)))))
	count := sec(sectionDataCount, leb(1))
	data := sec(sectionData, vec(cat(1, 1, "x")))
	rest := [][]byte{code(opLocalGet, 0), code(opI64Const, 0), code(opLocalGet, 0)}
	// with returns a module with one item of each kind. Function 0, without parameters and results,
	// has this body.
	withRaw := func(body []byte) []byte {
		return wasm(types, funcs, table, memory, globals, elements, count,
			sec(sectionCode, vec(append([][]byte{body}, rest...)...)), data)
	}
	with := func(ops ...any) []byte { return withRaw(code(ops...)) }
	one := func(sections ...[]byte) []byte { return wasm(append([][]byte{types}, sections...)...) }
	expr := func(typ ValType, ops ...any) []byte {
		return one(sec(sectionGlobal, vec(cat(I32, 0, opI32Const, 0, opEnd), cat(typ, 0, cat(ops...), opEnd))))
	}
	i32, i64, f32, f64 := cat(opI32Const, 0), cat(opI64Const, 0), cat(opF32Const, 0, 0, 0, 0), cat(opF64Const, make([]byte, 8))
	null := cat(opRefNull, FuncRef)
	big := fn(many(998, "i32"))

	for _, c := range []struct {
		what  string
		code  []byte
		valid bool
	}{
		{"empty", nil, false},
		{"header cut", []byte(header[:7]), false},
		{"header", []byte(header), true},
		{"version 2", []byte("\x00asm\x02\x00\x00\x00"), false},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), false},
		{"garbage", []byte("garbage"), false},
		{"all", with(), true},
		// sections
		{"custom", wasm(sec(sectionCustom, cat(1, "x", "anything"))), true},
		{"custom without name", wasm(sec(sectionCustom, nil)), false},
		{"custom with a bad name", wasm(sec(sectionCustom, cat(1, 0xff))), false},
		{"custom last, cut", append(with(), 0, 5, 1, 'x'), false},
		{"twice", wasm(types, types), false},
		{"out of order", wasm(memory, table), false},
		{"data count behind code", wasm(sec(sectionCode, vec()), sec(sectionDataCount, leb(0))), false},
		{"tags", wasm(sec(sectionTag, vec())), false},
		{"unknown", wasm(sec(14, nil)), false},
		{"id of two bytes", wasm([]byte{0x81, 0, 0}), false},
		{"length spelt long", wasm(cat(1, 0x81, 0x80, 0x80, 0x80, 0, 0)), true},
		{"length too long", wasm(cat(1, 0x81, 0x80, 0x80, 0x80, 0x80, 0, 0)), false},
		{"length over 32 bits", wasm(cat(1, 0x81, 0x80, 0x80, 0x80, 0x10, 0)), false},
		{"bytes behind the items", wasm(sec(sectionType, cat(vec(fn("")), 0))), false},
		{"fewer items", wasm(sec(sectionType, cat(2, fn("")))), false},
		{"empty ones", wasm(sec(sectionType, vec()), sec(sectionImport, vec()), sec(sectionFunction, vec()), sec(sectionTable, vec()),
			sec(sectionMemory, vec()), sec(sectionGlobal, vec()), sec(sectionExport, vec()), sec(sectionElement, vec()),
			sec(sectionDataCount, leb(0)), sec(sectionCode, vec()), sec(sectionData, vec())), true},
		{"functions without code", one(sec(sectionFunction, vec(leb(0)))), false},
		{"code without functions", one(sec(sectionCode, vec(code()))), false},
		{"fewer bodies", one(sec(sectionFunction, vec(leb(0), leb(0))), sec(sectionCode, vec(code()))), false},
		{"data count without data", wasm(count), false},
		{"data count of another number", wasm(count, sec(sectionData, vec())), false},
		{"data count with more", wasm(sec(sectionDataCount, cat(0, 0))), false},
		// types
		{"sub final", wasm(sec(sectionType, vec(cat(0x4f, 0, fn(""))))), true},
		{"sub final with a supertype", wasm(sec(sectionType, vec(fn(""), cat(0x4f, 1, 0, fn(""))))), false},
		{"sub", wasm(sec(sectionType, vec(cat(0x50, 0, fn(""))))), false},
		{"recursion group", wasm(sec(sectionType, vec(cat(0x4e, 1, fn(""))))), false},
		{"structure", wasm(sec(sectionType, vec(cat(0x5f, 0)))), false},
		{"multiple results", wasm(sec(sectionType, vec(fn(">i32 i32")))), false},
		{"v128", wasm(sec(sectionType, vec(cat(0x60, 1, 0x7b, 0)))), false},
		{"externref", wasm(sec(sectionType, vec(cat(0x60, 1, 0x6f, 0)))), false},
		{"ref null func", wasm(sec(sectionType, vec(cat(0x60, 1, 0x63, 0x70, 0)))), true},
		{"ref func", wasm(sec(sectionType, vec(cat(0x60, 1, 0x64, 0x70, 0)))), false},
		{"ref null of a type", wasm(sec(sectionType, vec(cat(0x60, 1, 0x63, 0, 0)))), false},
		{"shared", wasm(sec(sectionType, vec(cat(0x60, 1, 0x63, 0x65, 0x70, 0)))), false},
		// imports, tables, memories
		{"import of an unknown type", one(sec(sectionImport, vec(importOf("env", "x", kindFunc, 4)))), false},
		{"function of an unknown type", one(sec(sectionFunction, vec(leb(4))), sec(sectionCode, vec(code()))), false},
		{"table, minimum over maximum", wasm(sec(sectionTable, vec(cat(FuncRef, 1, 2, 1)))), false},
		{"table of 64 bits", wasm(sec(sectionTable, vec(cat(FuncRef, 4, 0)))), false},
		{"table shared", wasm(sec(sectionTable, vec(cat(FuncRef, 3, 0, 0)))), false},
		{"table with a value", wasm(sec(sectionTable, vec(cat(0x40, 0, FuncRef, 0, 0, null, opEnd)))), false},
		{"table of ref null func", wasm(sec(sectionTable, vec(cat(0x63, 0x70, 0, 0)))), true},
		{"two memories", wasm(sec(sectionMemory, vec(cat(0, 0), cat(0, 0)))), false},
		{"memory of 4 GiB", wasm(sec(sectionMemory, vec(cat(1, 0, leb(65_536))))), true},
		{"memory over 4 GiB", wasm(sec(sectionMemory, vec(cat(1, 0, leb(65_537))))), false},
		{"memory of 64 bits", wasm(sec(sectionMemory, vec(cat(4, 0)))), false},
		{"memory with pages of a size", wasm(sec(sectionMemory, vec(cat(8, 0, 16)))), false},
		// constants
		{"i64 constant", expr(I64, i64), true},
		{"f64 constant", expr(F64, f64), true},
		{"null constant", expr(FuncRef, null), true},
		{"constant of another type", expr(I64, i32), false},
		{"no constant", expr(I32), false},
		{"two constants", expr(I32, i32, i32), false},
		{"sum", expr(I32, i32, i32, 0x6a), false},
		{"value of a global", expr(I32, opGlobalGet, 0), false},
		{"v128 constant", expr(ValType(0x7b), 0xfd, 0x0c, make([]byte, 16)), false},
		{"unknown function", expr(FuncRef, opRefFunc, 0), false},
		{"mutability 2", wasm(sec(sectionGlobal, vec(cat(I32, 2, i32, opEnd)))), false},
		// exports, start
		{"same name", wasm(memory, sec(sectionExport, vec(exportOf("a", 2, 0), exportOf("a", 2, 0)))), false},
		{"nothing", wasm(memory, sec(sectionExport, vec(exportOf("a", 2, 1)))), false},
		{"tag", wasm(sec(sectionExport, vec(exportOf("a", 4, 0)))), false},
		{"kind 5", wasm(memory, sec(sectionExport, vec(exportOf("a", 5, 0)))), false},
		{"bad name", wasm(memory, sec(sectionExport, vec(exportOf("\xff", 2, 0)))), false},
		{"effective type size", wasm(sec(sectionType, vec(big)), sec(sectionImport, vec(importOf("env", "x", 0, 0))),
			sec(sectionExport, manyExports(998, kindFunc))), true},
		{"effective type size, too large", wasm(sec(sectionType, vec(big)), sec(sectionImport, vec(importOf("env", "x", 0, 0))),
			sec(sectionExport, manyExports(999, kindFunc))), false},
		{"start with parameters", one(sec(sectionImport, vec(importOf("env", "x", 0, 1))), sec(sectionStart, leb(0))), false},
		{"start of an import", one(sec(sectionImport, vec(importOf("env", "x", 0, 0))), sec(sectionStart, leb(0))), true},
		{"start of nothing", one(sec(sectionStart, leb(0))), false},
		// elements, data
		{"elements without table", one(sec(sectionElement, vec(cat(0, i32, opEnd, vec())))), false},
		{"elements at i64", wasm(table, sec(sectionElement, vec(cat(0, i64, opEnd, vec())))), false},
		{"elements of table 1", wasm(table, sec(sectionElement, vec(cat(2, 1, i32, opEnd, 0, vec())))), false},
		{"elements of table 0, spelt", wasm(table, sec(sectionElement, vec(cat(2, 0, i32, opEnd, 0, vec())))), true},
		{"expressions", wasm(table, sec(sectionElement, vec(cat(4, i32, opEnd, vec(cat(null, opEnd))), cat(6, 0, i32, opEnd, FuncRef, vec()),
			cat(5, FuncRef, vec()), cat(7, 0x63, 0x70, vec()))))[:], true},
		{"expressions of externref", wasm(sec(sectionElement, vec(cat(5, 0x6f, vec())))), false},
		{"expressions of i32", wasm(sec(sectionElement, vec(cat(5, I32, vec())))), false},
		{"flags 8", wasm(table, sec(sectionElement, vec(cat(8, i32, opEnd, vec())))), false},
		{"elements of another kind", wasm(sec(sectionElement, vec(cat(1, 1, vec())))), false},
		{"data without memory", wasm(sec(sectionData, vec(cat(0, i32, opEnd, 0)))), false},
		{"data in memory 0, spelt", wasm(memory, sec(sectionData, vec(cat(2, 0, i32, opEnd, 0)))), true},
		{"data in memory 1", wasm(memory, sec(sectionData, vec(cat(2, 1, i32, opEnd, 0)))), false},
		{"data with flags 3", wasm(memory, sec(sectionData, vec(cat(3, 0)))), false},
		{"data at a function", one(funcs, memory, elements[:0], sec(sectionCode, vec(append([][]byte{code()}, rest...)...)),
			sec(sectionData, vec(cat(0, opRefFunc, 0, opEnd, 0)))), false},
		// bodies
		{"body without end", withRaw(sized(cat(0, opNop))), false},
		{"instructions behind the end", withRaw(sized(cat(0, opEnd, opNop))), false},
		{"empty body", withRaw(sized(nil)), false},
		{"local of externref", withRaw(sized(cat(1, 1, 0x6f, opEnd))), false},
		{"no locals of externref", withRaw(sized(cat(1, 0, 0x6f, opEnd))), false},
		{"locals of all types", withRaw(sized(cat(5, 1, I32, 1, I64, 1, F32, 1, F64, 1, 0x63, 0x70, opLocalGet, 4, opLocalSet, 4, opEnd))), true},
		{"unknown local", with(opLocalGet, 0, opDrop), false},
		{"local far behind of another type", withRaw(sized(cat(3, 1, I32, leb(299), I64, 1, F32, opLocalGet, leb(300), 0x50, opDrop, opEnd))), false},
		{"locals far behind", withRaw(sized(cat(3, 1, I32, leb(299), I64, 1, F32, opLocalGet, leb(300), f32, 0x5b, opDrop, opLocalGet, leb(299), i64,
			0x51, opDrop, opEnd))), true},
		{"local behind the last", withRaw(sized(cat(3, 1, I32, leb(299), I64, 1, F32, opLocalGet, leb(301), opDrop, opEnd))), false},
		{"values remain", with(i32), false},
		{"nothing to drop", with(opDrop), false},
		{"type mismatch", with(i32, i64, 0x6a, opDrop), false},
		{"dead code takes any", with(opUnreachable, 0x6a, opDrop), true},
		{"dead code knows what it has", with(opUnreachable, i64, 0x6a, opDrop), false},
		{"dead block takes from outside", with(i32, opBlock, none, opUnreachable, opDrop, opEnd, opDrop), true},
		{"block takes from outside", with(i32, opBlock, none, opDrop, opEnd), false},
		{"block with a result", with(opBlock, I32, i32, opEnd, opDrop), true},
		{"block of ref null func", with(opBlock, 0x63, 0x70, null, opEnd, opDrop), true},
		{"block of v128", with(opBlock, 0x7b, opUnreachable, opEnd, opDrop), false},
		{"block of a type's index", with(opBlock, 0, opEnd), false},
		{"if without else but with a result", with(i32, opIf, I32, i32, opEnd, opDrop), false},
		{"dead if without else but with a result", with(opUnreachable, opIf, I32, i32, opEnd, opDrop), false},
		{"if with both", with(i32, opIf, I32, i32, opElse, i32, opEnd, opDrop), true},
		{"else twice", with(i32, opIf, none, opElse, opElse, opEnd), false},
		{"else in a block", with(opBlock, none, opElse, opEnd), false},
		{"else of the body", with(opElse), false},
		{"br to the body", with(opBr, 0), true},
		{"br behind the body", with(opBr, 1), false},
		{"br_if keeps the value", with(opBlock, I32, i32, i32, opBrIf, 0, opEnd, opDrop), true},
		{"br to a loop takes nothing along", with(opLoop, I32, opBr, 0, opEnd, opDrop), true},
		{"br_table", with(opBlock, none, i32, opBrTable, 1, 0, 1, opEnd), true},
		{"br_table of targets that differ", with(opBlock, I32, i32, i32, opBrTable, 1, 0, 1, opEnd, opDrop), false},
		{"dead br_table of types that differ", with(opBlock, I32, opBlock, I64, opUnreachable, opBrTable, 1, 0, 1, opEnd, opDrop, i32, opEnd, opDrop), true},
		{"br_table of types that differ", with(opBlock, I32, opBlock, I64, i64, i32, opBrTable, 1, 0, 1, opEnd, opDrop, i32, opEnd, opDrop), false},
		{"call", with(i32, opCall, 1, opDrop), true},
		{"call of nothing", with(opCall, 4), false},
		{"call without operand", with(opCall, 1, opDrop), false},
		{"call_indirect", with(i32, i32, opCallIndirect, 1, 0, opDrop), true},
		{"call_indirect of table 1", with(i32, i32, opCallIndirect, 1, 1, opDrop), false},
		{"call_indirect of an unknown type", with(i32, opCallIndirect, 4, 0), false},
		{"call_indirect, index spelt long", with(i32, i32, opCallIndirect, 1, 0x80, 0, opDrop), true},
		{"return_call", with(0x12, 0), false},
		{"select", with(i32, i32, i32, opSelect, opDrop), true},
		{"select of types that differ", with(i32, i64, i32, opSelect, opDrop), false},
		{"select of references", with(null, null, i32, opSelect, opDrop), false},
		{"select of references, typed", with(null, null, i32, opSelectTyped, 1, FuncRef, opDrop), true},
		{"select of two types", with(i32, i32, i32, opSelectTyped, 2, I32, I32, opDrop), false},
		{"dead select", with(opUnreachable, opSelect, 0x6a, opDrop), true},
		{"dead select of a reference", with(opUnreachable, null, i32, opSelect, opDrop), false},
		{"immutable global", with(f32, opGlobalSet, 1), false},
		{"mutable global", with(i32, opGlobalSet, 0), true},
		{"global of references", with(opGlobalGet, 2, opGlobalSet, 2), true},
		{"unknown global", with(opGlobalGet, 3, opDrop), false},
		{"load", with(i32, 0x28, 2, 0, opDrop), true},
		{"load aligned too far", with(i32, 0x28, 3, 0, opDrop), false},
		{"load from memory 0, spelt", with(i32, 0x28, 0x40, 0, 0, opDrop), false},
		{"load at 2^32-1", with(i32, 0x28, 0, leb(1<<32-1), opDrop), true},
		{"load at 2^32", with(i32, 0x28, 0, leb(1<<32), opDrop), false},
		{"load without memory", functions(1, "", code(i32, 0x28, 2, 0, opDrop)), false},
		{"memory.size", with(opMemorySize, 0, opDrop), true},
		{"memory.size, spelt long", with(opMemorySize, 0x80, 0, opDrop), false},
		{"memory.grow of memory 1", with(i32, opMemoryGrow, 1, opDrop), false},
		{"memory.copy", with(i32, i32, i32, opPrefix, opMemoryCopy, 0, 0), true},
		{"memory.copy, spelt long", with(i32, i32, i32, opPrefix, 0x8a, 0, 0x80, 0, 0), true},
		{"memory.copy from memory 1", with(i32, i32, i32, opPrefix, opMemoryCopy, 0, 1), false},
		{"memory.fill with i64", with(i32, i32, i64, opPrefix, opMemoryFill, 0), false},
		{"memory.init", with(i32, i32, i32, opPrefix, opMemoryInit, 0, 0), true},
		{"memory.init of unknown data", with(i32, i32, i32, opPrefix, opMemoryInit, 1, 0), false},
		{"data.drop", with(opPrefix, opDataDrop, 0), true},
		{"data.drop without data count", functions(1, "", code(opPrefix, opDataDrop, 0), memory[:0], data), false},
		{"table.get and set", with(i32, i32, opTableGet, 0, opTableSet, 0), true},
		{"table.grow and size", with(null, i32, opPrefix, opTableGrow, 0, opPrefix, opTableSize, 0, 0x6a, opDrop), true},
		{"table.fill, copy, init", with(i32, null, i32, opPrefix, opTableFill, 0, i32, i32, i32, opPrefix, opTableCopy, 0, 0,
			i32, i32, i32, opPrefix, opTableInit, 1, 0, opPrefix, opElemDrop, 0), true},
		{"table.init of unknown elements", with(i32, i32, i32, opPrefix, opTableInit, 2, 0), false},
		{"ref.func of elements", with(opRefFunc, 2, opDrop), true},
		{"ref.func of a global", with(opRefFunc, 1, opDrop), true},
		{"ref.func undeclared", with(opRefFunc, 3, opDrop), false},
		{"ref.is_null", with(null, opRefIsNull, opDrop), true},
		{"ref.is_null of a number", with(i32, opRefIsNull, opDrop), false},
		{"ref.null extern", with(opRefNull, 0x6f, opDrop), false},
		{"ref.as_non_null", with(null, 0xd4, opDrop), false},
		{"i32.extend8_s", with(i32, 0xc0, opDrop), true},
		{"i64.trunc_sat_f64_u", with(f64, opPrefix, 7, opDrop), true},
		{"i64.add128", with(i64, i64, i64, i64, opPrefix, 0x13, opDrop, opDrop), false},
		{"i32x4.splat", with(i32, 0xfd, 0x11, opDrop), false},
		{"atomic", with(i32, 0xfe, 0x10, 2, 0, opDrop), false},
		{"throw", with(0x08, 0), false},
		{"try", with(0x06, none, 0x19, opEnd), false},
		{"unassigned", with(0x27), false},
		{"i32.const of six bytes", with(opI32Const, 0x80, 0x80, 0x80, 0x80, 0x80, 0, opDrop), false},
		{"i32.const, spelt long", with(opI32Const, 0x80, 0x80, 0x80, 0x80, 0, opDrop), true},
		{"i32.const of 33 bits", with(opI32Const, 0xff, 0xff, 0xff, 0xff, 0x0f, opDrop), false},
		{"i32.const -1, spelt long", with(opI32Const, 0xff, 0xff, 0xff, 0xff, 0x7f, opDrop), true},
		{"i64.const of ten bytes", with(opI64Const, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, opDrop), true},
		{"i64.const of 65 bits", with(opI64Const, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, opDrop), false},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, m := verdict(c.code)
			if (m != nil) != c.valid || m == nil && got != "Deserialization" {
				_, err := Prepare(c.code, june(86))
				t.Errorf("got %s, want valid: %v (%v)", got, c.valid, err)
				return
			}
			if err := Validate(c.code); (err == nil) != c.valid {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}
