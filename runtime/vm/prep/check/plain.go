package check

// plain validates the instructions that are neither numeric nor control instructions.
func (b *body) plain(off uint32, op byte) {
	r := &b.r
	switch op {
	case opDrop:
		b.charge(off)
		b.pop(bottom)
		b.counted(1, none)
	case opSelect, opSelectTyped:
		b.selectOne(off, op)
	case opLocalGet:
		t := b.accessed()
		b.charge(off)
		b.push(t)
		b.counted(0, t)
	case opLocalSet:
		b.charge(off)
		b.popKnown(b.accessed())
		b.counted(1, none)
	case opLocalTee:
		t := b.accessed()
		b.charge(off)
		b.popKnown(t)
		b.push(t)
	case opGlobalGet:
		g := b.global(r.u32())
		b.charge(off)
		b.push(g.Type)
		b.counted(0, g.Type)
	case opGlobalSet:
		g := b.global(r.u32())
		if !g.Mutable {
			r.fail("global is immutable")
		}
		b.charge(off)
		b.popKnown(g.Type)
		b.counted(1, none)
	case opTableGet:
		b.needTable(r.u32())
		b.chargeEffects(off, 1)
		b.pop(I32)
		b.push(FuncRef)
		b.counted(1, FuncRef)
	case opTableSet:
		b.needTable(r.u32())
		b.chargeEffects(off, 1)
		b.pop(FuncRef)
		b.pop(I32)
		b.counted(2, none)
	case opMemorySize, opMemoryGrow:
		b.memory(off, op)
	case opI32Const:
		r.signed(32)
		b.constant(off, I32)
	case opI64Const:
		r.signed(64)
		b.constant(off, I64)
	case opF32Const:
		r.bytes(4)
		b.constant(off, F32)
	case opF64Const:
		r.bytes(8)
		b.constant(off, F64)
	case opRefNull:
		if r.heapType() != FuncRef {
			r.fail("type is not enabled")
		}
		b.constant(off, FuncRef)
	case opRefIsNull:
		b.charge(off)
		if t := b.pop(bottom); t != bottom && t != FuncRef {
			r.fail("not a reference")
		}
		b.push(I32)
		b.counted(1, I32)
	case opRefFunc:
		at := r.pos
		i := r.u32()
		if !b.m.isDeclared(i) {
			r.fail("undeclared reference of a function")
		}
		b.grown += lebLen(uint64(i)+addedFuncs) - (r.pos - at)
		b.constant(off, FuncRef)
	case opPrefix:
		b.prefixed(off)
	default:
		r.fail("illegal instruction")
	}
}

// accessed reads the index of a local and returns that local's type.
func (b *body) accessed() ValType {
	b.accesses++
	return b.local(b.r.u32())
}

// constant validates an instruction that takes nothing and returns a value.
func (b *body) constant(off uint32, t ValType) {
	b.charge(off)
	b.push(t)
	b.counted(0, t)
}

// popKnown pops a value of type t, unless looking up t has failed.
func (b *body) popKnown(t ValType) {
	if b.r.bad == "" {
		b.pop(t)
	}
}

func (b *body) selectOne(off uint32, op byte) {
	r := &b.r
	t := bottom
	if op == opSelectTyped {
		if r.u32() != 1 {
			r.fail("select of other than one type")
		}
		t = b.inlineType()
	}
	b.charge(off)
	b.pop(I32)
	if op == opSelectTyped {
		b.popKnown(t)
		b.popKnown(t)
	} else {
		x, y := b.pop(bottom), b.pop(bottom)
		if x == FuncRef || y == FuncRef {
			r.fail("select of references without type")
		}
		if t = x; x == bottom {
			t = y
		}
		if x != y && x != bottom && y != bottom {
			r.fail("operands of select differ")
		}
	}
	b.push(t)
	b.counted(2, none)
}

func (b *body) global(i uint32) Global {
	if uint64(i) >= uint64(len(b.m.Globals)) {
		b.r.fail("unknown global")
		return Global{Type: I32}
	}
	return b.m.Globals[i]
}

func (b *body) needTable(i uint32) {
	if uint64(i) >= uint64(len(b.m.Tables)) {
		b.r.fail("unknown table")
	}
}

func (b *body) needMemory(i uint32) {
	if uint64(i) >= uint64(b.m.memories) {
		b.r.fail("unknown memory")
	}
}

func (b *body) needData(i uint32) {
	if int64(i) >= int64(b.m.DataCount) {
		b.r.fail("unknown data segment, or no data count")
	}
}

func (b *body) needElements(i uint32) {
	if uint64(i) >= uint64(b.m.Segments) {
		b.r.fail("unknown element segment")
	}
}

func (b *body) memory(off uint32, op byte) {
	if b.r.u8() != 0 {
		b.r.fail("zero byte expected")
	}
	b.needMemory(0)
	if op == opMemorySize {
		b.constant(off, I32)
		return
	}
	b.chargeBulk(off)
	b.pop(I32)
	b.push(I32)
}

func (b *body) chargeBulk(off uint32) {
	if b.metered {
		b.a.beforeBulk(off, b.top().nowhere)
	}
}

// prefixed validates the instructions with opPrefix.
func (b *body) prefixed(off uint32) {
	r := &b.r
	op := r.u32()
	if r.bad != "" {
		return
	}
	if op <= opTruncSatLast {
		t := truncSats[op]
		b.charge(off)
		b.pop(t[0])
		b.push(t[1])
		b.counted(1, t[1])
		return
	}
	switch op {
	case opMemoryInit:
		b.needData(r.u32())
		b.needMemory(r.u32())
		b.bulk3(off, I32)
	case opDataDrop:
		b.needData(r.u32())
		b.charge(off)
	case opMemoryCopy:
		b.needMemory(r.u32())
		b.needMemory(r.u32())
		b.bulk3(off, I32)
	case opMemoryFill:
		b.needMemory(r.u32())
		b.bulk3(off, I32)
	case opTableInit:
		b.needElements(r.u32())
		b.needTable(r.u32())
		b.bulk3(off, I32)
	case opElemDrop:
		b.needElements(r.u32())
		b.charge(off)
	case opTableCopy:
		b.needTable(r.u32())
		b.needTable(r.u32())
		b.bulk3(off, I32)
	case opTableGrow:
		b.needTable(r.u32())
		b.chargeBulk(off)
		b.pop(I32)
		b.pop(FuncRef)
		b.push(I32)
		b.counted(2, I32)
	case opTableSize:
		b.needTable(r.u32())
		b.constant(off, I32)
	case opTableFill:
		b.needTable(r.u32())
		b.bulk3(off, FuncRef)
	default:
		r.fail("illegal instruction")
	}
}

// bulk3 validates a bulk instruction with three operands. The middle operand has type t; the first
// and the last operand are I32.
func (b *body) bulk3(off uint32, t ValType) {
	b.chargeBulk(off)
	b.pop(I32)
	b.pop(t)
	b.pop(I32)
	b.counted(3, none)
}
