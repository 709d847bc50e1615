// Package logic implements the host functions that contracts import, with their prices and limits.
//
//	in      action.Call, the context of one call; External, its environment; the memory and gas of
//	        the running module
//	out     results of host functions; action.CallOutcome: gas, compute, logs, balance, profile,
//	        the reason of a failure
//	state   one Logic per call: registers, promises, logs, gas
//	units   gas; bytes; yoctoNEAR
//	bound   parameters.Limits: 100 registers and 1 GiB, 100 logs and 16 KiB, 1024 promises; gas bounds
//	        everything else
//	errors  *HostError ends the call. Any other error comes from the state, and the chunk cannot be
//	        applied
//	source  nearcore runtime/near-vm-runner/src: wasmtime_runner/logic.rs (bodies), imports.rs
//	        (table), logic/*.rs
//
// The package does not depend on an engine. For each host call, the caller sets Memory, passes the
// gas left to Enter, calls Invoke, and returns the result of Leave to the module. The order of
// charges is consensus. So every function has the same steps: pay the base price, reject views if
// needed, read the arguments (which costs gas), check them, pay, execute.
package logic

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// Logic is one running call. Not safe for concurrent use.
type Logic struct {
	// Memory is the module's memory. Memory is valid during one host function, because the memory
	// may move afterwards.
	Memory []byte

	call *action.Call
	x    External
	cfg  *parameters.RuntimeConfig
	wasm *parameters.Wasm
	gas  gasCounter

	function  *Function // the running host function
	registers registers
	promises  []promise

	logs       []string
	logBytes   uint64
	balance    primitives.Balance // balance of the account with the deposit, less what promises have received
	usage      uint64             // storage usage of the account in bytes
	subsidized primitives.Balance // deposits of promises for which the account does not pay
	result     action.Return

	proofStart uint64 // value of External.RecordedBound from which the proof size limit is counted

	err     error // first error of a host function
	failure *primitives.FunctionCallError
}

// maxViewGas is the maximum gas of a view. The module counts gas in a signed 64-bit number.
const maxViewGas = primitives.Gas(1) << 62

// over is a pool of Logic values of ended calls, whose memory New reuses.
var over = sync.Pool{New: func() any { return new(Logic) }}

// New starts a call that has burnt nothing yet. A view may burn c.PrepaidGas; no other gas limit
// applies to a view.
func New(c *action.Call, x External, cfg *parameters.RuntimeConfig) *Logic {
	l := over.Get().(*Logic)
	*l = Logic{call: c, x: x, cfg: cfg, wasm: &cfg.Wasm, usage: c.StorageUsage, proofStart: x.ProofStart()}
	maxBurnt := cfg.Wasm.Limits.MaxGasBurnt
	if c.View {
		maxBurnt = min(c.PrepaidGas, maxViewGas)
	}
	l.gas = newGasCounter(&cfg.Wasm.Ext, maxBurnt, c.PrepaidGas, c.View)
	l.balance, _ = c.Balance.Add(c.Deposit) // the caller has checked that the sum does not overflow
	return l
}

// Release returns the memory of an ended call for reuse. The call's Outcome stays valid.
func (l *Logic) Release() {
	*l = Logic{}
	over.Put(l)
}

// PayLoading pays for loading code of n bytes. The error of PayLoading is GasExceeded, whichever
// limit is exceeded.
func (l *Logic) PayLoading(n int) error {
	err := l.gas.payPer(parameters.ExtContractLoadingBytes, uint64(n))
	if err == nil {
		err = l.gas.pay(parameters.ExtContractLoadingBase)
	}
	if err != nil {
		err = fail(GasExceeded)
		l.keep(err)
	}
	return err
}

// Burnt returns the gas burnt so far.
func (l *Logic) Burnt() primitives.Gas { return l.gas.burnt }

// Leave returns the gas that the module may burn from now on, as the new value of its gas global.
func (l *Logic) Leave() int64 { return int64(l.gas.remaining()) }

// Enter sets the remaining gas to left, the value of the module's gas global. If left is negative,
// the call is out of gas: the module stopped after it had subtracted a charge that was larger than
// the remaining gas.
func (l *Logic) Enter(left int64) {
	if left < 0 {
		l.OutOfGas(left)
		return
	}
	if spent := int64(l.gas.remaining()) - left; spent > 0 {
		l.gas.burnt += primitives.Gas(spent)
	}
}

// OutOfGas ends a call whose instructions need more gas than is left. left is negative; its
// absolute value is the missing gas.
func (l *Logic) OutOfGas(left int64) {
	burnt := l.gas.limit + primitives.Gas(-left) // cannot overflow: both are below 2^63
	l.keep(l.gas.exceed(burnt, burnt+l.gas.promises))
}

// OutOfStack ends a call that exhausted the metered stack.
func (l *Logic) OutOfStack() { l.keep(fail(MemoryAccessViolation)) }

// Invoke runs function i of Functions with raw arguments; an i32 is in the low half. After an
// error, the call has ended, and the caller must trap the module.
func (l *Logic) Invoke(i int, args []uint64) (uint64, error) {
	if l.err != nil { // true only if the engine continues after a trap
		return 0, l.err
	}
	if err := l.Interrupted(); err != nil {
		return 0, err
	}
	f := &Functions[i]
	l.function = f
	if len(args) != len(f.Params) {
		return 0, l.keep(fmt.Errorf("logic: host function %s called with %d arguments, want %d", f.Name, len(args), len(f.Params)))
	}
	v, err := f.call(l, args)
	if err != nil {
		return 0, l.keep(err)
	}
	return v, nil
}

// Interrupted calls Call.Interrupt and records its error.
func (l *Logic) Interrupted() error {
	if l.call.Interrupt == nil {
		return nil
	}
	if err := l.call.Interrupt(); err != nil {
		return l.keep(err)
	}
	return nil
}

// Err returns the error that ended the call; nil if there is none. The error is a *HostError, or
// another error if the chunk cannot be applied.
func (l *Logic) Err() error { return l.err }

// Fail records a failure outside of host functions, such as a trap or a link error. Only the first
// failure is kept.
func (l *Logic) Fail(e *primitives.FunctionCallError) {
	if l.failure == nil {
		l.failure = e
	}
}

func (l *Logic) keep(err error) error {
	if l.err == nil {
		l.err = err
	}
	return err
}

// Outcome returns the outcome of the call. An error means that the chunk cannot be applied.
func (l *Logic) Outcome() (action.CallOutcome, error) {
	failure := l.failure
	var cause error
	outOfGas := false
	if l.err != nil {
		var host *HostError
		if !errors.As(l.err, &host) {
			return action.CallOutcome{}, l.err
		}
		failure, cause = host.Execution(), host
		outOfGas = host.Kind == GasExceeded || host.Kind == GasLimitExceeded
	}
	out := action.CallOutcome{
		Err: failure, Cause: cause, OutOfGas: outOfGas, GasBurnt: l.gas.burnt, GasUsed: l.gas.used(), Logs: l.logs,
	}
	if !l.call.Brief {
		rest := l.gas.instructions()
		out.Compute, out.Profile = l.gas.compute(rest), l.gas.profile(rest)
	}
	if failure == nil {
		out.Return, out.Balance, out.StorageUsage, out.Subsidized = l.result, l.balance, l.usage, l.subsidized
	}
	return out, nil
}

// begin is the first step of most host functions. begin pays the base price, and fails in a view if
// views must not call the function.
func (l *Logic) begin() error {
	if err := l.gas.pay(parameters.ExtBase); err != nil {
		return err
	}
	return l.refuse()
}

// refuse fails in a view if the running function is not allowed in views.
func (l *Logic) refuse() error {
	if l.call.View && !l.function.View {
		return &HostError{Kind: ProhibitedInView, Text: cmp.Or(l.function.refusedAs, l.function.Name)}
	}
	return nil
}

// deduct subtracts amount, which a promise transfers, from the account's balance.
func (l *Logic) deduct(amount primitives.Balance) error {
	left, ok := l.balance.Sub(amount)
	if !ok {
		return fail(BalanceExceeded)
	}
	l.balance = left
	return nil
}

// attach is deduct for function calls. A contract with balance 0 may attach exactly 1 yoctoNEAR,
// which is minted. So accounts without balance can make calls that require 1 yoctoNEAR as proof of
// intent.
func (l *Logic) attach(amount primitives.Balance) error {
	if l.wasm.OneYoctoOnPromise && amount == primitives.Yocto(1) && l.balance.IsZero() {
		l.subsidized, _ = l.subsidized.Add(amount) // cannot overflow: at most one yoctoNEAR per promise
		return nil
	}
	return l.deduct(amount)
}

// observe fails if the call has recorded more state than PerReceiptStorageProofSizeLimit.
func (l *Logic) observe() error {
	now, limit := l.x.RecordedBound(), l.wasm.Limits.PerReceiptStorageProofSizeLimit
	if now < l.proofStart {
		return state.Inconsistent("recorded size of a call: %w", primitives.ErrOverflow)
	}
	if now-l.proofStart > limit {
		return &HostError{Kind: RecordedStorageExceeded, B: limit}
	}
	return nil
}
