package action

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// View is a read-only call of a method. The account itself is the caller; nothing is attached.
type View struct {
	Account   primitives.AccountID
	Method    string
	Args      []byte
	Gas       primitives.Gas // maximum gas that the call may burn
	Interrupt func() error   // returns an error to stop the call; nil: nothing stops the call
	// Short limits the run to a short time. The run ends with ErrNotReady if the code is not
	// compiled yet, and with ErrLong if it burns more than ShortGas.
	Short bool
}

// ShortGas is the maximum gas that a short view may burn. Burning ShortGas takes at most 5 ms in
// host functions and 1.5 ms in instructions.
const ShortGas = 10 * primitives.Gas(1_000_000_000_000)

// Errors of a short view.
var (
	// ErrLong means that the call needs more gas than a short call may burn. A repetition would
	// fail too.
	ErrLong     = errors.New("the view call exceeds the bounds of a short one")
	ErrNotReady = errors.New("the contract of the view call is not compiled yet") // running the call again may succeed
)

// Preparer is a VM that reports which code is compiled.
type Preparer interface {
	// Ready returns whether code is compiled for a config, so that a call need not wait for the
	// compiler.
	Ready(code primitives.Hash, w *parameters.Wasm) bool
}

// ViewParts is memory for one view at a time. After Run, a ViewParts can be used for another view.
// The zero value is ready for use. Between runs a ViewParts has no references to the state or the
// outcome.
type ViewParts struct {
	x        Execution
	receipt  primitives.Receipt
	body     primitives.ActionReceipt
	function primitives.FunctionCall
	world    External
	call     Call
}

// Run runs the method on the state after a block (nearcore runtime/runtime/src/state_viewer/mod.rs
// call_function). b describes that block, except for RandomValue, which is the state root. found is
// false if the account does not exist. The outcome contains every failure that the call can cause.
// u must not be used afterwards. parts may be used for another view.
func (v *View) Run(b *Block, u *state.TrieUpdate, parts *ViewParts) (out CallOutcome, found bool, err error) {
	*parts = ViewParts{}
	x := &parts.x
	x.Block, x.State, x.Receipt, x.Body = b, u, &parts.receipt, &parts.body
	x.Receipt.PredecessorID, x.Receipt.ReceiverID = v.Account, v.Account
	x.Body.SignerID, x.Body.SignerPublicKey = v.Account, primitives.ZeroED25519Key
	if found, err = u.Account(v.Account, &x.Account); !found || err != nil {
		return out, found, err
	}
	hash, key, err := x.contract()
	if err != nil {
		return out, true, err
	}
	gas := v.Gas
	if v.Short {
		gas = min(gas, ShortGas)
	}
	f := &parts.function
	f.Method, f.Args, f.Gas = v.Method, v.Args, gas
	c := &parts.call
	if err := x.call(c, f, hash, key, primitives.Hash{}); err != nil {
		return out, true, err
	}
	if p, compiles := b.VM.(Preparer); v.Short && compiles && c.Code != nil && !p.Ready(hash, &b.Config.Wasm) {
		return out, true, ErrNotReady
	}
	c.View, c.Brief, c.Interrupt = true, true, v.Interrupt
	parts.world.begin(b, u, v.Account, primitives.Hash{})
	out, err = c.run(&parts.world)
	// The limit was ShortGas, which is below the gas that the caller allowed.
	if err == nil && out.OutOfGas && gas < v.Gas {
		err = ErrLong
	}
	return out, true, err
}
