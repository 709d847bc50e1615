package action

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// Result is the combined result of a receipt's actions (nearcore ActionReceiptResult).
type Result struct {
	GasBurnt     primitives.Gas
	GasBurntInVM primitives.Gas // the part of GasBurnt that contract code burnt
	GasUsed      primitives.Gas // GasBurnt plus the gas attached to new receipts
	Compute      parameters.Compute
	Return       Return
	Err          *primitives.ActionError // nil: success
	Logs         []string
	NewReceipts  []*primitives.Receipt // receipts that the actions created; their ids are not set yet
	Proposals    []primitives.ValidatorStake
	Profile      []primitives.CostEntry
	Contracts    []primitives.AccountContract // contract of the account before each executed action
	TokensBurnt  primitives.Balance           // amount that actions burnt
	Subsidized   primitives.Balance
	// Begun counts the actions that passed the checks of account and permission, by tag. A receipt has
	// at most 100 actions (parameters.Limits.MaxActionsPerReceipt).
	Begun [primitives.NumActionTags]uint8
	// CallsDone is the number of contract calls that succeeded, and CallFailure why one failed. At most
	// one fails, because a failure ends the receipt.
	CallsDone   uint8
	CallFailure CallFailure
}

// Fail makes the result a failure. Fail drops the effects of the receipt and keeps the receipt's
// costs.
func (r *Result) Fail(e *primitives.ActionError) {
	r.Err = e
	r.NewReceipts, r.Proposals = nil, nil
	r.TokensBurnt, r.Subsidized = primitives.Balance{}, primitives.Balance{}
}

// Execution runs one receipt. The caller sets the fields of the first group, calls Run, then
// reads the other fields. Not safe for concurrent use.
type Execution struct {
	Block   *Block
	State   *state.TrieUpdate
	Receipt *primitives.Receipt
	Body    *primitives.ActionReceipt // action receipt in Receipt.Body
	Inputs  []PromiseResult

	Account primitives.Account // the receiver's account; meaningful only if Exists is true
	Exists  bool
	Existed bool // true: the account existed before the first action
	// Actor is the account that the actions act for. Actor is the predecessor, until the receipt
	// creates an account, which becomes the actor. An account that a state init creates does not
	// become the actor.
	Actor primitives.AccountID

	Result Result
	index  int // index of the running action

	recordedBefore uint64 // upper bound of the recorded state proof size before the first action, in bytes
}

// failure is the failure of an action. The failure becomes part of the outcome. An error, in
// contrast, means that the chunk cannot be applied.
type failure = primitives.ActionErrorKind

// Run reads the receiver's account and runs the actions until one fails. Run does not write the
// account. An error means that the chunk cannot be applied.
func (x *Execution) Run() (err error) {
	x.Actor = x.Receipt.PredecessorID
	base := fees.NewReceiptExec(x.Block.Config)
	x.Result = Result{GasUsed: base.Gas, GasBurnt: base.Gas, Compute: base.Compute}
	if n := len(x.Body.Actions); n > 0 {
		x.Result.Contracts = make([]primitives.AccountContract, 0, n)
	}
	if x.Exists, err = x.State.Account(x.Receipt.ReceiverID, &x.Account); err != nil {
		return err
	}
	x.Existed = x.Exists
	x.recordedBefore = x.State.UpperBound()
	for i, a := range x.Body.Actions {
		x.index = i
		from := len(x.Result.NewReceipts)
		fail, err := x.run(a)
		if err != nil {
			return err
		}
		if fail == nil {
			fail = x.validateNew(from)
		}
		if fail == nil {
			fail = x.checkProofSize()
		}
		if fail != nil {
			x.Result.Fail(primitives.NewActionError(uint64(i), fail))
			return nil
		}
	}
	return nil
}

// validateNew validates the receipts that the last action made.
func (x *Execution) validateNew(from int) *failure {
	for _, r := range x.Result.NewReceipts[from:] {
		if e := verify.Receipt(x.Block.Config, r, verify.NewReceipt); e != nil {
			return &failure{Tag: primitives.ActionNewReceiptValidationError, Receipt: e}
		}
	}
	return nil
}

// checkProofSize fails if the receipt has recorded more state than its limit. The VM makes this
// check only in some host functions. checkProofSize runs after every action (nearcore 2.14.0-rc.1
// runtime/runtime/src/lib.rs:928).
func (x *Execution) checkProofSize() *failure {
	v, limit := x.Block.Config.Version, x.Block.Config.Wasm.Limits.PerReceiptStorageProofSizeLimit
	if !v.Has(parameters.EnforcePerReceiptStorageProofLimit) || !v.Has(parameters.EnforceStorageProofLimitForAllActions) {
		return nil
	}
	if bound := x.State.UpperBound(); bound > x.recordedBefore && bound-x.recordedBefore > limit {
		return &failure{Tag: primitives.ActionReceiptStorageProofSizeExceeded, Limit: limit}
	}
	return nil
}

// run checks one action and runs it.
func (x *Execution) run(a primitives.Action) (*failure, error) {
	exec, err := fees.Exec(x.Block.Config, a, x.Receipt.ReceiverID)
	if err != nil {
		return nil, err
	}
	x.Result.Return = Return{}
	if err := x.add(exec, exec.Gas); err != nil {
		return nil, err
	}
	var contract primitives.AccountContract
	if x.Exists {
		contract = x.Account.Contract
	}
	x.Result.Contracts = append(x.Result.Contracts, contract)
	if fail := x.checkExistence(a); fail != nil {
		return fail, nil
	}
	if fail := x.checkPermission(a); fail != nil {
		return fail, nil
	}
	x.Result.Begun[a.Tag()]++
	switch a := a.(type) {
	case *primitives.Transfer:
		return nil, x.transfer(a)
	case *primitives.CreateAccount:
		return x.createAccount(), nil
	case *primitives.FunctionCall:
		return x.functionCall(a)
	case *primitives.DeployContract:
		return nil, x.deployContract(a)
	case *primitives.Stake:
		return x.stake(a), nil
	case *primitives.AddKey:
		return x.addKey(a)
	case *primitives.DeleteKey:
		return x.deleteKey(a)
	case *primitives.DeleteAccount:
		return x.deleteAccount(a)
	case *primitives.Delegate:
		d := &a.Action
		return x.delegate(&delegate{
			sender: d.SenderID, receiver: d.ReceiverID, actions: d.Actions, nonce: primitives.TransactionNonce{Nonce: d.Nonce},
			maxHeight: d.MaxBlockHeight, key: d.PublicKey, hash: d.SignedHash(), signature: a.Signature,
		})
	case *primitives.DelegateV2:
		d := &a.Action
		return x.delegate(&delegate{
			sender: d.SenderID, receiver: d.ReceiverID, actions: d.Actions, nonce: d.Nonce,
			maxHeight: d.MaxBlockHeight, key: d.PublicKey, hash: d.SignedHash(), signature: a.Signature,
		})
	case *primitives.DeployGlobalContract:
		return x.deployGlobal(a)
	case *primitives.UseGlobalContract:
		return x.useGlobal(&a.ID)
	case *primitives.DeterministicStateInit:
		return x.stateInit(a)
	case *primitives.UniversalStateInit:
		return x.universalStateInit(a)
	case *primitives.TransferToGasKey:
		return x.transferToGasKey(a)
	case *primitives.WithdrawFromGasKey:
		return x.withdrawFromGasKey(a)
	}
	panic(fmt.Sprintf("action: no case for %T", a))
}

// add adds burnt to Result.GasBurnt and Result.Compute, and used to Result.GasUsed.
func (x *Execution) add(burnt parameters.Cost, used primitives.Gas) error {
	r := &x.Result
	sum, err := (parameters.Cost{Gas: r.GasBurnt, Compute: r.Compute}).Add(burnt)
	if err != nil {
		return err
	}
	if r.GasUsed+used < used {
		return parameters.ErrOverflow
	}
	r.GasBurnt, r.Compute = sum.Gas, sum.Compute
	r.GasUsed += used
	return nil
}

// addCompute adds compute for work that costs no gas.
func (x *Execution) addCompute(c parameters.Compute) error {
	return x.add(parameters.Cost{Compute: c}, 0)
}

// burn adds to the tokens that the receipt burns.
func (x *Execution) burn(b primitives.Balance) error {
	sum, ok := x.Result.TokensBurnt.Add(b)
	if !ok {
		return state.Inconsistent("burnt tokens: %w", primitives.ErrOverflow)
	}
	x.Result.TokensBurnt = sum
	return nil
}

// credit adds to the account's balance.
func (x *Execution) credit(b primitives.Balance) error {
	sum, ok := x.Account.Amount.Add(b)
	if !ok {
		return state.Inconsistent("balance of %s: %w", x.Receipt.ReceiverID, primitives.ErrOverflow)
	}
	x.Account.Amount = sum
	return nil
}

// addUsage adds to the account's storage usage.
func (x *Execution) addUsage(n uint64) error {
	if x.Account.StorageUsage+n < n {
		return state.Inconsistent("storage usage of %s: %w", x.Receipt.ReceiverID, primitives.ErrOverflow)
	}
	x.Account.StorageUsage += n
	return nil
}

// subUsage subtracts from the account's storage usage, which never falls below 0.
func (x *Execution) subUsage(n uint64) { x.Account.StorageUsage -= min(n, x.Account.StorageUsage) }

// checkExistence fails if the action needs an initialized account and the receiver is not one. It
// also fails if the action would create an account that already exists (nearcore 2.14.0-rc.1
// runtime/runtime/src/actions.rs:814 check_account_existence).
func (x *Execution) checkExistence(a primitives.Action) *failure {
	id := x.Receipt.ReceiverID
	switch a.(type) {
	case *primitives.CreateAccount:
		if x.Exists {
			return &failure{Tag: primitives.ActionAccountAlreadyExists, AccountID: id}
		}
		if x.implicit() { // a transfer creates an implicit account, never CreateAccount
			return &failure{Tag: primitives.ActionOnlyImplicitAccountCreationAllowed, AccountID: id}
		}
		return nil
	case *primitives.Transfer:
		if x.Exists || x.mayCreate() {
			return nil
		}
	// State inits create a missing account and leave an initialized one unchanged.
	case *primitives.DeterministicStateInit, *primitives.UniversalStateInit:
		return nil
	case *primitives.DeployContract, *primitives.FunctionCall, *primitives.Stake, *primitives.AddKey,
		*primitives.DeleteKey, *primitives.DeleteAccount, *primitives.Delegate, *primitives.DeployGlobalContract,
		*primitives.UseGlobalContract, *primitives.TransferToGasKey, *primitives.WithdrawFromGasKey, *primitives.DelegateV2:
		if x.Exists && !x.Account.IsInitialized() {
			return &failure{Tag: primitives.ActionAccountNotInitialized, AccountID: id}
		}
		if x.Exists {
			return nil
		}
	default:
		panic(fmt.Sprintf("action: no rule of existence for %T", a))
	}
	return &failure{Tag: primitives.ActionAccountDoesNotExist, AccountID: id}
}

// receiverKind classifies the receiver by the rules in force.
func (x *Execution) receiverKind() primitives.AccountKind {
	return x.Receipt.ReceiverID.Kind(x.Block.Config.Version.Has(parameters.UniversalAccounts))
}

// mayCreate returns whether a transfer may create the missing receiver (nearcore 2.14.0-rc.1
// actions.rs:929). A refund may not, because a refund pays no fee for creating an account. A
// transfer that is no refund may if it is the only action of the receipt: a further action could
// act for the new account. Transfers to a universal account may have further actions, because no
// action can use such an account before its state init.
func (x *Execution) mayCreate() bool {
	if x.Receipt.PredecessorID == primitives.SystemAccount || !x.implicit() {
		return false
	}
	return len(x.Body.Actions) == 1 || x.receiverKind() == primitives.UniversalAccount
}

// implicit returns whether the receiver's id is of a kind that a transfer can create.
func (x *Execution) implicit() bool {
	switch kind := x.receiverKind(); kind {
	case primitives.NamedAccount:
		return false
	case primitives.EthImplicitAccount:
		return x.Block.Config.Wasm.EthImplicitAccounts
	case primitives.NearImplicitAccount, primitives.DeterministicAccount, primitives.UniversalAccount:
		return true
	default:
		panic(fmt.Sprintf("action: no case for account kind %d", kind))
	}
}

// checkPermission fails if the actor may not run action a on the account (nearcore actions.rs
// check_actor_permissions).
func (x *Execution) checkPermission(a primitives.Action) *failure {
	id := x.Receipt.ReceiverID
	switch a.(type) {
	case *primitives.DeployContract, *primitives.Stake, *primitives.AddKey, *primitives.DeleteKey,
		*primitives.DeployGlobalContract, *primitives.UseGlobalContract, *primitives.WithdrawFromGasKey,
		*primitives.DeleteAccount:
		if x.Actor != id {
			return &failure{Tag: primitives.ActionActorNoPermission, AccountID: id, ActorID: x.Actor}
		}
		if a.Tag() == primitives.TagDeleteAccount && !x.Account.Locked.IsZero() {
			return &failure{Tag: primitives.ActionDeleteAccountStaking, AccountID: id}
		}
	case *primitives.CreateAccount, *primitives.FunctionCall, *primitives.Transfer, *primitives.Delegate,
		// every actor may run these
		*primitives.DeterministicStateInit, *primitives.UniversalStateInit, *primitives.TransferToGasKey, *primitives.DelegateV2:
	default:
		panic(fmt.Sprintf("action: no rule of permission for %T", a))
	}
	return nil
}
