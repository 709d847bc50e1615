package prep

import "github.com/troupe-chain/troupe/runtime/vm/prep/check"

// A truncation that may trap is one byte of wasm and 130 to 155 bytes of machine code. This ratio
// is three or four times the ratio of any other instruction. A contract with a megabyte of
// truncations had an artifact of 82 MB, and needed more compiler memory than any other contract. So
// in each module only the first mostTruncs truncations stay inline; their code fits into a core's
// caches. All further truncations become calls of an added function.

// mostTruncs is the number of truncations of a module that stay inline.
const mostTruncs = 8192

// truncs are the truncations that may trap.
var truncs = func() (is [256]bool) {
	for op := opFirstNumeric; op <= opLastNumeric; op++ {
		in, out, two, _ := check.Numeric(byte(op))
		is[op] = !two && (in == F32 || in == F64) && (out == I32 || out == I64) && op != opI32OfF32 && op != opI64OfF64
	}
	return is
}()

// truncBody writes the body of the added function for the truncation op.
func (e *emitter) truncBody(op byte) { e.add(5, 0, opLocalGet, 0, op, opEnd) }
