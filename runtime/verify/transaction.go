package verify

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// SignatureFunc returns whether a transaction's signature is valid for its key. The result must
// depend on the transaction alone.
type SignatureFunc func(*primitives.SignedTransaction) bool

// CheckSignature verifies the signature over the transaction's hash.
func CheckSignature(tx *primitives.SignedTransaction) bool {
	hash := tx.Hash()
	return tx.Signature.Verify(hash[:], tx.PublicKey)
}

// Checked is the SignatureFunc for transactions whose signature this node has already verified.
func Checked(*primitives.SignedTransaction) bool { return true }

// Transaction makes all checks that need no state: the actions, the version, the size and the
// signature, in this order.
func Transaction(c *parameters.RuntimeConfig, tx *primitives.SignedTransaction, signature SignatureFunc) *primitives.InvalidTxError {
	if err := actionList(c, tx.Actions, tx.Unkept, tx.ReceiverID, NewReceipt); err != nil {
		return &primitives.InvalidTxError{Tag: primitives.TxActionsValidation, Actions: err}
	}
	if err := Form(c, tx); err != nil {
		return err
	}
	if !signature(tx) {
		return invalidTx(primitives.TxInvalidSignature)
	}
	return nil
}

// Form checks that c's version supports everything that tx uses, and the size of tx. A chunk with a
// transaction that fails is invalid (nearcore transaction.rs check_valid_for_config).
func Form(c *parameters.RuntimeConfig, tx *primitives.SignedTransaction) *primitives.InvalidTxError {
	if !versionAllowed(c, tx) {
		return invalidTx(primitives.TxInvalidVersion)
	}
	if size, limit := uint64(tx.Size()), c.Wasm.Limits.MaxTransactionSize; size > limit {
		return &primitives.InvalidTxError{Tag: primitives.TxSizeExceeded, Size: size, Limit: limit}
	}
	return nil
}

// invalidTx returns the error of a variant without fields.
func invalidTx(tag primitives.InvalidTxTag) *primitives.InvalidTxError {
	return &primitives.InvalidTxError{Tag: tag}
}

// versionAllowed returns whether c's version supports all that tx uses (nearcore
// transaction.rs:302).
func versionAllowed(c *parameters.RuntimeConfig, tx *primitives.SignedTransaction) bool {
	switch {
	case tx.Version == primitives.TransactionV1 && !c.Version.Has(parameters.GasKeys):
		return false
	case tx.NonceMode == primitives.NonceStrict && !c.Version.Has(parameters.StrictNonce):
		return false
	case c.Version.Has(parameters.PostQuantumSignatures):
		return true
	}
	return !tx.PublicKey.Type().IsPostQuantum() && !tx.Signature.Type().IsPostQuantum() && !anyPostQuantum(tx.Actions)
}

// Cost returns the cost of tx at the current gas price: next_gas_price of the previous block.
func Cost(c *parameters.RuntimeConfig, tx *primitives.Transaction, price primitives.Balance) (fees.TransactionCost,
	*primitives.InvalidTxError) {
	cost, err := fees.TxCost(c, tx, price)
	if err != nil {
		return cost, invalidTx(primitives.TxCostOverflow)
	}
	return cost, nil
}

// Place is the stage at which a transaction is checked. The error for a missing signer depends on
// the Place.
type Place byte

const (
	InChunk      Place = iota // applying or building a chunk
	AtSubmission              // submitting by RPC, or checking in the pool
)

// Signer is the state of a transaction's signer. A nil field means that the state does not have the
// record. Key is also nil for a self-signed state init (see MissingSigner).
type Signer struct {
	Account *primitives.Account
	Key     *primitives.AccessKey
	// RowNonce is the nonce of the gas key at the transaction's index. RowNonce is not used for a
	// transaction without an index.
	RowNonce *primitives.Nonce
}

// MissingSigner returns the error if the account or the key is missing, else nil. A self-signed
// state init needs no key.
func MissingSigner(c *parameters.RuntimeConfig, tx *primitives.Transaction, s Signer, at Place) *primitives.InvalidTxError {
	switch {
	case s.Account == nil && at == AtSubmission:
		return &primitives.InvalidTxError{Tag: primitives.TxSignerDoesNotExist, SignerID: tx.SignerID}
	case s.Account == nil:
		return &primitives.InvalidTxError{Tag: primitives.TxInvalidSignerID, SignerID: tx.SignerID}
	case s.Key == nil && !bootstrap(c, tx, s.Account):
		return invalidKey(&primitives.InvalidAccessKeyError{
			Tag: primitives.KeyNotFound, AccountID: tx.SignerID, PublicKey: tx.PublicKey,
		})
	}
	return nil
}

// invalidKey wraps an access key's error.
func invalidKey(err *primitives.InvalidAccessKeyError) *primitives.InvalidTxError {
	return &primitives.InvalidTxError{Tag: primitives.TxInvalidAccessKey, AccessKey: err}
}

// CanCharge makes the checks of a submitted transaction that need the signer's state. s is the
// state after the head's chunk of the signer's shard, price the head's next_gas_price. The height
// of the block that will contain tx is unknown, so CanCharge does not check the upper bound of the
// nonce. CanCharge returns an error if the account cannot pay the deposits of a gas key's
// transaction.
func CanCharge(c *parameters.RuntimeConfig, tx *primitives.Transaction, price primitives.Balance, s Signer) *primitives.InvalidTxError {
	cost, err := Cost(c, tx, price)
	if err != nil {
		return err
	}
	if err := MissingSigner(c, tx, s, AtSubmission); err != nil {
		return err
	}
	v := Charge(c, tx, &cost, s, AnyHeight)
	return v.Err
}

// Validity checks the block whose hash a transaction names. known is whether this node knows the
// named block; base is the height of the named block. prev is the height of the parent of the block
// with the transaction, or of the head for a submitted transaction. period is the validity period
// in blocks. ancestor returns whether the named block is an ancestor of the block at prev. Validity
// calls ancestor only if the heights are valid, because ancestor may follow many parent links. In a
// chunk, every error counts as Expired.
func Validity(known bool, base, prev, period primitives.Height, ancestor func() bool) *primitives.InvalidTxError {
	switch {
	case !known || prev > base && prev-base > period:
		return invalidTx(primitives.TxExpired)
	case base > prev || !ancestor():
		return invalidTx(primitives.TxInvalidChain)
	}
	return nil
}
