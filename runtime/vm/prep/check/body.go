package check

// frame is an open block of the body. The first frame is the body itself.
type frame struct {
	height uint32 // number of operands on the validator's stack at the start of the frame
	sizes  uint32 // number of operands on the analysis's stack at the start of the frame
	// loopPoint is, for a loop, the index in analysis.points of the point before the loop
	// instruction. The next point is at the start of the loop's body, where each iteration is charged.
	loopPoint uint32
	typ       ValType
	op        byte // the opcode that began the frame: opBlock, opLoop, opIf or opElse
	taken     bool // some branch targets the end of the frame
	dead      bool // for the validator, the rest of the frame is unreachable
	// nowhere is dead for the analysis. nowhere is also set in a frame that began in unreachable
	// code.
	nowhere bool
}

// flatLocals is the number of locals whose types are looked up without a search.
const flatLocals = 256

// maxLocals is wasmparser's maximum number of parameters and locals of a function.
const maxLocals = 50_000

// body validates and analyses function bodies, one at a time. A body reuses its memory for the next
// function.
type body struct {
	m       *module
	r       reader
	typ     FuncType
	groups  []Group
	flat    []ValType // types of the first flatLocals locals after the parameters
	locals  int       // number of parameters and locals
	ops     []ValType
	points  []Point
	frames  []frame
	a       analysis
	metered bool   // the analysis runs too
	first   uint32 // offset of the first instruction
	grown   int    // bytes by which nearcore's larger function indices lengthen the body
	blocks  uint64
	returns int

	accesses, floats uint64 // counts for Body.Accesses and Body.Floats
}

// readLocals reads the groups of locals. readLocals fails if the groups do not parse. It returns
// the number of locals, without parameters, and whether all types of the locals are enabled; the
// caller must check the number and the types.
func (b *body) readLocals() (total uint64, enabled bool) {
	b.groups = b.groups[:0]
	n := uint64(len(b.typ.Params))
	count := b.r.u32()
	enabled = true
	for ; count > 0 && b.r.bad == ""; count-- {
		c := b.r.u32()
		t := b.r.valType()
		if b.r.bad != "" {
			break
		}
		if total += uint64(c); total > b.m.localsLeft {
			return total, false
		}
		if t == bottom {
			enabled = false
		}
		if n += uint64(c); n > maxLocals && c > 0 {
			enabled = false
		}
		if enabled {
			b.groups = append(b.groups, Group{End: uint32(n), N: c, Type: t})
		}
	}
	b.locals = int(min(n, maxLocals))
	b.flat = b.flat[:0]
	for _, g := range b.groups {
		for i := uint32(0); i < g.N && len(b.flat) < flatLocals; i++ {
			b.flat = append(b.flat, g.Type)
		}
	}
	return total, enabled
}

// local returns the type of local i.
func (b *body) local(i uint32) ValType {
	p := uint32(len(b.typ.Params))
	if i < p {
		return b.typ.Params[i]
	}
	if int(i-p) < len(b.flat) {
		return b.flat[i-p]
	}
	if int64(i) >= int64(b.locals) {
		b.r.fail("unknown local")
		return bottom
	}
	low, high := 0, len(b.groups)-1
	for low < high {
		if mid := (low + high) / 2; b.groups[mid].End > i {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return b.groups[low].Type
}

func (b *body) top() *frame { return &b.frames[len(b.frames)-1] }

// push pushes a value onto the validator's stack.
func (b *body) push(t ValType) { b.ops = append(b.ops, t) }

// pop pops a value of type want and returns its type. If want is bottom, any type is allowed.
func (b *body) pop(want ValType) ValType {
	n := len(b.ops)
	if f := b.top(); n == int(f.height) {
		if !f.dead {
			b.r.fail("nothing on the stack")
		}
		return bottom
	}
	is := b.ops[n-1]
	b.ops = b.ops[:n-1]
	if is != want && is != bottom && want != bottom {
		b.r.fail("type mismatch")
	}
	return is
}

// popAll pops values of the given types, starting with the last type. In unreachable code, its time
// does not depend on the number of missing operands.
func (b *body) popAll(types []ValType) {
	f := b.top()
	have := len(b.ops) - int(f.height)
	if have < len(types) {
		if !f.dead {
			b.r.fail("nothing on the stack")
			return
		}
		types = types[len(types)-have:]
	}
	at := len(b.ops) - len(types)
	for i, want := range types {
		if is := b.ops[at+i]; is != want && is != bottom {
			b.r.fail("type mismatch")
			return
		}
	}
	b.ops = b.ops[:at]
}

// stop marks the rest of the frame as unreachable.
func (b *body) stop() {
	f := b.top()
	f.dead, f.nowhere = true, true
	b.ops = b.ops[:f.height]
}

// open begins a block.
func (b *body) open(op byte, t ValType) {
	f := frame{op: op, typ: t, height: uint32(len(b.ops)), sizes: uint32(len(b.a.sizes)), nowhere: b.top().nowhere,
		taken: op == opIf || op == opElse}
	b.frames = append(b.frames, f)
}

// close checks that the operands of the innermost frame are its result. close ends the frame and
// returns the frame.
func (b *body) close() frame {
	f := *b.top()
	if f.typ != none {
		b.pop(f.typ)
	}
	if len(b.ops) != int(f.height) {
		b.r.fail("values remain at the end of a block")
		return f
	}
	b.frames = b.frames[:len(b.frames)-1]
	if len(b.frames) > 0 && !b.top().nowhere {
		b.a.truncate(int(f.sizes))
	}
	return f
}

// target returns the frame that a branch of this depth targets, and the type of the value that the
// branch passes.
func (b *body) target(depth uint32) (*frame, ValType) {
	if uint64(depth) >= uint64(len(b.frames)) {
		b.r.fail("unknown label")
		return b.top(), none
	}
	f := &b.frames[len(b.frames)-1-int(depth)]
	if f.op == opLoop {
		return f, none
	}
	return f, f.typ
}

// take records for the analysis that a branch targets the frame.
func (b *body) take(f *frame) {
	if f.op != opLoop {
		f.taken = true
		return
	}
	if b.metered {
		b.a.points[f.loopPoint].kind = pre
		b.a.points[f.loopPoint+1].kind = post
	}
}

// blockType reads the type of a block. A block has no parameters and at most one result.
func (b *body) blockType() ValType {
	c := b.r.peek()
	if c == byte(none) {
		b.r.pos++
		return none
	}
	if c&0xc0 != 0x40 {
		b.r.fail("blocks with a type's index are not enabled")
		return none
	}
	return b.inlineType()
}

// inlineType reads a type that is an immediate of an instruction.
func (b *body) inlineType() ValType {
	return b.r.value()
}
