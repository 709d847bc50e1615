package action

import (
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// VM runs contracts. Safe for concurrent use.
type VM interface {
	// Call runs a method. The contract's state changes and promises go through x. An error means
	// that the chunk cannot be applied; every failure that a contract can cause is in the outcome.
	Call(c *Call, x *External) (CallOutcome, error)
}

// Warmer is a VM that compiles code in the background before the code is called. Warm does not
// block, keeps no reference to code, and only makes calls after it faster. The compiler serves
// submitters in turn. done is closed when the code is compiled or the VM has given up compiling it.
type Warmer interface {
	Warm(from CodeFrom, code []byte, w *parameters.Wasm) (done <-chan struct{})
}

// CodeFrom is where code to compile comes from.
type CodeFrom struct {
	Submitter primitives.AccountID // account that deploys the code; empty: no account deploys it
	// Shard is the shard that runs or deploys the code, for metrics. It has no meaning unless InShard
	// is set.
	Shard   primitives.ShardID
	InShard bool
}

// Precompiler is a VM that compiles code before a block calls it, with the priority of a call.
// Precompile returns when the compilation has ended. If the compilation failed, the call reports
// the reason. Safe for concurrent use.
type Precompiler interface {
	Preparer
	Precompile(from CodeFrom, code []byte, w *parameters.Wasm)
}

// Warm asks the VM to compile code that an account deploys.
func (b *Block) Warm(account primitives.AccountID, code []byte) {
	if w, ok := b.VM.(Warmer); ok {
		w.Warm(CodeFrom{Submitter: account, Shard: b.ShardID, InShard: true}, code, &b.Config.Wasm)
	}
}

// Call is a call of a method with its context (nearcore VMContext).
type Call struct {
	Block       *Block
	ReceiptID   primitives.Hash
	ActionIndex int

	CodeHash primitives.Hash
	Code     []byte // deployed wasm code of the account; nil: none
	Method   string // name of the called method; may be empty
	Args     []byte

	CurrentAccount  primitives.AccountID
	SignerAccount   primitives.AccountID
	SignerKey       primitives.PublicKey
	Predecessor     primitives.AccountID
	RefundTo        primitives.AccountID
	Results         []PromiseResult
	Balance         primitives.Balance // balance of the account, without Deposit
	Locked          primitives.Balance
	StorageUsage    uint64
	Contract        primitives.AccountContract
	Deposit         primitives.Balance
	PrepaidGas      primitives.Gas
	RandomSeed      primitives.Hash
	OutputReceivers []primitives.AccountID // receivers of the result; empty if the call is not the last action

	// View forbids changes: host functions that change something or need a receipt fail. PrepaidGas
	// is all that the call may burn.
	View bool
	// Brief omits Profile and Compute from the outcome. Only blocks need Profile and Compute.
	Brief bool
	// Interrupt, if not nil, is called before each host function. An error of Interrupt ends the
	// call, and Call returns that error. Only views set Interrupt: views must end in bounded time,
	// and no block depends on a view.
	Interrupt func() error
}

// CallOutcome is the outcome of a call (nearcore VMOutcome). Of a failed call only gas, compute,
// logs and profile are valid.
type CallOutcome struct {
	Err *primitives.FunctionCallError
	// Cause is the VM's own error behind Err; Err has only the text that the chain stores. nil:
	// none.
	Cause        error
	Failure      CallFailure // the variant behind Err if Err is a CallExecution, which states only a text
	OutOfGas     bool        // true: Err means that the call exceeded its gas limit
	Return       Return      // result of the call; Return.Receipt is an index in this call's receipts
	Balance      primitives.Balance
	StorageUsage uint64
	GasBurnt     primitives.Gas
	GasUsed      primitives.Gas // gas burnt plus gas attached to promises
	Compute      parameters.Compute
	Logs         []string
	Profile      []primitives.CostEntry // nonzero costs, sorted by category and cost
	Subsidized   primitives.Balance     // 1 yoctoNEAR deposits that the contract could not pay
}

// CallFailure names why a call failed, by the variants of nearcore's VM errors (nearcore
// runtime/near-vm-runner/src/logic/errors.rs FunctionCallError): Error is the variant, Kind the variant
// of the error in it; "" if it has none. The zero value means no failure. For metrics only; there are
// about 70 values.
type CallFailure struct{ Error, Kind string }

// failure returns why the call failed.
func (o *CallOutcome) failure() CallFailure {
	switch e := o.Err; {
	case e == nil:
		return CallFailure{}
	case e.Tag == primitives.CallCompilation:
		return CallFailure{e.Tag.String(), compilationKinds[e.Compilation.Tag]}
	case e.Tag == primitives.CallMethodResolve:
		return CallFailure{e.Tag.String(), e.Method.String()}
	case o.Failure != CallFailure{}:
		return o.Failure
	}
	return CallFailure{Error: primitives.CallWasmUnknown.String()}
}

// compilationKinds are nearcore's names. The VM is wasmtime; the chain stores another name (primitives).
var compilationKinds = [...]string{
	primitives.CompilationCodeDoesNotExist: "CodeDoesNotExist", primitives.CompilationPrepare: "PrepareError",
	primitives.CompilationWasm: "WasmtimeCompileError",
}

// Unchanged returns the outcome of a call that does nothing and burns nothing. The deposit goes to
// the account.
func (c *Call) Unchanged() CallOutcome {
	balance, _ := c.Balance.Add(c.Deposit) // the caller has checked that the sum does not overflow
	return CallOutcome{Balance: balance, StorageUsage: c.StorageUsage}
}

// NoVMText is the error text of calls that need a VM while there is none.
const NoVMText = "contract execution is not available in this build"

// compilationFailure is the outcome of a call that fails before it starts. Such a call burns
// nothing.
func compilationFailure(e primitives.CompilationError) CallOutcome {
	return CallOutcome{Err: &primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: &e}}
}

// CompareCosts orders the entries of profiles.
func CompareCosts(a, b primitives.CostEntry) int {
	if c := strings.Compare(a.Category, b.Category); c != 0 {
		return c
	}
	return strings.Compare(a.Cost, b.Cost)
}

// MergeProfiles adds profile p to sum and returns sum. sum and p are sorted by category and cost.
// Sums saturate: no rule of the chain depends on profiles.
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
