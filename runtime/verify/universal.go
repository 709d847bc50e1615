package verify

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Rules of universal accounts. The id of a universal account is derived from its initial state
// (feature UniversalAccounts). Sources: nearcore 2.14.0-rc.1
// runtime/runtime/src/action_validation.rs:45, 535 and runtime/runtime/src/verifier.rs:164-200,
// 424-504; near-primitives 0.38.0 src/action/mod.rs:518, src/transaction.rs:236.

// stateInitTotals bounds the keys and entries of all state inits of a new receipt or transaction,
// including state inits in delegate actions. The outer receipt has prepaid the gas for all these
// state inits.
func stateInitTotals(limits *parameters.Limits, actions []primitives.Action) *primitives.ActionsValidationError {
	keys, entries := stateInitCounts(actions)
	if keys > limits.MaxUniversalStateInitKeys {
		return &primitives.ActionsValidationError{
			Tag: primitives.ActionsTotalNumberOfStateInitKeys, Count: keys, Limit: limits.MaxUniversalStateInitKeys,
		}
	}
	if entries > limits.MaxStateInitEntries {
		return &primitives.ActionsValidationError{
			Tag: primitives.ActionsTotalNumberOfStateInitEntries, Count: entries, Limit: limits.MaxStateInitEntries,
		}
	}
	return nil
}

// stateInitCounts counts the keys and entries in the state inits of a list. stateInitCounts counts
// nothing for bytes that do not decode, because a check after it rejects such actions.
func stateInitCounts(actions []primitives.Action) (keys, entries uint64) {
	for _, a := range actions {
		var k, e uint64
		switch a := a.(type) {
		case *primitives.DeterministicStateInit:
			e = uint64(len(a.Init.Data))
		case *primitives.UniversalStateInit:
			n := a.Init.Counts()
			k, e = n.Keys, n.Entries
		case *primitives.Delegate:
			k, e = stateInitCounts(a.Action.Actions)
		case *primitives.DelegateV2:
			k, e = stateInitCounts(a.Action.Actions)
		default: // no state init: counts 0
		}
		keys, entries = keys+k, entries+e // cannot overflow: each is below the number of bytes in memory
	}
	return keys, entries
}

// universalStateInit checks a universal state init. The receiver must be the account derived from
// the action's bytes, the bytes must be in canonical encoding, and the entries must not be too
// large. A state init without code and keys is valid, although the resulting account can do
// nothing.
func universalStateInit(c *parameters.RuntimeConfig, a *primitives.UniversalStateInit,
	receiver primitives.AccountID) *primitives.ActionsValidationError {
	if !c.Version.Has(parameters.UniversalAccounts) {
		return unsupported(c, parameters.UniversalAccounts)
	}
	if derived := a.Init.DerivedAccount(); derived != receiver {
		return &primitives.ActionsValidationError{
			Tag: primitives.ActionsInvalidUniversalStateInitReceiver, DerivedID: derived, ReceiverID: receiver,
		}
	}
	init, err := a.Init.Decode()
	if err != nil {
		return invalidActions(primitives.ActionsMalformedUniversalStateInit)
	}
	if init.Code != nil {
		if err := globalContract(init.Code); err != nil {
			return err
		}
	}
	limits := &c.Wasm.Limits
	for i := range init.Data {
		e := &init.Data[i]
		if err := tooLong(primitives.ActionsUniversalStateInitKeyLength, len(e.Key), limits.MaxLengthStorageKey); err != nil {
			return err
		}
		if err := tooLong(primitives.ActionsUniversalStateInitValueLength, len(e.Value), limits.MaxLengthStorageValue); err != nil {
			return err
		}
	}
	return nil
}

// transferTo checks the receiver of a transfer. In versions with RejectUniversalAccountTransfers
// but without UniversalAccounts, a new transfer must not go to the id of a universal account. The
// receipt of such a transfer could be executed under UniversalAccounts. There the transfer would
// create the account without having paid for the creation.
func transferTo(c *parameters.RuntimeConfig, receiver primitives.AccountID, mode Mode) *primitives.ActionsValidationError {
	banned := c.Version.Has(parameters.RejectUniversalAccountTransfers) && !c.Version.Has(parameters.UniversalAccounts)
	if mode != NewReceipt || !banned || !receiver.IsUniversal() {
		return nil
	}
	return &primitives.ActionsValidationError{
		Tag: primitives.ActionsTransferToUniversalAccount, AccountID: string(receiver),
	}
}

// bootstrap returns whether tx is a self-signed state init: the transaction that a universal
// account may send before it has any key. The account must be signer and receiver of tx and be
// uninitialized. The account's id must be derived from a state init in tx whose keys contain the
// signing key. State inits in delegate actions do not count. The state init may have any encoding
// here, because the actions were validated before.
func bootstrap(c *parameters.RuntimeConfig, tx *primitives.Transaction, signer *primitives.Account) bool {
	if !c.Version.Has(parameters.UniversalAccounts) || signer.IsInitialized() {
		return false
	}
	if tx.Nonce.HasIndex || tx.SignerID != tx.ReceiverID {
		return false
	}
	handle := tx.PublicKey.Handle()
	for _, a := range tx.Actions {
		a, ok := a.(*primitives.UniversalStateInit)
		if !ok || a.Init.DerivedAccount() != tx.SignerID {
			continue
		}
		if init, err := a.Init.DecodeLenient(); err == nil && init.HasKey(handle) {
			return true
		}
	}
	return false
}

// chargeBootstrap charges a self-signed state init. The account pays everything. The account's
// BootstrapNonce takes the place of a key's nonce. Whatever the nonce mode, only the next nonce is
// valid. With a higher nonce, the same transaction could be valid a second time for the keys that
// the state init creates.
func chargeBootstrap(
	c *parameters.RuntimeConfig, tx *primitives.Transaction, cost *fees.TransactionCost, signer *primitives.Account, height primitives.Height,
) Verdict {
	if err := checkNonce(tx, primitives.NonceStrict, signer.BootstrapNonce, height); err != nil {
		return failed(err)
	}
	charges := newCharges(tx, cost)
	charges.Bootstrap = true
	var ok bool
	if charges.Amount, ok = signer.Amount.Sub(cost.TotalCost); !ok {
		return failed(&primitives.InvalidTxError{
			Tag: primitives.TxNotEnoughBalance, SignerID: tx.SignerID, Balance: signer.Amount, Cost: cost.TotalCost,
		})
	}
	missing, err := StorageStake(c, signer, charges.Amount)
	if err != nil {
		return failed(inconsistent(err))
	}
	if !missing.IsZero() {
		return failed(&primitives.InvalidTxError{Tag: primitives.TxLackBalanceForState, SignerID: tx.SignerID, Amount: missing})
	}
	return Verdict{Charged: true, Charges: charges}
}
