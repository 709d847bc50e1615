package check

import "math/bits"

// What nearcore's instrumentation adds. nearcore's added host functions come before the contract's
// functions, so the indices of functions grow.
const (
	nearMemory, nearGas, nearStart = "memory", "remaining_gas", "start" // names of the exports that nearcore adds

	addedFuncs   = 3
	addedGlobals = 2
)

// sizes counts the bytes of nearcore's instrumented module. That module imports host functions for
// exhausted gas and stack, and uses wide arithmetic and shortest encodings (crate wasm-encoder).
// This package never writes that module; see Module.Size.
type sizes struct {
	// These are sizes of the sections' contents, without the leading number of items.
	types, imports, funcs, globals, exports, elements, code int
	// These are sizes of whole sections, which nearcore copies unchanged.
	table, dataCount, data int
}

// lebLen returns the length of the shortest unsigned LEB128 of v; slebLen returns the length for
// signed LEB128.
func lebLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func slebLen(v int64) int {
	if v < 0 {
		v = ^v
	}
	return bits.Len64(uint64(v))/7 + 1
}

// section returns the length of a section with n bytes of content.
func section(n int) int { return 1 + lebLen(uint64(n)) + n }

// items returns the length of a section of count items that have n bytes in total. The length is 0
// for an empty section, because nearcore omits empty sections.
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

// nearSize returns the size of nearcore's instrumented module.
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

// gasSize returns the size of the code for a constant charge. globals is the number of the
// contract's own globals.
func gasSize(charge uint64, globals int) int {
	get := 1 + lebLen(uint64(globals)) // size of an instruction that reads or sets the gas global
	return 3*get + 3*(1+slebLen(int64(charge))) + 1 + 2 + 2 + 1 + 1 + 1 + 1
}

// bulkSize returns the size of the code for a charge that depends on a count on the stack. local is
// the index of the first local that nearcore adds.
func bulkSize(constant, linear uint64, local, globals int) int {
	// checked is the size of an operation on 128 bits that traps unless the upper 64 bits are 0.
	const checked = 2 + 1 + 2 + 1 + 2 + 1 + 1
	get := 1 + lebLen(uint64(globals))
	charge, count := 1+lebLen(uint64(local)), 1+lebLen(uint64(local+1))
	return 2*count + 1 + 1 + slebLen(int64(linear)) + checked + 2 + 1 + slebLen(int64(constant)) + 2 + checked +
		3*charge + 3*get + 1 + 2 + 2 + 1 + 1 + 1 + 1
}

// stackSize returns the size of the code that takes or returns metered stack. globals is the number
// of the contract's own globals.
func stackSize(charge uint64, globals int) int {
	const checked = 2 + 1 + 2 + 1 + 2 + 1 + 1
	return 2*(1+lebLen(uint64(globals)+1)) + 2 + 1 + slebLen(int64(charge)) + 2 + checked
}
