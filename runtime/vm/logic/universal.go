package logic

import (
	"bytes"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Host functions of universal accounts (near-vm-runner 0.38.0 src/logic/host.rs:3299).

// universalAccountID (state_init_len, state_init_ptr, register_id) derives an account id from a
// state init. universalAccountID writes the id into the register and returns 0. It returns 1 if the
// bytes are not a valid state init, and 2 if the state init is not canonical. If it returns 1 or 2,
// it does not write the register.
func universalAccountID(l *Logic, a []uint64) (uint64, error) {
	b, err := l.payArg(parameters.ExtUniversalStateInitToAccountIDBase, a[0], a[1])
	if err != nil {
		return 0, err
	}
	// This charge pays for the check below.
	if err := l.gas.payPer(parameters.ExtUniversalStateInitToAccountIDByte, uint64(len(b))); err != nil {
		return 0, err
	}
	init := primitives.RawStateInit(b)
	if l.wasm.CanonicalUniversalStateInit {
		if err := init.Check(); err != nil {
			return primitives.StateInitExitStatus(err), nil
		}
	}
	return 0, l.setRegister(a[2], []byte(init.DerivedAccount()))
}

// universalStateInit (promise_index, state_init_len, state_init_ptr, amount_ptr). This function
// does not check the bytes. The validation of the receipt checks that the bytes are valid and that
// the receiver is derived from the bytes.
func universalStateInit(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	b, err := l.arg(a[1], a[2])
	if err != nil {
		return 0, err
	}
	amount, err := l.readBalance(a[3])
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	init, self := primitives.RawStateInit(b), l.isSelf(to)
	// The charges that depend on the length come first, because these charges pay for the decoding.
	if err := l.payAction(parameters.ActionUniversalStateInitBase, self); err != nil {
		return 0, err
	}
	if err := l.payActionBytes(parameters.ActionUniversalStateInitByte, uint64(len(b)), self); err != nil {
		return 0, err
	}
	counts := init.SendCounts(l.wasm.CanonicalUniversalStateInit)
	if err := l.payActionBytes(parameters.ActionUniversalStateInitEntry, counts.Entries, self); err != nil {
		return 0, err
	}
	if err := l.payActionBytes(parameters.ActionAddFullAccessKey, counts.Keys, self); err != nil {
		return 0, err
	}
	if err := l.deduct(amount); err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, &primitives.UniversalStateInit{Init: bytes.Clone(b), Deposit: amount})
}
