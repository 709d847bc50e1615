package prep

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// exportItem reads an export. Of memories nothing is kept: the result exports its own.
func (m *module) exportItem(r *reader) {
	name := r.name()
	at := r.offset() - len(name)
	kind, index := r.u8(), r.u32()
	size, total := uint32(1), 0
	switch kind {
	case kindFunc:
		total = len(m.funcs)
		if m.declare(r, index); r.bad == "" {
			size = m.typeSizeOf(m.funcs[index])
		}
	case kindTable:
		total = len(m.tables)
	case kindMemory:
		total = m.memories
	case kindGlobal:
		total = len(m.globals)
	}
	if uint64(index) >= uint64(total) {
		r.fail("export of nothing")
		return
	}
	m.addTypeSize(r, size)
	m.exports = append(m.exports, export{at: uint32(at), n: uint32(len(name)), kind: kind, index: index})
	m.size.addExport(len(name), kind, index)
	if kind != kindMemory && len(name) == maxName && m.late == nil {
		// With the prefix the name is too long for the parser of the instrumentation.
		m.late = &Error{Kind: primitives.PrepareSerialization, Offset: at, Reason: "export name too long with its prefix"}
	}
}

// setStart notes the start function.
func (m *module) setStart(i uint32, at int) *Error {
	if int(i) >= len(m.funcs) {
		return invalid(at, "unknown start function")
	}
	if !m.types[m.funcs[i]].plain() {
		return invalid(at, "invalid type of the start function")
	}
	m.start, m.hasStart = i, true
	return nil
}

// checkExports wants the names to differ.
func (m *module) checkExports(at int) *Error {
	sorted := slices.Clone(m.exports)
	slices.SortFunc(sorted, func(a, b export) int { return bytes.Compare(m.nameOf(a), m.nameOf(b)) })
	for i := 1; i < len(sorted); i++ {
		if bytes.Equal(m.nameOf(sorted[i-1]), m.nameOf(sorted[i])) {
			return invalid(at, "duplicate export")
		}
	}
	return nil
}

func (m *module) nameOf(e export) []byte { return m.code[e.at : e.at+e.n] }
