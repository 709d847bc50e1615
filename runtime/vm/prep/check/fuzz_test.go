package check

import (
	"bytes"
	"os"
	"reflect"
	"testing"
)

// seeds returns modules that reach every section and most kinds of instructions.
func seeds() [][]byte {
	one := sec(sectionType, vec(fn("")))
	return [][]byte{
		[]byte(header),
		mainModule("", code()),
		mainModule("i32>i64", code(opI64Const, 1, opReturn)),
		wasm(sec(sectionType, vec(fn(""), fn("i32 f64>funcref"), cat(0x4f, 0, fn("i64")))),
			sec(sectionImport, vec(importOf("env", "input", kindFunc, 2))),
			sec(sectionFunction, vec(leb(0), leb(1))),
			sec(sectionTable, vec(cat(FuncRef, 1, 2, 3))), sec(sectionMemory, vec(cat(1, 1, 2))),
			sec(sectionGlobal, vec(cat(I32, 1, opI32Const, 0x80, 0x7f, opEnd), cat(0x63, FuncRef, 0, opRefFunc, 2, opEnd),
				cat(F64, 0, opF64Const, make([]byte, 8), opEnd))),
			sec(sectionExport, vec(exportOf("main", kindFunc, 1), exportOf("t", kindTable, 0), exportOf("m", kindMemory, 0))),
			sec(sectionStart, leb(1)),
			sec(sectionElement, vec(cat(0, opI32Const, 0, opEnd, vec(leb(1))), cat(7, FuncRef, vec(cat(opRefNull, FuncRef, opEnd))))),
			sec(sectionDataCount, leb(1)),
			sec(sectionCode, vec(
				code(opI32Const, 3, opMemoryGrow, 0, opDrop, opLoop, none, opI32Const, 0, opBrIf, 0, opEnd,
					opI32Const, 0, opI32Const, 0, opI32Const, 0, opPrefix, opMemoryFill, 0,
					opI32Const, 0, opCallIndirect, 0, 0, opUnreachable, opLoop, none, opBr, 0, opEnd),
				sized(cat(2, 1, I64, 2, F32, opBlock, FuncRef, opRefNull, FuncRef, opLocalGet, 0, opBrTable, 1, 0, 1, opEnd, opEnd)))),
			sec(sectionData, vec(cat(1, 2, "hi")))),
		wasm(one, sec(sectionFunction, vec(leb(0))), sec(sectionCode, vec(code(opI32Const, 1, opIf, none, opNop, opElse, opReturn, opEnd)))),
	}
}

// FuzzCheck: any bytes are refused with an Error, or are valid and give the same result twice.
func FuzzCheck(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	w := june(86)
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := Prepare(in, w)
		valid := Validate(in)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("error of type %T", err)
			}
			return
		}
		if valid != nil {
			t.Fatalf("accepted an invalid module: %v", valid)
		}
		if again, err := Prepare(in, w); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatal("checked twice, differently")
		}
	})
}

// TestFuzzSeedsAreAsIntended requires that the seeds are valid or invalid as intended.
func TestFuzzSeedsAreAsIntended(t *testing.T) {
	for i, s := range seeds() {
		if _, err := Prepare(s, june(86)); err != nil {
			t.Errorf("seed %d: %v", i, err)
		}
	}
}

// BenchmarkCheck runs on a module similar to deployed ones, or on the file that PREP_WASM names.
func BenchmarkCheck(b *testing.B) {
	body := code(times(40, opLocalGet, 0, opIf, none, opI32Const, 0, opLocalGet, 0, 0x6a, opFirstAccess, 2, 8,
		opLocalSet, 0, opEnd, opI32Const, 1, opLocalGet, 0, 0x6b, opLocalSet, 0))
	in := wasm(sec(sectionType, vec(fn("i32"))), sec(sectionFunction, cat(leb(300), make([]byte, 300))),
		sec(sectionMemory, vec(cat(0, 1))), sec(sectionCode, cat(leb(300), bytes.Repeat(body, 300))))
	if file := os.Getenv("PREP_WASM"); file != "" {
		var err error
		if in, err = os.ReadFile(file); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Prepare(in, june(86)); err != nil {
			b.Fatal(err)
		}
	}
}
