package contracts

import (
	"slices"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
)

// Fate is what happens to a module of BadModules.
type Fate byte

// Refused: preparation fails with Bad.Prepare. NotCompiled: preparation succeeds, but compilation
// fails. NotLoaded: it compiles, but its instance is too large. Runs: its method main may be
// called, with any result.
const (
	Runs Fate = iota
	Refused
	NotCompiled
	NotLoaded
)

// Bad is a module that must not harm a node.
type Bad struct {
	Name    string
	Make    func() []byte
	Fate    Fate
	Prepare primitives.PrepareError // expected error if Fate is Refused
}

// BadModules returns modules that are not wasm, broken wasm, disabled features, values at and above
// every limit, and modules that are expensive or fail when they run.
func BadModules() []Bad {
	return slices.Concat(badBytes(), badFeatures(), badLimits(), badSizes(), badRuns())
}

func refused(name string, why primitives.PrepareError, make func() []byte) Bad {
	return Bad{name, make, Refused, why}
}

func invalid(name string, make func() []byte) Bad {
	return refused(name, primitives.PrepareDeserialization, make)
}

func runs(name string, make func() []byte) Bad { return Bad{Name: name, Make: make} }

// withMain returns a function that makes a module with a memory and a method main.
func withMain(write func(m *wasmasm.Module, main *wasmasm.Func), locals ...wasmasm.ValType) func() []byte {
	return func() []byte {
		m := &wasmasm.Module{}
		main := m.Func(nil, nil, locals...)
		m.ExportFunc("main", main)
		m.Memory(1, -1)
		write(m, main)
		return m.Encode()
	}
}

// badBytes returns bytes that are not a module, and truncated or corrupted modules.
func badBytes() []Bad {
	whole := withMain(func(_ *wasmasm.Module, main *wasmasm.Func) { main.I32(1).Op(wasmasm.Drop) })
	section := func(id byte, content ...byte) func() []byte {
		return func() []byte { return wasmasm.AppendSection([]byte(wasmasm.Magic), id, content) }
	}
	body := func(code ...byte) func() []byte {
		return withMain(func(_ *wasmasm.Module, main *wasmasm.Func) { main.Op(code...) })
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32 - 1
	list := []Bad{
		invalid("nothing", func() []byte { return nil }),
		invalid("text", func() []byte { return []byte("(module)") }),
		invalid("half a magic", func() []byte { return []byte("\x00as") }),
		invalid("version 2", func() []byte { return []byte("\x00asm\x02\x00\x00\x00") }),
		invalid("a component", func() []byte { return []byte("\x00asm\x0d\x00\x01\x00") }),
		runs("only a header", func() []byte { return []byte(wasmasm.Magic) }),
		invalid("a section without a size", func() []byte { return []byte(wasmasm.Magic + "\x01") }),
		invalid("a section past the end", func() []byte { return []byte(wasmasm.Magic + "\x01\x7f\x00") }),
		invalid("a section of 4 GiB", func() []byte { return append(append([]byte(wasmasm.Magic), 1), huge...) }),
		invalid("a size of six bytes", func() []byte { return []byte(wasmasm.Magic + "\x01\x80\x80\x80\x80\x80\x00") }),
		invalid("an unknown section", section(15)),
		invalid("a tag section", section(13, 0)),
		runs("an empty custom section", section(0, 0)),
		invalid("a custom section without a name", section(0)),
		invalid("a custom section with half a name", section(0, 9, 'x')),
		invalid("the same section twice", func() []byte {
			return wasmasm.AppendSection(section(1, 0)(), 1, []byte{0})
		}),
		invalid("sections in the wrong order", func() []byte {
			return wasmasm.AppendSection(section(3, 0)(), 1, []byte{0})
		}),
		refused("four billion types", primitives.PrepareTooManyTypes, section(1, huge...)),
		invalid("four billion imports", section(2, huge...)),
		invalid("four billion functions", section(3, huge...)),
		invalid("four billion tables", section(4, huge...)),
		invalid("four billion globals", section(6, huge...)),
		invalid("four billion exports", section(7, huge...)),
		invalid("four billion segments", section(9, huge...)),
		refused("four billion bodies", primitives.PrepareTooManyFunctions, section(10, huge...)),
		invalid("four billion data segments", section(11, huge...)),
		invalid("a section with more than it says", section(1, 0, 0)),
		runs("no functions and no code", section(3, 0)),
		invalid("functions without code", func() []byte {
			return wasmasm.AppendSection(section(1, 1, 0x60, 0, 0)(), 3, []byte{1, 0})
		}),
		invalid("a function of no type", section(3, 1, 7)),
		invalid("a start function that is not there", section(8, 3)),
		invalid("an export that is not there", section(7, 1, 1, 'x', 0, 5)),
		invalid("a name that is no UTF-8", section(7, 1, 1, 0xff, 0, 0)),
		invalid("an unknown instruction", body(0xff)),
		invalid("an instruction after 0xfc that is not there", body(0xfc, 0x7f)),
		invalid("an empty stack", body(wasmasm.I32Add)),
		invalid("a value too many", body(0x41, 0)),
		invalid("another type", body(0x41, 0, wasmasm.I64Eqz, wasmasm.Drop)),
		invalid("a branch out of the function", body(0x0c, 9)),
		invalid("an end too many", body(0x0b)),
		invalid("an open block", body(0x02, wasmasm.Void)),
		invalid("a local that is not there", body(0x20, 5, wasmasm.Drop)),
		invalid("a global that is not there", body(0x23, 5, wasmasm.Drop)),
		invalid("a function that is not there", body(0x10, 5)),
		invalid("an indirect call without a table", body(0x41, 0, 0x11, 0, 0)),
		invalid("an alignment too large", body(0x41, 0, wasmasm.I32Load, 3, 0, wasmasm.Drop)),
		invalid("memory.init without a count of segments", body(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 8, 0, 0)),
		runs("code that no one reaches", body(wasmasm.Unreachable, wasmasm.I32Add, wasmasm.Drop, wasmasm.I64Eqz, wasmasm.Drop)),
	}
	b := whole()
	for n := len(wasmasm.Magic) + 1; n < len(b); n++ { // each shorter prefix of the module is invalid
		if !slices.Contains(ends(b), n) {
			list = append(list, invalid("cut off", func() []byte { return b[:n] }))
		}
	}
	return append(list, invalid("rubbish behind", func() []byte { return append(whole(), "rubbish"...) }))
}

// ends returns the offsets at which a module's sections end.
func ends(b []byte) (at []int) {
	for n := len(wasmasm.Magic); n < len(b); {
		n += 2 + int(b[n+1]) // each section is shorter than 128 bytes, so its length is one byte
		at = append(at, n)
	}
	return at
}

// badFeatures returns modules that use features of newer WebAssembly versions, or features that the
// protocol disables.
func badFeatures() []Bad {
	i32, i64 := []wasmasm.ValType{wasmasm.I32}, []wasmasm.ValType{wasmasm.I64}
	return []Bad{
		invalid("two results", func() []byte {
			m := &wasmasm.Module{}
			m.Func(nil, []wasmasm.ValType{wasmasm.I32, wasmasm.I32}).I32(1).I32(2)
			return m.Encode()
		}),
		invalid("a block with a parameter", withMain(func(m *wasmasm.Module, main *wasmasm.Func) {
			main.I32(1).Op(0x02, byte(m.Type(i32, nil)), wasmasm.Drop, 0x0b)
		})),
		invalid("SIMD", withMain(func(_ *wasmasm.Module, main *wasmasm.Func) {
			main.Op(0xfd, 12).Op(make([]byte, 16)...).Op(wasmasm.Drop)
		})),
		invalid("a local of 128 bits", withMain(func(*wasmasm.Module, *wasmasm.Func) {}, wasmasm.V128)),
		invalid("an external reference", withMain(func(*wasmasm.Module, *wasmasm.Func) {}, wasmasm.ExternRef)),
		invalid("a tail call", withMain(func(_ *wasmasm.Module, main *wasmasm.Func) { main.Op(0x12, 0) })),
		invalid("an atomic fence", withMain(func(_ *wasmasm.Module, main *wasmasm.Func) { main.Op(0xfe, 3, 0) })),
		invalid("a throw", withMain(func(_ *wasmasm.Module, main *wasmasm.Func) { main.Op(0x08, 0) })),
		invalid("a call by reference", withMain(func(_ *wasmasm.Module, main *wasmasm.Func) { main.RefFunc(0).Op(0x14, 0) })),
		invalid("i64.add128", withMain(func(_ *wasmasm.Module, main *wasmasm.Func) {
			main.I64(1).I64(1).I64(1).I64(1).Op(0xfc, 19, wasmasm.Drop, wasmasm.Drop)
		})),
		invalid("a structure type", func() []byte { return wasmasm.AppendSection([]byte(wasmasm.Magic), 1, []byte{1, 0x5f, 0}) }),
		invalid("a shared memory", func() []byte { return wasmasm.AppendSection([]byte(wasmasm.Magic), 5, []byte{1, 3, 1, 2}) }),
		invalid("a memory of 64 bits", func() []byte { return wasmasm.AppendSection([]byte(wasmasm.Magic), 5, []byte{1, 4, 1}) }),
		invalid("a memory with pages of a byte", func() []byte { return wasmasm.AppendSection([]byte(wasmasm.Magic), 5, []byte{1, 8, 1, 0}) }),
		invalid("two memories", withMain(func(m *wasmasm.Module, _ *wasmasm.Func) { m.Memory(1, -1) })),
		invalid("a memory over 4 GiB", func() []byte {
			m := &wasmasm.Module{}
			m.Memory(65537, -1)
			return m.Encode()
		}),
		invalid("a memory that ends before it begins", func() []byte {
			m := &wasmasm.Module{}
			m.Memory(2, 1)
			return m.Encode()
		}),
		runs("a memory of 4 GiB", withoutMemory(func(m *wasmasm.Module) { m.Memory(65536, -1) })),
		runs("a memory of nothing", withoutMemory(func(m *wasmasm.Module) { m.Memory(0, 0) })),
		invalid("a sum as a constant", withMain(func(m *wasmasm.Module, _ *wasmasm.Func) {
			m.Global(wasmasm.I32, false, new(wasmasm.Code).I32(1).I32(2).Op(wasmasm.I32Add))
		})),
		invalid("a global made of another", withMain(func(m *wasmasm.Module, _ *wasmasm.Func) {
			m.Global(wasmasm.I32, false, new(wasmasm.Code).I32(1))
			m.Global(wasmasm.I32, false, new(wasmasm.Code).GlobalGet(0))
		})),
		runs("a passive segment of functions", withMain(func(m *wasmasm.Module, main *wasmasm.Func) {
			m.Table(1, -1)
			m.PassiveElem(main.Index)
			main.I32(0).I32(0).I32(1).Bulk(wasmasm.TableInit, 0, 0).Bulk(wasmasm.ElemDrop, 0)
		})),
		refused("an import from elsewhere", primitives.PrepareInstantiate, func() []byte {
			m := &wasmasm.Module{}
			m.Import("wasi_snapshot_preview1", "fd_write", i32, i32)
			return m.Encode()
		}),
		refused("an imported memory", primitives.PrepareMemory, imports(2, 0, 1)),
		refused("an imported table", primitives.PrepareInstantiate, imports(1, byte(wasmasm.FuncRef), 0, 1)),
		refused("an imported global", primitives.PrepareInstantiate, imports(3, byte(wasmasm.I32), 0)),
		invalid("an imported tag", imports(4, 0, 0)),
		runs("an unknown host function", func() []byte { return oneImport("no_such_function", nil, nil) }),
		runs("a host function of another type", func() []byte { return oneImport("storage_write", i64, i64) }),
	}
}

func withoutMemory(write func(m *wasmasm.Module)) func() []byte {
	return func() []byte {
		m := &wasmasm.Module{}
		m.ExportFunc("main", m.Func(nil, nil))
		write(m)
		return m.Encode()
	}
}

func imports(kind byte, desc ...byte) func() []byte {
	return func() []byte {
		m := &wasmasm.Module{}
		m.ImportOther("env", "x", kind, desc...)
		return m.Encode()
	}
}

func oneImport(name string, params, results []wasmasm.ValType) []byte {
	m := &wasmasm.Module{}
	m.Import("env", name, params, results)
	m.ExportFunc("main", m.Func(nil, nil))
	return m.Encode()
}
