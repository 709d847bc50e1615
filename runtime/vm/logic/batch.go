package logic

import (
	"unicode/utf8"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Host functions that append actions to a batch promise. Their first argument, a[0], is the index
// of the promise.

// appendTo adds an action to a receipt.
func (l *Logic) appendTo(receipt int, a primitives.Action) error {
	_, err := l.x.Append(receipt, a)
	return err
}

// createAccount (promise_index)
func createAccount(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	if err := l.payAction(parameters.ActionCreateAccount, l.isSelf(to)); err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, &primitives.CreateAccount{})
}

// deleteAccount (promise_index, beneficiary_id_len, beneficiary_id_ptr)
func deleteAccount(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	beneficiary, err := l.accountID(a[1], a[2])
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	if err := l.payAction(parameters.ActionDeleteAccount, l.isSelf(to)); err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, &primitives.DeleteAccount{Beneficiary: beneficiary})
}

// functionCall (promise_index, method_name_len, method_name_ptr, arguments_len, arguments_ptr,
// amount_ptr, gas)
func functionCall(l *Logic, a []uint64) (uint64, error) { return 0, l.appendCall(a[0], a[1:7], 0) }

// functionCallWeight (..., gas_weight) is functionCall with a gas weight: the new call also gets a
// share of the gas that the running call leaves unused.
func functionCallWeight(l *Logic, a []uint64) (uint64, error) {
	return 0, l.appendCall(a[0], a[1:7], a[7])
}

// appendCall appends a function call action. a are the arguments of functionCall after the promise index.
func (l *Logic) appendCall(index uint64, a []uint64, weight uint64) error {
	if err := l.begin(); err != nil {
		return err
	}
	amount, err := l.readBalance(a[4])
	if err != nil {
		return err
	}
	method, args, err := l.methodAndArgs(a)
	if err != nil {
		return err
	}
	receipt, to, err := l.receiptOf(index)
	if err != nil {
		return err
	}
	self := l.isSelf(to)
	if err := l.payCall(len(method)+len(args), self); err != nil {
		return err
	}
	if err := l.gas.prepay(primitives.Gas(a[5])); err != nil {
		return err
	}
	if err := l.attach(amount); err != nil {
		return err
	}
	return l.addCall(receipt, method, args, amount, a[5], weight)
}

// methodAndArgs reads (method_name_len, method_name_ptr, arguments_len, arguments_ptr).
func (l *Logic) methodAndArgs(a []uint64) (method, args []byte, err error) {
	if method, err = l.arg(a[0], a[1]); err != nil {
		return nil, nil, err
	}
	if len(method) == 0 {
		return nil, nil, fail(EmptyMethodName)
	}
	args, err = l.arg(a[2], a[3])
	return method, args, err
}

// payCall pays for a function call whose method name and arguments have n bytes in total.
func (l *Logic) payCall(n int, self bool) error {
	if err := l.payAction(parameters.ActionFunctionCallBase, self); err != nil {
		return err
	}
	return l.payActionBytes(parameters.ActionFunctionCallByte, uint64(n), self)
}

func (l *Logic) addCall(receipt int, method, args []byte, amount primitives.Balance, gas, weight uint64) error {
	if !utf8.Valid(method) {
		return fail(InvalidMethodName)
	}
	return l.x.AppendCall(receipt, &primitives.FunctionCall{
		Method: string(method), Args: append([]byte{}, args...), Gas: primitives.Gas(gas), Deposit: amount,
	}, weight)
}

// transfer (promise_index, amount_ptr). The fee of a transfer to an implicit id includes the
// creation of the account.
func transfer(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	amount, err := l.readBalance(a[1])
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	action := &primitives.Transfer{Deposit: amount}
	send, err := fees.Send(l.cfg, l.isSelf(to), action, to)
	if err != nil {
		return 0, fail(IntegerOverflow)
	}
	exec, err := fees.Exec(l.cfg, action, to)
	if err != nil {
		return 0, fail(IntegerOverflow)
	}
	if err := l.payFee(send, exec.Gas, parameters.ActionTransfer); err != nil {
		return 0, err
	}
	if err := l.deduct(amount); err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, action)
}

// deployContract (promise_index, code_len, code_ptr)
func deployContract(l *Logic, a []uint64) (uint64, error) {
	receipt, code, err := l.payDeploy(a, parameters.ActionDeployContractBase, parameters.ActionDeployContractByte)
	if err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, &primitives.DeployContract{Code: code})
}

// deployGlobal (promise_index, code_len, code_ptr) deploys a global contract that is identified by
// its code hash. deployGlobalByAccount deploys a global contract that is identified by its
// deployer's account.
func deployGlobal(l *Logic, a []uint64) (uint64, error) {
	return l.deployGlobal(a, primitives.GlobalByCodeHash)
}

func deployGlobalByAccount(l *Logic, a []uint64) (uint64, error) {
	return l.deployGlobal(a, primitives.GlobalByAccountID)
}

func (l *Logic) deployGlobal(a []uint64, mode primitives.GlobalDeployMode) (uint64, error) {
	receipt, code, err := l.payDeploy(a, parameters.ActionDeployGlobalContractBase, parameters.ActionDeployGlobalContractByte)
	if err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, &primitives.DeployGlobalContract{Code: code, Mode: mode})
}

// payDeploy reads code and pays for the deployment of that code.
func (l *Logic) payDeploy(a []uint64, base, perByte parameters.ActionCost) (receipt int, code []byte, err error) {
	if err := l.begin(); err != nil {
		return 0, nil, err
	}
	if code, err = l.arg(a[1], a[2]); err != nil {
		return 0, nil, err
	}
	n, limit := uint64(len(code)), l.wasm.Limits.MaxContractSize
	if n > limit {
		return 0, nil, limitError(ContractSizeExceeded, n, limit)
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, nil, err
	}
	if err := l.payAction(base, l.isSelf(to)); err != nil {
		return 0, nil, err
	}
	if err := l.payActionBytes(perByte, n, l.isSelf(to)); err != nil {
		return 0, nil, err
	}
	return receipt, append([]byte{}, code...), nil
}

// useGlobal (promise_index, code_hash_len, code_hash_ptr). useGlobalByAccount takes an account id
// instead of the hash.
func useGlobal(l *Logic, a []uint64) (uint64, error) {
	return l.useGlobal(a, false)
}

func useGlobalByAccount(l *Logic, a []uint64) (uint64, error) {
	return l.useGlobal(a, true)
}

func (l *Logic) useGlobal(a []uint64, byAccount bool) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	id, err := l.globalID(a[1], a[2], byAccount)
	if err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	if err := l.payAction(parameters.ActionUseGlobalContractBase, l.isSelf(to)); err != nil {
		return 0, err
	}
	if err := l.payActionBytes(parameters.ActionUseGlobalContractByte, uint64(id.Len()), l.isSelf(to)); err != nil {
		return 0, err
	}
	return 0, l.appendTo(receipt, &primitives.UseGlobalContract{ID: id})
}

func (l *Logic) globalID(n, ptr uint64, byAccount bool) (id primitives.GlobalContractID, err error) {
	if byAccount {
		id.Account, err = l.accountID(n, ptr)
		return id, err
	}
	id.Hash, err = l.hash(n, ptr, ContractCodeHashMalformed)
	return id, err
}

// hash reads 32 bytes. If n is not 32, hash fails with a HostError of kind k.
func (l *Logic) hash(n, ptr uint64, k HostErrorKind) (h primitives.Hash, err error) {
	b, err := l.arg(n, ptr)
	if err != nil {
		return h, err
	}
	if len(b) != len(h) {
		return h, fail(k)
	}
	copy(h[:], b)
	return h, nil
}

// stateInit (promise_index, code_len, code_ptr, amount_ptr) returns the index of the action, to
// which stateInitEntry can add entries. stateInitByAccount takes an account id instead of a code
// hash.
func stateInit(l *Logic, a []uint64) (uint64, error) {
	return l.stateInit(a, false)
}

func stateInitByAccount(l *Logic, a []uint64) (uint64, error) {
	return l.stateInit(a, true)
}

func (l *Logic) stateInit(a []uint64, byAccount bool) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	code, err := l.globalID(a[1], a[2], byAccount)
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
	if err := l.payAction(parameters.ActionDeterministicStateInitBase, l.isSelf(to)); err != nil {
		return 0, err
	}
	if err := l.deduct(amount); err != nil {
		return 0, err
	}
	i, err := l.x.Append(receipt, &primitives.DeterministicStateInit{Init: primitives.StateInit{Code: code}, Deposit: amount})
	return uint64(i), err
}

// stateInitEntry (promise_index, action_index, key_len, key_ptr, value_len, value_ptr)
func stateInitEntry(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	receipt, to, err := l.receiptOf(a[0])
	if err != nil {
		return 0, err
	}
	key, err := l.arg(a[2], a[3])
	if err != nil {
		return 0, err
	}
	value, err := l.arg(a[4], a[5])
	if err != nil {
		return 0, err
	}
	if err := l.payAction(parameters.ActionDeterministicStateInitEntry, l.isSelf(to)); err != nil {
		return 0, err
	}
	if err := l.payActionBytes(parameters.ActionDeterministicStateInitByte, uint64(len(key)+len(value)), l.isSelf(to)); err != nil {
		return 0, err
	}
	index := int(min(a[1], uint64(maxActionIndex)))
	return 0, external(l.x.AddStateInitEntry(receipt, index, key, value), receipt, a[1])
}

// maxActionIndex is larger than the index of any action, and fits an int.
const maxActionIndex = 1<<31 - 1
