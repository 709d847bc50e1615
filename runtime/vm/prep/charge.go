package prep

// charge subtracts gas, and traps if the rest is negative. Since charges are most of the output,
// all of its bytes are appended to one slice.
func (e *emitter) charge(gas uint64) {
	b := append(e.code, e.getGas...)
	e.code = appendSigned(append(b, opI64Const), int64(gas))
	e.add(opI64Sub)
	e.settle(e.setGas, e.getGas)
}

// settle stores the top of the stack as the remaining gas or stack, and traps if it is negative. It
// does so by a load of byte 0 of the memory, or of byte 2^32-1, which no contract's memory has.
//
// A branch to an unreachable would do the same, but adds two blocks at each of very many points,
// and each block costs the compiler something for every live value. The check reads the value
// again from the place in which it was stored, since another local for it would cost one more
// write, and one more slot in each frame.
func (e *emitter) settle(set, get []byte) {
	b := append(append(e.code, set...), get...)
	e.code = append(b, opI64Const, 63, opI64ShrS, opI32Wrap, opI32Load8, 0, 0, opDrop)
}

// chargeFrame takes both charges at the entry of a function at once. first is the first charge,
// both is the sum of the two. If the gas does not suffice for the first charge, only that one is
// subtracted.
func (e *emitter) chargeFrame(first, both uint64) {
	e.raw(e.getGas)
	e.constant(first)
	e.constant(both)
	e.raw(e.getGas)
	e.constant(first)
	e.add(opI64LtU, opSelect, opI64Sub)
	e.settle(e.setGas, e.getGas)
}

// chargeBulk charges per byte, element or page of the count on top of the stack, and keeps the
// count. The count has 32 bits, so the charge does not overflow.
func (e *emitter) chargeBulk() {
	e.tee(e.at.count)
	e.add(opI64Extend)
	e.constant(-e.bulkUnit)
	e.add(opI64Mul)
	e.constant(-e.bulkBase)
	e.add(opI64Add)
	e.chargeTop()
	e.get(e.at.count)
}

// chargeTop adds the value on top of the stack, which is negative, to the gas, and consumes it.
func (e *emitter) chargeTop() {
	e.raw(e.getGas)
	e.add(opI64Add)
	e.settle(e.setGas, e.getGas)
}
