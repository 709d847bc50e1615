package view

import (
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// The borsh form of a transaction's outcome, in which nodes exchange it (nearcore
// FinalExecutionOutcomeView). The borsh form lacks the execution level, which each node derives
// from its own chain, and has only the hash of deployed code.

// AppendFinalOutcomeBorsh appends the form for another node. It fails for a failure without a borsh
// form.
func AppendFinalOutcomeBorsh(b []byte, o *FinalOutcome) ([]byte, error) {
	b = append(b, byte(o.Status.Kind))
	var err error
	switch o.Status.Kind {
	case FinalFailure:
		b, err = appendFailureBorsh(b, o.Status.Failure)
	case FinalSuccessValue:
		b = borsh.AppendBytes(b, o.Status.Value)
	}
	if err != nil {
		return nil, err
	}
	b = appendTransactionBorsh(b, o.Transaction)
	if b, err = appendProofBorsh(b, &o.Outcome); err != nil {
		return nil, err
	}
	b = borsh.AppendLen(b, len(o.Outcomes))
	for i := range o.Outcomes {
		if b, err = appendProofBorsh(b, &o.Outcomes[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func appendFailureBorsh(b, text []byte) ([]byte, error) {
	var e primitives.TxExecutionError
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("view: encode the failure of an outcome: %w", err)
	}
	return e.AppendBorsh(b), nil
}

func appendTransactionBorsh(b []byte, t *primitives.SignedTransaction) []byte {
	b = t.PublicKey.AppendBorsh(t.SignerID.AppendBorsh(b))
	b = t.ReceiverID.AppendBorsh(borsh.AppendUint64(b, uint64(t.Nonce.Nonce)))
	b = borsh.AppendLen(b, len(t.Actions))
	for _, a := range t.Actions {
		b = appendActionBorsh(b, a)
	}
	b = t.Signature.AppendBorsh(borsh.AppendUint64(b, 0))
	hash := t.Hash()
	if b = append(b, hash[:]...); t.Nonce.HasIndex {
		b = borsh.AppendUint16(append(b, 1), t.Nonce.Index)
	} else {
		b = append(b, 0)
	}
	if t.NonceMode == primitives.NonceStrict {
		return append(b, 1, byte(t.NonceMode))
	}
	return append(b, 0)
}

// The tags of ActionView (near-primitives 0.38.0 src/views.rs ActionView).
const (
	viewCreateAccount = iota
	viewDeployContract
	viewFunctionCall
	viewTransfer
	viewStake
	viewAddKey
	viewDeleteKey
	viewDeleteAccount
	viewDelegate
	viewDeployGlobal
	viewDeployGlobalByAccount
	viewUseGlobal
	viewUseGlobalByAccount
	viewStateInit
	viewTransferToGasKey
	viewWithdrawFromGasKey
	viewDelegateV2
	viewUniversalStateInit
)

func appendActionBorsh(b []byte, a primitives.Action) []byte {
	switch a := a.(type) {
	case *primitives.CreateAccount:
		return append(b, viewCreateAccount)
	case *primitives.DeployContract:
		return appendCodeBorsh(append(b, viewDeployContract), a.Code)
	case *primitives.FunctionCall:
		b = borsh.AppendBytes(borsh.AppendString(append(b, viewFunctionCall), a.Method), a.Args)
		return a.Deposit.AppendBorsh(borsh.AppendUint64(b, uint64(a.Gas)))
	case *primitives.Transfer:
		return a.Deposit.AppendBorsh(append(b, viewTransfer))
	case *primitives.Stake:
		return a.PublicKey.AppendBorsh(a.Stake.AppendBorsh(append(b, viewStake)))
	case *primitives.AddKey:
		return appendKeyBorsh(a.PublicKey.AppendBorsh(append(b, viewAddKey)), &a.AccessKey)
	case *primitives.DeleteKey:
		return a.PublicKey.AppendBorsh(append(b, viewDeleteKey))
	case *primitives.DeleteAccount:
		return a.Beneficiary.AppendBorsh(append(b, viewDeleteAccount))
	case *primitives.Delegate:
		return a.Signature.AppendBorsh(a.Action.AppendBorsh(append(b, viewDelegate)))
	case *primitives.DeployGlobalContract:
		if a.Mode == primitives.GlobalByAccountID {
			return appendCodeBorsh(append(b, viewDeployGlobalByAccount), a.Code)
		}
		return appendCodeBorsh(append(b, viewDeployGlobal), a.Code)
	case *primitives.UseGlobalContract:
		if a.ID.Account != "" {
			return a.ID.Account.AppendBorsh(append(b, viewUseGlobalByAccount))
		}
		return append(append(b, viewUseGlobal), a.ID.Hash[:]...)
	case *primitives.DeterministicStateInit:
		b = a.Init.Code.AppendBorsh(append(b, viewStateInit))
		return a.Deposit.AppendBorsh(primitives.AppendStateEntries(b, a.Init.Data))
	case *primitives.UniversalStateInit:
		return a.Deposit.AppendBorsh(borsh.AppendBytes(append(b, viewUniversalStateInit), a.Init))
	case *primitives.TransferToGasKey:
		return a.Deposit.AppendBorsh(a.PublicKey.AppendBorsh(append(b, viewTransferToGasKey)))
	case *primitives.WithdrawFromGasKey:
		return a.Amount.AppendBorsh(a.PublicKey.AppendBorsh(append(b, viewWithdrawFromGasKey)))
	case *primitives.DelegateV2:
		return a.Signature.AppendBorsh(a.Action.AppendBorsh(append(b, viewDelegateV2, 0)))
	}
	panic(fmt.Sprintf("view: no borsh form of action %T", a))
}

// appendCodeBorsh appends the sha256 of code, as bytes.
func appendCodeBorsh(b, code []byte) []byte {
	h := primitives.HashBytes(code)
	return borsh.AppendBytes(b, h[:])
}

// appendKeyBorsh appends AccessKeyView.
func appendKeyBorsh(b []byte, k *primitives.AccessKey) []byte {
	b = borsh.AppendUint64(b, uint64(k.Nonce))
	gas := func(b []byte) []byte { return borsh.AppendUint16(k.GasKey.Balance.AppendBorsh(b), k.GasKey.NumNonces) }
	calls := func(b []byte) []byte {
		p := k.FunctionCall
		if p.Allowance == nil {
			b = append(b, 0)
		} else {
			b = p.Allowance.AppendBorsh(append(b, 1))
		}
		return appendTexts(borsh.AppendString(b, p.ReceiverID), p.MethodNames)
	}
	switch {
	case k.GasKey == nil && k.FunctionCall == nil:
		return append(b, 1)
	case k.GasKey == nil:
		return calls(append(b, 0))
	case k.FunctionCall == nil:
		return gas(append(b, 3))
	}
	return calls(gas(append(b, 2)))
}

func appendTexts(b []byte, list []string) []byte {
	b = borsh.AppendLen(b, len(list))
	for _, s := range list {
		b = borsh.AppendString(b, s)
	}
	return b
}

// appendProofBorsh appends ExecutionOutcomeWithIdView.
func appendProofBorsh(b []byte, o *OutcomeProof) (_ []byte, err error) {
	b = append(append(o.Proof.AppendBorsh(b), o.BlockHash[:]...), o.ID[:]...)
	b = primitives.AppendHashes(appendTexts(b, o.Logs), o.ReceiptIDs)
	b = o.ExecutorID.AppendBorsh(o.TokensBurnt.AppendBorsh(borsh.AppendUint64(b, uint64(o.GasBurnt))))
	b = append(b, byte(o.Status.Kind))
	switch o.Status.Kind {
	case primitives.StatusFailure:
		if b, err = appendFailureBorsh(b, o.Status.Failure); err != nil {
			return nil, err
		}
	case primitives.StatusSuccessValue:
		b = borsh.AppendBytes(b, o.Status.Value)
	case primitives.StatusSuccessReceiptID:
		b = append(b, o.Status.ReceiptID[:]...)
	}
	m := &o.Metadata
	if b = borsh.AppendUint32(b, max(m.Version, 1)); m.Version < FirstProfileVersion {
		return append(b, 0, 0), nil
	}
	b = borsh.AppendSlice(append(b, 1), m.Profile, func(b []byte, c *primitives.CostEntry) []byte {
		return borsh.AppendUint64(borsh.AppendString(borsh.AppendString(b, c.Category), c.Cost), uint64(c.Gas))
	})
	if m.Version < FirstContractsVersion {
		return append(b, 0), nil
	}
	return borsh.AppendSlice(append(b, 1), m.Contracts, func(b []byte, c *primitives.AccountContract) []byte {
		switch c.Kind {
		case primitives.ContractLocal:
			return append(append(b, 1, 0), c.Hash[:]...)
		case primitives.ContractGlobalHash:
			return append(append(b, 1, 1), c.Hash[:]...)
		case primitives.ContractGlobalAccount:
			return c.Account.AppendBorsh(append(b, 1, 2))
		}
		return append(b, 0)
	}), nil
}
