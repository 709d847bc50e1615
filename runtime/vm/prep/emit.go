package prep

import (
	"encoding/binary"
	"math"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/config"
)

// emitter writes instrumented bodies, counts their size in nearcore's form, and holds the limits that nearcore checks
// there.
type emitter struct {
	op, bulkBase, bulkUnit uint64 // gas
	limits                 config.Limits
	paramsLeft, blocksLeft uint64

	code         []byte // the bodies written
	full         bool   // the module is too large: nothing is written any more
	compileFails bool
	trace        bool // functions tell that they are entered and left
	bulkLocal    int  // of the body that is written: the first of the two for counts and charges

	getGas, setGas, getStack, setStack []byte // once the globals are known
	teeLeft, getLeft                   []byte // the local of the body being written that settle looks at

	// Locals in memory: see shadow.go.
	credits            uint64 // of work that compiling locals as values may still take
	shadow, references bool   // the memory is used, the table is
	getSlots, setSlots []byte
}

func newEmitter(w *config.Wasm) *emitter {
	e := &emitter{op: uint64(w.RegularOpCost), bulkBase: uint64(w.LinearOpBaseCost), bulkUnit: uint64(w.LinearOpUnitCost),
		limits: w.Limits, credits: shadowCredits, paramsLeft: w.Limits.MaxParamsPerContract, blocksLeft: w.Limits.MaxBlocksPerContract}
	// Charges are written without a check of their own, so none may reach the sign.
	if e.op >= 1<<30 || e.bulkUnit == 0 || e.bulkUnit >= 1<<30 || e.bulkBase >= 1<<62 {
		panic("prep: costs of instructions that the instrumentation is not made for")
	}
	return e
}

// body checks the limits of one body, counts it, and writes it.
func (e *emitter) body(b *body) *Error {
	broken := func(kind primitives.PrepareError, why string) *Error { return &Error{Kind: kind, Reason: why} }
	params := uint64(len(b.typ.params))
	switch {
	case params > e.limits.MaxParamsPerFunction:
		return broken(primitives.PrepareTooManyParamsPerFunction, "too many parameters of a function")
	case params > e.paramsLeft:
		return broken(primitives.PrepareTooManyParamsPerContract, "too many parameters")
	case b.a.maxHeight > e.limits.MaxOperandStackBytesPerFunction:
		return broken(primitives.PrepareOperandStackTooLarge, "operand stack too large")
	case b.blocks > e.limits.MaxBlocksPerFunction:
		return broken(primitives.PrepareTooManyBlocksPerFunction, "too many blocks in a function")
	case b.blocks > e.blocksLeft:
		return broken(primitives.PrepareTooManyBlocksPerContract, "too many blocks")
	}
	e.paramsLeft -= params
	e.blocksLeft -= b.blocks
	if b.locals+2 > maxLocals {
		e.compileFails = true
	}
	if e.getGas == nil {
		e.setGlobals(uint32(len(b.m.globals)))
	}
	frame := b.frameSize()
	stack := b.a.maxHeight + frame
	points := b.a.join()
	b.m.size.code += nameLen(e.size(b, points, frame, stack))
	if e.full = e.full || uint64(b.m.size.code) > e.limits.MaxInstrumentedCodeSize || e.compileFails; e.full {
		e.code = nil
		return nil
	}
	e.write(b, points, frame, stack)
	return nil
}

// frameSize is what a call of the function takes off the stack besides its operands, in bytes.
func (b *body) frameSize() uint64 {
	n := uint64(64)
	for _, t := range b.typ.params {
		n += uint64(t.size())
	}
	for _, g := range b.groups {
		n += uint64(g.n) * uint64(g.typ.size())
	}
	return n
}

// frameGas is what a call of the function costs besides its instructions.
func (e *emitter) frameGas(frame uint64) uint64 { return (frame + 7) / 8 * e.op }

// size counts the body in nearcore's form, without the length before it.
func (e *emitter) size(b *body, points []point, frame, stack uint64) int {
	globals := len(b.m.globals)
	n := lebLen(uint64(len(b.groups))+2) + 4 // with two groups of one local
	for _, g := range b.groups {
		n += lebLen(uint64(g.n)) + 1
	}
	n += 2 + stackSize(stack, globals) // a block around it all
	if gas := e.frameGas(frame); gas > 0 {
		n += gasSize(gas, globals)
	}
	for _, p := range points {
		switch {
		case p.kind == bulk:
			n += bulkSize(e.bulkBase, e.bulkUnit, b.locals, globals)
		case e.charged(p):
			n += gasSize(uint64(p.count)*e.op, globals)
		}
	}
	return n + len(b.r.buf) - int(b.first) + b.grown + (b.returns+1)*stackSize(stack, globals) + 1
}

// charged tells whether gas is charged at the point.
func (e *emitter) charged(p point) bool { return p.kind != dead && p.count > 0 && e.op > 0 }

func (e *emitter) setGlobals(own uint32) {
	global := func(op byte, i uint32) []byte { return binary.AppendUvarint([]byte{op}, uint64(i)) }
	e.getGas, e.setGas = global(opGlobalGet, own), global(opGlobalSet, own)
	e.getStack, e.setStack = global(opGlobalGet, own+1), global(opGlobalSet, own+1)
	e.setSlotGlobal(own + 2)
}

// The pieces of what is written.

func (e *emitter) add(ops ...byte)   { e.code = append(e.code, ops...) }
func (e *emitter) raw(b []byte)      { e.code = append(e.code, b...) }
func (e *emitter) index(v uint64)    { e.code = binary.AppendUvarint(e.code, v) }
func (e *emitter) local(op, i int)   { e.add(byte(op)); e.index(uint64(i)) }
func (e *emitter) constant(v uint64) { e.code = appendSigned(append(e.code, opI64Const), int64(v)) }
func (e *emitter) addTo(get, set []byte, op byte, v uint64) {
	e.raw(get)
	e.constant(v)
	e.add(op)
	e.raw(set)
}

// appendSigned appends the shortest signed LEB128.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v) & 0x7f
		if v >>= 7; v == 0 && c < 0x40 || v == -1 && c >= 0x40 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// write writes the body: a block around it takes stack at first and gives it back at the end.
func (e *emitter) write(b *body, points []point, frame, stack uint64) {
	at := len(e.code)
	e.add(0, 0, 0, 0, 0) // its length, when it is known
	shadowed, edits := e.shadowed(b), b.edits
	e.bulkLocal = b.locals
	if shadowed {
		edits, e.bulkLocal = b.withAccesses(), len(b.typ.params)+localCharge
		e.shadowLocals()
	} else {
		e.realLocals(b)
	}
	e.useLocal()
	e.add(opBlock, byte(b.typ.result))
	e.raw(e.getStack)
	e.constant(stack)
	e.add(opI64Sub)
	e.settle(e.setStack)
	gas := e.frameGas(frame)
	if len(points) > 0 && points[0].off == b.first && points[0].kind != bulk && e.charged(points[0]) {
		e.chargeFrame(gas, gas+uint64(points[0].count)*e.op)
		points = points[1:]
	} else if gas > 0 {
		e.charge(gas)
	}
	if shadowed {
		e.enter(b)
	}
	index := int64(len(b.m.funcs) - b.m.defined + b.m.bodies)
	e.tell(b.m, index)

	end := uint32(len(b.r.buf)) - 1 // of the last instruction
	from := b.first
	for _, p := range points {
		if p.kind != bulk && !e.charged(p) {
			continue
		}
		edits = e.copy(b, from, p.off, edits)
		from = p.off
		if p.kind == bulk {
			e.chargeBulk(e.bulkLocal)
		} else {
			e.charge(uint64(p.count) * e.op)
		}
	}
	e.copy(b, from, end, edits)
	e.add(opEnd)
	e.tell(b.m, ^index)
	if shadowed {
		e.leave(b)
	}
	e.addTo(e.getStack, e.setStack, opI64Add, stack)
	e.add(opEnd)
	putLength(e.code[at:], len(e.code)-at-5)
}

// realLocals declares the body's own locals, one for charges, and one for the count of bulk instructions.
func (e *emitter) realLocals(b *body) {
	groups := len(b.groups) + 1
	if b.bulks {
		groups++
	}
	e.index(uint64(groups))
	for _, g := range b.groups {
		e.index(uint64(g.n))
		e.add(byte(g.typ))
	}
	e.add(1, byte(I64))
	if b.bulks {
		e.add(1, byte(I32))
	}
}

// copy copies instructions of the body, edited; it returns the edits that are left.
func (e *emitter) copy(b *body, from, to uint32, edits []edit) []edit {
	for len(edits) > 0 && edits[0].at < to {
		d := edits[0]
		e.raw(b.r.buf[from:d.at])
		switch d.op {
		case opLocalGet, opLocalSet, opLocalTee:
			e.access(b, d.op, d.depth)
		case opCall:
			e.callGas()
		case opBr, opRefFunc:
			e.add(d.op)
			e.index(uint64(d.depth))
		default:
			e.add(d.op)
		}
		from = d.end
		edits = edits[1:]
	}
	e.raw(b.r.buf[from:to])
	return edits
}

// tell calls what the engine has put into the table of a traced module.
func (e *emitter) tell(m *module, what int64) {
	if !e.trace {
		return
	}
	e.code = appendSigned(append(e.code, opI32Const), what)
	e.add(opI32Const, 0, opCallIndirect)
	e.index(uint64(len(m.types)))
	e.index(uint64(len(m.tables)))
}

// charge takes gas, and traps if that leaves it negative. It is most of what is written, so it appends to one slice.
func (e *emitter) charge(gas uint64) {
	b := append(e.code, e.getGas...)
	e.code = appendSigned(append(b, opI64Const), int64(gas))
	e.add(opI64Sub)
	e.settle(e.setGas)
}

// useLocal says that settle looks at local bulkLocal.
func (e *emitter) useLocal() {
	e.teeLeft = binary.AppendUvarint([]byte{opLocalTee}, uint64(e.bulkLocal))
	e.getLeft = binary.AppendUvarint([]byte{opLocalGet}, uint64(e.bulkLocal))
}

// settle stores what is on the stack as the gas or stack that is left, and traps if it is negative: by a load of byte 0 of the
// memory, or of byte 2^32-1, which no memory of a contract has. A branch to an unreachable would say the same, but it gives
// the compiler two blocks more at each of the many points, and each block costs it something for every value that lives.
func (e *emitter) settle(set []byte) {
	b := append(append(append(e.code, e.teeLeft...), set...), e.getLeft...)
	e.code = append(b, opI64Const, 63, opI64ShrS, opI32Wrap, opI32Load8, 0, 0, opDrop)
}

// chargeFrame takes both charges at the entry of a function together. If that fails, what is left negative is that after
// the first if the first fails.
func (e *emitter) chargeFrame(first, both uint64) {
	e.raw(e.getGas)
	e.constant(first)
	e.constant(both)
	e.raw(e.getGas)
	e.constant(first)
	e.add(opI64LtU, opSelect, opI64Sub)
	e.settle(e.setGas)
}

// chargeBulk takes gas for as many bytes, elements or pages as the value on the stack says, which stays there. A count
// has 32 bits, so the charge does not overflow.
func (e *emitter) chargeBulk(local int) {
	e.local(opLocalTee, local+1)
	e.add(opI64Extend)
	e.constant(e.bulkUnit)
	e.add(opI64Mul)
	e.constant(e.bulkBase)
	e.add(opI64Add)
	e.local(opLocalSet, local)
	e.chargeLocal(local)
	e.settle(e.setGas)
	e.local(opLocalGet, local+1)
}

func (e *emitter) chargeLocal(local int) {
	e.raw(e.getGas)
	e.local(opLocalGet, local)
	e.add(opI64Sub)
}

// putLength writes a length into the five bytes kept for it.
func putLength(b []byte, n int) {
	if n > math.MaxInt32 {
		panic("prep: a body over 2 GiB")
	}
	for i := range 4 {
		b[i] = byte(n>>(7*i)) | 0x80
	}
	b[4] = byte(n >> 28)
}
