package contracts

import "github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"

// badRuns returns valid modules that fail or are expensive when they run: in the start function, in
// main, or before both.
func badRuns() []Bad {
	start := func(write func(m *wasmasm.Module, f *wasmasm.Func)) func() []byte {
		return withMain(func(m *wasmasm.Module, _ *wasmasm.Func) {
			f := m.Func(nil, nil)
			m.Start(f.Index)
			write(m, f)
		})
	}
	bodies := []struct {
		name  string
		write func(m *wasmasm.Module, f *wasmasm.Func)
	}{
		{"unreachable", func(_ *wasmasm.Module, f *wasmasm.Func) { f.Op(wasmasm.Unreachable) }},
		{"a loop without end", func(_ *wasmasm.Module, f *wasmasm.Func) { f.Loop("l", wasmasm.Void).Br("l").End() }},
		{"recursion without end", func(_ *wasmasm.Module, f *wasmasm.Func) { f.Call(f.Index) }},
		{"recursion with a large frame", func(_ *wasmasm.Module, f *wasmasm.Func) { f.Run(5000, wasmasm.I64).Call(f.Index) }},
		{"recursion with a full stack", func(_ *wasmasm.Module, f *wasmasm.Func) {
			for range 1000 {
				f.I64(0)
			}
			f.Call(f.Index)
			for range 1000 {
				f.Op(wasmasm.Drop)
			}
		}},
		{"recursion by the table", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Table(1, -1)
			m.Elem(new(wasmasm.Code).I32(0), f.Index)
			f.I32(0).CallIndirect(m.Type(nil, nil))
		}},
		{"a call of nothing", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Table(1, -1)
			f.I32(0).CallIndirect(m.Type(nil, nil))
		}},
		{"a call outside the table", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Table(1, -1)
			f.I32(-1).CallIndirect(m.Type(nil, nil))
		}},
		{"a call of another type", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Table(1, -1)
			m.Elem(new(wasmasm.Code).I32(0), f.Index)
			f.I64(0).I32(0).CallIndirect(m.Type([]wasmasm.ValType{wasmasm.I64}, nil))
		}},
		{"a division by zero", func(_ *wasmasm.Module, f *wasmasm.Func) { f.I32(1).I32(0).Op(wasmasm.I32DivU, wasmasm.Drop) }},
		{"the quotient that does not fit", func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.I32(-0x8000_0000).I32(-1).Op(wasmasm.I32DivS, wasmasm.Drop)
		}},
		{"a remainder of zero", func(_ *wasmasm.Module, f *wasmasm.Func) { f.I32(1).I32(0).Op(wasmasm.I32RemS, wasmasm.Drop) }},
		{"a float that is no integer", func(_ *wasmasm.Module, f *wasmasm.Func) { f.F64(1e300).Op(wasmasm.I32TruncF64, wasmasm.Drop) }},
		{"a load beyond memory", func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.I32(-1).Memory(wasmasm.I64Load, 0, 0xffff_ffff).Op(wasmasm.Drop)
		}},
		{"a store at the edge", func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.I32(1024<<16-3).I32(1).Memory(wasmasm.I32Store, 2, 0)
		}},
		{"all memory", func(_ *wasmasm.Module, f *wasmasm.Func) { f.I32(1024).MemoryGrow().Op(wasmasm.Drop) }},
		{"more than all memory", func(_ *wasmasm.Module, f *wasmasm.Func) { f.I32(1025).MemoryGrow().Op(wasmasm.Drop) }},
		{"memory without end", func(_ *wasmasm.Module, f *wasmasm.Func) { f.I32(-1).MemoryGrow().Op(wasmasm.Drop) }},
		{"memory page by page", func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.Loop("l", wasmasm.Void).I32(1).MemoryGrow().I32(0).Op(wasmasm.I32LtU, wasmasm.I32Eqz).BrIf("l").End()
		}},
		{"all memory, and written", func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.I32(1024).MemoryGrow().Op(wasmasm.Drop)
			f.I32(0).I32(1).I32(2048<<16-1).Bulk(wasmasm.MemoryFill, 0)
		}},
		{"a copy of all memory", func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.Loop("l", wasmasm.Void).I32(0).I32(1).I32(1024<<16-1).Bulk(wasmasm.MemoryCopy, 0, 0).Br("l").End()
		}},
		{"a fill past the end", func(_ *wasmasm.Module, f *wasmasm.Func) { f.I32(1).I32(0).I32(-1).Bulk(wasmasm.MemoryFill, 0) }},
		{"a segment's end", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.DataCount = true
			m.PassiveData([]byte("abc"))
			f.I32(0).I32(2).I32(2).Bulk(wasmasm.MemoryInit, 0, 0)
		}},
		{"a segment that was dropped", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.DataCount = true
			m.PassiveData([]byte("abc"))
			f.Bulk(wasmasm.DataDrop, 0).I32(0).I32(0).I32(1).Bulk(wasmasm.MemoryInit, 0, 0)
		}},
		{"the table, to its end", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Table(1, -1)
			f.RefNull(wasmasm.FuncRef).I32(9999).Bulk(wasmasm.TableGrow, 0).Op(wasmasm.Drop)
		}},
		{"the table, past its end", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Table(1, -1)
			f.RefNull(wasmasm.FuncRef).I32(10_000).Bulk(wasmasm.TableGrow, 0).Op(wasmasm.Drop)
		}},
		{"a table copied past its end", func(m *wasmasm.Module, f *wasmasm.Func) {
			m.Table(4, -1)
			f.I32(0).I32(1).I32(4).Bulk(wasmasm.TableCopy, 0, 0)
		}},
		{"NaNs", func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.I32(0).F32(-1).Op(wasmasm.F32Sqrt, wasmasm.I32Bits).Memory(wasmasm.I32Store, 2, 0)
			f.I32(8).F64(-1).Op(wasmasm.F64Sqrt, wasmasm.I64Bits).Memory(wasmasm.I64Store, 3, 0)
		}},
	}
	var list []Bad
	for _, b := range bodies {
		list = append(list, runs("main: "+b.name, withMain(b.write)), runs("start: "+b.name, start(b.write)))
	}
	return append(list,
		runs("data beyond memory", withMain(func(m *wasmasm.Module, _ *wasmasm.Func) { m.Data(new(wasmasm.Code).I32(-1), []byte("xx")) })),
		runs("data at the edge", withMain(func(m *wasmasm.Module, _ *wasmasm.Func) { m.Data(new(wasmasm.Code).I32(1024<<16-1), []byte("xx")) })),
		runs("functions beyond the table", withMain(func(m *wasmasm.Module, main *wasmasm.Func) {
			m.Table(1, -1)
			m.Elem(new(wasmasm.Code).I32(1), main.Index)
		})),
		runs("a start that calls main", start(func(_ *wasmasm.Module, f *wasmasm.Func) { f.Call(0) })),
		runs("a method with a parameter", func() []byte {
			m := &wasmasm.Module{}
			m.ExportFunc("main", m.Func([]wasmasm.ValType{wasmasm.I64}, nil))
			return m.Encode()
		}),
		runs("a method that is a memory", func() []byte {
			m := &wasmasm.Module{}
			m.Memory(1, -1)
			m.Export("main", wasmasm.ExternMemory, 0)
			return m.Encode()
		}),
		runs("a method that is a host function", func() []byte {
			m := &wasmasm.Module{}
			m.Export("main", wasmasm.ExternFunc, m.Import("env", "panic", nil, nil))
			return m.Encode()
		}),
	)
}
