package prep

import (
	"encoding/binary"
	"math/bits"
)

// Locals in memory. A compiler gives every local that crosses the joints of a function's control flow a value of its own at
// each of them: its work is locals times joints and more, and 4 KB of code can keep it busy for minutes. nearcore's compiler
// keeps locals on the stack, so such code is good code there. Where the product is large, the locals are written as what they
// are there: slots of a stack in a memory of the module's own, that no instruction of the contract can name. References go to a
// table. Gas, traps and results are the same; such a function runs at half its speed and compiles in a time linear in its size.
//
// The metered stack takes at least 4 bytes for a local, so it ends before the slots do.
const (
	slotBytes     = 8
	leastMetered  = 4 // bytes of the metered stack that a local takes
	wasmPage      = 64 << 10
	shadowMemory  = 1 // index; 0 is the contract's
	maxFlow       = 20_000
	leastFlow     = 500
	shadowCredits = 20_000_000
)

// shadowed tells whether the body's locals go to memory: if its flow, joints times locals, is too much, or what the bodies
// before it have left does not last. Work grows faster than the flow, about as its power of 3/2.
func (e *emitter) shadowed(b *body) bool {
	locals := uint64(min(b.locals, len(b.accesses)))
	flow := b.joints * locals
	if flow <= leastFlow {
		return false
	}
	if flow <= maxFlow {
		if work := flow * squareRoot(flow); work <= e.credits {
			e.credits -= work
			return false
		}
	}
	return true
}

// squareRoot is rounded up to a power of two, at most twice too much.
func squareRoot(n uint64) uint64 { return 1 << ((bits.Len64(n) + 1) / 2) }

// frameLocals are the locals that a shadowed function really has, behind its parameters.
const (
	localCharge = iota // for bulk instructions, as in other functions
	localCount
	localFrame // i32: where the frame's slots begin, in bytes
	localI32   // a value on its way to its slot
	localI64
	localF32
	localF64
	localRef
	numFrameLocals
)

// shadowLocals declares them.
func (e *emitter) shadowLocals() {
	e.index(numFrameLocals)
	for _, t := range [numFrameLocals]ValType{I64, I32, I32, I32, I64, F32, F64, FuncRef} {
		e.add(1, byte(t))
	}
}

func (e *emitter) frameLocal(b *body, op byte, which int) { e.local(int(op), len(b.typ.params)+which) }

// enter takes the frame's slots, makes them zero, and puts the parameters where they are looked for. Metering has made sure that
// the slots are there.
func (e *emitter) enter(b *body) {
	e.shadow = true
	n := b.locals
	e.raw(e.getSlots)
	e.frameLocal(b, opLocalTee, localFrame)
	e.int32(n * slotBytes)
	e.add(opI32Add)
	e.raw(e.setSlots)
	e.frameLocal(b, opLocalGet, localFrame)
	e.int32(0)
	e.int32(n * slotBytes)
	e.add(opPrefix, opMemoryFill, shadowMemory)
	for _, g := range b.groups {
		if g.typ != FuncRef {
			continue
		}
		e.slotIndex(b, g.end-g.n)
		e.add(opRefNull, byte(FuncRef))
		e.int32(int(g.n))
		e.add(opPrefix, opTableFill)
		e.index(uint64(e.shadowTable(b.m)))
	}
	for i, t := range b.typ.params {
		if t == FuncRef {
			e.slotIndex(b, uint32(i))
			e.local(opLocalGet, i)
			e.add(opTableSet)
			e.index(uint64(e.shadowTable(b.m)))
			continue
		}
		e.frameLocal(b, opLocalGet, localFrame)
		e.local(opLocalGet, i)
		e.slot(memorySlots[t].store, memorySlots[t].align, uint32(i))
	}
}

// slot writes a load or store of a local's slot.
func (e *emitter) slot(op, align byte, local uint32) {
	e.add(op, align|0x40, shadowMemory)
	e.index(uint64(local) * slotBytes)
}

// leave gives the slots back.
func (e *emitter) leave(b *body) {
	e.frameLocal(b, opLocalGet, localFrame)
	e.raw(e.setSlots)
}

// shadowTable is the index of the table of references, behind the contract's and the trace's.
func (e *emitter) shadowTable(m *module) int {
	e.references = true
	if e.trace {
		return len(m.tables) + 1
	}
	return len(m.tables)
}

func (e *emitter) int32(n int) { e.code = appendSigned(append(e.code, opI32Const), int64(n)) }

// slotIndex is the number of a local's slot among all.
func (e *emitter) slotIndex(b *body, local uint32) {
	e.frameLocal(b, opLocalGet, localFrame)
	e.int32(3)
	e.add(opI32ShrU)
	e.int32(int(local))
	e.add(opI32Add)
}

// memorySlots are the instructions by type: load, store, alignment, and which local a value waits in.
var memorySlots = map[ValType]struct {
	load, store, align byte
	temporary          int
}{
	I32: {0x28, 0x36, 2, localI32}, I64: {0x29, 0x37, 3, localI64}, F32: {0x2a, 0x38, 2, localF32}, F64: {0x2b, 0x39, 3, localF64},
}

// access writes a local instruction.
func (e *emitter) access(b *body, op byte, local uint32) {
	t := b.local(local)
	if t == FuncRef {
		e.accessRef(b, op, local)
		return
	}
	s := memorySlots[t]
	if op == opLocalGet {
		e.frameLocal(b, opLocalGet, localFrame)
		e.slot(s.load, s.align, local)
		return
	}
	e.frameLocal(b, opLocalSet, s.temporary)
	e.frameLocal(b, opLocalGet, localFrame)
	e.frameLocal(b, opLocalGet, s.temporary)
	e.slot(s.store, s.align, local)
	if op == opLocalTee {
		e.frameLocal(b, opLocalGet, s.temporary)
	}
}

func (e *emitter) accessRef(b *body, op byte, local uint32) {
	table := func(op byte) {
		e.add(op)
		e.index(uint64(e.shadowTable(b.m)))
	}
	if op == opLocalGet {
		e.slotIndex(b, local)
		table(opTableGet)
		return
	}
	e.frameLocal(b, opLocalSet, localRef)
	e.slotIndex(b, local)
	e.frameLocal(b, opLocalGet, localRef)
	table(opTableSet)
	if op == opLocalTee {
		e.frameLocal(b, opLocalGet, localRef)
	}
}

// withAccesses returns the body's edits and its accesses to locals, in order.
func (b *body) withAccesses() []edit {
	out := make([]edit, 0, len(b.edits)+len(b.accesses))
	x, y := b.edits, b.accesses
	for len(x) > 0 && len(y) > 0 {
		if x[0].at < y[0].at {
			out, x = append(out, x[0]), x[1:]
		} else {
			out, y = append(out, y[0]), y[1:]
		}
	}
	return append(append(out, x...), y...)
}

// setSlotGlobal names the global that says where the next frame's slots begin: behind gas and stack.
func (e *emitter) setSlotGlobal(i uint32) {
	e.getSlots = binary.AppendUvarint([]byte{opGlobalGet}, uint64(i))
	e.setSlots = binary.AppendUvarint([]byte{opGlobalSet}, uint64(i))
}
