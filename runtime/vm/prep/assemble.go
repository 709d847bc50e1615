package prep

import (
	"encoding/binary"
	"math"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// assemble writes the instrumented module. The contract's items keep their indices, because all
// added items come after them.
func (e *emitter) assemble(m *check.Module) []byte {
	if e.m == nil {
		e.begin(m)
	}
	names := 0
	for _, x := range m.Exports {
		names += len(m.NameOf(x))
	}
	out := make([]byte, 8, e.sum+len(e.code)+len(m.Elements)+len(m.Data)+len(m.Funcs)*3+len(m.Globals)*8+len(m.Exports)*16+names+1024)
	copy(out, m.Code[:8])
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
	defined := len(m.Funcs) - len(m.Imports)
	tables := len(m.Tables)
	entries := len(e.refs.funcs) > 0 || e.refs.inits
	if entries {
		tables++
	}
	added := 0 // number of added types, then of added tables
	if e.trace {
		added = 1
	}
	types := len(m.Types) + added
	helping := types
	if len(e.refs.helpers) > 0 {
		types += len(helperTypes)
	}
	if leb(types); types > 0 {
		for _, t := range m.Types {
			s = appendType(s, t)
		}
		if e.trace {
			s = append(s, typeFunction, 1, byte(I32), 0)
		}
		if types > helping {
			for _, t := range helperTypes {
				s = appendType(s, t)
			}
		}
		flush(sectionType)
	}
	s = s[:0]
	if leb(len(m.Imports)); len(m.Imports) > 0 {
		for i := range m.Imports {
			name("env", nil)
			name(m.Imports[i].Name, nil)
			s = append(s, kindFunc)
			leb(int(m.Funcs[i]))
		}
		flush(sectionImport)
	}
	s = s[:0]
	own := len(e.refs.helpers) // number of helper functions
	if e.gas.used {
		own++
	}
	if leb(defined + own); defined+own > 0 {
		for _, t := range m.Funcs[len(m.Imports):] {
			leb(int(t))
		}
		if e.gas.used {
			leb(int(e.gas.typ))
		}
		for _, h := range e.refs.helpers {
			leb(helping + h.kind())
		}
		flush(sectionFunction)
	}
	s = s[:0]
	if leb(tables + added); tables+added > 0 {
		for _, t := range m.Tables {
			// The engine has no setting for nearcore's limit on table sizes, so the limit is set as
			// each table's maximum. The table of references is not limited.
			if most := uint32(min(e.limits.MaxElementsPerContractTable, math.MaxUint32)); !t.Bounded || t.Max > most {
				t.Max = max(most, t.Min)
			}
			s = append(s, byte(FuncRef), 1)
			leb(int(t.Min))
			leb(int(t.Max))
		}
		if e.trace {
			s = append(s, byte(FuncRef), 1, 1, 1) // has a maximum; minimum 1, maximum 1
		}
		if entries {
			s = append(s, byte(FuncRef), 1)
			leb(len(e.refs.funcs) + 1)
			leb(len(e.refs.funcs) + 1)
		}
		flush(sectionTable)
	}
	s = s[:0]
	memories, globals := 1, len(m.Globals)+2+e.refs.dropGlobals()
	if e.refs.inits {
		memories++
	}
	placed := e.crowded || e.refs.dropGlobals() > 0
	if placed {
		globals += len(placeTypes)
	}
	extent, kept, again := e.again()
	if again {
		globals++
	}
	leb(memories)
	s = append(s, 1)
	leb(int(e.limits.InitialMemoryPages))
	leb(int(e.limits.MaxMemoryPages))
	if e.refs.inits {
		pages := (len(e.refs.entries) + wasmPage - 1) / wasmPage
		s = append(s, 1)
		leb(pages)
		leb(pages)
	}
	flush(sectionMemory)

	leb(globals)
	for _, g := range m.Globals {
		mutable := byte(0)
		if g.Mutable {
			mutable = 1
		}
		s = append(s, byte(g.Type), mutable)
		s = e.constExpr(s, &code{b: g.Value})
	}
	s = append(s, byte(I64), 1, opI64Const, 0, opEnd, byte(I64), 1, opI64Const)
	s = append(appendSigned(s, int64(e.limits.MaxStackHeight)), opEnd)
	if placed {
		for _, t := range placeTypes {
			s = append(append(s, byte(t), 1), zeros[t]...)
		}
	}
	for range e.refs.dropGlobals() {
		s = append(s, byte(I64), 1, opI64Const, 0, opEnd)
	}
	if again {
		s = append(appendSigned(append(s, byte(I64), 0, opI64Const), int64(extent)), opEnd)
	}
	flush(sectionGlobal)

	count := 3 + added
	if again {
		count += 1 + len(kept)
	}
	for _, x := range m.Exports {
		if x.Kind != kindMemory {
			count++
		}
	}
	if m.HasStart {
		count++
	}
	leb(count)
	for _, x := range m.Exports {
		if x.Kind == kindMemory {
			continue
		}
		name(MethodPrefix, m.NameOf(x))
		s = append(s, x.Kind)
		if x.Kind == kindFunc && e.isGas(x.Index) {
			x.Index = e.gasFunc()
		}
		leb(int(x.Index))
	}
	export := func(what string, kind byte, index int) {
		name(what, nil)
		s = append(s, kind)
		leb(index)
	}
	export(GlobalMemory, kindMemory, 0)
	export(GlobalGas, kindGlobal, len(m.Globals))
	export(GlobalStack, kindGlobal, len(m.Globals)+1)
	if e.trace {
		export(TableTrace, kindTable, len(m.Tables))
	}
	if again {
		export(GlobalAgain, kindGlobal, globals-1)
		for i, g := range kept {
			export(GlobalAgain+string(rune('0'+i)), kindGlobal, g)
		}
	}
	if m.HasStart {
		export(FuncStart, kindFunc, int(m.Start))
	}
	flush(sectionExport)

	if len(e.refs.funcs) > 0 {
		leb(m.Segments + 1)
		s = e.entrySegment(append(s, afterCount(e.elements())...))
		flush(sectionElement)
	} else if m.Segments > 0 {
		s = append(s, e.elements()...)
		flush(sectionElement)
	}
	datas := m.Datas
	if e.refs.inits {
		datas++
	}
	if m.DataCount >= 0 {
		leb(datas)
		flush(sectionDataCount)
	}
	if m.Bodies+own > 0 {
		if e.gas.used {
			e.gasBody()
		}
		for _, h := range e.refs.helpers {
			e.helperBody(h)
		}
		n := binary.AppendUvarint(nil, uint64(m.Bodies+own))
		out = append(out, sectionCode)
		out = binary.AppendUvarint(out, uint64(len(n)+e.sum+len(e.code)))
		out = append(out, n...)
		for _, b := range e.full {
			out = append(out, b...)
		}
		out = append(out, e.code...)
	}
	if e.refs.inits {
		leb(datas)
		s = e.entryData(append(s, afterCount(e.data())...))
		flush(sectionData)
	} else if m.Datas > 0 {
		s = append(s, e.data()...)
		flush(sectionData)
	}
	return out
}

// afterCount returns the content of a section without the leading number of its items; empty if the
// section is missing.
func afterCount(content []byte) []byte {
	c := code{b: content}
	if len(content) > 0 {
		c.u32()
	}
	return content[c.pos:]
}

// zeros are the constant expressions with value zero, by type.
var zeros = map[check.ValType][]byte{
	I32: {opI32Const, 0, opEnd}, I64: {opI64Const, 0, opEnd}, F32: {opF32Const, 0, 0, 0, 0, opEnd},
	F64: {opF64Const, 0, 0, 0, 0, 0, 0, 0, 0, opEnd},
}

// appendType appends a function type.
func appendType(b []byte, t check.FuncType) []byte {
	b = binary.AppendUvarint(append(b, typeFunction), uint64(len(t.Params)))
	for _, p := range t.Params {
		b = append(b, byte(p))
	}
	if t.Result == none {
		return append(b, 0)
	}
	return append(b, 1, byte(t.Result))
}
