package prep

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// assemble writes the instrumented module. Indexes are the module's own: what is added comes behind.
func (m *module) assemble() []byte {
	e := m.emit
	if e.getGas == nil {
		e.setGlobals(uint32(len(m.globals)))
	}
	out := make([]byte, 8, len(e.code)+int(m.elements.end-m.elements.at)+len(m.data)+len(m.globals)*8+len(m.exports)*16+256)
	copy(out, m.code[:8])
	var s []byte
	leb := func(v int) { s = binary.AppendUvarint(s, uint64(v)) }
	flush := func(id byte) {
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(s)))
		out = append(out, s...)
		s = s[:0]
	}
	name := func(prefix string, n []byte) {
		leb(len(prefix) + len(n))
		s = append(append(s, prefix...), n...)
	}
	slots := int(m.limits.MaxStackHeight) / leastMetered
	tables := len(m.tables)
	if e.references {
		tables++
	}
	added := 0 // types and tables
	if e.trace {
		added = 1
	}
	if leb(len(m.types) + added); len(m.types)+added > 0 {
		for _, t := range m.types {
			s = append(s, typeFunction)
			leb(len(t.params))
			for _, p := range t.params {
				s = append(s, byte(p))
			}
			if s = append(s, byte(values(t.result))); t.result != none {
				s = append(s, byte(t.result))
			}
		}
		if e.trace {
			s = append(s, typeFunction, 1, byte(I32), 0)
		}
		flush(sectionType)
	}
	s = s[:0]
	if leb(len(m.imports)); len(m.imports) > 0 {
		for i := range m.imports {
			name("env", nil)
			name(m.imports[i].Name, nil)
			s = append(s, kindFunc)
			leb(int(m.funcs[i]))
		}
		flush(sectionImport)
	}
	s = s[:0]
	charges := 0
	if m.gas.used {
		charges = 1
	}
	if leb(m.defined + charges); m.defined+charges > 0 {
		for _, t := range m.funcs[len(m.imports):] {
			leb(int(t))
		}
		if m.gas.used {
			leb(int(m.gas.typ))
		}
		flush(sectionFunction)
	}
	s = s[:0]
	if leb(tables + added); tables+added > 0 {
		for _, t := range m.tables {
			// The engine lets no table grow over nearcore's limit; said here, it does not bind the table of references.
			if most := uint32(min(m.limits.MaxElementsPerContractTable, math.MaxUint32)); !t.bounded || t.max > most {
				t.max = max(most, t.min)
			}
			s = append(s, byte(FuncRef), 1)
			leb(int(t.min))
			leb(int(t.max))
		}
		if e.trace {
			s = append(s, byte(FuncRef), 1, 1, 1) // exactly one
		}
		if e.references {
			s = append(s, byte(FuncRef), 1)
			leb(slots)
			leb(slots)
		}
		flush(sectionTable)
	}
	s = s[:0]
	memories, globals := 1, len(m.globals)+addedGlobals
	if e.shadow {
		memories, globals = memories+1, globals+1
	}
	leb(memories)
	s = append(s, 1)
	leb(int(m.limits.InitialMemoryPages))
	leb(int(m.limits.MaxMemoryPages))
	if e.shadow {
		pages := (slots*slotBytes + wasmPage - 1) / wasmPage
		s = append(s, 1)
		leb(pages)
		leb(pages)
	}
	flush(sectionMemory)

	leb(globals)
	for _, g := range m.globals {
		mutable := byte(0)
		if g.mutable {
			mutable = 1
		}
		s = append(s, byte(g.typ), mutable)
		s = m.redirected(s, span{g.at, g.end})
	}
	s = append(s, byte(I64), 1, opI64Const, 0, opEnd, byte(I64), 1, opI64Const)
	s = append(appendSigned(s, int64(m.limits.MaxStackHeight)), opEnd)
	if e.shadow {
		s = append(s, byte(I32), 1, opI32Const, 0, opEnd)
	}
	flush(sectionGlobal)

	count := 3 + added
	for _, x := range m.exports {
		if x.kind != kindMemory {
			count++
		}
	}
	if m.hasStart {
		count++
	}
	leb(count)
	for _, x := range m.exports {
		if x.kind == kindMemory {
			continue
		}
		name(MethodPrefix, m.nameOf(x))
		s = append(s, x.kind)
		if x.kind == kindFunc && m.isGas(x.index) {
			x.index = m.gasFunc()
		}
		leb(int(x.index))
	}
	export := func(what string, kind byte, index int) {
		name(what, nil)
		s = append(s, kind)
		leb(index)
	}
	export(GlobalMemory, kindMemory, 0)
	export(GlobalGas, kindGlobal, len(m.globals))
	export(GlobalStack, kindGlobal, len(m.globals)+1)
	if e.trace {
		export(TableTrace, kindTable, len(m.tables))
	}
	if m.hasStart {
		export(FuncStart, kindFunc, int(m.start))
	}
	flush(sectionExport)

	if m.segments > 0 {
		s = m.redirected(s, m.elements)
		flush(sectionElement)
	}
	if m.dataCount >= 0 {
		leb(m.dataCount)
		flush(sectionDataCount)
	}
	if m.bodies+charges > 0 {
		if m.gas.used {
			e.gasBody()
		}
		n := binary.AppendUvarint(nil, uint64(m.bodies+charges))
		out = append(out, sectionCode)
		out = binary.AppendUvarint(out, uint64(len(n)+len(e.code)))
		out = append(append(out, n...), e.code...)
	}
	if m.datas > 0 {
		s = append(s, m.dataWith()...)
		flush(sectionData)
	}
	return out
}

// Sizes of what nearcore's runtime holds for an instance, in bytes of a 1 MiB slot; measured on both sides of each.
const (
	instanceRoom    = 1_048_112
	instanceGlobal  = 16
	instanceImport  = 64
	instanceEscaped = 32 // a function that can be had as a reference
	instanceTable   = 16
)

// loadFails tells whether an instance of the module is too large for nearcore's pool.
func (m *module) loadFails() bool {
	imported := len(m.funcs) - m.defined
	escaped := 0
	for _, w := range m.declared {
		escaped += bits.OnesCount64(w)
	}
	for i := range imported {
		if m.isDeclared(uint32(i)) {
			escaped--
		}
	}
	if m.hasStart && int(m.start) >= imported && !m.isDeclared(m.start) {
		escaped++
	}
	return instanceGlobal*len(m.globals)+instanceImport*imported+instanceEscaped*escaped+instanceTable*len(m.tables) >
		instanceRoom
}
