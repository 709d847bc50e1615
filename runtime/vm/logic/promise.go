package logic

import (
	"encoding/binary"
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// promise is a promise of the running call. The contract refers to a promise by the promise's index
// in Logic.promises. A promise is either a receipt that the call creates, or a joint of several
// receipts.
type promise struct {
	receipt int
	joint   []int // indices of the joined receipts; nil unless isJoint
	isJoint bool
}

// addPromise adds a promise and returns its number.
func (l *Logic) addPromise(p promise) (uint64, error) {
	l.promises = append(l.promises, p)
	if n, limit := uint64(len(l.promises)), l.wasm.Limits.MaxPromisesPerFunctionCallAction; n > limit {
		return 0, limitError(NumberPromisesExceeded, n, limit)
	}
	return uint64(len(l.promises) - 1), nil
}

func (l *Logic) promise(i uint64) (*promise, error) {
	if i >= uint64(len(l.promises)) {
		return nil, &HostError{Kind: InvalidPromiseIndex, A: i}
	}
	return &l.promises[i], nil
}

// receiptOf returns the receipt of promise i, for appending an action, and the receipt's receiver.
func (l *Logic) receiptOf(i uint64) (receipt int, to primitives.AccountID, err error) {
	p, err := l.promise(i)
	if err != nil {
		return 0, "", err
	}
	if p.isJoint {
		return 0, "", fail(CannotAppendActionToJointPromise)
	}
	to, err = l.x.Receiver(p.receipt)
	return p.receipt, to, err
}

func (l *Logic) isSelf(id primitives.AccountID) bool { return id == l.call.CurrentAccount }

func (l *Logic) fee(c parameters.ActionCost) *parameters.Fee { return l.cfg.Fees.Fee(c) }

// payReceipt pays for a receipt without actions. payReceipt pays for sending the receipt, and the
// send part and the execution part of the fee for each result that the receipt waits for. waitsFor
// has one entry per result: whether the receipt that produces the result has the receiver of the
// new receipt. The bytes of a result are paid for when the result is returned.
func (l *Logic) payReceipt(self bool, waitsFor ...bool) error {
	f := l.fee(parameters.ActionNewActionReceipt)
	burn := f.Send(self)
	data := l.fee(parameters.ActionNewDataReceiptBase)
	for _, dep := range waitsFor {
		var err error
		if burn, err = burn.Add(data.Send(dep)); err != nil {
			return fail(IntegerOverflow)
		}
		if burn, err = burn.Add(data.Exec); err != nil {
			return fail(IntegerOverflow)
		}
	}
	return l.payFee(burn, f.Exec.Gas, parameters.ActionNewActionReceipt)
}

// payAction pays for an action: it burns the send fee and sets the execution fee aside.
func (l *Logic) payAction(c parameters.ActionCost, self bool) error {
	f := l.fee(c)
	return l.payFee(f.Send(self), f.Exec.Gas, c)
}

// payActionBytes is payAction for n units.
func (l *Logic) payActionBytes(c parameters.ActionCost, n uint64, self bool) error {
	f := l.fee(c)
	send, err := f.Send(self).Mul(n)
	if err != nil {
		return fail(IntegerOverflow)
	}
	exec, err := f.Exec.Mul(n)
	if err != nil {
		return fail(IntegerOverflow)
	}
	return l.payFee(send, exec.Gas, c)
}

func (l *Logic) payFee(send parameters.Cost, exec primitives.Gas, c parameters.ActionCost) error {
	use := send.Gas + exec
	if use < exec {
		return fail(IntegerOverflow)
	}
	return l.gas.payAction(send, use, c)
}

// promiseCreate (account_id_len, account_id_ptr, method_name_len, method_name_ptr, arguments_len,
// arguments_ptr, amount_ptr, gas) creates a batch promise with one function call.
func promiseCreate(l *Logic, a []uint64) (uint64, error) {
	i, err := promiseBatchCreate(l, a[:2])
	if err != nil {
		return 0, err
	}
	return i, l.appendCall(i, a[2:8], 0)
}

// promiseThen (promise_index, ...) is promiseCreate for a call that waits for promise_index.
func promiseThen(l *Logic, a []uint64) (uint64, error) {
	i, err := promiseBatchThen(l, a[:3])
	if err != nil {
		return 0, err
	}
	return i, l.appendCall(i, a[3:9], 0)
}

// promiseAnd (promise_idx_ptr, promise_idx_count) joins promises. The indices of the promises are
// little-endian u64s in memory.
func promiseAnd(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtPromiseAndBase); err != nil {
		return 0, err
	}
	if a[1] > ^uint64(0)/8 {
		return 0, fail(IntegerOverflow)
	}
	n := a[1] * 8
	if err := l.gas.payPer(parameters.ExtPromiseAndPerPromise, n); err != nil { // per byte of the array
		return 0, err
	}
	in, err := l.read(a[0], n)
	if err != nil {
		return 0, err
	}
	joint, limit := []int(nil), l.wasm.Limits.MaxNumberInputDataDependencies
	for ; len(in) > 0; in = in[8:] {
		p, err := l.promise(binary.LittleEndian.Uint64(in))
		if err != nil {
			return 0, err
		}
		if p.isJoint {
			joint = append(joint, p.joint...)
		} else {
			joint = append(joint, p.receipt)
		}
		if uint64(len(joint)) > limit {
			return 0, limitError(NumberInputDataDependenciesExceeded, uint64(len(joint)), limit)
		}
	}
	return l.addPromise(promise{joint: joint, isJoint: true})
}

// promiseBatchCreate (account_id_len, account_id_ptr)
func promiseBatchCreate(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	to, err := l.accountID(a[0], a[1])
	if err != nil {
		return 0, err
	}
	if err := l.payReceipt(l.isSelf(to)); err != nil {
		return 0, err
	}
	receipt, err := l.x.Create(to, nil)
	if err != nil {
		return 0, err
	}
	return l.addPromise(promise{receipt: receipt})
}

// promiseBatchThen (promise_index, account_id_len, account_id_ptr)
func promiseBatchThen(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	to, err := l.accountID(a[1], a[2])
	if err != nil {
		return 0, err
	}
	p, err := l.promise(a[0])
	if err != nil {
		return 0, err
	}
	after := p.joint
	if !p.isJoint {
		after = []int{p.receipt}
	}
	deps := make([]bool, len(after))
	for i, receipt := range after {
		from, err := l.x.Receiver(receipt)
		if err != nil {
			return 0, err
		}
		deps[i] = from == to
	}
	if err := l.payReceipt(l.isSelf(to), deps...); err != nil {
		return 0, err
	}
	receipt, err := l.x.Create(to, after)
	if err != nil {
		return 0, err
	}
	return l.addPromise(promise{receipt: receipt})
}

// promiseSetRefundTo (promise_index, account_id_len, account_id_ptr)
func promiseSetRefundTo(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	id, err := l.accountID(a[1], a[2])
	if err != nil {
		return 0, err
	}
	p, err := l.promise(a[0])
	if err != nil {
		return 0, err
	}
	if p.isJoint {
		return 0, fail(CannotSetRefundToOnJointPromise)
	}
	return 0, l.x.SetRefundTo(p.receipt, id)
}

// promiseResult (result_idx, register_id) returns 1 for a value, 2 for a failure. The bytes of the
// value were paid for when the value was returned.
func promiseResult(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if a[0] >= uint64(len(l.call.Results)) {
		return 0, &HostError{Kind: InvalidPromiseResultIndex, A: a[0]}
	}
	if r := &l.call.Results[a[0]]; !r.Failed {
		return 1, l.shareRegister(a[1], r.Data)
	}
	return 2, nil
}

// promiseReturn (promise_idx) makes the promise's result the result of the call.
func promiseReturn(l *Logic, a []uint64) (uint64, error) {
	// promiseResult does not call begin, because nearcore rejects views only after the second
	// price.
	if err := l.gas.pay(parameters.ExtBase); err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtPromiseReturn); err != nil {
		return 0, err
	}
	if err := l.refuse(); err != nil {
		return 0, err
	}
	p, err := l.promise(a[0])
	if err != nil {
		return 0, err
	}
	if p.isJoint {
		return 0, fail(CannotReturnJointPromise)
	}
	l.result = action.Return{Kind: action.ReturnReceipt, Receipt: p.receipt}
	return 0, nil
}

// valueReturn (value_len, value_ptr). Receipts that wait for the result get the result in data
// receipts, whose bytes are paid for here.
func valueReturn(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	value, err := l.arg(a[0], a[1])
	if err != nil {
		return 0, err
	}
	n, limit := uint64(len(value)), l.wasm.Limits.MaxLengthReturnedData
	if n > limit {
		return 0, limitError(ReturnedValueLengthExceeded, n, limit)
	}
	var burn parameters.Cost
	f := l.fee(parameters.ActionNewDataReceiptByte)
	for _, to := range l.call.OutputReceivers {
		each, err := f.Send(l.isSelf(to)).Add(f.Exec)
		if err == nil {
			each, err = each.Mul(n)
		}
		if err == nil {
			burn, err = burn.Add(each)
		}
		if err != nil {
			return 0, fail(IntegerOverflow)
		}
	}
	if err := l.gas.payAction(burn, burn.Gas, parameters.ActionNewDataReceiptByte); err != nil {
		return 0, err
	}
	l.result = action.Return{Kind: action.ReturnValue, Value: append([]byte{}, value...)}
	return 0, nil
}

// external translates an error of External into nearcore's HostError.
func external(err error, receipt int, index uint64) error {
	switch {
	case errors.Is(err, action.ErrActionIndex):
		return &HostError{Kind: InvalidActionIndex, A: uint64(receipt), B: index}
	case errors.Is(err, action.ErrEntryExists):
		return fail(DataEntryAlreadyExists)
	}
	return err
}
