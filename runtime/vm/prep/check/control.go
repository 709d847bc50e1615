package check

// control reads control instructions and nop.
func (b *body) control(off uint32, op byte) {
	switch op {
	case opUnreachable:
		if b.metered {
			b.a.before(off, pre, 1, b.top().nowhere)
			b.a.then(dead, 0)
		}
		b.stop()
	case opNop:
		b.charge(off)
	case opBlock, opLoop, opIf:
		b.block(off, op)
	case opElse:
		b.orElse(off)
	case opEnd:
		b.end(off)
	case opBr, opBrIf:
		b.branch(off, op)
	case opBrTable:
		b.table(off)
	case opReturn:
		b.returnHere(off)
	case opCall:
		b.call(off)
	case opCallIndirect:
		b.callIndirect(off)
	default:
		b.r.fail("illegal instruction")
	}
}

func (b *body) block(off uint32, op byte) {
	t := b.blockType()
	b.blocks++
	if op == opIf {
		b.pop(I32)
	}
	if b.r.bad != "" {
		return
	}
	if !b.metered {
		b.open(op, t)
		return
	}
	switch op {
	case opBlock:
		b.a.before(off, pure, 0, b.top().nowhere)
		b.open(op, t)
	case opLoop:
		// The charge of a loop comes after the instruction, because each iteration pays for it.
		at := uint32(len(b.a.points))
		k := pure
		if b.top().nowhere {
			k = dead
		}
		b.a.points = append(b.a.points, point{off: off, kind: k})
		b.a.then(pure, 1)
		b.open(op, t)
		b.top().loopPoint = at
	case opIf:
		b.chargeEffects(off, 1)
		b.count(1, none)
		b.open(op, t)
	}
}

func (b *body) orElse(off uint32) {
	f := b.close()
	if b.r.bad != "" {
		return
	}
	if f.op != opIf || len(b.frames) == 0 {
		b.r.fail("else outside of if")
		return
	}
	b.open(opElse, f.typ)
	b.chargeEffects(off, 0)
}

func (b *body) end(off uint32) {
	f := b.top()
	if f.op == opIf && f.typ != none {
		b.r.fail("if with a result but without else")
		return
	}
	if b.metered {
		if f.taken {
			b.a.effects(off, 0, f.nowhere)
		} else {
			b.a.before(off, pure, 0, f.nowhere)
		}
	}
	was := b.close()
	if len(b.frames) > 0 && was.typ != none && b.r.bad == "" {
		b.push(was.typ)
		b.count(0, was.typ)
	}
}

func (b *body) branch(off uint32, op byte) {
	depth := b.r.u32()
	if op == opBrIf {
		b.pop(I32)
	}
	f, t := b.target(depth)
	if t != none {
		b.pop(t)
	}
	if b.r.bad != "" {
		return
	}
	b.chargeEffects(off, 1)
	b.take(f)
	if op == opBr {
		b.stop()
		return
	}
	if t != none {
		b.push(t)
	}
	b.count(1, none)
}

// maxTargets is the maximum number of br_table targets of wasmparser 0.228. Newer versions of
// wasmparser allow more targets.
const maxTargets = 128 * 1024

func (b *body) table(off uint32) {
	r := &b.r
	b.pop(I32)
	n := r.u32()
	if n > maxTargets {
		r.fail("br_table too large")
	}
	if r.bad != "" {
		return
	}
	b.chargeEffects(off, 1)
	// All targets must take as many values as the default target, which comes last. Each target is
	// checked against the stack.
	arity := -1
	for ; n > 0; n-- {
		f, t := b.target(r.u32())
		if r.bad != "" {
			return
		}
		if arity < 0 {
			arity = values(t)
		}
		if values(t) != arity {
			r.fail("targets of br_table differ")
			return
		}
		if t != none {
			b.push(b.pop(t))
		}
		b.take(f)
	}
	f, t := b.target(r.u32())
	if arity >= 0 && values(t) != arity {
		r.fail("targets of br_table differ")
	}
	if t != none {
		b.pop(t)
	}
	if r.bad == "" {
		b.take(f)
		b.stop()
	}
}

// values returns the number of results of a block type.
func values(t ValType) int {
	if t == none {
		return 0
	}
	return 1
}

func (b *body) returnHere(off uint32) {
	if b.typ.Result != none {
		b.pop(b.typ.Result)
	}
	if b.r.bad != "" {
		return
	}
	b.chargeEffects(off, 1)
	b.take(&b.frames[0])
	b.returns++
	b.stop()
}

func (b *body) call(off uint32) {
	at := b.r.pos
	i := b.r.u32()
	if uint64(i) >= uint64(len(b.m.Funcs)) {
		b.r.fail("unknown function")
		return
	}
	b.grown += lebLen(uint64(i)+addedFuncs) - (b.r.pos - at)
	b.invoke(off, b.m.Types[b.m.Funcs[i]])
}

func (b *body) callIndirect(off uint32) {
	i, t := b.r.u32(), b.r.u32()
	switch {
	case uint64(t) >= uint64(len(b.m.Tables)):
		b.r.fail("unknown table")
	case uint64(i) >= uint64(len(b.m.Types)):
		b.r.fail("unknown type")
	}
	b.pop(I32)
	if b.r.bad == "" {
		b.invoke(off, b.m.Types[i])
	}
}

// invoke validates a call of a function of type t. As in finite-wasm, the analysis does not pop the
// table index of call_indirect.
func (b *body) invoke(off uint32, t FuncType) {
	b.chargeEffects(off, 1)
	b.popAll(t.Params)
	if b.r.bad != "" {
		return
	}
	if t.Result != none {
		b.push(t.Result)
	}
	b.count(len(t.Params), t.Result)
}
