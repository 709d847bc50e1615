package prep

import (
	"encoding/binary"
	"slices"
)

// env.gas(n) burns the gas of n instructions. Old contracts call it between all of their
// instructions. A call consists of two instructions, and a host call takes a hundred times as long
// as the gas of two instructions pays for. So the emitter replaces references to the import by
// references to an added function that charges in the same way as charge. Callers, direct or
// through a table, observe no difference, and neither does code that reads the globals afterwards.
// The import stays, so the module's imports do not change. In a traced module env.gas stays a host
// call.

// gasImport describes how a module uses env.gas.
type gasImport struct {
	funcs []uint32 // indices of the imports of env.gas
	typ   uint32
	used  bool // funcs is not empty, so the emitter adds a function that replaces these functions
}

// findGas finds the imports of env.gas. An import of env.gas with another type does not link, so
// findGas ignores it.
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

// gasFunc returns the index of the added function. The added function follows all of the contract's
// own functions.
func (e *emitter) gasFunc() uint32 { return uint32(len(e.m.Funcs)) }

// function appends the index of function i, or the index of its replacement.
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
	c.pos++ // skip the opcode end
	return append(b, c.b[at:c.pos]...)
}

// elements returns the content of the element section, with replacements for env.gas.
func (e *emitter) elements() []byte {
	c := code{b: e.m.Elements}
	if !e.gas.used || e.m.Segments == 0 {
		return c.b
	}
	c.u32() // skip the number of segments
	b := append([]byte{}, c.b[:c.pos]...)
	for range e.m.Segments {
		at := c.pos
		flags := c.u32()
		if flags&3 == 2 {
			c.u32() // skip the index of the table
		}
		if flags&1 == 0 {
			b = e.constExpr(append(b, c.b[at:c.pos]...), &c)
			at = c.pos
		}
		if flags&3 != 0 {
			c.value() // skip the type of the references, or the kind of the indices
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

// callGas writes the replacement of a direct call of env.gas: a charge without a call.
func (e *emitter) callGas() {
	e.add(opI64Extend)
	e.constant(-e.op)
	e.add(opI64Mul)
	e.chargeTop()
}

// chargeGas writes the replacement of an i32.const at offset at and the call of env.gas that takes
// it: an ordinary charge, or nothing for 0. All calls in known contracts have this form. The charge
// takes about as long as the gas of the two instructions pays for.
func (e *emitter) chargeGas(at int) {
	c := code{b: e.in.b, pos: at + 1}
	if n := uint32(c.signed()); n > 0 {
		e.charge(uint64(n) * e.op)
	}
}

// gasBody writes the added function, for calls through a table. A charge is below 2^62, so the
// charge does not overflow. A charge of 0 is not stored, because storing would take longer than the
// gas of the call pays for.
func (e *emitter) gasBody() {
	at := len(e.code)
	e.add(0, 0, 0, 0, 0, 0) // space for the length, and no locals
	e.add(opLocalGet, 0, opIf, byte(none), opLocalGet, 0)
	e.callGas()
	e.add(opEnd, opEnd)
	putLength(e.code[at:], len(e.code)-at-5)
}
