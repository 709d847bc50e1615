package view

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// AccountMembers are the members of AccountView, for decoding the JSON replies of other nodes.
type AccountMembers struct {
	Amount         *primitives.Balance  `json:"amount"`
	Locked         *primitives.Balance  `json:"locked"`
	CodeHash       primitives.Hash      `json:"code_hash"`
	StorageUsage   uint64               `json:"storage_usage"`
	GlobalHash     *primitives.Hash     `json:"global_contract_hash"`
	GlobalAccount  primitives.AccountID `json:"global_contract_account_id"`
	State          string               `json:"state"` // empty: initialized
	BootstrapNonce *primitives.Nonce    `json:"bootstrap_nonce"`
}

// ErrAccountMembers is wrapped by every error of Account.
var ErrAccountMembers = errors.New("the fields of the account are incomplete or contradict each other")

// Account returns the account. The version is 2 if the account has a global contract: the view does
// not show the version. Errors: ErrAccountMembers.
func (m *AccountMembers) Account() (primitives.Account, error) {
	none := primitives.Account{}
	refuse := func(why string) (primitives.Account, error) {
		return none, fmt.Errorf("%w: %s", ErrAccountMembers, why)
	}
	contracts := 0
	for _, has := range [...]bool{!m.CodeHash.IsZero(), m.GlobalHash != nil, m.GlobalAccount != ""} {
		if has {
			contracts++
		}
	}
	switch {
	case m.Amount == nil || m.Locked == nil:
		return refuse("amount or locked is missing")
	case contracts > 1:
		return refuse("more than one contract")
	}
	switch m.State {
	case "", "initialized":
	case "uninitialized":
		if m.BootstrapNonce == nil || contracts > 0 || !m.Locked.IsZero() {
			return refuse("an uninitialized account must have a bootstrap nonce and no contract or stake")
		}
		return primitives.NewUninitializedAccount(*m.Amount, m.StorageUsage, *m.BootstrapNonce), nil
	default:
		return refuse(fmt.Sprintf("unknown state %q", m.State))
	}
	if m.BootstrapNonce != nil {
		return refuse("an initialized account has a bootstrap nonce")
	}
	a := primitives.Account{Version: primitives.AccountV1, Amount: *m.Amount, Locked: *m.Locked, StorageUsage: m.StorageUsage}
	switch {
	case m.GlobalAccount != "":
		a.SetContract(primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: m.GlobalAccount})
	case m.GlobalHash != nil:
		a.SetContract(primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: *m.GlobalHash})
	case !m.CodeHash.IsZero():
		a.SetContract(primitives.AccountContract{Kind: primitives.ContractLocal, Hash: m.CodeHash})
	}
	return a, nil
}
