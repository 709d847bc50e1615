package prep

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// A float that is computed and is no number has the canonical form: quiet, positive, no payload. The engine can see to that, but
// what its compiler makes of an operation then takes it ten times as long and eight times the memory; three plain
// instructions say the same.

// floats are the instructions whose result is made canonical: those of the compiler's own pass, all but neg, abs and copysign.
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
	e.local(opLocalSet, e.at.nan32)
	e.code = binary.LittleEndian.AppendUint64(append(e.code, opF64Const), 0x7ff8_0000_0000_0000)
	e.local(opLocalSet, e.at.nan64)
}

// canonical makes the result of op canonical, which is on the stack.
func (e *emitter) canonical(op byte) {
	value, nan, differs := e.at.f64, e.at.nan64, byte(opF64Ne)
	if _, out, _, _ := check.Numeric(op); out == F32 {
		value, nan, differs = e.at.f32, e.at.nan32, opF32Ne
	}
	e.local(opLocalSet, value)
	e.local(opLocalGet, nan)
	e.local(opLocalGet, value)
	e.local(opLocalGet, value)
	e.local(opLocalGet, value)
	e.add(differs, opSelect)
}
