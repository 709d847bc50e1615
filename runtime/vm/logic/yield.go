package logic

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// yieldCreate (method_name_len, method_name_ptr, arguments_len, arguments_ptr, gas, gas_weight,
// register_id) creates a call of the account itself that waits for a resume. yieldCreate writes the
// call's data id, to be used in the resume, into the register.
func yieldCreate(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtYieldCreateBase); err != nil {
		return 0, err
	}
	method, args, err := l.methodAndArgs(a)
	if err != nil {
		return 0, err
	}
	n := len(method) + len(args)
	if err := l.gas.payPer(parameters.ExtYieldCreateByte, uint64(n)); err != nil {
		return 0, err
	}
	if err := l.gas.prepay(primitives.Gas(a[4])); err != nil {
		return 0, err
	}
	if err := l.payReceipt(true, true); err != nil {
		return 0, err
	}
	receipt, data := l.x.Yield()
	i, err := l.addPromise(promise{receipt: receipt})
	if err != nil {
		return 0, err
	}
	if err := l.payCall(n, true); err != nil {
		return 0, err
	}
	if err := l.addCall(receipt, method, args, primitives.Balance{}, a[4], a[5]); err != nil {
		return 0, err
	}
	return i, l.setRegister(a[6], data[:])
}

// noYield is the result of yieldCreateWithID if a yield with that id exists.
const noYield = ^uint64(0)

// yieldCreateWithID (method_name_len, method_name_ptr, arguments_len, arguments_ptr, amount_ptr,
// gas, gas_weight, yield_id_len, yield_id_ptr) is yieldCreate with a deposit and with an id that
// the contract chooses.
func yieldCreateWithID(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtYieldCreateWithIDBase); err != nil {
		return 0, err
	}
	amount, err := l.readBalance(a[4])
	if err != nil {
		return 0, err
	}
	method, args, err := l.methodAndArgs(a)
	if err != nil {
		return 0, err
	}
	id, err := l.hash(a[7], a[8], YieldIDMalformed)
	if err != nil {
		return 0, err
	}
	n := len(method) + len(args)
	if err := l.gas.payPer(parameters.ExtYieldCreateByte, uint64(n)); err != nil {
		return 0, err
	}
	receipt, ok, err := l.x.YieldWithID(id)
	if err != nil {
		return 0, err
	}
	if !ok {
		return noYield, nil
	}
	if err := l.gas.prepay(primitives.Gas(a[5])); err != nil {
		return 0, err
	}
	if err := l.payReceipt(true, true); err != nil {
		return 0, err
	}
	i, err := l.addPromise(promise{receipt: receipt})
	if err != nil {
		return 0, err
	}
	if err := l.payCall(n, true); err != nil {
		return 0, err
	}
	if err := l.attach(amount); err != nil {
		return 0, err
	}
	return i, l.addCall(receipt, method, args, amount, a[5], a[6])
}

// yieldResume (data_id_len, data_id_ptr, payload_len, payload_ptr) returns 1 if a yield with this
// id exists.
func yieldResume(l *Logic, a []uint64) (uint64, error) {
	return l.resume(a, DataIDMalformed, l.x.Resume)
}

// yieldResumeByID is yieldResume with the id that the contract chose.
func yieldResumeByID(l *Logic, a []uint64) (uint64, error) {
	return l.resume(a, YieldIDMalformed, l.x.ResumeByID)
}

func (l *Logic) resume(a []uint64, malformed HostErrorKind, resume func(primitives.Hash, []byte) (bool, error)) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtYieldResumeBase); err != nil {
		return 0, err
	}
	// The price depends on the given length. The length inRegister would be too expensive, so the
	// payload is never in a register.
	if err := l.gas.payPer(parameters.ExtYieldResumeByte, a[2]); err != nil {
		return 0, err
	}
	id, err := l.arg(a[0], a[1])
	if err != nil {
		return 0, err
	}
	payload, err := l.arg(a[2], a[3])
	if err != nil {
		return 0, err
	}
	if n, limit := uint64(len(payload)), l.wasm.Limits.MaxYieldPayloadSize; n > limit {
		return 0, limitError(YieldPayloadLength, n, limit)
	}
	var h primitives.Hash
	if len(id) != len(h) {
		return 0, fail(malformed)
	}
	copy(h[:], id)
	ok, err := resume(h, payload)
	if ok && err == nil {
		return 1, nil
	}
	return 0, err
}
