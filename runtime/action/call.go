package action

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// functionCall runs a method of the account's contract (nearcore function_call.rs).
func (x *Execution) functionCall(a *primitives.FunctionCall) (*failure, error) {
	hash, key, err := x.contract()
	if err != nil {
		return nil, err
	}
	if _, ok := x.Account.Amount.Add(a.Deposit); !ok {
		return nil, state.Inconsistent("balance of %s with the deposit of a call: %w", x.Receipt.ReceiverID, primitives.ErrOverflow)
	}
	actionHash := primitives.ActionHash(x.Receipt.ID, x.Block.Height, uint64(x.index))
	ext := NewExternal(x.Block, x.State, x.Receipt.ReceiverID, actionHash)
	ext.receiptStart = x.recordedBefore
	out, err := x.execute(a, hash, key, actionHash, ext)
	if err != nil {
		return nil, err
	}
	// The unused gas goes to the promises that asked for a share, even if this call failed. After
	// a failure the signer still gets that gas back, because Settle then refunds all gas that was
	// not burnt.
	given, err := ext.distribute(a.Gas - min(out.GasUsed, a.Gas))
	if err != nil {
		return nil, err
	}
	if out.GasUsed+given < given {
		return nil, parameters.ErrOverflow
	}
	r := &x.Result
	if err := x.add(parameters.Cost{Gas: out.GasBurnt, Compute: out.Compute}, out.GasUsed+given); err != nil {
		return nil, err
	}
	r.GasBurntInVM += out.GasBurnt // cannot overflow: r.GasBurnt is at least as large, and add has checked it
	r.Logs = append(r.Logs, out.Logs...)
	r.Profile = MergeProfiles(r.Profile, out.Profile)
	if out.Err != nil {
		r.CallFailure = out.failure()
		return &failure{Tag: primitives.ActionFunctionCallError, FunctionCall: out.Err}, nil
	}
	r.CallsDone++
	from := len(r.NewReceipts)
	if err := ext.finish(x); err != nil {
		return nil, err
	}
	x.Account.Amount, x.Account.StorageUsage = out.Balance, out.StorageUsage
	sum, ok := r.Subsidized.Add(out.Subsidized)
	if !ok {
		return nil, primitives.ErrOverflow
	}
	r.Subsidized = sum
	if r.Return = out.Return; r.Return.Kind == ReturnReceipt {
		r.Return.Receipt += from
	}
	return nil, nil
}

// contract returns the hash of the code that the account runs, and the trie key of that code. key
// is nil if the account has no contract (nearcore contract_code.rs
// RuntimeContractIdentifier::resolve).
func (x *Execution) contract() (hash primitives.Hash, key []byte, err error) {
	return ContractOf(x.State, x.Block.ChainID, x.Receipt.ReceiverID, &x.Account.Contract)
}

// ContractOf returns the hash of the code that an account's contract runs, and the trie key of that
// code. key is nil if the account has no contract.
func ContractOf(u *state.TrieUpdate, chainID string, account primitives.AccountID,
	c *primitives.AccountContract) (hash primitives.Hash, key []byte, err error) {
	if c.Kind == primitives.ContractNone {
		return hash, nil, nil
	}
	id, global := GlobalCodeOf(chainID, account, c)
	if !global {
		return c.Hash, primitives.AppendCodeKey(nil, account), nil
	}
	return GlobalContract(u, &id)
}

// GlobalContract returns the hash of a global contract, and the trie key of the contract's code.
func GlobalContract(u *state.TrieUpdate, id *primitives.GlobalContractID) (hash primitives.Hash, key []byte, err error) {
	key = primitives.AppendGlobalCodeKey(nil, id)
	if id.Account == "" {
		return id.Hash, key, nil
	}
	hash, err = u.GlobalCodeHash(id)
	return hash, key, err
}

// execute runs the call. A call that must fail, such as a call of an account without code, fails without
// the VM.
func (x *Execution) execute(a *primitives.FunctionCall, hash primitives.Hash, key []byte, actionHash primitives.Hash,
	ext *External) (CallOutcome, error) {
	c := new(Call)
	if err := x.call(c, a, hash, key, actionHash); err != nil {
		return CallOutcome{}, err
	}
	return c.run(ext)
}

// call sets c to the call of a.Method and its context. c.Code stays nil if the account has no
// code.
func (x *Execution) call(c *Call, a *primitives.FunctionCall, hash primitives.Hash, key []byte, actionHash primitives.Hash) (err error) {
	*c = Call{
		Block: x.Block, ReceiptID: x.Receipt.ID, ActionIndex: x.index,
		CodeHash: hash, Method: a.Method, Args: a.Args,
		CurrentAccount: x.Receipt.ReceiverID, SignerAccount: x.Body.SignerID, SignerKey: x.Body.SignerPublicKey,
		Predecessor: x.Receipt.PredecessorID, RefundTo: x.refundReceiver(), Results: x.Inputs,
		Balance: x.Account.Amount, Locked: x.Account.Locked, StorageUsage: x.Account.StorageUsage, Contract: x.Account.Contract,
		Deposit: a.Deposit, PrepaidGas: a.Gas, RandomSeed: primitives.RandomSeed(actionHash, x.Block.RandomValue),
	}
	if x.index == len(x.Body.Actions)-1 {
		for i := range x.Body.OutputDataReceivers {
			c.OutputReceivers = append(c.OutputReceivers, x.Body.OutputDataReceivers[i].ReceiverID)
		}
	}
	if key != nil {
		c.Code, err = x.State.Code(hash, key)
	}
	return err
}

// run runs the call in the VM, or returns the call's failure if the call must fail.
func (c *Call) run(ext *External) (CallOutcome, error) {
	switch {
	case c.Code == nil:
		return compilationFailure(
			primitives.CompilationError{Tag: primitives.CompilationCodeDoesNotExist, AccountID: c.CurrentAccount},
		), nil
	case c.Block.VM == nil && c.Method == "":
		return CallOutcome{Err: &primitives.FunctionCallError{Tag: primitives.CallMethodResolve, Method: primitives.MethodEmptyName}}, nil
	case c.Block.VM == nil:
		return compilationFailure(primitives.CompilationError{Tag: primitives.CompilationWasm, Message: NoVMText}), nil
	}
	return c.Block.VM.Call(c, ext)
}
