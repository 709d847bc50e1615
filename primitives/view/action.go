package view

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// Actions appends the views of a transaction's or receipt's actions.
func (e *Encoder) Actions(b []byte, as []primitives.Action) []byte {
	return appendList(b, as, e.action)
}

// rawActions appends the actions of a delegate.
func (e *Encoder) rawActions(b []byte, as []primitives.Action) []byte {
	return appendList(b, as, e.rawAction)
}

// AppendActions appends the views of actions with sorted members.
func AppendActions(b []byte, as []primitives.Action) []byte { return sortedOrder.Actions(b, as) }

// AppendAction appends ActionView with sorted members.
func AppendAction(b []byte, a primitives.Action) []byte { return sortedOrder.action(b, &a) }

// action appends ActionView (nearcore views.rs:1452): "CreateAccount", or {"Name": {fields}}. Code
// is shown as its sha256. The actions inside a delegate are in their raw form.
func (e *Encoder) action(b []byte, a *primitives.Action) []byte {
	switch a := (*a).(type) {
	case *primitives.CreateAccount:
		return append(b, `"CreateAccount"`...)
	case *primitives.DeployContract:
		b = appendCodeHash(append(b, `{"DeployContract":{"code":`...), a.Code, a.CodeHash)
		return append(b, "}}"...)
	case *primitives.AddKey:
		b = e.addKey(append(b, `{"AddKey":`...), a)
	case *primitives.DeployGlobalContract:
		name := `{"DeployGlobalContract":{"code":`
		if a.Mode == primitives.GlobalByAccountID {
			name = `{"DeployGlobalContractByAccountId":{"code":`
		}
		return append(appendCodeHash(append(b, name...), a.Code, a.CodeHash), "}}"...)
	case *primitives.UseGlobalContract:
		if a.ID.Account != "" {
			b = append(b, `{"UseGlobalContractByAccountId":{"account_id":`...)
			return append(AppendAccountID(b, a.ID.Account), "}}"...)
		}
		return append(e.Hash(append(b, `{"UseGlobalContract":{"code_hash":`...), &a.ID.Hash), "}}"...)
	case *primitives.DeterministicStateInit:
		b = e.deterministicStateInit(append(b, `{"DeterministicStateInit":`...), a)
	case *primitives.Delegate:
		b = e.delegateAction(append(b, `{"Delegate":{"delegate_action":`...), &a.Action)
		return append(AppendSignature(append(b, `,"signature":`...), a.Signature), "}}"...)
	case *primitives.DelegateV2:
		b = e.delegateActionV2(append(b, `{"DelegateV2":{"delegate_action":{"V2":`...), &a.Action)
		return append(AppendSignature(append(b, `},"signature":`...), a.Signature), "}}"...)
	default:
		return e.plainAction(b, a)
	}
	return append(b, '}')
}

// rawAction appends an action as serde writes it: inside delegates, with the whole code (nearcore
// core/primitives/src/action/mod.rs).
func (e *Encoder) rawAction(b []byte, a *primitives.Action) []byte {
	switch a := (*a).(type) {
	case *primitives.CreateAccount:
		return append(b, `{"CreateAccount":{}}`...)
	case *primitives.DeployContract:
		return append(AppendBase64(append(b, `{"DeployContract":{"code":`...), a.Code), "}}"...)
	case *primitives.AddKey:
		b = e.rawAddKey(append(b, `{"AddKey":`...), a)
	case *primitives.DeployGlobalContract:
		mode := `,"deploy_mode":"CodeHash"}}`
		if a.Mode == primitives.GlobalByAccountID {
			mode = `,"deploy_mode":"AccountId"}}`
		}
		return append(AppendBase64(append(b, `{"DeployGlobalContract":{"code":`...), a.Code), mode...)
	case *primitives.UseGlobalContract:
		b = append(b, `{"UseGlobalContract":{"contract_identifier":`...)
		return append(a.ID.AppendJSON(b), "}}"...)
	case *primitives.DeterministicStateInit:
		b = e.rawDeterministicStateInit(append(b, `{"DeterministicStateInit":`...), a)
	default:
		return e.plainAction(b, a)
	}
	return append(b, '}')
}

// plainAction appends the actions whose view and raw form are the same.
func (e *Encoder) plainAction(b []byte, a primitives.Action) []byte {
	switch a := a.(type) {
	case *primitives.FunctionCall:
		b = e.functionCall(append(b, `{"FunctionCall":`...), a)
	case *primitives.Transfer:
		return append(AppendBalance(append(b, `{"Transfer":{"deposit":`...), a.Deposit), "}}"...)
	case *primitives.Stake:
		b = e.stake(append(b, `{"Stake":`...), a)
	case *primitives.DeleteKey:
		return append(AppendKey(append(b, `{"DeleteKey":{"public_key":`...), a.PublicKey), "}}"...)
	case *primitives.DeleteAccount:
		return append(AppendAccountID(append(b, `{"DeleteAccount":{"beneficiary_id":`...), a.Beneficiary), "}}"...)
	case *primitives.UniversalStateInit:
		b = e.universalStateInit(append(b, `{"UniversalStateInit":`...), a)
	case *primitives.TransferToGasKey:
		b = e.transferToGasKey(append(b, `{"TransferToGasKey":`...), a)
	case *primitives.WithdrawFromGasKey:
		b = e.withdrawFromGasKey(append(b, `{"WithdrawFromGasKey":`...), a)
	case *primitives.CreateAccount, *primitives.DeployContract, *primitives.AddKey, *primitives.Delegate,
		*primitives.DeployGlobalContract, *primitives.UseGlobalContract, *primitives.DeterministicStateInit,
		*primitives.DelegateV2: // the callers write these, because their view and raw form differ
		panic(fmt.Sprintf("view: the view and the raw form of action %T differ", a))
	default:
		panic(fmt.Sprintf("view: no JSON form of action %T", a))
	}
	return append(b, '}')
}

// appendNonce appends the nonce of a DelegateActionV2.
func appendNonce(b []byte, n *primitives.TransactionNonce) []byte {
	if n.HasIndex {
		b = appendUint(append(b, `{"GasKeyNonce":{"nonce":`...), n.Nonce)
		b = appendUint(append(b, `,"nonce_index":`...), n.Index)
	} else {
		b = appendUint(append(b, `{"Nonce":{"nonce":`...), n.Nonce)
	}
	return append(b, "}}"...)
}

// rawStateInit appends DeterministicAccountStateInit.
func (e *Encoder) rawStateInit(b []byte, s *primitives.StateInit) []byte {
	b = s.Code.AppendJSON(append(b, `{"V1":{"code":`...))
	return append(e.stateData(append(b, `,"data":`...), s.Data), "}}"...)
}

func appendIdentifier(b []byte, id *primitives.GlobalContractID) []byte { return id.AppendJSON(b) }

// appendCodeHash appends the sha256 of code as base64. known is the hash if the code is not known.
func appendCodeHash(b, code []byte, known *primitives.Hash) []byte {
	if known != nil {
		return AppendBase64(b, known[:])
	}
	h := primitives.HashBytes(code)
	return AppendBase64(b, h[:])
}

// stateData appends a map of base64 to base64. In StructOrder the entries are in the order of the
// keys' bytes, a BTreeMap of nearcore. For the sorted order nearcore collects the entries into a
// map of the base64 texts, so the base64 texts determine the order.
func (e *Encoder) stateData(b []byte, data []primitives.StateEntry) []byte {
	type entry struct {
		key   []byte
		text  string
		value []byte
	}
	entries := make([]entry, len(data))
	for i := range data {
		entries[i] = entry{data[i].Key, base64.StdEncoding.EncodeToString(data[i].Key), data[i].Value}
	}
	slices.SortFunc(entries, func(x, y entry) int { // keys are distinct
		if e.order == StructOrder {
			return bytes.Compare(x.key, y.key)
		}
		return strings.Compare(x.text, y.text)
	})
	b = append(b, '{')
	for i := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), entries[i].text...), '"', ':')
		b = AppendBase64(b, entries[i].value)
	}
	return append(b, '}')
}
