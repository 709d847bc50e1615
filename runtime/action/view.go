package action

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// View is a method to run as a read: called by the account itself, with nothing attached.
type View struct {
	Account   primitives.AccountID
	Method    string
	Args      []byte
	Gas       primitives.Gas // all that it may burn
	Interrupt func() error   // as Call's
	// Short ends the run once it is clear that it takes long: with ErrNotReady where code is not
	// compiled yet, with ErrLong where it burns more than ShortGas.
	Short bool
}

// ShortGas is what a short view burns at most: 5 ms at the worst of the host functions, 1.5 ms of
// instructions.
const ShortGas = 10 * primitives.Gas(1_000_000_000_000)

// Errors of a short view.
var (
	ErrLong     = errors.New("not a short view")                     // nor will it be the next time
	ErrNotReady = errors.New("the code of a view is to be compiled") // this once
)

// Preparer is a VM that compiles.
type Preparer interface {
	// Ready tells whether code is compiled for a config, so that calling it does not begin with
	// that.
	Ready(code primitives.Hash, w *parameters.Wasm) bool
}

// ViewParts is the memory that a view runs in. It may be used again, and its zero is what holds on
// to nothing.
type ViewParts struct {
	x        Execution
	receipt  primitives.Receipt
	body     primitives.ActionReceipt
	function primitives.FunctionCall
	world    External
	call     Call
}

// Run runs the method on a state that a block left; found is false if there is no such account. b
// is that block, but for RandomValue, which is the root of the state. What comes of the call is in
// the outcome; u is not to be used after it, and parts, in which it runs, may be used for another
// (nearcore runtime/runtime/src/state_viewer/mod.rs call_function).
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
	if err == nil && out.OutOfGas && gas < v.Gas { // of what a short one has
		err = ErrLong
	}
	return out, true, err
}
