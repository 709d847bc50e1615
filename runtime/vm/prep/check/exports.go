package check

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// exportItem reads an export. exportItem drops exports of memories, because the instrumented module
// exports its own memory.
func (m *module) exportItem(r *reader) {
	name := r.name()
	at := r.offset() - len(name)
	kind, index := r.u8(), r.u32()
	size, total := uint32(1), 0
	switch kind {
	case kindFunc:
		total = len(m.Funcs)
		if m.declare(r, index); r.bad == "" {
			size = m.typeSizeOf(m.Funcs[index])
		}
	case kindTable:
		total = len(m.Tables)
	case kindMemory:
		total = m.memories
	case kindGlobal:
		total = len(m.Globals)
	}
	if uint64(index) >= uint64(total) {
		r.fail("export of nothing")
		return
	}
	m.addTypeSize(r, size)
	m.Exports = append(m.Exports, Export{At: uint32(at), N: uint32(len(name)), Kind: kind, Index: index})
	m.size.addExport(len(name), kind, index)
	if kind != kindMemory && len(name) == maxName && m.late == nil {
		// With MethodPrefix, the name is too long for the parser of nearcore's instrumentation.
		m.late = &Error{Kind: primitives.PrepareSerialization, Offset: at, Reason: "export name too long with its prefix"}
	}
}

// setStart records the start function and checks the function's type.
func (m *module) setStart(i uint32, at int) *Error {
	if int(i) >= len(m.Funcs) {
		return invalid(at, "unknown start function")
	}
	if !m.Types[m.Funcs[i]].plain() {
		return invalid(at, "invalid type of the start function")
	}
	m.Start, m.HasStart = i, true
	return nil
}

// checkExports checks that the names are distinct.
func (m *module) checkExports(at int) *Error {
	sorted := slices.Clone(m.Exports)
	slices.SortFunc(sorted, func(a, b Export) int { return bytes.Compare(m.NameOf(a), m.NameOf(b)) })
	for i := 1; i < len(sorted); i++ {
		if bytes.Equal(m.NameOf(sorted[i-1]), m.NameOf(sorted[i])) {
			return invalid(at, "duplicate export")
		}
	}
	return nil
}
