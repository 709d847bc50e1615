package prep

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// A float that is computed and is no number has the canonical form: quiet, positive, no payload.
// The engine can see to that, but one of its compilers then takes ten times as long and eight times
// the memory for an operation; a few plain instructions say the same to any. They are left out
// where nothing sees the difference: 4 MB of square roots of square roots were written as 90.

// floats are the instructions whose result is made canonical: those of the compiler's own pass, all
// but neg, abs and copysign.
var floats = func() (is [256]bool) {
	for op := opFirstNumeric; op <= opLastNumeric; op++ {
		_, _, _, is[op] = check.Numeric(byte(op))
	}
	return is
}()

// setNaNs keeps the canonical values in locals.
func (e *emitter) setNaNs() {
	if e.b.Floats == 0 {
		return
	}
	e.code = binary.LittleEndian.AppendUint32(append(e.code, opF32Const), 0x7fc0_0000)
	e.set(e.at.nan32)
	e.code = binary.LittleEndian.AppendUint64(append(e.code, opF64Const), 0x7ff8_0000_0000_0000)
	e.set(e.at.nan64)
}

// blind are the instructions that take a float and cannot tell one that is no number from another:
// all that compute with it, whose own result is made canonical, compare it or truncate it.
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

// unseen tells whether nothing sees the bits of the float that was just computed: what takes it
// next, perhaps with another sign, is blind. Most operations of a formula are of this kind.
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

// canonical makes the result of op canonical, which is on the stack. It is chosen if it equals
// itself, and stays where it is until then: what waits for it waits for no store and load, since
// the processor guesses the choice. The other way round, read again from the local, a sum that
// needs the last took twice as long.
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
