package prep

import "github.com/troupe-chain/troupe/runtime/vm/prep/check"

// A truncation that may trap is one byte, and 130 to 155 bytes of machine code: three or four times
// what anything else has for a byte. A megabyte of them had an artifact of 82 MB and took its
// compiler the most memory of all contracts. So those beyond mostTruncs of a module are calls of a
// function of its own. What is before that is as long as a core's caches can keep at hand.

// mostTruncs is how many of a module stand in its code.
const mostTruncs = 8192

// truncs are the truncations that may trap.
var truncs = func() (is [256]bool) {
	for op := opFirstNumeric; op <= opLastNumeric; op++ {
		in, out, two, _ := check.Numeric(byte(op))
		is[op] = !two && (in == F32 || in == F64) && (out == I32 || out == I64) && op != opI32OfF32 && op != opI64OfF64
	}
	return is
}()

// truncBody writes the function that truncates.
func (e *emitter) truncBody(op byte) { e.add(5, 0, opLocalGet, 0, op, opEnd) }
