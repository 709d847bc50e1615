package prep

import (
	"encoding/binary"
	"slices"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// A compact module is one whose machine code had frames too large for the native stack (engine.Fits). A register allocator of one pass
// gives a slot of the frame to each value that lives over a joint, over a call, or while fourteen others are made, and to each that
// a call returns or a division gives; none to two. So in a compact module an operand is in memory unless the very next instruction takes it; locals are, and
// results of blocks are. What takes many operands, what the compiler makes joints of and what is a call with a result, or a division, is
// done by functions of the module's own: each finds its operands in their slots, from its argument on, and puts the result
// where the first of them was. They are not metered, and call nothing but what the instruction calls.

// mostInline is how many arguments a call may have that is written as one, if it returns nothing.
const mostInline = 2

// opCopyReference is no instruction: a helper that copies an entry of the table of references, to, from.
const opCopyReference = 1

// tooLarge is how many times what is metered a frame may have, at the most: engine.Fits knows it better. A function that is larger for
// what frameOf counts, is not compiled in vain.
const tooLarge = 64

// frameOf is how much larger an instruction makes the frame where it is not outlined: in nearly all places, as measured.
func frameOf(in *instr) uint64 {
	switch in.op {
	case opI32DivS, opI32DivU, opI32RemS, opI32RemU, opI64DivS, opI64DivU, opI64RemS, opI64RemU, opMemoryGrow:
		return 8
	case opTableGet:
		return 24
	case opRefFunc:
		return 32
	case opPrefix:
		switch in.a {
		case opMemoryFill, opTableFill:
			return 8
		case opMemoryInit:
			return 16
		}
	}
	return 0
}

// outline writes an instruction as the call of a function that does it. Not true: it is none of those that are.
func (o *operands) outline(in *instr) bool {
	e := o.e
	h := helper{op: in.op}
	switch in.op {
	case opI32DivS, opI32DivU, opI32RemS, opI32RemU, opI64DivS, opI64DivU, opI64RemS, opI64RemU:
	case opLocalGet, opLocalSet, opLocalTee:
		if e.b.Local(in.a) != FuncRef {
			return false
		}
		o.moveReference(in.op, in.a)
		return true
	case opGlobalSet:
		if e.m.Globals[in.a].Type != FuncRef {
			return false
		}
		h.of = in.a
	case opSelectTyped:
		if in.typ != FuncRef {
			return false
		}
	case opRefIsNull, opMemoryGrow:
	case opTableGet, opTableSet, opRefFunc:
		h.of = in.a
	case opCall:
		t := e.m.Types[e.m.Funcs[in.a]]
		if e.isGas(in.a) || t.Result == none && len(t.Params) <= mostInline && !hasReferences(t.Params) {
			return false
		}
		h.of = in.a
	case opCallIndirect:
		h.of, h.from = in.a, in.b
	case opPrefix:
		c := code{b: e.in.b, pos: in.at + 1}
		switch h.bulk = c.u32(); h.bulk {
		case opMemoryFill, opMemoryCopy:
		case opTableFill, opTableGrow, opMemoryInit:
			h.of = c.u32()
		default:
			return false
		}
	default:
		return false
	}
	t := e.operation(h)
	if t.Result == FuncRef || hasReferences(t.Params) {
		e.shadowTable()
	}
	if in.op == opRefFunc && e.room {
		e.refs.entry(in.a)
	}
	o.keepAll()
	o.truncate(len(o.stack) - len(t.Params))
	e.raw(e.getSlots)
	e.int32(len(o.stack)*slotBytes + e.b.Locals*slotBytes)
	e.add(opI32Add)
	e.callHelper(h)
	if t.Result != none {
		o.pushKept(t.Result)
	}
	return true
}

func hasReferences(params []check.ValType) bool { return slices.Contains(params, FuncRef) }

// pushKept pushes an operand that is in its slot.
func (o *operands) pushKept(t check.ValType) { o.stack = append(o.stack, operand{typ: t, kept: true}) }

// moveReference writes a local instruction of a reference.
func (o *operands) moveReference(op byte, local uint32) {
	o.keepAll()
	if op == opLocalGet {
		o.pushKept(FuncRef)
		o.copyReference(o.slot(len(o.stack)-1), local)
		return
	}
	last := len(o.stack) - 1
	if o.copyReference(local, o.slot(last)); op == opLocalSet {
		o.truncate(last)
	}
}

func (o *operands) copyReference(to, from uint32) {
	o.e.shadowTable()
	o.e.slotIndex(to)
	o.e.slotIndex(from)
	o.e.callHelper(helper{op: opCopyReference})
}

// copySlot copies a slot's value.
func (o *operands) copySlot(t check.ValType, to, from uint32) {
	if t == FuncRef {
		o.copyReference(to, from)
		return
	}
	o.e.load(t, from)
	o.e.store(t, to)
}

// callHelper writes the call of a helper.
func (e *emitter) callHelper(h helper) {
	e.add(opCall)
	e.index(e.helperFunc(h))
}

// operation is what an instruction that is outlined takes and gives.
func (e *emitter) operation(h helper) check.FuncType {
	const i32, i64, ref = I32, I64, FuncRef
	t := func(result check.ValType, params ...check.ValType) check.FuncType {
		return check.FuncType{Params: params, Result: result}
	}
	switch h.op {
	case opCall:
		return e.m.Types[e.m.Funcs[h.of]]
	case opI32DivS, opI32DivU, opI32RemS, opI32RemU:
		return t(i32, i32, i32)
	case opI64DivS, opI64DivU, opI64RemS, opI64RemU:
		return t(i64, i64, i64)
	case opCallIndirect:
		f := e.m.Types[h.of]
		return t(f.Result, append(append([]check.ValType{}, f.Params...), i32)...)
	case opTableGet:
		return t(ref, i32)
	case opTableSet:
		return t(none, i32, ref)
	case opRefFunc:
		return t(ref)
	case opRefIsNull:
		return t(i32, ref)
	case opGlobalSet:
		return t(none, ref)
	case opSelectTyped:
		return t(ref, ref, ref, i32)
	case opMemoryGrow:
		return t(i32, i32)
	}
	switch h.bulk {
	case opTableFill:
		return t(none, i32, ref, i32)
	case opTableGrow:
		return t(i32, ref, i32)
	}
	return t(none, i32, i32, i32)
}

// outlinedBody writes the body of a helper for an instruction.
func (e *emitter) outlinedBody(h helper) {
	at := len(e.code)
	e.add(0, 0, 0, 0, 0, 0)
	if h.op == opCopyReference {
		e.local(opLocalGet, 0)
		e.local(opLocalGet, 1)
		e.add(opTableGet)
		e.index(uint64(e.shadowTable()))
		e.add(opTableSet)
		e.index(uint64(e.shadowTable()))
	} else {
		e.operate(h, e.operation(h))
	}
	e.add(opEnd)
	putLength(e.code[at:], len(e.code)-at-5)
}

// operate writes an instruction, which takes its operands from the slots from local 0 on and puts its result there.
func (e *emitter) operate(h helper, t check.FuncType) {
	slot := func(t check.ValType, i int) { // what a load of it, or a store to it, takes
		e.local(opLocalGet, 0)
		if t == FuncRef {
			e.int32(3)
			e.add(opI32ShrU)
			e.int32(i)
			e.add(opI32Add)
		}
	}
	if t.Result != none {
		slot(t.Result, 0)
	}
	for i, p := range t.Params {
		if slot(p, i); p == FuncRef {
			e.add(opTableGet)
			e.index(uint64(e.shadowTable()))
			continue
		}
		load, _, align := slotOf(p)
		e.add(load, align|0x40, shadowMemory)
		e.index(uint64(i) * slotBytes)
	}
	e.operator(h)
	switch t.Result {
	case none:
	case FuncRef:
		e.add(opTableSet)
		e.index(uint64(e.shadowTable()))
	default:
		_, store, align := slotOf(t.Result)
		e.add(store, align|0x40, shadowMemory, 0)
	}
}

// operator writes an instruction that is outlined.
func (e *emitter) operator(h helper) {
	switch h.op {
	case opRefFunc:
		if e.room {
			e.int32(e.refs.entry(h.of))
			e.add(opTableGet)
			e.index(e.entryTable())
			return
		}
		e.code = e.function(append(e.code, h.op), h.of)
		return
	case opRefIsNull, opI32DivS, opI32DivU, opI32RemS, opI32RemU, opI64DivS, opI64DivU, opI64RemS, opI64RemU:
		e.add(h.op)
		return
	case opSelectTyped:
		e.add(h.op, 1, byte(FuncRef))
		return
	case opMemoryGrow:
		e.add(h.op, 0)
		return
	case opCallIndirect:
		e.add(h.op)
		e.index(uint64(h.of))
		e.index(uint64(h.from))
		return
	}
	if e.add(h.op); h.op == opPrefix {
		e.index(uint64(h.bulk))
	}
	switch h.bulk {
	case opMemoryFill:
		e.add(0)
	case opMemoryCopy:
		e.add(0, 0)
	case opMemoryInit:
		e.index(uint64(h.of))
		e.add(0)
	default:
		e.index(uint64(h.of))
	}
}

// appendType appends a type of functions.
func appendType(b []byte, t check.FuncType) []byte {
	b = binary.AppendUvarint(append(b, typeFunction), uint64(len(t.Params)))
	for _, p := range t.Params {
		b = append(b, byte(p))
	}
	if b = append(b, byte(values(t.Result))); t.Result != none {
		b = append(b, byte(t.Result))
	}
	return b
}

// resultSlot is where a block's result waits while its end is being joined.
func (e *emitter) resultSlot() uint32 {
	return uint32(e.b.Locals + int(e.b.Operands)/leastMetered)
}

// keepResult puts the last operand but for those above it, which is a result, into its slot, and brings what is above it back.
func (o *operands) keepResult(t check.ValType, above int) {
	if !o.e.compact || t == none {
		return
	}
	o.keepAll()
	at := len(o.stack) - 1 - above
	o.copySlot(t, o.e.resultSlot(), o.slot(at))
	if above > 0 {
		o.e.load(o.stack[at+1].typ, o.slot(at+1))
	}
}

// takeResult makes the result of a block that was just closed an operand.
func (o *operands) takeResult(t check.ValType) {
	o.pushKept(t)
	o.copySlot(t, o.slot(len(o.stack)-1), o.e.resultSlot())
}
