package action

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/state"
)

const (
	// maxDeletionUsage is the storage usage, in bytes and without contract code, up to which an
	// account can still be deleted (nearcore Account::MAX_ACCOUNT_DELETION_STORAGE_USAGE).
	maxDeletionUsage = 10_000
)

// maxGasKeyBurn is the largest balance that a gas key may have when it is deleted (nearcore
// GasKeyInfo::MAX_BALANCE_TO_BURN). Deleting the key burns that balance. When an account is
// deleted, the same limit applies to the sum of the balances of its gas keys.
var maxGasKeyBurn = primitives.NEAR(1)

// BalanceRefund returns a receipt that pays tokens back. The receipt's id is not set.
func BalanceRefund(to primitives.AccountID, amount primitives.Balance) *primitives.Receipt {
	return refund(to, primitives.SystemAccount, primitives.ZeroED25519Key, amount)
}

// GasRefund returns a receipt that pays unused gas back to the signer, or to the signer's gas key.
// The receipt's id is not set.
func GasRefund(signer primitives.AccountID, key primitives.PublicKey, amount primitives.Balance) *primitives.Receipt {
	return refund(signer, signer, key, amount)
}

// refundParts holds all structs of a refund, so that a refund costs one allocation.
type refundParts struct {
	receipt  primitives.Receipt
	body     primitives.ActionReceipt
	actions  [1]primitives.Action
	transfer primitives.Transfer
}

func refund(to, signer primitives.AccountID, key primitives.PublicKey, amount primitives.Balance) *primitives.Receipt {
	p := &refundParts{transfer: primitives.Transfer{Deposit: amount}}
	p.actions[0] = &p.transfer
	p.body = primitives.ActionReceipt{SignerID: signer, SignerPublicKey: key, Actions: p.actions[:]}
	p.receipt = primitives.Receipt{PredecessorID: primitives.SystemAccount, ReceiverID: to, Body: &p.body}
	return &p.receipt
}

// refundReceiver returns the account that gets the deposits of the receipt back.
func (x *Execution) refundReceiver() primitives.AccountID { return RefundReceiver(x.Receipt) }

// RefundReceiver returns the account that gets the deposits of an action receipt back: refund_to if
// it is set, else the predecessor.
func RefundReceiver(r *primitives.Receipt) primitives.AccountID {
	if b, ok := r.Body.(*primitives.ActionReceipt); ok && b.V2 && b.RefundTo != "" {
		return b.RefundTo
	}
	return r.PredecessorID
}

// transfer adds the deposit to the receiver's balance. If the receiver does not exist and is an
// implicit account, transfer creates it. A gas refund goes to the gas key that paid for the gas. If
// an ordinary key with an allowance signed, the refund also restores that allowance.
func (x *Execution) transfer(a *primitives.Transfer) error {
	if !x.Exists {
		return x.createImplicit(a.Deposit)
	}
	isGasRefund := x.Receipt.PredecessorID == primitives.SystemAccount && x.Body.SignerID == x.Receipt.ReceiverID
	if !isGasRefund {
		return x.credit(a.Deposit)
	}
	// The signer may have replaced the key since the receipt was made. The key that now has the
	// same handle gets the refund.
	id, handle := x.Receipt.ReceiverID, x.Body.SignerPublicKey.Handle()
	var key primitives.AccessKey
	found, err := x.State.AccessKey(id, handle, &key)
	if err != nil {
		return err
	}
	if found && key.GasKey != nil {
		sum, ok := key.GasKey.Balance.Add(a.Deposit)
		if !ok {
			return state.Inconsistent("gas key balance of %s: %w", id, primitives.ErrOverflow)
		}
		key.GasKey.Balance = sum
		x.State.SetAccessKey(id, handle, &key)
		return nil
	}
	if err := x.credit(a.Deposit); err != nil {
		return err
	}
	if found && key.FunctionCall != nil && key.FunctionCall.Allowance != nil {
		allowance := key.FunctionCall.Allowance
		if sum := allowance.SaturatingAdd(a.Deposit); allowance.Less(sum) {
			*allowance = sum
			x.State.SetAccessKey(id, handle, &key)
		}
	}
	return nil
}

// createImplicit creates the implicit account that receives a transfer (nearcore
// action_implicit_account_creation_transfer). The new account becomes the actor, unless it is a
// universal account: only a transfer to a universal account can have further actions in its
// receipt, and these further actions must not act for the new account.
func (x *Execution) createImplicit(deposit primitives.Balance) error {
	id, f := x.Receipt.ReceiverID, &x.Block.Config.Fees
	if x.receiverKind() == primitives.UniversalAccount {
		x.createUninitialized(deposit)
		return nil
	}
	x.Actor = id
	x.Exists = true
	x.Account = primitives.Account{Amount: deposit, StorageUsage: f.NumBytesAccount, Version: primitives.AccountV1}
	switch kind := x.receiverKind(); kind {
	case primitives.NearImplicitAccount:
		pk, _ := primitives.KeyOfNearImplicit(id) // id is NEAR-implicit, so its key exists
		key := primitives.AccessKey{Nonce: primitives.InitialNonce(x.Block.Height)}
		handle := pk.Handle()
		x.Account.StorageUsage += keyUsage(f, len(handle), &key)
		x.State.SetAccessKey(id, handle, &key)
	case primitives.EthImplicitAccount:
		hash := EthWalletHash(x.Block.ChainID)
		x.Account.SetContract(primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: hash})
		x.Account.StorageUsage += uint64(len(hash))
	case primitives.DeterministicAccount: // the account has neither keys nor code until a state init
	case primitives.NamedAccount, primitives.UniversalAccount:
		panic(fmt.Sprintf("action: transfer creates account kind %d", kind))
	default:
		panic(fmt.Sprintf("action: no case for account kind %d", kind))
	}
	return nil
}

// createUninitialized creates a universal account without its state. The actor stays the
// predecessor.
func (x *Execution) createUninitialized(amount primitives.Balance) {
	x.Exists = true
	x.Account = primitives.NewUninitializedAccount(amount, x.Block.Config.Fees.NumBytesAccount, primitives.InitialNonce(x.Block.Height))
}

// createAccount creates a named account.
func (x *Execution) createAccount() *failure {
	id, rules := x.Receipt.ReceiverID, &x.Block.Config.AccountCreation
	if id.IsTopLevel() {
		if len(id) < int(rules.MinAllowedTopLevelAccountLength) && x.Receipt.PredecessorID != rules.RegistrarAccountID {
			return &failure{
				Tag: primitives.ActionCreateAccountOnlyByRegistrar, AccountID: id,
				RegistrarID: rules.RegistrarAccountID, PredecessorID: x.Receipt.PredecessorID,
			}
		}
	} else if !id.IsSubAccountOf(x.Receipt.PredecessorID) {
		return &failure{Tag: primitives.ActionCreateAccountNotAllowed, AccountID: id, PredecessorID: x.Receipt.PredecessorID}
	}
	x.Actor = id
	x.Exists = true
	x.Account = primitives.Account{StorageUsage: x.Block.Config.Fees.NumBytesAccount, Version: primitives.AccountV1}
	return nil
}

// deleteAccount removes the account and pays its balance to the beneficiary.
func (x *Execution) deleteAccount(a *primitives.DeleteAccount) (*failure, error) {
	id := x.Receipt.ReceiverID
	code, err := x.contractUsage()
	if err != nil {
		return nil, err
	}
	if usage := x.Account.StorageUsage; usage > code && usage-code > maxDeletionUsage {
		return &failure{Tag: primitives.ActionDeleteAccountWithLargeState, AccountID: id}, nil
	}
	burn, err := x.State.GasKeyBalances(id)
	if err != nil {
		return nil, err
	}
	if maxGasKeyBurn.Less(burn) {
		return &failure{Tag: primitives.ActionGasKeyBalanceTooHigh, AccountID: id, Balance: burn}, nil
	}
	if !x.Account.Amount.IsZero() {
		x.Result.NewReceipts = append(x.Result.NewReceipts, BalanceRefund(a.Beneficiary, x.Account.Amount))
	}
	rows, err := x.State.RemoveAccount(id)
	if err != nil {
		return nil, err
	}
	if err := x.burn(burn); err != nil {
		return nil, err
	}
	if rows.Rows > 0 {
		compute, err := fees.NonceRowsRemoval(x.Block.Config, uint64(rows.Rows), uint64(rows.KeyBytes))
		if err == nil {
			err = x.addCompute(compute)
		}
		if err != nil {
			return nil, err
		}
	}
	x.Actor = x.Receipt.PredecessorID
	x.Exists, x.Account = false, primitives.Account{}
	return nil, nil
}

// contractUsage returns the part of the account's storage usage that its contract takes: the length
// of its own code, or of its reference to a global contract. Before feature
// FixDeleteAccountGlobalContractStorageUsage, deleting an account ignored that reference.
func (x *Execution) contractUsage() (uint64, error) {
	if x.Account.Contract.Kind == primitives.ContractLocal {
		return x.State.CodeLen(x.Receipt.ReceiverID)
	}
	return x.Account.Contract.IdentifierUsage(), nil
}

// stake sets the validator stake. stake locks an increase at once; the start of a following epoch
// returns a decrease.
func (x *Execution) stake(a *primitives.Stake) *failure {
	id, acc := x.Receipt.ReceiverID, &x.Account
	rest, ok := acc.Amount.Sub(a.Stake.SaturatingSub(acc.Locked))
	if !ok {
		return &failure{Tag: primitives.ActionTriesToStake, AccountID: id, Stake: a.Stake, Locked: acc.Locked, Balance: acc.Amount}
	}
	if acc.Locked.IsZero() && a.Stake.IsZero() {
		return &failure{Tag: primitives.ActionTriesToUnstake, AccountID: id}
	}
	if !a.Stake.IsZero() && a.Stake.Less(x.Block.MinimumStake) {
		return &failure{Tag: primitives.ActionInsufficientStake, AccountID: id, Stake: a.Stake, MinimumStake: x.Block.MinimumStake}
	}
	x.Result.Proposals = append(x.Result.Proposals, primitives.ValidatorStake{AccountID: id, PublicKey: a.PublicKey, Stake: a.Stake})
	if acc.Locked.Less(a.Stake) {
		acc.Amount, acc.Locked = rest, a.Stake
	}
	return nil
}
