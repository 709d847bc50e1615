// Package logic is what a contract can ask of its host: the functions that it imports, their prices
// and their limits.
//
//	in      action.Call, the context of one call; External, its world; the memory and gas of the
//	        running module
//	out     results of host functions; action.CallOutcome: gas, compute, logs, balance, profile,
//	        why it failed
//	state   one Logic a call: registers, promises, logs, gas
//	units   gas; bytes; yoctoNEAR
//	bound   config.Limits: registers 100 and 1 GiB, logs 100 and 16 KiB, promises 1024; all else
//	        is bounded by gas
//	errors  *HostError ends the call; any other error is the state's and makes the chunk
//	        impossible to apply
//	source  nearcore runtime/near-vm-runner/src: wasmtime_runner/logic.rs (bodies), imports.rs
//	        (table), logic/*.rs
//
// No engine is known here. Whoever runs the module sets Memory before each host function, tells by
// Enter how much gas the instructions have left, calls Invoke, and gives Leave back to the module.
// The order of charges is consensus, so every function keeps to one shape: pay the base, refuse in
// views, read arguments (which pays), check, pay, do.
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

// Logic is one call while it runs. It is for one goroutine.
type Logic struct {
	// Memory is the module's, of this host function only: it may move between two.
	Memory []byte

	call *action.Call
	x    External
	cfg  *parameters.RuntimeConfig
	wasm *parameters.Wasm
	gas  gasCounter

	function  *Function // that runs
	registers registers
	promises  []promise

	logs       []string
	logBytes   uint64
	balance    primitives.Balance // with the deposit, less what promises got
	usage      uint64             // of the account's storage, in bytes
	subsidized primitives.Balance
	result     action.Return

	proofStart uint64 // recorded bound that the limit counts from

	err     error // the first
	failure *primitives.FunctionCallError
}

// maxViewGas bounds what a view can be given: the module counts its gas down in a signed number.
const maxViewGas = primitives.Gas(1) << 62

// over are those of calls that are over.
var over = sync.Pool{New: func() any { return new(Logic) }}

// New starts a call with nothing burnt. A view may burn what c.PrepaidGas says and nothing else
// limits it.
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

// Release gives the memory of a call back that is over; its Outcome stays good.
func (l *Logic) Release() {
	*l = Logic{}
	over.Put(l)
}

// PayLoading pays for loading code of n bytes. Whatever limit that breaks, the error is that the
// prepaid gas is exceeded.
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

// Burnt is the gas that is burnt by now.
func (l *Logic) Burnt() primitives.Gas { return l.gas.burnt }

// Leave returns what the module may burn from here: the value of its gas global.
func (l *Logic) Leave() int64 { return int64(l.gas.remaining()) }

// Enter tells what is left of it. Less than 0 means that the module stopped because a charge was
// larger than what was left, and that charge is already subtracted: the call is out of gas.
func (l *Logic) Enter(left int64) {
	if left < 0 {
		l.OutOfGas(left)
		return
	}
	if spent := int64(l.gas.remaining()) - left; spent > 0 {
		l.gas.burnt += primitives.Gas(spent)
	}
}

// OutOfGas ends a call whose instructions want more than what is left: left is below 0 by what is
// missing.
func (l *Logic) OutOfGas(left int64) {
	burnt := l.gas.limit + primitives.Gas(-left) // both below 2^63
	l.keep(l.gas.exceed(burnt, burnt+l.gas.promises))
}

// OutOfStack ends a call that went too deep.
func (l *Logic) OutOfStack() { l.keep(fail(MemoryAccessViolation)) }

// Invoke runs function i of Functions with the raw arguments of its signature; an i32 is in the low
// half. An error must trap the module: the call is over.
func (l *Logic) Invoke(i int, args []uint64) (uint64, error) {
	if l.err != nil { // a module that goes on after a trap would be the engine's fault
		return 0, l.err
	}
	if err := l.Interrupted(); err != nil {
		return 0, err
	}
	f := &Functions[i]
	l.function = f
	if len(args) != len(f.Params) {
		return 0, l.keep(fmt.Errorf("logic: %s called with %d arguments", f.Name, len(args)))
	}
	v, err := f.call(l, args)
	if err != nil {
		return 0, l.keep(err)
	}
	return v, nil
}

// Interrupted asks whether the call is to end, and keeps why.
func (l *Logic) Interrupted() error {
	if l.call.Interrupt == nil {
		return nil
	}
	if err := l.call.Interrupt(); err != nil {
		return l.keep(err)
	}
	return nil
}

// Err is why the call failed by now: a *HostError, or what made the chunk impossible to apply; nil
// if nothing did.
func (l *Logic) Err() error { return l.err }

// Fail notes why the call failed, unless something did before: a trap, a link error.
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

// Outcome is how the call ended. The error is one that makes the chunk impossible to apply.
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

// begin is how most functions start: the base price, and the refusal of what a view must not do.
func (l *Logic) begin() error {
	if err := l.gas.pay(parameters.ExtBase); err != nil {
		return err
	}
	return l.refuse()
}

// refuse fails in a view if the function that runs is none for views.
func (l *Logic) refuse() error {
	if l.call.View && !l.function.View {
		return &HostError{Kind: ProhibitedInView, Text: cmp.Or(l.function.refusedAs, l.function.Name)}
	}
	return nil
}

// deduct takes what a promise is given from the account.
func (l *Logic) deduct(amount primitives.Balance) error {
	left, ok := l.balance.Sub(amount)
	if !ok {
		return fail(BalanceExceeded)
	}
	l.balance = left
	return nil
}

// attach is deduct for calls: a contract without a token may attach exactly one yoctoNEAR, which is
// made from nothing, so that accounts that hold nothing can call what demands one as a proof of
// intent.
func (l *Logic) attach(amount primitives.Balance) error {
	if l.wasm.OneYoctoOnPromise && amount == primitives.Yocto(1) && l.balance.IsZero() {
		l.subsidized, _ = l.subsidized.Add(amount) // one a promise
		return nil
	}
	return l.deduct(amount)
}

// observe fails a call that has had too much of the state recorded.
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
