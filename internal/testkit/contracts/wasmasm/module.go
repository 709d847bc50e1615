package wasmasm

import "slices"

// Module is a module under construction. Imports must be added before functions, since their
// indexes come first.
type Module struct {
	types    []sig
	imports  [][]byte
	funcs    []*Func
	imported uint32 // number of imported functions
	tables   [][]byte
	memories [][]byte
	globals  [][]byte
	exports  [][]byte
	start    *uint32
	elems    [][]byte
	data     [][]byte
	// DataCount adds the data count section, which memory.init and data.drop need.
	DataCount bool

	funcNames   []named
	globalNames []named
}

type sig struct{ params, results []ValType }

// Func is a function while its code is written.
type Func struct {
	Code
	Index  uint32
	kind   uint32
	locals []run
	names  []named // names of parameters and locals
}

// run is a group of n locals of one type, as the binary format stores them.
type run struct {
	n uint32
	t ValType
}

func appendTypes(b []byte, types []ValType) []byte {
	b = AppendU32(b, uint32(len(types)))
	for _, t := range types {
		b = append(b, byte(t))
	}
	return b
}

// Type returns the index of a function type. It adds the type if the module does not have it.
func (m *Module) Type(params, results []ValType) uint32 {
	i := slices.IndexFunc(m.types, func(s sig) bool { return slices.Equal(s.params, params) && slices.Equal(s.results, results) })
	if i < 0 {
		i = len(m.types)
		m.types = append(m.types, sig{params, results})
	}
	return uint32(i)
}

// AddType adds a type even if the module already has an equal one.
func (m *Module) AddType(params, results []ValType) {
	m.types = append(m.types, sig{params, results})
}

// Import adds an imported function and returns its index. All imports must come before the first
// Func.
func (m *Module) Import(module, name string, params, results []ValType) uint32 {
	if len(m.funcs) > 0 {
		panic("wasm: imports come before functions")
	}
	b := append(AppendName(AppendName(nil, module), name), 0)
	m.imports = append(m.imports, AppendU32(b, m.Type(params, results)))
	m.imported++
	return m.imported - 1
}

// ImportOther imports an item other than a function: kind 1 a table, 2 a memory, 3 a global, with
// the encoding of its type.
func (m *Module) ImportOther(module, name string, kind byte, desc ...byte) {
	b := append(AppendName(AppendName(nil, module), name), kind)
	m.imports = append(m.imports, append(b, desc...))
}

// Func adds a function with these parameters, results and locals. The caller writes its
// instructions to the returned Func.
func (m *Module) Func(params, results []ValType, locals ...ValType) *Func {
	f := &Func{Index: m.imported + uint32(len(m.funcs)), kind: m.Type(params, results)}
	for _, t := range locals {
		f.Locals(1, t)
	}
	m.funcs = append(m.funcs, f)
	return f
}

// Locals adds n locals of a type. It extends the last group if that has the same type.
func (f *Func) Locals(n uint32, t ValType) *Func {
	if k := len(f.locals); k > 0 && f.locals[k-1].t == t {
		f.locals[k-1].n += n
	} else {
		f.locals = append(f.locals, run{n, t})
	}
	return f
}

// Run adds a new group of n locals, even if the last group has the same type.
func (f *Func) Run(n uint32, t ValType) *Func {
	f.locals = append(f.locals, run{n, t})
	return f
}

// Table adds a table of function references with at least `least` and at most `most` entries; most
// < 0: no maximum.
func (m *Module) Table(least uint32, most int64) {
	m.tables = append(m.tables, limits([]byte{byte(FuncRef)}, least, most))
}

// Memory adds a memory with a minimum and maximum number of pages; most < 0: without a maximum.
func (m *Module) Memory(least uint32, most int64) {
	m.memories = append(m.memories, limits(nil, least, most))
}

func limits(b []byte, least uint32, most int64) []byte {
	if most < 0 {
		return AppendU32(append(b, 0), least)
	}
	return AppendU32(AppendU32(append(b, 1), least), uint32(most))
}

// Global adds a global and returns its index, not counting imported globals.
func (m *Module) Global(t ValType, mutable bool, init *Code) uint32 {
	b := []byte{byte(t), 0}
	if mutable {
		b[1] = 1
	}
	m.globals = append(m.globals, append(b, init.done()...))
	return uint32(len(m.globals) - 1)
}

// Kinds of exports.
const (
	ExternFunc   = 0
	ExternTable  = 1
	ExternMemory = 2
	ExternGlobal = 3
)

// Export exports a function, table, memory or global under a name. index is its index among those
// of its kind.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.exports = append(m.exports, AppendU32(append(AppendName(nil, name), kind), index))
}

// ExportFunc exports a function.
func (m *Module) ExportFunc(name string, f *Func) { m.Export(name, ExternFunc, f.Index) }

// Start sets the start function.
func (m *Module) Start(f uint32) { m.start = &f }

// Elem adds an active element segment, which puts funcs into table 0 from offset on at
// instantiation.
func (m *Module) Elem(offset *Code, funcs ...uint32) {
	b := AppendU32(append([]byte{0}, offset.done()...), uint32(len(funcs)))
	for _, f := range funcs {
		b = AppendU32(b, f)
	}
	m.elems = append(m.elems, b)
}

// PassiveElem adds a passive element segment, which the instruction table.init copies from.
func (m *Module) PassiveElem(funcs ...uint32) {
	b := AppendU32([]byte{1, 0}, uint32(len(funcs)))
	for _, f := range funcs {
		b = AppendU32(b, f)
	}
	m.elems = append(m.elems, b)
}

// Data adds an active data segment, which writes content to memory 0 from offset on at
// instantiation.
func (m *Module) Data(offset *Code, content []byte) {
	b := AppendU32(append([]byte{0}, offset.done()...), uint32(len(content)))
	m.data = append(m.data, append(b, content...))
}

// PassiveData adds a passive data segment, which the instruction memory.init copies from.
func (m *Module) PassiveData(content []byte) {
	m.data = append(m.data, append(AppendU32([]byte{1}, uint32(len(content))), content...))
}
