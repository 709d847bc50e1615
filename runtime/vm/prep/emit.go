package prep

import (
	"encoding/binary"
	"math"

	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// emitter writes instrumented bodies.
type emitter struct {
	op, bulkBase, bulkUnit uint64 // gas of instructions, see check.Run
	limits                 parameters.Limits
	trace                  bool // write calls of the trace function at the entry and end of functions
	plain                  bool // only in tests: keep the contract's reference instructions
	room                   bool // the module can hold the additions that replace its reference instructions

	m    *check.Module
	gas  gasImport
	refs references
	cuts int      // number of trapping float-to-integer truncations so far
	once bool     // instances cannot be reset, because calls may change tables or segments
	code []byte   // the last piece of written bodies
	full [][]byte // completed pieces of written bodies, before code
	sum  int      // total number of bytes in full

	getGas, setGas, getStack, setStack []byte // instructions that access the gas and stack globals

	// State of the body being written.
	b     *check.Body
	in    code
	depth uint32 // number of open blocks
	at    places
	used  map[uint32]uint32 // new index of each local that the body uses; nil: the indices stay

	piece   int  // approximate size of a piece in bytes: mostPiece, or less in tests
	inline  int  // number of truncations that are written inline: mostTruncs, or less in tests
	most    int  // maximum number of locals of a body: mostLocals, or less in tests
	crowded bool // some body has no local to spare for its places, so the places of that body are globals
}

// places are the numbers of the locals that instrumentation adds to a body. In a body that already
// has the maximum number of locals, places are numbers of added globals.
type places struct {
	count        int // index of the local or global for the length operand of a bulk instruction
	f32, f64     int // indices for a float value that may be a NaN
	nan32, nan64 int // indices for the canonical NaN of each type
	global       bool
}

// placeTypes are the types of places, in the order in which the globals of the places follow the
// globals of gas and stack.
var placeTypes = [...]check.ValType{I32, F32, F64, F32, F64}

// mostLocals is the engine's limit on the locals of a body, including added ones.
const mostLocals = 50_000

func newEmitter(w *parameters.Wasm) *emitter {
	return &emitter{op: uint64(w.RegularOpCost), bulkBase: uint64(w.LinearOpBaseCost), bulkUnit: uint64(w.LinearOpUnitCost),
		limits: w.Limits, most: mostLocals, inline: mostTruncs, piece: mostPiece}
}

// begin prepares the emitter for the module. Everything that precedes the code section is known.
func (e *emitter) begin(m *check.Module) {
	e.m = m
	e.code = make([]byte, 0, min(3*len(m.Code)+256, e.piece+e.piece/8))
	global := func(op byte, i int) []byte { return binary.AppendUvarint([]byte{op}, uint64(len(m.Globals)+i)) }
	e.getGas, e.setGas = global(opGlobalGet, 0), global(opGlobalSet, 0)
	e.getStack, e.setStack = global(opGlobalGet, 1), global(opGlobalSet, 1)
	e.findGas()
	e.room = e.roomForReferences()
}

// Helpers that append to the output.

func (e *emitter) add(ops ...byte)   { e.code = append(e.code, ops...) }
func (e *emitter) raw(b []byte)      { e.code = append(e.code, b...) }
func (e *emitter) index(v uint64)    { e.code = binary.AppendUvarint(e.code, v) }
func (e *emitter) constant(v uint64) { e.code = appendSigned(append(e.code, opI64Const), int64(v)) }
func (e *emitter) int32(n int)       { e.code = appendSigned(append(e.code, opI32Const), int64(n)) }

// body writes a body inside a block. body takes metered stack before the block and returns that
// stack after the block.
func (e *emitter) body(m *check.Module, b *check.Body) {
	if e.m == nil {
		e.begin(m)
	}
	e.b, e.depth = b, 0
	e.in = code{b: b.Code, pos: int(b.First)}
	e.fill()
	in, at, from := len(e.full), len(e.code), e.sum+len(e.code)
	e.add(0, 0, 0, 0, 0) // space for the length of the body, set at the end
	e.declare()
	e.add(opBlock, byte(b.Type.Result))
	stack := b.Frame + b.Operands
	e.raw(e.getStack)
	e.constant(stack)
	e.add(opI64Sub)
	e.settle(e.setStack, e.getStack)
	gas, points := check.FrameGas(b.Frame, e.op), b.Points
	if len(points) > 0 && points[0].Off == b.First && !points[0].Bulk {
		e.chargeFrame(gas, gas+uint64(points[0].Count)*e.op)
		points = points[1:]
	} else if gas > 0 {
		e.charge(gas)
	}
	e.setNaNs()
	e.tell(int64(b.Index))
	for _, p := range points {
		e.fill()
		if e.copy(int(p.Off)); p.Bulk {
			e.chargeBulk()
		} else {
			e.charge(uint64(p.Count) * e.op)
		}
	}
	e.copy(len(b.Code) - 1) // all but the last end, which becomes the end of the outer block
	e.add(opEnd)
	e.tell(^int64(b.Index))
	e.raw(e.getStack)
	e.constant(stack)
	e.add(opI64Add)
	e.raw(e.setStack)
	e.add(opEnd)
	begun := e.code
	if in < len(e.full) {
		begun = e.full[in]
	}
	putLength(begun[at:], e.sum+len(e.code)-from-5)
}

// mostPiece is the approximate number of bytes of bodies in one slice. Bodies may become twenty
// times as long, so a single slice would be copied five times as it grows.
const mostPiece = 256 << 10

// fill starts another piece if the current piece is full.
func (e *emitter) fill() {
	if len(e.code) < e.piece {
		return
	}
	e.full, e.sum = append(e.full, e.code), e.sum+len(e.code)
	e.code = make([]byte, 0, e.piece+e.piece/8)
}

// declare writes the declarations of the body's own locals, and of the locals that instrumentation
// needs.
func (e *emitter) declare() {
	b := e.b
	bulks := false
	for _, p := range b.Points {
		bulks = bulks || p.Bulk
	}
	var more []byte
	list, next := e.namedLocals()
	groups := len(list)
	own := func(t check.ValType) int {
		groups++
		more = append(more, 1, byte(t))
		next++
		return next - 1
	}
	if next > e.most-len(placeTypes) {
		n := len(e.m.Globals) + 2
		e.at, e.crowded = places{n, n + 1, n + 2, n + 3, n + 4, true}, true
	} else {
		e.at = places{}
		if bulks {
			e.at.count = own(I32)
		}
		if b.Floats > 0 {
			e.at.f32, e.at.f64, e.at.nan32, e.at.nan64 = own(F32), own(F64), own(F32), own(F64)
		}
	}
	e.index(uint64(groups))
	for _, g := range list {
		e.index(uint64(g.N))
		e.add(byte(g.Type))
	}
	e.raw(more)
}

// get, set and tee write the instruction that accesses a place, which is a local or a global (see
// places). A global works too, because the body uses the global's value before any other function
// can run.
func (e *emitter) get(place int) {
	e.placed(opLocalGet, opGlobalGet, place)
}

func (e *emitter) set(place int) {
	e.placed(opLocalSet, opGlobalSet, place)
}

func (e *emitter) tee(place int) {
	if e.at.global {
		e.set(place)
		e.get(place)
		return
	}
	e.placed(opLocalTee, 0, place)
}

func (e *emitter) placed(local, global byte, place int) {
	if e.at.global {
		local = global
	}
	e.add(local)
	e.index(uint64(place))
}

// copy writes the instructions before the offset `to`, replacing the instructions that have a
// changed form.
func (e *emitter) copy(to int) {
	from := e.in.pos
	var in instr
	number := instr{end: -1} // an i32.const that is not written yet; end is -1: none
	for e.in.pos < to {
		if e.in.next(&in); e.same(&in) {
			if in.op == opI32Const {
				number = in
			}
			continue // written together with the next changed instruction
		}
		if in.op == opCall && number.end == in.at { // the call of env.gas has a constant argument
			e.raw(e.in.b[from:number.at])
			e.chargeGas(number.at)
		} else {
			e.raw(e.in.b[from:in.at])
			e.change(&in)
		}
		e.fill()
		from = in.end
	}
	e.raw(e.in.b[from:to])
}

// same returns whether an instruction is written unchanged. same also counts open blocks.
func (e *emitter) same(in *instr) bool {
	e.once = e.once || changesTable(in)
	if e.isReference(in) {
		return false
	}
	switch in.op {
	case opBlock, opLoop, opIf:
		e.depth++
		return in.end-in.at == 2 // false if the type has an encoding of several bytes
	case opEnd:
		e.depth--
	case opReturn:
		return false
	case opSelectTyped:
		return in.end-in.at == 3
	case opCall, opRefFunc:
		return !e.isGas(in.a)
	case opLocalGet, opLocalSet, opLocalTee:
		return e.used == nil
	}
	if truncs[in.op] {
		e.cuts++
		return e.cuts <= e.inline
	}
	return !floats[in.op]
}

// change writes the changed form of an instruction.
func (e *emitter) change(in *instr) {
	if e.isReference(in) {
		e.changeReference(in)
		return
	}
	switch in.op {
	case opBlock, opLoop, opIf:
		e.add(in.op, byte(in.typ))
	case opReturn: // write a branch to the outer block: the code after that block returns the metered stack
		e.add(opBr)
		e.index(uint64(e.depth))
	case opSelectTyped:
		e.add(in.op, 1, byte(in.typ))
	case opLocalGet, opLocalSet, opLocalTee:
		e.add(in.op)
		e.index(uint64(e.used[in.a]))
	case opCall:
		e.callGas()
	case opRefFunc:
		e.add(opRefFunc)
		e.index(uint64(e.gasFunc()))
	default:
		if truncs[in.op] {
			e.add(opCall)
			e.index(e.helperFunc(helper{op: in.op}))
			return
		}
		e.add(in.op)
		if !e.unseen() {
			e.canonical(in.op)
		}
	}
}

// tell writes a call of the trace function with the given argument, if the module is traced. The
// engine puts that function into TableTrace.
func (e *emitter) tell(what int64) {
	if !e.trace {
		return
	}
	e.code = appendSigned(append(e.code, opI32Const), what)
	e.add(opI32Const, 0, opCallIndirect)
	e.index(uint64(len(e.m.Types)))
	e.index(uint64(len(e.m.Tables)))
}

// putLength writes n into the five bytes that were reserved for a length.
func putLength(b []byte, n int) {
	if n > math.MaxInt32 {
		panic("prep: a function body exceeds 2 GiB")
	}
	for i := range 4 {
		b[i] = byte(n>>(7*i)) | 0x80
	}
	b[4] = byte(n >> 28)
}
