package verify

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Mode is how strictly receipts are checked (nearcore ValidateReceiptMode).
type Mode byte

const (
	// NewReceipt is the mode for transactions and for receipts that were just created.
	NewReceipt Mode = iota
	// ExistingReceipt is the mode for delayed and incoming receipts. Such receipts may have been
	// created under the rules of a previous protocol version. Output data receivers may have been
	// appended after the size check. So this mode omits limits that newer protocol versions
	// introduced, and the size limit.
	ExistingReceipt
)

// MaxNoncesForGasKey is the largest number of nonces of a gas key.
const MaxNoncesForGasKey = 1024

// Actions checks a list of actions for a receiver: the length of the list, the number of
// deployments and state inits, the order of the actions, each action, and the total attached gas.
// Actions checks the inner list of a delegate action in the same way, as a separate list. The gas
// and the state inits of an inner list also count in the totals of the outer list.
func Actions(c *parameters.RuntimeConfig, actions []primitives.Action, receiver primitives.AccountID,
	mode Mode) *primitives.ActionsValidationError {
	return actionList(c, actions, 0, receiver, mode)
}

// actionList checks a list like Actions. unkept is the number of further actions that the encoded
// list had and that the decoder did not keep.
func actionList(
	c *parameters.RuntimeConfig, actions []primitives.Action, unkept int, receiver primitives.AccountID, mode Mode,
) *primitives.ActionsValidationError {
	limits := &c.Wasm.Limits
	if err := listLength(limits, actions, unkept); err != nil {
		return err
	}
	if !c.Version.Has(parameters.PostQuantumSignatures) && anyPostQuantum(actions) {
		return unsupported(c, parameters.PostQuantumSignatures)
	}
	if mode == NewReceipt {
		if n := countDeploys(actions); n > limits.MaxDeployActionsPerReceipt {
			return &primitives.ActionsValidationError{
				Tag: primitives.ActionsTotalNumberOfDeploysExceeded, Count: n, Limit: limits.MaxDeployActionsPerReceipt,
			}
		}
		if err := stateInitTotals(limits, actions); err != nil {
			return err
		}
	}
	delegates := 0
	for i, a := range actions {
		switch tag := a.Tag(); { // the rules about the position of an action in the list
		case tag == primitives.TagDeleteAccount && i+1 < len(actions):
			return invalidActions(primitives.ActionsDeleteMustBeFinal)
		case tag == primitives.TagDelegate || tag == primitives.TagDelegateV2:
			if delegates++; delegates > 1 {
				return invalidActions(primitives.ActionsDelegateMustBeOnlyOne)
			}
		}
		if err := action(c, a, receiver, mode); err != nil {
			return err
		}
	}
	gas, err := fees.PrepaidGas(actions)
	if err != nil {
		return invalidActions(primitives.ActionsIntegerOverflow)
	}
	if gas > limits.MaxTotalPrepaidGas {
		return &primitives.ActionsValidationError{
			Tag: primitives.ActionsTotalPrepaidGasExceeded, PrepaidGas: gas, GasLimit: limits.MaxTotalPrepaidGas,
		}
	}
	return nil
}

// listLength checks the number of actions.
func listLength(limits *parameters.Limits, actions []primitives.Action, unkept int) *primitives.ActionsValidationError {
	if n := uint64(len(actions)) + uint64(unkept); n > limits.MaxActionsPerReceipt {
		return &primitives.ActionsValidationError{Tag: primitives.ActionsTotalNumberExceeded, Count: n, Limit: limits.MaxActionsPerReceipt}
	}
	return nil
}

// invalidActions returns the error of a variant without fields.
func invalidActions(tag primitives.ActionsValidationTag) *primitives.ActionsValidationError {
	return &primitives.ActionsValidationError{Tag: tag}
}

// countDeploys counts the actions that carry code. The inner actions of a delegate action do not
// count here; inner actions have their own limit.
func countDeploys(actions []primitives.Action) (n uint64) {
	for _, a := range actions {
		if t := a.Tag(); t == primitives.TagDeployContract || t == primitives.TagDeployGlobalContract {
			n++
		}
	}
	return n
}

// action checks a alone.
func action(c *parameters.RuntimeConfig, a primitives.Action, receiver primitives.AccountID, mode Mode) *primitives.ActionsValidationError {
	limits := &c.Wasm.Limits
	switch a := a.(type) {
	case *primitives.DeployContract:
		return contractSize(limits, a.Code)
	case *primitives.DeployGlobalContract:
		return contractSize(limits, a.Code)
	case *primitives.UseGlobalContract:
		return globalContract(&a.ID)
	case *primitives.FunctionCall:
		return functionCall(c, a, mode)
	case *primitives.Transfer:
		return transferTo(c, receiver, mode)
	case *primitives.Stake:
		if !a.PublicKey.IsValidStakingKey() {
			return &primitives.ActionsValidationError{Tag: primitives.ActionsUnsuitableStakingKey, PublicKey: a.PublicKey}
		}
	case *primitives.AddKey:
		return addKey(c, &a.AccessKey)
	case *primitives.DeleteAccount:
		return accountID(a.Beneficiary)
	case *primitives.Delegate:
		return inner(c, a.Action.Actions, a.Action.Unkept, receiver, a.Action.ReceiverID, mode)
	case *primitives.DelegateV2:
		if !c.Version.Has(parameters.DelegateV2) {
			return unsupported(c, parameters.DelegateV2)
		}
		if mode == NewReceipt && c.Version.Has(parameters.RejectDelegateV2) {
			return removed(c, parameters.DelegateV2)
		}
		return inner(c, a.Action.Actions, a.Action.Unkept, receiver, a.Action.ReceiverID, mode)
	case *primitives.DeterministicStateInit:
		return stateInit(limits, &a.Init, receiver)
	case *primitives.UniversalStateInit:
		return universalStateInit(c, a, receiver)
	case *primitives.TransferToGasKey, *primitives.WithdrawFromGasKey:
		if !c.Version.Has(parameters.GasKeys) {
			return unsupported(c, parameters.GasKeys)
		}
	// These actions have no field that can be invalid.
	case *primitives.CreateAccount, *primitives.DeleteKey:
	default:
		panic(fmt.Sprintf("verify: no case for %T", a))
	}
	return nil
}

// inner checks the inner list of a delegate action. Before FixDelegatedDeterministicStateInit,
// inner checks the inner list against the outer receiver. From RejectWithdrawFromGasKeyInDelegate
// on, a new delegate action must not withdraw from a gas key. inner checks the length of the inner
// list before this rule (nearcore 2.14.0-rc.1 runtime/runtime/src/action_validation.rs:222).
func inner(
	c *parameters.RuntimeConfig, actions []primitives.Action, unkept int, outer, receiver primitives.AccountID, mode Mode,
) *primitives.ActionsValidationError {
	if err := listLength(&c.Wasm.Limits, actions, unkept); err != nil {
		return err
	}
	if mode == NewReceipt && c.Version.Has(parameters.RejectWithdrawFromGasKeyInDelegate) &&
		slices.ContainsFunc(actions, func(a primitives.Action) bool { return a.Tag() == primitives.TagWithdrawFromGasKey }) {
		return invalidActions(primitives.ActionsWithdrawFromGasKeyInDelegate)
	}
	if !c.Version.Has(parameters.FixDelegatedDeterministicStateInit) {
		receiver = outer
	}
	return actionList(c, actions, unkept, receiver, mode)
}

// unsupported returns the error of an action that needs feature f, which is not in force in c's
// version.
func unsupported(c *parameters.RuntimeConfig, f parameters.Feature) *primitives.ActionsValidationError {
	return &primitives.ActionsValidationError{
		Tag: primitives.ActionsUnsupportedProtocolFeature, Feature: f.String(), Version: c.Version.Protocol,
	}
}

// removed returns the error of an action that needs feature f, which c's version no longer has.
func removed(c *parameters.RuntimeConfig, f parameters.Feature) *primitives.ActionsValidationError {
	return &primitives.ActionsValidationError{
		Tag: primitives.ActionsRemovedProtocolFeature, Feature: f.String(), Version: c.Version.Protocol,
	}
}

// tooLong returns the error of a variant with length and limit; nil if length is at most limit.
func tooLong(tag primitives.ActionsValidationTag, length int, limit uint64) *primitives.ActionsValidationError {
	if uint64(length) <= limit {
		return nil
	}
	return &primitives.ActionsValidationError{Tag: tag, Length: uint64(length), Limit: limit}
}

func contractSize(limits *parameters.Limits, code []byte) *primitives.ActionsValidationError {
	if uint64(len(code)) <= limits.MaxContractSize {
		return nil
	}
	return &primitives.ActionsValidationError{
		Tag: primitives.ActionsContractSizeExceeded, Size: uint64(len(code)), Limit: limits.MaxContractSize,
	}
}

// functionCall checks a call. From RejectEmptyMethodName on, a call in a new receipt must name a
// method.
func functionCall(c *parameters.RuntimeConfig, a *primitives.FunctionCall, mode Mode) *primitives.ActionsValidationError {
	limits := &c.Wasm.Limits
	if a.Gas == 0 {
		return invalidActions(primitives.ActionsFunctionCallZeroAttachedGas)
	}
	if mode == NewReceipt && a.Method == "" && c.Version.Has(parameters.RejectEmptyMethodName) {
		return invalidActions(primitives.ActionsFunctionCallEmptyMethodName)
	}
	if err := tooLong(primitives.ActionsFunctionCallMethodNameLengthExceeded, len(a.Method), limits.MaxLengthMethodName); err != nil {
		return err
	}
	return tooLong(primitives.ActionsFunctionCallArgumentsLengthExceeded, len(a.Args), limits.MaxArgumentsLength)
}

// addKey checks the permission of a key, and the restrictions for gas keys.
func addKey(c *parameters.RuntimeConfig, k *primitives.AccessKey) *primitives.ActionsValidationError {
	if k.FunctionCall != nil {
		if err := permission(&c.Wasm.Limits, k.FunctionCall); err != nil {
			return err
		}
	}
	gas := k.GasKey
	if gas == nil {
		return nil
	}
	switch {
	case !c.Version.Has(parameters.GasKeys):
		return unsupported(c, parameters.GasKeys)
	case k.FunctionCall != nil && k.FunctionCall.Allowance != nil:
		return invalidActions(primitives.ActionsGasKeyFunctionCallAllowanceNotAllowed)
	case gas.NumNonces == 0 || gas.NumNonces > MaxNoncesForGasKey:
		return &primitives.ActionsValidationError{
			Tag: primitives.ActionsGasKeyInvalidNumNonces, RequestedNonces: gas.NumNonces, NonceLimit: MaxNoncesForGasKey,
		}
	case !gas.Balance.IsZero():
		return &primitives.ActionsValidationError{Tag: primitives.ActionsAddGasKeyWithNonZeroBalance, Balance: gas.Balance}
	}
	return nil
}

// permission checks the receiver id, if AccountIDValidityRulesVersion is at least 1, and the
// lengths of the method names.
func permission(limits *parameters.Limits, p *primitives.FunctionCallPermission) *primitives.ActionsValidationError {
	if limits.AccountIDValidityRulesVersion > 0 {
		if _, err := primitives.ParseAccountID(p.ReceiverID); err != nil {
			return &primitives.ActionsValidationError{
				Tag: primitives.ActionsInvalidAccountID, AccountID: truncate(p.ReceiverID, 2*primitives.MaxAccountIDLen),
			}
		}
	}
	total := uint64(0)
	for _, name := range p.MethodNames {
		if err := tooLong(primitives.ActionsAddKeyMethodNameLengthExceeded, len(name), limits.MaxLengthMethodName); err != nil {
			return err
		}
		total += uint64(len(name)) + 1 // each name counts with a terminator
	}
	if total > limits.MaxNumberBytesMethodNames {
		return &primitives.ActionsValidationError{
			Tag: primitives.ActionsAddKeyMethodNamesBytesExceeded, Count: total, Limit: limits.MaxNumberBytesMethodNames,
		}
	}
	return nil
}

// stateInit checks that the receiver is the account derived from the state init. stateInit also
// checks the sizes of the entries.
func stateInit(limits *parameters.Limits, s *primitives.StateInit, receiver primitives.AccountID) *primitives.ActionsValidationError {
	if err := globalContract(&s.Code); err != nil {
		return err
	}
	if derived := s.DerivedAccount(); derived != receiver {
		return &primitives.ActionsValidationError{
			Tag: primitives.ActionsInvalidDeterministicStateInitReceiver, DerivedID: derived, ReceiverID: receiver,
		}
	}
	for _, e := range s.Data {
		if err := tooLong(primitives.ActionsDeterministicStateInitKeyLength, len(e.Key), limits.MaxLengthStorageKey); err != nil {
			return err
		}
		if err := tooLong(primitives.ActionsDeterministicStateInitValueLength, len(e.Value), limits.MaxLengthStorageValue); err != nil {
			return err
		}
	}
	return nil
}

func globalContract(id *primitives.GlobalContractID) *primitives.ActionsValidationError {
	if id.Account == "" {
		return nil
	}
	return accountID(id.Account)
}

// accountID checks an account id. Decoding has not checked ids that a contract wrote.
func accountID(id primitives.AccountID) *primitives.ActionsValidationError {
	if _, err := primitives.ParseAccountID(string(id)); err != nil {
		return &primitives.ActionsValidationError{Tag: primitives.ActionsInvalidAccountID, AccountID: string(id)}
	}
	return nil
}

// truncate returns the longest prefix of s of at most limit bytes that ends between two characters.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
