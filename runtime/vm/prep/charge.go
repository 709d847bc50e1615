package prep

// charge takes gas, and traps if that leaves it negative. It is most of what is written, so it
// appends to one slice.
func (e *emitter) charge(gas uint64) {
	b := append(e.code, e.getGas...)
	e.code = appendSigned(append(b, opI64Const), int64(gas))
	e.add(opI64Sub)
	e.settle(e.setGas, e.getGas)
}

// settle stores what is on the stack as the gas or stack that is left, and traps if it is negative:
// by a load of byte 0 of the memory, or of byte 2^32-1, which no memory of a contract has. A branch
// to an unreachable would say the same, but it gives the compiler two blocks more at each of the
// many points, and each block costs it something for every value that lives. What is left is read
// from where it was just stored: a local beside that would be one more write, and one more thing in
// each frame.
func (e *emitter) settle(set, get []byte) {
	b := append(append(e.code, set...), get...)
	e.code = append(b, opI64Const, 63, opI64ShrS, opI32Wrap, opI32Load8, 0, 0, opDrop)
}

// chargeFrame takes both charges at the entry of a function together. If that fails, what is left
// negative is that after the first if the first fails.
func (e *emitter) chargeFrame(first, both uint64) {
	e.raw(e.getGas)
	e.constant(first)
	e.constant(both)
	e.raw(e.getGas)
	e.constant(first)
	e.add(opI64LtU, opSelect, opI64Sub)
	e.settle(e.setGas, e.getGas)
}

// chargeBulk takes gas for as many bytes, elements or pages as the value on the stack says, which
// stays there. A count has 32 bits, so the charge does not overflow.
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

// chargeTop takes as much gas as the value on the stack says, which is negative and goes.
func (e *emitter) chargeTop() {
	e.raw(e.getGas)
	e.add(opI64Add)
	e.settle(e.setGas, e.getGas)
}
