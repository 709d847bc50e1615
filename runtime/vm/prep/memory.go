package prep

import (
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// Locals and operands in memory. A compiler gives every local that crosses the joints of a function's control flow a value of its
// own at each of them, and looks at every operand that lives over one: its work is the product, and its machine code is too
// where locals change. 6 KB of code gave 5 MB, 300 KB kept it busy for 44 s. nearcore's compiler keeps both on the stack, so
// such code is good code there. Where a product is large, they are written as what they are there: slots of a stack in a
// memory of the module's own, that no instruction of the contract can name. References go to a table. Gas, traps and results
// are the same; such a function runs at half its speed and compiles in a time linear in its size.
//
// The slots are a stack that grows downwards; a global says where the frame at work begins, and not a local, which would live
// over all joints itself.
//
// The metered stack takes at least 4 bytes for a local or an operand, so it ends before the slots do.
const (
	slotBytes    = 8
	leastMetered = 4 // bytes of the metered stack that a local or operand takes
	wasmPage     = 64 << 10
	shadowMemory = 1 // index; 0 is the contract's

	// What the compiler may be given, in joints times locals and joints times operands: so much for a module, and so much for
	// each byte of its bodies. Contracts as compilers write them have 0.3 to 0.9 and 0.01 a byte.
	flowAtFirst, flowOfByte   = 20_000, 1
	livedAtFirst, livedOfByte = 50_000, 4
	// mostLocals is how many locals a body may have beside those that are added.
	mostLocals = 50_000 - mostOwn
)

// inMemory tells whether the body's locals and operands go to memory, and takes what it costs if not.
func (e *emitter) inMemory(b *check.Body) bool {
	e.flow += flowOfByte * uint64(len(b.Code))
	e.lived += livedOfByte * uint64(len(b.Code))
	flow := b.Joints * min(uint64(b.Locals), b.Accesses)
	if flow > e.flow || b.Lived > e.lived || b.Locals > mostLocals || e.always {
		return true
	}
	e.flow -= flow
	e.lived -= b.Lived
	return false
}

// enter takes the frame's slots, makes those of locals zero, and puts the parameters where they are looked for. Metering has made
// sure that the slots are there.
func (e *emitter) enter() {
	b := e.b
	e.memory = true
	e.raw(e.getSlots)
	e.int32(e.frameBytes())
	e.add(opI32Sub)
	e.raw(e.setSlots)
	e.raw(e.getSlots)
	e.int32(0)
	e.int32(b.Locals * slotBytes)
	e.add(opPrefix, opMemoryFill, shadowMemory)
	for _, g := range b.Groups {
		if g.Type != FuncRef {
			continue
		}
		e.slotIndex(g.End - g.N)
		e.add(opRefNull, byte(FuncRef))
		e.int32(int(g.N))
		e.add(opPrefix, opTableFill)
		e.index(uint64(e.shadowTable()))
	}
	for i, t := range b.Type.Params {
		e.local(opLocalGet, i)
		e.store(t, uint32(i))
	}
}

// leave gives the slots back.
func (e *emitter) leave() {
	e.raw(e.getSlots)
	e.int32(e.frameBytes())
	e.add(opI32Add)
	e.raw(e.setSlots)
}

func (e *emitter) frameBytes() int {
	n := e.b.Locals + int(e.b.Operands)/leastMetered
	if e.compact {
		n++ // for results; what is metered of any function has room for it
	}
	return n * slotBytes
}

// shadowTable is the index of the table of references, behind the contract's and the trace's.
func (e *emitter) shadowTable() int {
	e.references = true
	if e.trace {
		return len(e.m.Tables) + 1
	}
	return len(e.m.Tables)
}

// slotIndex is the number of a slot among all.
func (e *emitter) slotIndex(slot uint32) {
	e.raw(e.getSlots)
	e.int32(3)
	e.add(opI32ShrU)
	e.int32(int(slot))
	e.add(opI32Add)
}

// slotOf are the instructions that load and store a type, and their alignment.
func slotOf(t check.ValType) (load, store, align byte) {
	switch t {
	case I32:
		return 0x28, 0x36, 2
	case I64:
		return 0x29, 0x37, 3
	case F32:
		return 0x2a, 0x38, 2
	}
	return 0x2b, 0x39, 3
}

// wait is the local in which a value of the type waits.
func (e *emitter) wait(t check.ValType) int {
	switch t {
	case I32:
		return e.at.i32
	case I64:
		return e.at.i64
	case F32:
		return e.at.f32
	case F64:
		return e.at.f64
	}
	return e.at.refs
}

// load pushes what a slot holds.
func (e *emitter) load(t check.ValType, slot uint32) {
	if t == FuncRef {
		e.slotIndex(slot)
		e.add(opTableGet)
		e.index(uint64(e.shadowTable()))
		return
	}
	op, _, align := slotOf(t)
	e.raw(e.getSlots)
	e.add(op, align|0x40, shadowMemory)
	e.index(uint64(slot) * slotBytes)
}

// store pops a value into a slot; it waits in the local of its type afterwards too.
func (e *emitter) store(t check.ValType, slot uint32) {
	e.local(opLocalSet, e.wait(t))
	if t == FuncRef {
		e.slotIndex(slot)
		e.local(opLocalGet, e.wait(t))
		e.add(opTableSet)
		e.index(uint64(e.shadowTable()))
		return
	}
	_, op, align := slotOf(t)
	e.raw(e.getSlots)
	e.local(opLocalGet, e.wait(t))
	e.add(op, align|0x40, shadowMemory)
	e.index(uint64(slot) * slotBytes)
}

// access writes a local instruction.
func (e *emitter) access(op byte, local uint32) {
	t := e.b.Local(local)
	if op == opLocalGet {
		e.load(t, local)
		return
	}
	e.store(t, local)
	if op == opLocalTee {
		e.local(opLocalGet, e.wait(t))
	}
}
