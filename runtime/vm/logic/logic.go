// Package logic implements the host functions that contracts import, with their prices and limits.
//
//	in      action.Call, the context of one call; External, its environment; the memory and gas of
//	        the running module
//	out     results of host functions; action.CallOutcome: gas, compute, logs, balance, profile,
//	        the reason of a failure
//	state   one Logic per call: registers, promises, logs, gas
//	units   gas; bytes; yoctoNEAR
//	bound   parameters.Limits: 100 registers and 1 GiB, 100 logs and 16 KiB, 1024 promises; all
//	        else is bounded by gas
//	errors  *HostError ends the call. Any other error is the state's, and the chunk cannot be
//	        applied
//	source  nearcore runtime/near-vm-runner/src: wasmtime_runner/logic.rs (bodies), imports.rs
//	        (table), logic/*.rs
//
// The package does not depend on an engine. The caller sets Memory before each host function,
// passes the gas that the instructions have left to Enter, calls Invoke, and returns the result of
// Leave to the module. The order of charges is consensus, so every function has one shape: pay the
// base, reject views if needed, read arguments (which pays), check, pay, execute.
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
	// Memory is the module's memory, valid during one host function: it may move afterwards.
	Memory []byte

	call *action.Call
	x    External
	cfg  *parameters.RuntimeConfig
	wasm *parameters.Wasm
	gas  gasCounter

	function  *Function // the running one
	registers registers
	promises  []promise

	logs       []string
	logBytes   uint64
	balance    primitives.Balance // with the deposit, without what promises got
	usage      uint64             // of the account's storage, in bytes
	subsidized primitives.Balance
	result     action.Return

	proofStart uint64 // the recorded bound from which the limit counts

	err     error // the first one
	failure *primitives.FunctionCallError
}

// maxViewGas bounds the gas of a view, since the module counts it in a signed number.
const maxViewGas = primitives.Gas(1) << 62

// over is a pool of Logic values of ended calls, whose memory New reuses.
var over = sync.Pool{New: func() any { return new(Logic) }}

// New starts a call. Nothing is burnt yet. A view may burn c.PrepaidGas, and no other limit
// applies.
func New(c *action.Call, x External, cfg *parameters.RuntimeConfig) *Logic {
	l := over.Get().(*Logic)
	*l = Logic{call: c, x: x, cfg: cfg, wasm: &cfg.Wasm, usage: c.StorageUsage, proofStart: x.ProofStart()}
	maxBurnt := cfg.Wasm.Limits.MaxGasBurnt
	if c.View {
		maxBurnt = min(c.PrepaidGas, maxViewGas)
	}
	l.gas = newGasCounter(&cfg.Wasm.Ext, maxBurnt, c.PrepaidGas, c.View)
	l.balance, _ = c.Balance.Add(c.Deposit) // checked before the call
	return l
}

// Release returns the memory of an ended call for reuse. Its Outcome stays valid.
func (l *Logic) Release() {
	*l = Logic{}
	over.Put(l)
}

// PayLoading pays for loading code of n bytes. Whichever limit that exceeds, the error is
// GasExceeded.
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

// Enter sets the remaining gas to the value of the module's gas global. A negative value means that the call
// is out of gas: the module stopped after it had subtracted a charge that was larger than the rest.
func (l *Logic) Enter(left int64) {
	if left < 0 {
		l.OutOfGas(left)
		return
	}
	if spent := int64(l.gas.remaining()) - left; spent > 0 {
		l.gas.burnt += primitives.Gas(spent)
	}
}

// OutOfGas ends a call whose instructions exceed the gas. left is negative: the amount that is
// missing.
func (l *Logic) OutOfGas(left int64) {
	burnt := l.gas.limit + primitives.Gas(-left) // both are below 2^63
	l.keep(l.gas.exceed(burnt, burnt+l.gas.promises))
}

// OutOfStack ends a call that exhausted the metered stack.
func (l *Logic) OutOfStack() { l.keep(fail(MemoryAccessViolation)) }

// Invoke runs function i of Functions with raw arguments; an i32 is in the low half. After an error
// the call is over, and the caller must trap the module.
func (l *Logic) Invoke(i int, args []uint64) (uint64, error) {
	if l.err != nil { // only an engine that continues after a trap gets here
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

// Interrupted calls Call.Interrupt and keeps its error.
func (l *Logic) Interrupted() error {
	if l.call.Interrupt == nil {
		return nil
	}
	if err := l.call.Interrupt(); err != nil {
		return l.keep(err)
	}
	return nil
}

// Err returns why the call failed so far: a *HostError, or an error that means that the chunk
// cannot be applied; nil if the call did not fail.
func (l *Logic) Err() error { return l.err }

// Fail records a failure outside of host functions, such as a trap or a link error. The first one
// stays.
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

// begin is the start of most functions: it pays the base price and rejects functions that views
// must not call.
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

// deduct subtracts the amount that a promise transfers from the account's balance.
func (l *Logic) deduct(amount primitives.Balance) error {
	left, ok := l.balance.Sub(amount)
	if !ok {
		return fail(BalanceExceeded)
	}
	l.balance = left
	return nil
}

// attach is deduct for calls. A contract without any balance may attach exactly one yoctoNEAR,
// which is minted, so that accounts without balance can make calls that require it as proof of
// intent.
func (l *Logic) attach(amount primitives.Balance) error {
	if l.wasm.OneYoctoOnPromise && amount == primitives.Yocto(1) && l.balance.IsZero() {
		l.subsidized, _ = l.subsidized.Add(amount) // one per promise
		return nil
	}
	return l.deduct(amount)
}

// observe fails a call that has recorded too much of the state.
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
