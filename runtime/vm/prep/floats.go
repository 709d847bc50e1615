package prep

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// A computed NaN must have the canonical form: quiet, positive, no payload. The engine can ensure
// this form, but one of the engine's compilers then needs ten times as long and eight times the
// memory per operation. Instead, the emitter adds a few plain instructions after each operation.
// The emitter omits these instructions where the contract cannot observe the difference; otherwise
// 4 MB of nested square roots would become 90 MB.

// floats are the instructions whose results are made canonical: all that compute a float, except
// neg, abs and copysign. wasmtime's own pass handles exactly these instructions.
var floats = func() (is [256]bool) {
	for op := opFirstNumeric; op <= opLastNumeric; op++ {
		_, _, _, is[op] = check.Numeric(byte(op))
	}
	return is
}()

// setNaNs writes code that stores the canonical NaNs in their places.
func (e *emitter) setNaNs() {
	if e.b.Floats == 0 {
		return
	}
	e.code = binary.LittleEndian.AppendUint32(append(e.code, opF32Const), 0x7fc0_0000)
	e.set(e.at.nan32)
	e.code = binary.LittleEndian.AppendUint64(append(e.code, opF64Const), 0x7ff8_0000_0000_0000)
	e.set(e.at.nan64)
}

// blind are the instructions that take a float and have the same effect for every NaN: arithmetic
// (whose own result is made canonical), comparisons and truncations.
var blind = func() (is [256]bool) {
	for op := opFirstNumeric; op <= opLastNumeric; op++ {
		in, _, _, _ := check.Numeric(byte(op))
		is[op] = in == F32 || in == F64
	}
	for _, op := range []byte{opF32Abs, opF32Neg, opF32CopySign, opF64Abs, opF64Neg, opF64CopySign, opI32OfF32, opI64OfF64} {
		is[op] = false
	}
	is[opDrop] = true
	return is
}()

// unseen returns whether the contract cannot observe the bits of the float that was just computed.
// The contract cannot if the next instruction that takes the float, perhaps after a change of sign,
// is blind. Most operations within a formula are of this kind.
func (e *emitter) unseen() bool {
	next := e.in
	for {
		switch op := next.u8(); op {
		case opNop, opF32Abs, opF32Neg, opF64Abs, opF64Neg:
		case opPrefix:
			return next.u32() <= opTruncSatLast
		default:
			return blind[op]
		}
	}
}

// canonical writes code that makes the result of op, on top of the stack, canonical. The code
// selects the result if the result equals itself, and the canonical NaN otherwise. The result stays
// on the stack until the select. The processor predicts the select, so a following operation does
// not wait for a store and a load. If the result were read back from its local, a chain of
// dependent sums would take twice as long.
func (e *emitter) canonical(op byte) {
	value, nan, same := e.at.f64, e.at.nan64, byte(opF64Eq)
	if _, out, _, _ := check.Numeric(op); out == F32 {
		value, nan, same = e.at.f32, e.at.nan32, opF32Eq
	}
	e.tee(value)
	e.get(nan)
	e.get(value)
	e.get(value)
	e.add(same, opSelect)
}
