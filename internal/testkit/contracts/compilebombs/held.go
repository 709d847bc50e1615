package compilebombs

import "github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"

const (
	i32DivS, i64RemU, i32Shl, i64Shl = 0x6d, 0x82, 0x74, 0x86
	brIf, brTable                    = 0x0d, 0x0e
)

// held writes units whose values stay live across other instructions, so that a single-pass
// compiler keeps a stack slot for each value (see engine.Fits).
func (b *body) held(name string, n int) {
	f := b.f
	load := func() { f.I32(int32(n&63)).Memory(wasmasm.I32Load, 2, 0) }
	over := func(what func()) {
		load()
		what()
		b.sink(wasmasm.I32)
	}
	call := func() {
		b.args(n)
		f.Call(b.m.first)
		b.result()
	}
	chain := func(op byte) {
		b.get(n)
		for range 30 {
			b.get(n + 1)
			f.Op(op)
		}
		b.set(n)
	}
	switch name {
	case "held-if":
		if b.room(1) {
			over(func() { f.I32(0).If("", wasmasm.Void).End() })
		}
	case "held-value":
		if b.room(1) {
			f.Call(b.m.imports[1])
			load()
			f.If("", byte(wasmasm.I64)).Call(b.m.imports[1]).Else().I64(2).End().Op(wasmasm.I64Add)
			b.set(n)
		}
	case "held-br_if":
		if b.room(1) {
			f.Block("", wasmasm.Void)
			for range 20 {
				over(func() { load(); f.Op(brIf, 0) })
			}
			f.End()
		}
	case "held-br_table":
		if b.room(2) {
			over(func() {
				f.Block("", wasmasm.Void).Block("", wasmasm.Void)
				load()
				f.Op(brTable, 2, 0, 1, 0).End().End()
			})
		}
	case "held-return":
		if b.room(1) {
			over(func() {
				load()
				f.If("", wasmasm.Void)
				if b.m.s.Result {
					f.I64(1)
				}
				f.Op(wasmasm.Return).End()
			})
		}
	case "held-call":
		over(call)
	case "held-call-100":
		for range 100 {
			load()
		}
		call()
		for range 99 {
			f.Op(wasmasm.I32Add)
		}
		b.sink(wasmasm.I32)
	case "held-call_indirect":
		over(func() { b.args(n); load(); f.CallIndirect(b.m.kind); b.result() })
	case "held-table.get":
		over(func() { load(); f.Op(tableGet, 0, wasmasm.Drop) })
	case "held-ref":
		load()
		f.RefFunc(b.m.first)
		load()
		f.Op(tableGet, 0, refIsNull, wasmasm.Drop, tableSet, 0)
	case "held-memory.grow":
		over(func() { f.I32(0).MemoryGrow().Op(wasmasm.Drop) })
	case "held-memory.copy":
		over(func() { f.I32(0).I32(0).I32(0).Bulk(wasmasm.MemoryCopy, 0, 0) })
	case "held-trunc":
		over(func() { f.F64(1).Op(i64TruncF64U); b.sink(wasmasm.I64) })
	case "held-f64":
		for range 8 {
			f.I32(0).Memory(f64Load, 3, 0)
		}
		call()
		for range 7 {
			f.Op(f64Min)
		}
		b.sink(wasmasm.F64)
	case "held-arguments":
		for i := range b.params {
			load()
			f.Op(wasmasm.I64ExtendU)
			if i%4 == 3 {
				call()
			}
		}
		f.Call(b.m.first)
		b.result()
	case "held-div":
		over(func() { f.I32(7); load(); f.Op(i32DivS); b.sink(wasmasm.I32) })
	case "div-chain":
		load()
		for range 30 {
			f.MemorySize().Op(i32DivS)
		}
		b.sink(wasmasm.I32)
	case "rem-chain":
		chain(i64RemU)
	case "shl-chain":
		chain(i64Shl)
	case "load-tree":
		for range 60 {
			load()
		}
		for range 59 {
			f.Op(i32Shl)
		}
		b.sink(wasmasm.I32)
	case "held-many": // one instruction that becomes many values
		for range 20 {
			load()
		}
		f.F64(1).Op(i64TruncF64U)
		b.sink(wasmasm.I64)
		call()
		for range 19 {
			f.Op(i32DivS)
		}
		b.sink(wasmasm.I32)
	}
}
