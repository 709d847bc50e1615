package prep

// charge writes code that subtracts gas, and traps if the result is negative. Charges are most of
// the output, so all of their bytes are appended to one slice.
func (e *emitter) charge(gas uint64) {
	b := append(e.code, e.getGas...)
	e.code = appendSigned(append(b, opI64Const), int64(gas))
	e.add(opI64Sub)
	e.settle(e.setGas, e.getGas)
}

// settle writes code that stores the top of the stack as the remaining gas or stack, and traps if
// the stored value is negative. The code loads byte 0 of the memory, or byte 2^32-1 if the value is
// negative. No contract's memory has byte 2^32-1.
//
// A branch to an unreachable would do the same. A branch adds two blocks at each of very many
// points, and each block costs the compiler time for every live value. The check reads the value
// again from the global in which it was stored. A local for the value would cost one more write,
// and one more slot in each stack frame.
func (e *emitter) settle(set, get []byte) {
	b := append(append(e.code, set...), get...)
	e.code = append(b, opI64Const, 63, opI64ShrS, opI32Wrap, opI32Load8, 0, 0, opDrop)
}

// chargeFrame writes code that takes two charges at the entry of a function at once: the charge for
// entering the function, and the charge for its first instructions. first is the charge for
// entering; both is the sum of the two charges. If the gas does not suffice for the first charge,
// only the first charge is subtracted.
func (e *emitter) chargeFrame(first, both uint64) {
	e.raw(e.getGas)
	e.constant(first)
	e.constant(both)
	e.raw(e.getGas)
	e.constant(first)
	e.add(opI64LtU, opSelect, opI64Sub)
	e.settle(e.setGas, e.getGas)
}

// chargeBulk writes a charge per byte, element or page. The count of these units is on top of the
// stack and stays there. The count has 32 bits, so the charge does not overflow.
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

// chargeTop adds the value on top of the stack, which is the negative charge, to the gas. chargeTop
// removes the value from the stack.
func (e *emitter) chargeTop() {
	e.raw(e.getGas)
	e.add(opI64Add)
	e.settle(e.setGas, e.getGas)
}
