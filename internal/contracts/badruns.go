package contracts

import "github.com/troupe-chain/troupe/internal/contracts/wasm"

// badRuns are valid, and do harm when they run: in the start function, in main, before either.
func badRuns() []Bad {
	start := func(write func(m *wasm.Module, f *wasm.Func)) func() []byte {
		return withMain(func(m *wasm.Module, _ *wasm.Func) {
			f := m.Func(nil, nil)
			m.Start(f.Index)
			write(m, f)
		})
	}
	bodies := []struct {
		name  string
		write func(m *wasm.Module, f *wasm.Func)
	}{
		{"unreachable", func(_ *wasm.Module, f *wasm.Func) { f.Op(wasm.Unreachable) }},
		{"a loop without end", func(_ *wasm.Module, f *wasm.Func) { f.Loop("l", wasm.Void).Br("l").End() }},
		{"recursion without end", func(_ *wasm.Module, f *wasm.Func) { f.Call(f.Index) }},
		{"recursion with a large frame", func(_ *wasm.Module, f *wasm.Func) { f.Run(5000, wasm.I64).Call(f.Index) }},
		{"recursion with a full stack", func(_ *wasm.Module, f *wasm.Func) {
			for range 1000 {
				f.I64(0)
			}
			f.Call(f.Index)
			for range 1000 {
				f.Op(wasm.Drop)
			}
		}},
		{"recursion by the table", func(m *wasm.Module, f *wasm.Func) {
			m.Table(1, -1)
			m.Elem(new(wasm.Code).I32(0), f.Index)
			f.I32(0).CallIndirect(m.Type(nil, nil))
		}},
		{"a call of nothing", func(m *wasm.Module, f *wasm.Func) {
			m.Table(1, -1)
			f.I32(0).CallIndirect(m.Type(nil, nil))
		}},
		{"a call outside the table", func(m *wasm.Module, f *wasm.Func) {
			m.Table(1, -1)
			f.I32(-1).CallIndirect(m.Type(nil, nil))
		}},
		{"a call of another type", func(m *wasm.Module, f *wasm.Func) {
			m.Table(1, -1)
			m.Elem(new(wasm.Code).I32(0), f.Index)
			f.I64(0).I32(0).CallIndirect(m.Type([]wasm.ValType{wasm.I64}, nil))
		}},
		{"a division by zero", func(_ *wasm.Module, f *wasm.Func) { f.I32(1).I32(0).Op(wasm.I32DivU, wasm.Drop) }},
		{"the quotient that does not fit", func(_ *wasm.Module, f *wasm.Func) {
			f.I32(-0x8000_0000).I32(-1).Op(wasm.I32DivS, wasm.Drop)
		}},
		{"a remainder of zero", func(_ *wasm.Module, f *wasm.Func) { f.I32(1).I32(0).Op(wasm.I32RemS, wasm.Drop) }},
		{"a float that is no integer", func(_ *wasm.Module, f *wasm.Func) { f.F64(1e300).Op(wasm.I32TruncF64, wasm.Drop) }},
		{"a load beyond memory", func(_ *wasm.Module, f *wasm.Func) { f.I32(-1).Memory(wasm.I64Load, 0, 0xffff_ffff).Op(wasm.Drop) }},
		{"a store at the edge", func(_ *wasm.Module, f *wasm.Func) {
			f.I32(1024<<16-3).I32(1).Memory(wasm.I32Store, 2, 0)
		}},
		{"all memory", func(_ *wasm.Module, f *wasm.Func) { f.I32(1024).MemoryGrow().Op(wasm.Drop) }},
		{"more than all memory", func(_ *wasm.Module, f *wasm.Func) { f.I32(1025).MemoryGrow().Op(wasm.Drop) }},
		{"memory without end", func(_ *wasm.Module, f *wasm.Func) { f.I32(-1).MemoryGrow().Op(wasm.Drop) }},
		{"memory page by page", func(_ *wasm.Module, f *wasm.Func) {
			f.Loop("l", wasm.Void).I32(1).MemoryGrow().I32(0).Op(wasm.I32LtU, wasm.I32Eqz).BrIf("l").End()
		}},
		{"all memory, and written", func(_ *wasm.Module, f *wasm.Func) {
			f.I32(1024).MemoryGrow().Op(wasm.Drop)
			f.I32(0).I32(1).I32(2048<<16-1).Bulk(wasm.MemoryFill, 0)
		}},
		{"a copy of all memory", func(_ *wasm.Module, f *wasm.Func) {
			f.Loop("l", wasm.Void).I32(0).I32(1).I32(1024<<16-1).Bulk(wasm.MemoryCopy, 0, 0).Br("l").End()
		}},
		{"a fill past the end", func(_ *wasm.Module, f *wasm.Func) { f.I32(1).I32(0).I32(-1).Bulk(wasm.MemoryFill, 0) }},
		{"a segment's end", func(m *wasm.Module, f *wasm.Func) {
			m.DataCount = true
			m.PassiveData([]byte("abc"))
			f.I32(0).I32(2).I32(2).Bulk(wasm.MemoryInit, 0, 0)
		}},
		{"a segment that was dropped", func(m *wasm.Module, f *wasm.Func) {
			m.DataCount = true
			m.PassiveData([]byte("abc"))
			f.Bulk(wasm.DataDrop, 0).I32(0).I32(0).I32(1).Bulk(wasm.MemoryInit, 0, 0)
		}},
		{"the table, to its end", func(m *wasm.Module, f *wasm.Func) {
			m.Table(1, -1)
			f.RefNull(wasm.FuncRef).I32(9999).Bulk(wasm.TableGrow, 0).Op(wasm.Drop)
		}},
		{"the table, past its end", func(m *wasm.Module, f *wasm.Func) {
			m.Table(1, -1)
			f.RefNull(wasm.FuncRef).I32(10_000).Bulk(wasm.TableGrow, 0).Op(wasm.Drop)
		}},
		{"a table copied past its end", func(m *wasm.Module, f *wasm.Func) {
			m.Table(4, -1)
			f.I32(0).I32(1).I32(4).Bulk(wasm.TableCopy, 0, 0)
		}},
		{"NaNs", func(_ *wasm.Module, f *wasm.Func) {
			f.I32(0).F32(-1).Op(wasm.F32Sqrt, wasm.I32Bits).Memory(wasm.I32Store, 2, 0)
			f.I32(8).F64(-1).Op(wasm.F64Sqrt, wasm.I64Bits).Memory(wasm.I64Store, 3, 0)
		}},
	}
	var list []Bad
	for _, b := range bodies {
		list = append(list, runs("main: "+b.name, withMain(b.write)), runs("start: "+b.name, start(b.write)))
	}
	return append(list,
		runs("data beyond memory", withMain(func(m *wasm.Module, _ *wasm.Func) { m.Data(new(wasm.Code).I32(-1), []byte("xx")) })),
		runs("data at the edge", withMain(func(m *wasm.Module, _ *wasm.Func) { m.Data(new(wasm.Code).I32(1024<<16-1), []byte("xx")) })),
		runs("functions beyond the table", withMain(func(m *wasm.Module, main *wasm.Func) {
			m.Table(1, -1)
			m.Elem(new(wasm.Code).I32(1), main.Index)
		})),
		runs("a start that calls main", start(func(_ *wasm.Module, f *wasm.Func) { f.Call(0) })),
		runs("a method with a parameter", func() []byte {
			m := &wasm.Module{}
			m.ExportFunc("main", m.Func([]wasm.ValType{wasm.I64}, nil))
			return m.Encode()
		}),
		runs("a method that is a memory", func() []byte {
			m := &wasm.Module{}
			m.Memory(1, -1)
			m.Export("main", wasm.ExternMemory, 0)
			return m.Encode()
		}),
		runs("a method that is a host function", func() []byte {
			m := &wasm.Module{}
			m.Export("main", wasm.ExternFunc, m.Import("env", "panic", nil, nil))
			return m.Encode()
		}),
	)
}
