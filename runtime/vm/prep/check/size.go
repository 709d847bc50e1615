package check

import "math/bits"

// Additions of nearcore's instrumentation. Its host functions come first, so the indexes of
// functions grow.
const (
	nearMemory, nearGas, nearStart = "memory", "remaining_gas", "start" // exports

	addedFuncs   = 3
	addedGlobals = 2
)

// sizes counts the bytes of the module in nearcore's form: with imported host functions for
// exhausted gas and stack, wide arithmetic and shortest encodings (crate wasm-encoder). That form
// is never written; see Module.Size.
type sizes struct {
	types, imports, funcs, globals, exports, elements, code int // contents without the number of items
	table, dataCount, data                                  int // whole sections, which nearcore copies
}

// lebLen and slebLen return the lengths of the shortest encodings.
func lebLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func slebLen(v int64) int {
	if v < 0 {
		v = ^v
	}
	return bits.Len64(uint64(v))/7 + 1
}

// section returns the length of a section with n bytes of content.
func section(n int) int { return 1 + lebLen(uint64(n)) + n }

// items returns the length of a section of count items with n bytes together. nearcore omits an
// empty section.
func items(count, n int) int {
	if count == 0 {
		return 0
	}
	return section(lebLen(uint64(count)) + n)
}

func nameLen(n int) int { return lebLen(uint64(n)) + n }

func (s *sizes) addType(t FuncType) {
	s.types += 1 + lebLen(uint64(len(t.Params))) + len(t.Params) + 1
	if t.Result != none {
		s.types++
	}
}

func (s *sizes) addImport(from, name int, typ uint32) {
	s.imports += nameLen(from) + nameLen(name) + 1 + lebLen(uint64(typ))
}

func (s *sizes) addFunction(typ uint32) { s.funcs += lebLen(uint64(typ)) }

func (s *sizes) addExport(name int, kind byte, index uint32) {
	switch kind {
	case kindMemory:
		return
	case kindFunc:
		s.exports += nameLen(1+name) + 1 + lebLen(uint64(index)+addedFuncs)
	default:
		s.exports += nameLen(1+name) + 1 + lebLen(uint64(index))
	}
}

// nearSize returns the size of the whole module in nearcore's form.
func (m *module) nearSize() int {
	s := m.size
	types, imports, globals := len(m.Types), len(m.Imports), len(m.Globals)
	exports := 1
	s.exports += nameLen(len(nearMemory)) + 2
	for _, e := range m.Exports {
		if e.Kind != kindMemory {
			exports++
		}
	}
	if m.hasImports || m.Bodies > 0 {
		for i, name := range []string{"finite_wasm_gas_exhausted", "finite_wasm_stack_exhausted", "finite_wasm_gas"} {
			s.addImport(len("internal"), len(name), uint32(types+i/2))
		}
		s.addType(FuncType{Result: none})
		s.addType(FuncType{Params: []ValType{I64}, Result: none})
		types += 2
		imports += addedFuncs
	}
	if m.hasGlobals || m.Bodies > 0 {
		s.globals += 2 + 2 + slebLen(0) + 2 + 2 + slebLen(int64(m.limits.MaxStackHeight))
		s.exports += nameLen(len(nearGas)) + 1 + lebLen(uint64(globals))
		exports++
		globals += addedGlobals
	}
	if m.HasStart {
		s.exports += nameLen(len(nearStart)) + 1 + lebLen(uint64(m.Start)+addedFuncs)
		exports++
	}
	memory := 2 + lebLen(uint64(m.limits.InitialMemoryPages)) + lebLen(uint64(m.limits.MaxMemoryPages))
	return 8 + items(types, s.types) + items(imports, s.imports) + items(m.defined, s.funcs) + s.table + section(memory) +
		items(globals, s.globals) + items(exports, s.exports) + items(m.Segments, s.elements) + s.dataCount +
		items(m.Bodies, s.code) + s.data
}

// gasSize returns the size of a charge at one point. globals is the number of the module's own
// globals.
func gasSize(charge uint64, globals int) int {
	get := 1 + lebLen(uint64(globals)) // get or set the gas
	return 3*get + 3*(1+slebLen(int64(charge))) + 1 + 2 + 2 + 1 + 1 + 1 + 1
}

// bulkSize returns the size of a charge that depends on a count on the stack. local is the first
// local that nearcore adds.
func bulkSize(constant, linear uint64, local, globals int) int {
	const checked = 2 + 1 + 2 + 1 + 2 + 1 + 1 // wide arithmetic, trap unless the upper half is 0
	get := 1 + lebLen(uint64(globals))
	charge, count := 1+lebLen(uint64(local)), 1+lebLen(uint64(local+1))
	return 2*count + 1 + 1 + slebLen(int64(linear)) + checked + 2 + 1 + slebLen(int64(constant)) + 2 + checked +
		3*charge + 3*get + 1 + 2 + 2 + 1 + 1 + 1 + 1
}

// stackSize returns the size of taking or returning stack. globals is the number of the module's
// own globals.
func stackSize(charge uint64, globals int) int {
	const checked = 2 + 1 + 2 + 1 + 2 + 1 + 1
	return 2*(1+lebLen(uint64(globals)+1)) + 2 + 1 + slebLen(int64(charge)) + 2 + checked
}
