package prep

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// env.gas(n) burns what n instructions cost, and contracts of old call it between all their instructions. A call of the host
// takes a hundred times as long as those two instructions' gas stands for, so what refers to the import refers to a function of
// the module instead that charges as charge does: whatever calls it, directly or through a table, sees the same, and so does
// who reads the globals after it. The import stays, so that the module needs what it needed. A traced module calls the host.

// gasImport is what the module does with env.gas.
type gasImport struct {
	funcs []uint32 // imports that are it, in order
	typ   uint32
	used  bool   // there is one, and the module gets the function
	spans []span // indexes of it in elements and globals, in order
}

// span is a part of the code.
type span struct{ at, end uint32 }

// noteGas looks at the import that comes next, of type typ. Under another type it does not link.
func (m *module) noteGas(i *Import, typ uint32) {
	if m.emit == nil || m.emit.trace || i.Name != "gas" || len(i.Params) != 1 || i.Params[0] != I32 || len(i.Results) != 0 {
		return
	}
	m.gas.funcs, m.gas.typ, m.gas.used = append(m.gas.funcs, uint32(len(m.imports))), typ, true
}

func (m *module) isGas(i uint32) bool {
	if !m.gas.used {
		return false
	}
	_, is := slices.BinarySearch(m.gas.funcs, i)
	return is
}

// gasFunc is the index of the function, behind all of the module's own.
func (m *module) gasFunc() uint32 { return uint32(len(m.funcs)) }

// redirect notes that the index which was read from at on names function i.
func (m *module) redirect(at int, r *reader, i uint32) {
	if m.isGas(i) {
		m.gas.spans = append(m.gas.spans, span{uint32(at), uint32(r.offset())})
	}
}

// redirected appends a part of the code with the indexes changed.
func (m *module) redirected(b []byte, part span) []byte {
	from, _ := slices.BinarySearchFunc(m.gas.spans, part.at, func(s span, at uint32) int { return cmp.Compare(s.at, at) })
	for _, s := range m.gas.spans[from:] {
		if s.at >= part.end {
			break
		}
		b = append(b, m.code[part.at:s.at]...)
		b = binary.AppendUvarint(b, uint64(m.gasFunc()))
		part.at = s.end
	}
	return append(b, m.code[part.at:part.end]...)
}

// redirect does the same with the instruction at off, which was read.
func (b *body) redirect(off uint32, op byte, i uint32) {
	if b.metered && b.m.isGas(i) {
		b.edits = append(b.edits, edit{at: off, end: uint32(b.r.pos), op: op, depth: b.m.gasFunc()})
	}
}

// callGas writes what a direct call becomes: the charge itself, without a block.
func (e *emitter) callGas() {
	e.add(opI64Extend)
	e.constant(e.op)
	e.add(opI64Mul)
	e.local(opLocalSet, e.bulkLocal)
	e.chargeLocal(e.bulkLocal)
	e.settle(e.setGas)
}

// gasBody writes the function, for calls through a table. A charge is below 2^62, so it does not overflow.
func (e *emitter) gasBody() {
	at := len(e.code)
	e.add(0, 0, 0, 0, 0, 1, 1, byte(I64)) // its length, and a local
	e.add(opLocalGet, 0)
	e.bulkLocal = 1
	e.useLocal()
	e.callGas()
	e.add(opEnd)
	putLength(e.code[at:], len(e.code)-at-5)
}
