package view

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// AppendActions appends the views of a transaction's or receipt's actions.
func AppendActions(b []byte, as []primitives.Action) []byte {
	return appendList(b, as, func(b []byte, a *primitives.Action) []byte { return AppendAction(b, *a) })
}

// AppendAction appends ActionView (nearcore views.rs:1452): "CreateAccount", or {"Name": {fields}}.
// Code is shown as its sha256. The actions inside a delegate are in their raw form.
func AppendAction(b []byte, a primitives.Action) []byte {
	switch a := a.(type) {
	case *primitives.CreateAccount:
		return append(b, `"CreateAccount"`...)
	case *primitives.DeployContract:
		return appendCodeHash(append(b, `{"DeployContract":{"code":`...), a.Code)
	case *primitives.AddKey:
		b = AppendAccessKey(append(b, `{"AddKey":{"access_key":`...), &a.AccessKey)
		return append(AppendKey(append(b, `,"public_key":`...), a.PublicKey), "}}"...)
	case *primitives.DeployGlobalContract:
		name := `{"DeployGlobalContract":{"code":`
		if a.Mode == primitives.GlobalByAccountID {
			name = `{"DeployGlobalContractByAccountId":{"code":`
		}
		return appendCodeHash(append(b, name...), a.Code)
	case *primitives.UseGlobalContract:
		if a.ID.Account != "" {
			b = append(b, `{"UseGlobalContractByAccountId":{"account_id":`...)
			return append(AppendAccountID(b, a.ID.Account), "}}"...)
		}
		return append(AppendHash(append(b, `{"UseGlobalContract":{"code_hash":`...), &a.ID.Hash), "}}"...)
	case *primitives.DeterministicStateInit:
		b = a.Init.Code.AppendJSON(append(b, `{"DeterministicStateInit":{"code":`...))
		b = appendStateData(append(b, `,"data":`...), a.Init.Data)
		return append(AppendBalance(append(b, `,"deposit":`...), a.Deposit), "}}"...)
	case *primitives.Delegate:
		return appendDelegate(b, a)
	case *primitives.DelegateV2:
		return appendDelegateV2(b, a)
	default:
		return appendPlainAction(b, a)
	}
}

// appendRawAction appends an action as serde writes it: inside delegates, with the whole code
// (nearcore core/primitives/src/action/mod.rs).
func appendRawAction(b []byte, a primitives.Action) []byte {
	switch a := a.(type) {
	case *primitives.CreateAccount:
		return append(b, `{"CreateAccount":{}}`...)
	case *primitives.DeployContract:
		return append(AppendBase64(append(b, `{"DeployContract":{"code":`...), a.Code), "}}"...)
	case *primitives.AddKey:
		b = AppendRawAccessKey(append(b, `{"AddKey":{"access_key":`...), &a.AccessKey)
		return append(AppendKey(append(b, `,"public_key":`...), a.PublicKey), "}}"...)
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
		b = AppendBalance(append(b, `{"DeterministicStateInit":{"deposit":`...), a.Deposit)
		b = a.Init.Code.AppendJSON(append(b, `,"state_init":{"V1":{"code":`...))
		return append(appendStateData(append(b, `,"data":`...), a.Init.Data), "}}}}"...)
	default:
		return appendPlainAction(b, a)
	}
}

// appendPlainAction appends the actions whose view and raw form are the same.
func appendPlainAction(b []byte, a primitives.Action) []byte {
	switch a := a.(type) {
	case *primitives.FunctionCall:
		b = AppendBase64(append(b, `{"FunctionCall":{"args":`...), a.Args)
		b = AppendBalance(append(b, `,"deposit":`...), a.Deposit)
		b = appendUint(append(b, `,"gas":`...), a.Gas)
		return append(AppendString(append(b, `,"method_name":`...), a.Method), "}}"...)
	case *primitives.Transfer:
		return append(AppendBalance(append(b, `{"Transfer":{"deposit":`...), a.Deposit), "}}"...)
	case *primitives.Stake:
		b = AppendKey(append(b, `{"Stake":{"public_key":`...), a.PublicKey)
		return append(AppendBalance(append(b, `,"stake":`...), a.Stake), "}}"...)
	case *primitives.DeleteKey:
		return append(AppendKey(append(b, `{"DeleteKey":{"public_key":`...), a.PublicKey), "}}"...)
	case *primitives.DeleteAccount:
		return append(AppendAccountID(append(b, `{"DeleteAccount":{"beneficiary_id":`...), a.Beneficiary), "}}"...)
	case *primitives.UniversalStateInit:
		b = AppendBalance(append(b, `{"UniversalStateInit":{"deposit":`...), a.Deposit)
		return append(AppendBase64(append(b, `,"state_init":`...), a.Init), "}}"...)
	case *primitives.TransferToGasKey:
		b = AppendBalance(append(b, `{"TransferToGasKey":{"deposit":`...), a.Deposit)
		return append(AppendKey(append(b, `,"public_key":`...), a.PublicKey), "}}"...)
	case *primitives.WithdrawFromGasKey:
		b = AppendBalance(append(b, `{"WithdrawFromGasKey":{"amount":`...), a.Amount)
		return append(AppendKey(append(b, `,"public_key":`...), a.PublicKey), "}}"...)
	default: // actions whose view and raw form differ
		return noForm(a)
	}
}

// noForm panics for an action without a JSON form.
func noForm(a primitives.Action) []byte { panic(fmt.Sprintf("view: no JSON form of action %T", a)) }

// appendCodeHash appends the sha256 of code as base64 and closes two objects.
func appendCodeHash(b, code []byte) []byte {
	h := primitives.HashBytes(code)
	return append(AppendBase64(b, h[:]), "}}"...)
}

// appendStateData appends a map of base64 to base64. nearcore collects it into a map of the base64
// texts, so these determine the order, not the bytes.
func appendStateData(b []byte, data []primitives.StateEntry) []byte {
	type pair struct {
		key   string
		value []byte
	}
	pairs := make([]pair, len(data))
	for i := range data {
		pairs[i] = pair{base64.StdEncoding.EncodeToString(data[i].Key), data[i].Value}
	}
	slices.SortFunc(pairs, func(x, y pair) int {
		if x.key < y.key {
			return -1
		}
		return 1 // keys are distinct
	})
	b = append(b, '{')
	for i := range pairs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), pairs[i].key...), '"', ':')
		b = AppendBase64(b, pairs[i].value)
	}
	return append(b, '}')
}

func appendRawActions(b []byte, as []primitives.Action) []byte {
	return appendList(b, as, func(b []byte, a *primitives.Action) []byte { return appendRawAction(b, *a) })
}

func appendDelegate(b []byte, a *primitives.Delegate) []byte {
	d := &a.Action
	b = appendRawActions(append(b, `{"Delegate":{"delegate_action":{"actions":`...), d.Actions)
	b = appendUint(append(b, `,"max_block_height":`...), d.MaxBlockHeight)
	b = appendUint(append(b, `,"nonce":`...), d.Nonce)
	b = appendDelegateTail(b, d.PublicKey, d.ReceiverID, d.SenderID)
	return append(AppendSignature(append(b, `},"signature":`...), a.Signature), "}}"...)
}

func appendDelegateV2(b []byte, a *primitives.DelegateV2) []byte {
	d := &a.Action
	b = appendRawActions(append(b, `{"DelegateV2":{"delegate_action":{"V2":{"actions":`...), d.Actions)
	b = appendUint(append(b, `,"max_block_height":`...), d.MaxBlockHeight)
	b = append(b, `,"nonce":`...)
	if d.Nonce.HasIndex {
		b = appendUint(append(b, `{"GasKeyNonce":{"nonce":`...), d.Nonce.Nonce)
		b = appendUint(append(b, `,"nonce_index":`...), d.Nonce.Index)
	} else {
		b = appendUint(append(b, `{"Nonce":{"nonce":`...), d.Nonce.Nonce)
	}
	b = appendDelegateTail(append(b, "}}"...), d.PublicKey, d.ReceiverID, d.SenderID)
	return append(AppendSignature(append(b, `}},"signature":`...), a.Signature), "}}"...)
}

func appendDelegateTail(b []byte, key primitives.PublicKey, receiver, sender primitives.AccountID) []byte {
	b = AppendKey(append(b, `,"public_key":`...), key)
	b = AppendAccountID(append(b, `,"receiver_id":`...), receiver)
	return AppendAccountID(append(b, `,"sender_id":`...), sender)
}
