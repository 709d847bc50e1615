package check

// instructions validates the instructions of the body and passes them to the analysis.
func (b *body) instructions() {
	r := &b.r
	for r.pos < len(r.buf) {
		off := uint32(r.pos)
		if b.metered {
			b.a.flush(off)
		}
		op := r.buf[r.pos]
		r.pos++
		switch {
		case op >= opFirstNumeric && op <= opLastNumeric:
			b.numeric(off, &numerics[op])
		case op >= opFirstAccess && op <= opLastAccess:
			b.access(off, accesses[op-opFirstAccess])
		case op < opDrop:
			if b.control(off, op); len(b.frames) == 0 {
				if !r.eof() {
					r.fail("instructions behind the end")
				}
				return
			}
		default:
			b.plain(off, op)
		}
	}
	r.fail("body without end")
}

// charge charges for a plain instruction, which cannot observe the gas.
func (b *body) charge(off uint32) {
	if b.metered {
		b.a.before(off, pure, 1, b.top().nowhere)
	}
}

// chargeEffects charges for an instruction that may trap, branch or call.
func (b *body) chargeEffects(off, cost uint32) {
	if b.metered {
		b.a.effects(off, cost, b.top().nowhere)
	}
}

// count updates the operand stack of the analysis: it pops values, then pushes one or none.
func (b *body) count(pops int, push ValType) {
	if !b.metered {
		return
	}
	nowhere := b.top().nowhere
	if pops > 0 {
		b.a.pop(pops, nowhere)
	}
	if push != none {
		b.a.push(push, nowhere)
	}
}

func (b *body) numeric(off uint32, n *numeric) {
	if n.trap {
		b.chargeEffects(off, 1)
	} else {
		b.charge(off)
	}
	b.pop(n.in)
	if n.two {
		b.pop(n.in)
	}
	b.push(n.out)
	if n.float {
		b.floats++
	}
	if b.r.bad != "" {
		return
	}
	switch n.effect {
	case effectPop:
		b.count(1, none)
	case effectReplace:
		b.count(1, n.out)
	case effectReplace2:
		b.count(2, n.out)
	}
}

// access validates a load or store.
func (b *body) access(off uint32, a access) {
	align := b.r.u32()
	b.r.u32() // skip the offset: any offset is valid
	switch {
	case b.m.memories == 0:
		b.r.fail("unknown memory")
	case align > a.align:
		b.r.fail("alignment larger than natural")
	}
	b.chargeEffects(off, 1)
	if a.store {
		b.pop(a.typ)
		b.pop(I32)
		b.counted(2, none)
		return
	}
	b.pop(I32)
	b.push(a.typ)
	b.counted(1, a.typ)
}

// counted is count, unless validation has failed: the analysis must not see an invalid body.
func (b *body) counted(pops int, push ValType) {
	if b.r.bad == "" {
		b.count(pops, push)
	}
}
