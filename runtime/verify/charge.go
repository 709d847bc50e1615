package verify

import (
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// AnyHeight is the height that callers pass for a submitted transaction, because the block that
// will contain the transaction is unknown. The nonce of the transaction then has no upper bound.
const AnyHeight = ^primitives.Height(0)

// Verdict is the result of Charge for a transaction with an existing signer.
//
//	Err nil, Charged        the transaction becomes a receipt
//	Err set, Charged        no receipt, but the gas key pays for the conversion: the outcome is a
//	                        failure with Charges.GasBurnt and BurntAmount, and the caller applies
//	                        Charges
//	Err set, not Charged    the outcome is a failure without gas; the state does not change
type Verdict struct {
	Err     *primitives.InvalidTxError
	Charged bool
	Charges Charges // new values and costs; only set if Charged is true
}

// Charges are the new values of the signer's account and key, and the gas attached to the receipt
// (nearcore VerificationResult).
type Charges struct {
	GasBurnt        primitives.Gas
	ComputeBurnt    parameters.Compute
	GasRemaining    primitives.Gas
	ReceiptGasPrice primitives.Balance
	BurntAmount     primitives.Balance

	Amount     primitives.Balance  // balance of the account after the charges
	Nonce      primitives.Nonce    // new nonce of the access key or, if GasKey is set, of the gas key at NonceIndex
	Allowance  *primitives.Balance // allowance of the key after the charges; nil: unlimited
	GasKey     bool                // NonceIndex and KeyBalance are valid; the nonce of the key itself stays
	KeyBalance primitives.Balance  // balance of the gas key after the charges
	NonceIndex uint16
	Bootstrap  bool // a self-signed state init: there is no key, and Nonce is Account.BootstrapNonce
}

// Apply stores the charges in the account and the key. Apply does not write through k's pointers,
// because a cache may share the permission and the gas key's balance. Apply does not store the
// indexed nonce of a gas key; the caller stores that nonce, from NonceIndex and Nonce. Apply does
// not use k if Bootstrap is set.
func (c *Charges) Apply(a *primitives.Account, k *primitives.AccessKey) {
	a.Amount = c.Amount
	if c.Bootstrap {
		a.BootstrapNonce = c.Nonce
		return
	}
	if c.GasKey {
		info := *k.GasKey
		info.Balance = c.KeyBalance
		k.GasKey = &info
		return
	}
	k.Nonce = c.Nonce
	if c.Allowance != nil {
		p := *k.FunctionCall
		p.Allowance = c.Allowance
		k.FunctionCall = &p
	}
}

// Charge checks nonce, balances and permission of tx against its signer and computes the charges.
// The caller must have checked that MissingSigner returns nil. Then the signer's account exists and
// so does the key of tx, unless tx is a self-signed state init. height is the height of the block
// whose chunk contains tx, or AnyHeight.
func Charge(c *parameters.RuntimeConfig, tx *primitives.Transaction, cost *fees.TransactionCost, s Signer,
	height primitives.Height) Verdict {
	switch {
	case s.Key == nil:
		return chargeBootstrap(c, tx, cost, s.Account, height)
	case tx.Nonce.HasIndex:
		return chargeGasKey(c, tx, cost, s, height)
	}
	return chargeKey(c, tx, cost, s, height)
}

func failed(err *primitives.InvalidTxError) Verdict { return Verdict{Err: err} }

// newCharges returns charges with the fields that come from the cost.
func newCharges(tx *primitives.Transaction, cost *fees.TransactionCost) Charges {
	return Charges{
		GasBurnt: cost.GasBurnt, ComputeBurnt: cost.ComputeBurnt, GasRemaining: cost.GasRemaining,
		ReceiptGasPrice: cost.ReceiptGasPrice, BurntAmount: cost.BurntAmount, Nonce: tx.Nonce.Nonce,
	}
}

// chargeKey charges transactions without a nonce index (nearcore verifier.rs:269). The account pays
// everything.
func chargeKey(c *parameters.RuntimeConfig, tx *primitives.Transaction, cost *fees.TransactionCost, s Signer,
	height primitives.Height) Verdict {
	key := s.Key
	if key.GasKey != nil {
		return failed(&primitives.InvalidTxError{Tag: primitives.TxInvalidNonceIndex, NumNonces: key.GasKey.NumNonces})
	}
	if err := checkNonce(tx, tx.NonceMode, key.Nonce, height); err != nil {
		return failed(err)
	}
	charges := newCharges(tx, cost)
	var ok bool
	if charges.Amount, ok = s.Account.Amount.Sub(cost.TotalCost); !ok {
		return failed(&primitives.InvalidTxError{
			Tag: primitives.TxNotEnoughBalance, SignerID: tx.SignerID, Balance: s.Account.Amount, Cost: cost.TotalCost,
		})
	}
	if key.FunctionCall != nil && key.FunctionCall.Allowance != nil {
		rest, ok := key.FunctionCall.Allowance.Sub(cost.TotalCost)
		if !ok {
			return failed(invalidKey(&primitives.InvalidAccessKeyError{
				Tag: primitives.KeyNotEnoughAllowance, AccountID: tx.SignerID, PublicKey: tx.PublicKey,
				Allowance: *key.FunctionCall.Allowance, Cost: cost.TotalCost,
			}))
		}
		charges.Allowance = &rest
	}
	missing, err := StorageStake(c, s.Account, charges.Amount)
	if err != nil {
		return failed(inconsistent(err))
	}
	if !missing.IsZero() {
		return failed(&primitives.InvalidTxError{Tag: primitives.TxLackBalanceForState, SignerID: tx.SignerID, Amount: missing})
	}
	if err := Permission(key.FunctionCall, tx.ReceiverID, tx.Actions); err != nil {
		return failed(invalidKey(err))
	}
	return Verdict{Charged: true, Charges: charges}
}

// chargeGasKey charges transactions with a nonce index (nearcore verifier.rs:370). The gas key pays
// for gas, the account for deposits. If the gas key can pay and the account cannot, the gas key is
// charged for the conversion and the transaction fails.
func chargeGasKey(c *parameters.RuntimeConfig, tx *primitives.Transaction, cost *fees.TransactionCost, s Signer,
	height primitives.Height) Verdict {
	index, gas := tx.Nonce.Index, s.Key.GasKey
	badIndex := &primitives.InvalidTxError{Tag: primitives.TxInvalidNonceIndex, NonceIndex: &index}
	if gas != nil {
		badIndex.NumNonces = gas.NumNonces
	}
	switch {
	case s.RowNonce == nil: // always nil for an ordinary key
		return failed(badIndex)
	case gas == nil:
		return failed(invalidKey(&primitives.InvalidAccessKeyError{
			Tag: primitives.KeyNotFound, AccountID: tx.SignerID, PublicKey: tx.PublicKey,
		}))
	case index >= gas.NumNonces:
		return failed(badIndex)
	}
	if err := checkNonce(tx, tx.NonceMode, *s.RowNonce, height); err != nil {
		return failed(err)
	}
	rest, ok := gas.Balance.Sub(cost.GasCost)
	if !ok {
		return failed(&primitives.InvalidTxError{
			Tag: primitives.TxNotEnoughGasKeyBalance, SignerID: tx.SignerID, Balance: gas.Balance, Cost: cost.GasCost,
		})
	}
	if err := Permission(s.Key.FunctionCall, tx.ReceiverID, tx.Actions); err != nil {
		return failed(invalidKey(err))
	}
	charges := newCharges(tx, cost)
	charges.GasKey, charges.NonceIndex = true, index
	depositFailed := func(balance, missing primitives.Balance, reason primitives.DepositCostFailureReason) Verdict {
		charges.Amount = s.Account.Amount
		charges.KeyBalance, _ = gas.Balance.Sub(cost.BurntAmount) // no underflow: BurntAmount <= GasCost <= gas.Balance
		return Verdict{Charged: true, Charges: charges, Err: &primitives.InvalidTxError{
			Tag: primitives.TxNotEnoughBalanceForDeposit, SignerID: tx.SignerID, Balance: balance, Cost: missing, Reason: reason,
		}}
	}
	amount, ok := s.Account.Amount.Sub(cost.DepositCost)
	if !ok {
		return depositFailed(s.Account.Amount, cost.DepositCost, primitives.DepositNotEnoughBalance)
	}
	missing, err := StorageStake(c, s.Account, amount)
	if err != nil {
		return failed(inconsistent(err))
	}
	if !missing.IsZero() {
		return depositFailed(amount, missing, primitives.DepositLackBalanceForState)
	}
	charges.Amount, charges.KeyBalance = amount, rest
	return Verdict{Charged: true, Charges: charges}
}

// checkNonce checks the nonce of tx (nearcore verify_nonce). checkNonce compares the nonce with the
// stored nonce by the rule of mode, and with NonceUpperBound unless height is AnyHeight.
func checkNonce(
	tx *primitives.Transaction, mode primitives.NonceMode, stored primitives.Nonce, height primitives.Height,
) *primitives.InvalidTxError {
	nonce := tx.Nonce.Nonce
	ok := nonce > stored
	if mode == primitives.NonceStrict {
		ok = ok && nonce-stored == 1
	}
	if !ok {
		return &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce, TxNonce: nonce, KeyNonce: stored}
	}
	if height == AnyHeight {
		return nil
	}
	if bound := NonceUpperBound(height); nonce >= bound {
		return &primitives.InvalidTxError{Tag: primitives.TxNonceTooLarge, TxNonce: nonce, UpperBound: bound}
	}
	return nil
}

// NonceUpperBound returns the first nonce that is too large for a block of this height:
// height·10^6, at most 2^64-1.
func NonceUpperBound(height primitives.Height) primitives.Nonce {
	over, bound := bits.Mul64(uint64(height), primitives.NonceRangeMultiplier)
	if over != 0 {
		return ^primitives.Nonce(0)
	}
	return primitives.Nonce(bound)
}

// Permission checks that a function-call key may sign actions. The actions must be a single
// function call without deposit, to the permission's receiver and one of the permission's methods.
// A nil permission allows everything. Permission is also the check of the inner actions of a
// delegate action.
func Permission(p *primitives.FunctionCallPermission, receiver primitives.AccountID,
	actions []primitives.Action) *primitives.InvalidAccessKeyError {
	if p == nil {
		return nil
	}
	if len(actions) != 1 {
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyRequiresFullAccess}
	}
	call, ok := actions[0].(*primitives.FunctionCall)
	switch {
	case !ok:
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyRequiresFullAccess}
	case !call.Deposit.IsZero():
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyDepositWithFunctionCall}
	case string(receiver) != p.ReceiverID:
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyReceiverMismatch, TxReceiver: receiver, KeyReceiver: p.ReceiverID}
	case len(p.MethodNames) > 0 && !slices.Contains(p.MethodNames, call.Method):
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyMethodNameMismatch, MethodName: call.Method}
	}
	return nil
}
