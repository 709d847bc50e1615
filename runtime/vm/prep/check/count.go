package check

import (
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// costs are the gas costs of instructions.
type costs struct{ op, bulkBase, bulkUnit uint64 }

func costsOf(w *parameters.Wasm) costs {
	c := costs{op: uint64(w.RegularOpCost), bulkBase: uint64(w.LinearOpBaseCost), bulkUnit: uint64(w.LinearOpUnitCost)}
	// Charges are subtracted without an overflow check, so no charge may reach the sign bit.
	if c.op >= 1<<30 || c.bulkUnit == 0 || c.bulkUnit >= 1<<30 || c.bulkBase >= 1<<62 {
		panic("check: instruction costs are outside the range that the instrumentation supports")
	}
	return c
}

// count checks the limits of one body, adds the body to the module's sizes, and passes the body to
// each.
func (m *module) count(b *body) *Error {
	broken := func(kind primitives.PrepareError, why string) *Error { return &Error{Kind: kind, Reason: why} }
	params := uint64(len(b.typ.Params))
	switch {
	case params > m.limits.MaxParamsPerFunction:
		return broken(primitives.PrepareTooManyParamsPerFunction, "too many parameters of a function")
	case params > m.paramsLeft:
		return broken(primitives.PrepareTooManyParamsPerContract, "too many parameters")
	case b.a.maxHeight > m.limits.MaxOperandStackBytesPerFunction:
		return broken(primitives.PrepareOperandStackTooLarge, "operand stack too large")
	case b.blocks > m.limits.MaxBlocksPerFunction:
		return broken(primitives.PrepareTooManyBlocksPerFunction, "too many blocks in a function")
	case b.blocks > m.blocksLeft:
		return broken(primitives.PrepareTooManyBlocksPerContract, "too many blocks")
	}
	m.paramsLeft -= params
	m.blocksLeft -= b.blocks
	if b.locals+2 > maxLocals {
		m.CompileFails = true
	}
	frame := b.frameSize()
	points := b.a.join()
	m.size.code += nameLen(m.bodySize(b, points, frame))
	if m.each == nil || m.CompileFails || m.tooLarge(m.size.code) {
		return nil
	}
	out := &Body{
		Index: uint32(len(m.Funcs) - m.defined + m.Bodies), Type: b.typ, Code: b.r.buf, First: b.first,
		Groups: b.groups, Locals: b.locals, Frame: frame, Operands: b.a.maxHeight,
		Accesses: b.accesses, Floats: b.floats, Points: b.points[:0],
	}
	for _, p := range points {
		if p.kind == bulk || m.charged(p) {
			out.Points = append(out.Points, Point{Off: p.off, Count: p.count, Bulk: p.kind == bulk})
		}
	}
	b.points = out.Points
	m.each(&m.Module, out)
	return nil
}

// charged returns whether the instrumentation charges gas at the point.
func (m *module) charged(p point) bool { return p.kind != dead && p.count > 0 && m.costs.op > 0 }

// frameSize returns the metered stack, in bytes, that a call of the function takes in addition to
// the operands.
func (b *body) frameSize() uint64 {
	n := uint64(64)
	for _, t := range b.typ.Params {
		n += uint64(t.size())
	}
	for _, g := range b.groups {
		n += uint64(g.N) * uint64(g.Type.size())
	}
	return n
}

// FrameGas returns the gas of entering a function with a frame of this size in bytes. op is the gas
// of one instruction.
func FrameGas(frame, op uint64) uint64 { return (frame + 7) / 8 * op }

// bodySize returns the size of the body in nearcore's instrumented form, without the length prefix.
func (m *module) bodySize(b *body, points []point, frame uint64) int {
	globals, stack := len(m.Globals), b.a.maxHeight+frame
	n := lebLen(uint64(len(b.groups))+2) + 4 // nearcore adds two groups of one local each
	for _, g := range b.groups {
		n += lebLen(uint64(g.N)) + 1
	}
	n += 2 + stackSize(stack, globals) // nearcore puts the body into a block
	if gas := FrameGas(frame, m.costs.op); gas > 0 {
		n += gasSize(gas, globals)
	}
	for _, p := range points {
		switch {
		case p.kind == bulk:
			n += bulkSize(m.costs.bulkBase, m.costs.bulkUnit, b.locals, globals)
		case m.charged(p):
			n += gasSize(uint64(p.count)*m.costs.op, globals)
		}
	}
	return n + len(b.r.buf) - int(b.first) + b.grown + (b.returns+1)*stackSize(stack, globals) + 1
}

// Sizes that an instance takes in nearcore's runtime, in bytes of a 1 MiB slot. Each was measured
// with modules just below and just above the limit.
const (
	instanceRoom    = 1_048_112
	instanceGlobal  = 16
	instanceImport  = 64
	instanceEscaped = 32 // size for each function that can be referenced
	instanceTable   = 16
)

// loadFails returns whether an instance of the module is too large for nearcore's pool.
func (m *module) loadFails() bool {
	imported := len(m.Funcs) - m.defined
	escaped := 0
	for _, w := range m.declared {
		escaped += bits.OnesCount64(w)
	}
	for i := range imported {
		if m.isDeclared(uint32(i)) {
			escaped--
		}
	}
	if m.HasStart && int(m.Start) >= imported && !m.isDeclared(m.Start) {
		escaped++
	}
	return instanceGlobal*len(m.Globals)+instanceImport*imported+instanceEscaped*escaped+instanceTable*len(m.Tables) >
		instanceRoom
}
