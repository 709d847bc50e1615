package prep

import (
	"encoding/binary"
	"slices"
)

// env.gas(n) burns what n instructions cost, and contracts of old call it between all their
// instructions. A call of the host takes a hundred times as long as those two instructions' gas
// stands for, so what refers to the import refers to a function of the module instead that charges
// as charge does: whatever calls it, directly or through a table, sees the same, and so does who
// reads the globals after it. The import stays, so that the module needs what it needed. A traced
// module calls the host.

// gasImport is what the module does with env.gas.
type gasImport struct {
	funcs []uint32 // imports that are it, in order
	typ   uint32
	used  bool // there is one, and the module gets the function
}

// findGas looks for the import. Under another type it does not link.
func (e *emitter) findGas() {
	for n := range e.m.Imports {
		i := &e.m.Imports[n]
		if e.trace || i.Name != "gas" || len(i.Params) != 1 || i.Params[0] != I32 || len(i.Results) != 0 {
			continue
		}
		e.gas.funcs, e.gas.typ, e.gas.used = append(e.gas.funcs, uint32(n)), e.m.Funcs[n], true
	}
}

func (e *emitter) isGas(i uint32) bool {
	if !e.gas.used {
		return false
	}
	_, is := slices.BinarySearch(e.gas.funcs, i)
	return is
}

// gasFunc is the index of the function, behind all of the module's own.
func (e *emitter) gasFunc() uint32 { return uint32(len(e.m.Funcs)) }

// function appends the index of a function, or of the one that stands for it.
func (e *emitter) function(b []byte, i uint32) []byte {
	if e.isGas(i) {
		i = e.gasFunc()
	}
	return binary.AppendUvarint(b, uint64(i))
}

// constExpr appends a constant expression.
func (e *emitter) constExpr(b []byte, c *code) []byte {
	at := c.pos
	if op := c.u8(); op == opRefFunc {
		b = e.function(append(b, op), c.u32())
		at = c.pos
	} else {
		c.pos = at
		c.next(&instr{})
	}
	c.pos++ // end
	return append(b, c.b[at:c.pos]...)
}

// elements returns the content of the section of elements.
func (e *emitter) elements() []byte {
	c := code{b: e.m.Elements}
	if !e.gas.used || e.m.Segments == 0 {
		return c.b
	}
	c.u32() // how many there are
	b := append([]byte{}, c.b[:c.pos]...)
	for range e.m.Segments {
		at := c.pos
		flags := c.u32()
		if flags&3 == 2 {
			c.u32() // table
		}
		if flags&1 == 0 {
			b = e.constExpr(append(b, c.b[at:c.pos]...), &c)
			at = c.pos
		}
		if flags&3 != 0 {
			c.value() // of references; or the kind of what has an index
		}
		n := c.u32()
		b = append(b, c.b[at:c.pos]...)
		for range n {
			if flags&4 != 0 {
				b = e.constExpr(b, &c)
			} else {
				b = e.function(b, c.u32())
			}
		}
	}
	return b
}

// callGas writes what a direct call becomes: the charge itself, without a block.
func (e *emitter) callGas() {
	e.add(opI64Extend)
	e.constant(-e.op)
	e.add(opI64Mul)
	e.chargeTop()
}

// chargeGas writes what a call becomes whose argument is the i32.const at an offset: a charge as
// any other, and none for 0. As all that contracts write of it is of this kind, it costs about what
// the two instructions' gas stands for.
func (e *emitter) chargeGas(at int) {
	c := code{b: e.in.b, pos: at + 1}
	if n := uint32(c.signed()); n > 0 {
		e.charge(uint64(n) * e.op)
	}
}

// gasBody writes the function, for calls through a table. A charge is below 2^62, so it does not
// overflow; none at all is not written back, as that takes longer than what the call costs stands
// for.
func (e *emitter) gasBody() {
	at := len(e.code)
	e.add(0, 0, 0, 0, 0, 0) // its length, and no locals
	e.add(opLocalGet, 0, opIf, byte(none), opLocalGet, 0)
	e.callGas()
	e.add(opEnd, opEnd)
	putLength(e.code[at:], len(e.code)-at-5)
}
