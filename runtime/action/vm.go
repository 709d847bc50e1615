package action

import (
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// VM runs contracts. Calls of one VM may come from several goroutines.
type VM interface {
	// Call runs a method. What the contract does to the state and which promises it makes goes
	// through x. The error is one of those that make the chunk impossible to apply; whatever a
	// contract can cause is in the outcome.
	Call(c *Call, x *External) (CallOutcome, error)
}

// Warmer is a VM that compiles code before it is called. Warm does not wait, keeps nothing of code,
// and only makes later calls faster. Submitters take turns; submitter is the account that wants the
// code, empty: nobody's.
type Warmer interface {
	Warm(submitter primitives.AccountID, code []byte, w *parameters.Wasm) (done <-chan struct{})
}

// Hastener is a VM that compiles code before a block calls it, and as soon as for the call. Hasten
// returns when that is done or has failed, of which the call says more. Safe for use by many
// goroutines.
type Hastener interface {
	Preparer
	Precompile(code []byte, w *parameters.Wasm)
}

// Warm tells the VM of code that an account deploys.
func (b *Block) Warm(account primitives.AccountID, code []byte) {
	if w, ok := b.VM.(Warmer); ok {
		w.Warm(account, code, &b.Config.Wasm)
	}
}

// Call is a method to run, and its context (nearcore VMContext).
type Call struct {
	Block       *Block
	ReceiptID   primitives.Hash
	ActionIndex int

	CodeHash primitives.Hash
	Code     []byte // wasm as it was deployed
	Method   string // of a transaction's call or a promise's it may be empty
	Args     []byte

	CurrentAccount  primitives.AccountID
	SignerAccount   primitives.AccountID
	SignerKey       primitives.PublicKey
	Predecessor     primitives.AccountID
	RefundTo        primitives.AccountID
	Results         []PromiseResult
	Balance         primitives.Balance // of the account, without Deposit
	Locked          primitives.Balance
	StorageUsage    uint64
	Contract        primitives.AccountContract
	Deposit         primitives.Balance
	PrepaidGas      primitives.Gas
	RandomSeed      primitives.Hash
	OutputReceivers []primitives.AccountID // who gets the result; none unless the call is the last action

	// View: nothing may be changed, and functions that have no meaning fail. PrepaidGas is all that
	// the call may burn.
	View bool
	// Brief: the outcome needs no Profile and no Compute, which go into blocks.
	Brief bool
	// Interrupt, if not nil, is asked before each host function; its error ends the call and is
	// returned. Views have one: they must not take for ever, and no block depends on them.
	Interrupt func() error
}

// CallOutcome is how a call ended (nearcore VMOutcome). Of a failed call only gas, compute, logs
// and profile count.
type CallOutcome struct {
	Err          *primitives.FunctionCallError
	Cause        error  // the VM's own form of Err, of which the chain keeps the text; nil if there is none
	OutOfGas     bool   // Err is that the gas which the call had, or may burn, was not enough
	Return       Return // a receipt is numbered among those of this call
	Balance      primitives.Balance
	StorageUsage uint64
	GasBurnt     primitives.Gas
	GasUsed      primitives.Gas // burnt, and given to promises
	Compute      parameters.Compute
	Logs         []string
	Profile      []primitives.CostEntry // sorted by category, then cost; no zeros
	Subsidized   primitives.Balance     // 1 yoctoNEAR deposits that the contract did not have
}

// Unchanged is the outcome of a call that does nothing and burns nothing: the deposit is the
// account's.
func (c *Call) Unchanged() CallOutcome {
	balance, _ := c.Balance.Add(c.Deposit) // checked before the call
	return CallOutcome{Balance: balance, StorageUsage: c.StorageUsage}
}

// NoVMText is the message of calls that would have to run code while there is no VM.
const NoVMText = "contract execution is not available in this build"

// compilationFailure is an outcome of a call that ends before it starts: nothing is burnt.
func compilationFailure(e primitives.CompilationError) CallOutcome {
	return CallOutcome{Err: &primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: &e}}
}

// CompareCosts is the order of profiles.
func CompareCosts(a, b primitives.CostEntry) int {
	if c := strings.Compare(a.Category, b.Category); c != 0 {
		return c
	}
	return strings.Compare(a.Cost, b.Cost)
}

// MergeProfiles adds profile p to sum, both sorted by category and cost, and returns sum; sums
// saturate, since profiles count in nothing.
func MergeProfiles(sum, p []primitives.CostEntry) []primitives.CostEntry {
	for _, e := range p {
		i, found := slices.BinarySearchFunc(sum, e, CompareCosts)
		if !found {
			sum = slices.Insert(sum, i, e)
		} else if sum[i].Gas += e.Gas; sum[i].Gas < e.Gas {
			sum[i].Gas = ^primitives.Gas(0)
		}
	}
	return sum
}
