package prep

import (
	"encoding/binary"
	"math"

	"github.com/troupe-chain/troupe/runtime/config"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// emitter writes instrumented bodies.
type emitter struct {
	op, bulkBase, bulkUnit uint64 // gas
	limits                 config.Limits
	trace                  bool // functions tell that they are entered and left
	always                 bool // every body has its locals in memory, and all operands over joints
	compact                bool // frames are to be small: see compact.go
	large                  bool // but for that, some frame will be too large
	plain                  bool // references are the engine's own; for tests
	room                   bool // they are not

	m    *check.Module
	gas  gasImport
	refs references
	code []byte // the bodies written

	metered []uint64 // of each of them

	getGas, setGas, getStack, setStack, getSlots, setSlots []byte // of the globals
	teeLeft, getLeft                                       []byte // of the local that settle looks at

	// Of the body being written.
	b     *check.Body
	in    code
	depth uint32    // blocks that are open
	frame uint64    // bytes that it takes surely, nearly
	mem   *operands // its locals and operands are in memory; nil: they are not
	at    places

	flow, lived        uint64 // that the compiler may still be given: see memory.go
	memory, references bool   // the memory for locals is used, the table is
}

// places are the numbers of the locals that the body has beside its own.
type places struct {
	left, count    int // i64: what settle looks at; i32: the count of a bulk instruction
	f32, f64       int // a float that may be no number
	nan32, nan64   int // the canonical ones
	i32, i64, refs int // on the way to a slot; floats wait where they are made canonical
}

func newEmitter(w *config.Wasm) *emitter {
	return &emitter{op: uint64(w.RegularOpCost), bulkBase: uint64(w.LinearOpBaseCost), bulkUnit: uint64(w.LinearOpUnitCost),
		limits: w.Limits, flow: flowAtFirst, lived: livedAtFirst}
}

// begin looks at the module, which is known but for what follows the code.
func (e *emitter) begin(m *check.Module) {
	e.m = m
	e.code = make([]byte, 0, min(3*len(m.Code), 1<<20))
	global := func(op byte, i int) []byte { return binary.AppendUvarint([]byte{op}, uint64(len(m.Globals)+i)) }
	e.getGas, e.setGas = global(opGlobalGet, 0), global(opGlobalSet, 0)
	e.getStack, e.setStack = global(opGlobalGet, 1), global(opGlobalSet, 1)
	e.getSlots, e.setSlots = global(opGlobalGet, 2), global(opGlobalSet, 2)
	e.findGas()
	e.room = e.roomForReferences()
}

// The pieces of what is written.

func (e *emitter) add(ops ...byte)   { e.code = append(e.code, ops...) }
func (e *emitter) raw(b []byte)      { e.code = append(e.code, b...) }
func (e *emitter) index(v uint64)    { e.code = binary.AppendUvarint(e.code, v) }
func (e *emitter) local(op, i int)   { e.add(byte(op)); e.index(uint64(i)) }
func (e *emitter) constant(v uint64) { e.code = appendSigned(append(e.code, opI64Const), int64(v)) }
func (e *emitter) int32(n int)       { e.code = appendSigned(append(e.code, opI32Const), int64(n)) }

// body writes the body: a block around it takes stack at first and gives it back at the end.
func (e *emitter) body(m *check.Module, b *check.Body) {
	if e.m == nil {
		e.begin(m)
	}
	e.b, e.depth, e.mem, e.frame = b, 0, nil, 0
	e.in = code{b: b.Code, pos: int(b.First)}
	at := len(e.code)
	e.add(0, 0, 0, 0, 0) // its length, when it is known
	if e.inMemory(b) {
		e.mem = &operands{e: e, result: b.Type.Result}
		e.mem.open(none)
	}
	e.declare()
	e.add(opBlock, byte(e.blockType(b.Type.Result)))
	stack := b.Frame + b.Operands
	e.metered = append(e.metered, stack)
	e.raw(e.getStack)
	e.constant(stack)
	e.add(opI64Sub)
	e.settle(e.setStack)
	gas, points := check.FrameGas(b.Frame, e.op), b.Points
	if len(points) > 0 && points[0].Off == b.First && !points[0].Bulk {
		e.chargeFrame(gas, gas+uint64(points[0].Count)*e.op)
		points = points[1:]
	} else if gas > 0 {
		e.charge(gas)
	}
	if e.mem != nil {
		e.enter()
	}
	e.setNaNs()
	e.tell(int64(b.Index))
	for _, p := range points {
		e.copy(int(p.Off))
		switch {
		case p.Bulk && e.compact:
			e.mem.keepAll()
			e.load(I32, e.mem.slot(len(e.mem.stack)-1))
			e.chargeBulk()
			e.add(opDrop)
		case p.Bulk:
			if e.mem != nil {
				e.mem.ready()
			}
			e.chargeBulk()
		default:
			if e.compact {
				e.mem.keepAll()
			}
			e.charge(uint64(p.Count) * e.op)
		}
	}
	e.copy(len(b.Code) - 1) // the last end is that of the block around it all
	if e.mem != nil {
		e.mem.finish()
	}
	e.add(opEnd)
	if e.compact && b.Type.Result != none {
		e.load(b.Type.Result, e.resultSlot())
	}
	e.tell(^int64(b.Index))
	if e.mem != nil {
		e.leave()
	}
	e.large = e.large || e.frame > stack*tooLarge
	e.raw(e.getStack)
	e.constant(stack)
	e.add(opI64Add)
	e.raw(e.setStack)
	e.add(opEnd)
	putLength(e.code[at:], len(e.code)-at-5)
}

// declare declares the body's own locals, but where they are in memory, and those that the code around it needs.
func (e *emitter) declare() {
	b := e.b
	bulks := false
	for _, p := range b.Points {
		bulks = bulks || p.Bulk
	}
	groups, next := 0, len(b.Type.Params)
	var more []byte
	own := func(t check.ValType) int {
		groups++
		more = append(more, 1, byte(t))
		next++
		return next - 1
	}
	if e.mem == nil {
		groups, next = len(b.Groups), b.Locals
	}
	e.at = places{left: own(I64)}
	if bulks {
		e.at.count = own(I32)
	}
	if b.Floats > 0 || e.mem != nil {
		e.at.f32, e.at.f64 = own(F32), own(F64)
	}
	if b.Floats > 0 {
		e.at.nan32, e.at.nan64 = own(F32), own(F64)
	}
	if e.mem != nil {
		e.at.i32, e.at.i64, e.at.refs = own(I32), own(I64), own(FuncRef)
	}
	e.index(uint64(groups))
	if e.mem == nil {
		for _, g := range b.Groups {
			e.index(uint64(g.N))
			e.add(byte(g.Type))
		}
	}
	e.raw(more)
	e.useLocal(e.at.left)
}

// mostOwn is how many locals declare adds at the most.
const mostOwn = 10

// copy copies the instructions before offset to, changed where they must be.
func (e *emitter) copy(to int) {
	from := e.in.pos
	var in instr
	for e.in.pos < to {
		e.in.next(&in)
		same := e.same(&in)
		if e.mem == nil && same {
			continue // goes with what comes before the next change
		}
		e.raw(e.in.b[from:in.at])
		from = in.end
		if e.mem != nil && !e.mem.before(&in) {
			continue
		}
		if same {
			e.raw(e.in.b[in.at:in.end])
		} else {
			e.change(&in)
		}
	}
	e.raw(e.in.b[from:to])
}

// same tells whether an instruction is written as it stands, and counts the blocks.
func (e *emitter) same(in *instr) bool {
	e.frame += frameOf(in)
	if e.isReference(in) {
		return false
	}
	switch in.op {
	case opBlock, opLoop, opIf:
		e.depth++
		return in.end-in.at == 2 && e.blockType(in.typ) == in.typ // but for the long spelling of a type
	case opEnd:
		e.depth--
	case opReturn:
		return false
	case opSelectTyped:
		return in.end-in.at == 3
	case opCall, opRefFunc:
		return !e.isGas(in.a)
	case opLocalGet, opLocalSet, opLocalTee:
		return e.mem == nil
	}
	return !floats[in.op]
}

// change writes an instruction in its other form.
func (e *emitter) change(in *instr) {
	if e.isReference(in) {
		e.changeReference(in)
		return
	}
	switch in.op {
	case opBlock, opLoop, opIf:
		e.add(in.op, byte(e.blockType(in.typ)))
	case opReturn: // to the block around the body, which gives the stack back
		e.add(opBr)
		e.index(uint64(e.depth))
	case opSelectTyped:
		e.add(in.op, 1, byte(in.typ))
	case opCall:
		e.callGas()
	case opRefFunc:
		e.add(opRefFunc)
		e.index(uint64(e.gasFunc()))
	case opLocalGet, opLocalSet, opLocalTee:
		e.access(in.op, in.a)
	default:
		e.add(in.op)
		if !e.unseen() {
			e.canonical(in.op)
		}
	}
}

// blockType is what a block of a type is written as.
func (e *emitter) blockType(t check.ValType) check.ValType {
	if e.compact {
		return none
	}
	return t
}

// tell calls what the engine has put into the table of a traced module.
func (e *emitter) tell(what int64) {
	if !e.trace {
		return
	}
	e.code = appendSigned(append(e.code, opI32Const), what)
	e.add(opI32Const, 0, opCallIndirect)
	e.index(uint64(len(e.m.Types)))
	e.index(uint64(len(e.m.Tables)))
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
