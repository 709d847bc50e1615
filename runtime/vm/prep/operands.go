package prep

import "github.com/troupe-chain/troupe/runtime/vm/prep/check"

// operands keeps operands of a body in memory while the flow of control joins or parts over them. It follows the types of the
// stack; where more than a few operands live over a joint, all of the open block go to their slots, and come back when an
// instruction wants them. A slot is behind those of the locals, by the operand's height. Those in slots lie below those that
// are on the engine's stack.
type operands struct {
	e      *emitter
	result check.ValType // of the body
	stack  []operand
	frames []frame
	loose  int // operands that are not in their slots
}

type operand struct {
	typ  check.ValType
	kept bool // in its slot, and not on the engine's stack
}

// frame is a block that is open.
type frame struct {
	height int // of the operands where it began
	typ    check.ValType
	op     byte
	born   bool // dead before it began
	dead   bool // the rest of it cannot be reached
}

// mostLoose is how many operands may live over a joint as the engine's own.
const mostLoose = 8

func (o *operands) top() *frame { return &o.frames[len(o.frames)-1] }

func (o *operands) slot(i int) uint32 { return uint32(o.e.b.Locals + i) }

// open begins the body, whose block has no type here: finish sees to the result.
func (o *operands) open(t check.ValType) { o.frames = append(o.frames, frame{op: opBlock, typ: t}) }

// finish makes the result ready at the body's end.
func (o *operands) finish() {
	if !o.top().dead {
		o.need(values(o.result))
		o.keepResult(o.result, 0)
	}
}

// ready makes the operands of the next instruction ready.
func (o *operands) ready() {
	ahead := o.e.in
	var in instr
	ahead.next(&in)
	pops, _, _ := o.effect(&in)
	o.need(pops)
}

// values is the number of values of a block's type.
func values(t check.ValType) int {
	if t == none {
		return 0
	}
	return 1
}

// before makes the operands of an instruction ready and follows what it does. Not true: it is not to be written.
func (o *operands) before(in *instr) bool {
	f := o.top()
	if o.e.compact && f.dead && !o.ends(in) {
		return false // what is dead is not written: it knows nothing of where results are
	}
	switch in.op {
	case opBlock, opLoop, opIf:
		o.block(in)
		return true
	case opElse:
		if !f.dead {
			o.need(values(f.typ))
			o.keepResult(f.typ, 0)
		}
		o.truncate(f.height)
		f.op, f.dead = opElse, f.born
		return true
	case opEnd:
		if !f.dead {
			o.need(values(f.typ))
			o.keepResult(f.typ, 0)
		}
		o.truncate(f.height)
		t, dead := f.typ, f.born
		o.frames = o.frames[:len(o.frames)-1]
		if t == none || dead {
			return true
		}
		if o.e.compact {
			o.e.add(opEnd)
			o.takeResult(t)
			return false
		}
		o.push(t)
		return true
	}
	if f.dead {
		return true
	}
	if o.e.compact && o.outline(in) {
		return false
	}
	switch in.op {
	case opDrop:
		last := len(o.stack) - 1
		written := !o.stack[last].kept
		o.truncate(last)
		return written
	case opUnreachable, opReturn, opBr, opBrIf, opBrTable:
		o.branch(in)
		return true
	}
	pops, push, joint := o.effect(in)
	switch {
	case o.e.compact && pops == 0:
		o.keepAll()
	case joint:
		o.settle(pops)
	}
	o.need(pops)
	o.truncate(len(o.stack) - pops)
	if push != none {
		o.push(push)
	}
	return true
}

// ends follows the blocks of dead code. It tells whether an instruction is the end, or the middle, of a block that was there before.
func (o *operands) ends(in *instr) bool {
	switch in.op {
	case opBlock, opLoop, opIf:
		o.block(in)
	case opElse:
		return !o.top().born
	case opEnd:
		if !o.top().born {
			return true
		}
		o.frames = o.frames[:len(o.frames)-1]
	}
	return false
}

func (o *operands) block(in *instr) {
	dead := o.top().dead
	if !dead {
		condition := 0
		if in.op == opIf {
			condition = 1
		}
		o.settle(condition)
		o.need(condition)
		o.truncate(len(o.stack) - condition)
	}
	o.frames = append(o.frames, frame{height: len(o.stack), typ: in.typ, op: in.op, born: dead, dead: dead})
}

func (o *operands) branch(in *instr) {
	t := none
	switch in.op {
	case opReturn:
		t = o.result
	case opBr, opBrIf, opBrTable:
		f := &o.frames[max(0, len(o.frames)-1-int(in.a))]
		switch {
		case int(in.a) >= len(o.frames)-1:
			t = o.result
		case f.op != opLoop:
			t = f.typ
		}
	}
	carried := values(t)
	if o.e.compact && carried > 0 {
		above := 0
		if in.op == opBrIf || in.op == opBrTable {
			above = 1
		}
		o.keepResult(t, above)
		if o.truncate(len(o.stack) - above); in.op != opBrIf {
			o.stop()
		}
		return
	}
	switch in.op {
	case opBrIf:
		o.settle(carried + 1)
		o.need(carried + 1)
		o.truncate(len(o.stack) - 1)
		return
	case opBrTable:
		carried++
	}
	o.need(carried)
	o.stop()
}

// stop makes the rest of the block dead.
func (o *operands) stop() {
	f := o.top()
	o.truncate(f.height)
	f.dead = true
}

// settle puts operands into their slots if too many but for the last keep ones live over what follows.
func (o *operands) settle(keep int) {
	most := mostLoose
	if o.e.always {
		most = 0
	}
	if o.loose-keep > most {
		o.keep(len(o.stack))
	}
}

// keep puts the operands of the open block that lie below n into their slots: all that are on the engine's stack.
func (o *operands) keep(n int) {
	for i := n - 1; i >= o.top().height && !o.stack[i].kept; i-- {
		o.e.store(o.stack[i].typ, o.slot(i))
		o.stack[i].kept = true
		o.loose--
	}
}

// keepAll keeps all that there are.
func (o *operands) keepAll() { o.keep(len(o.stack)) }

// need puts the last n operands onto the engine's stack.
func (o *operands) need(n int) {
	from := len(o.stack) - n
	if n == 0 || !o.stack[from].kept {
		return // those above it are not in slots either
	}
	last := len(o.stack) - 1
	if n > 1 && !o.stack[last].kept && o.stack[last-1].kept { // the most frequent: it waits in a local
		t := o.stack[last].typ
		o.e.local(opLocalSet, o.e.wait(t))
		defer func() { o.e.local(opLocalGet, o.e.wait(t)) }()
		last--
	} else {
		o.keepAll()
	}
	for i := from; i <= last; i++ {
		o.e.load(o.stack[i].typ, o.slot(i))
		o.stack[i].kept = false
		o.loose++
	}
}

func (o *operands) push(t check.ValType) {
	o.stack = append(o.stack, operand{typ: t})
	o.loose++
}

func (o *operands) truncate(n int) {
	for _, x := range o.stack[n:] {
		if !x.kept {
			o.loose--
		}
	}
	o.stack = o.stack[:n]
}

// effect is how many operands an instruction takes and what it gives; joint: the engine makes blocks of it.
func (o *operands) effect(in *instr) (pops int, push check.ValType, joint bool) {
	switch op := in.op; {
	case op >= opFirstNumeric && op <= opLastNumeric:
		_, out, two, _ := check.Numeric(op)
		if two {
			return 2, out, false
		}
		return 1, out, false
	case op >= opFirstAccess && op <= opLastAccess:
		t, store := check.Access(op)
		if store {
			return 2, none, false
		}
		return 1, t, false
	}
	m := o.e.m
	switch in.op {
	case opSelect:
		return 3, o.stack[len(o.stack)-2].typ, false
	case opSelectTyped:
		return 3, in.typ, false
	case opLocalGet:
		return 0, o.e.b.Local(in.a), false
	case opLocalSet, opGlobalSet:
		return 1, none, false
	case opLocalTee:
		return 1, o.e.b.Local(in.a), false
	case opGlobalGet:
		return 0, m.Globals[in.a].Type, false
	case opTableGet: // makes references when they are first asked for
		return 1, FuncRef, true
	case opTableSet:
		return 2, none, false
	case opMemorySize, opI32Const:
		return 0, I32, false
	case opMemoryGrow, opRefIsNull:
		return 1, I32, false
	case opI64Const:
		return 0, I64, false
	case opF32Const:
		return 0, F32, false
	case opF64Const:
		return 0, F64, false
	case opRefNull:
		return 0, FuncRef, false
	case opRefFunc:
		return 0, FuncRef, true
	case opCall:
		t := m.Types[m.Funcs[in.a]]
		return len(t.Params), t.Result, false
	case opCallIndirect:
		t := m.Types[in.a]
		return len(t.Params) + 1, t.Result, true
	case opPrefix:
		switch in.a {
		case opMemoryInit, opMemoryCopy, opMemoryFill, opTableInit, opTableCopy, opTableFill:
			return 3, none, false
		case opTableGrow:
			return 2, I32, false
		case opTableSize:
			return 0, I32, false
		case opDataDrop, opElemDrop:
			return 0, none, true
		}
		return 1, check.TruncSat(in.a), false
	}
	return 0, none, false // nop
}
