package primitives

import "encoding/json"

// InvalidTxTag names a variant of InvalidTxError. A tag is itself an error, so that errors.Is(err,
// TxExpired) works.
type InvalidTxTag byte

// The variants, by their borsh discriminants (nearcore core/primitives/src/errors.rs:221).
const (
	TxInvalidAccessKey           InvalidTxTag = iota // field AccessKey
	TxInvalidSignerID                                // field SignerID
	TxSignerDoesNotExist                             // field SignerID
	TxInvalidNonce                                   // fields TxNonce, KeyNonce
	TxNonceTooLarge                                  // fields TxNonce, UpperBound
	TxInvalidReceiverID                              // field ReceiverID
	TxInvalidSignature                               //
	TxNotEnoughBalance                               // fields SignerID, Balance, Cost
	TxLackBalanceForState                            // fields SignerID, Amount
	TxCostOverflow                                   //
	TxInvalidChain                                   //
	TxExpired                                        //
	TxActionsValidation                              // field Actions
	TxSizeExceeded                                   // fields Size, Limit
	TxInvalidVersion                                 //
	TxStorageError                                   // field Storage
	TxShardCongested                                 // fields ShardID, CongestionLevel
	TxShardStuck                                     // fields ShardID, MissedChunks
	TxInvalidNonceIndex                              // fields NonceIndex, NumNonces
	TxNotEnoughGasKeyBalance                         // fields SignerID, Balance, Cost
	TxNotEnoughBalanceForDeposit                     // fields SignerID, Balance, Cost, Reason
)

// InvalidTxError is why a transaction cannot be converted to a receipt. The comments of the tags
// list the fields that apply.
type InvalidTxError struct {
	Tag             InvalidTxTag
	AccessKey       *InvalidAccessKeyError
	Actions         *ActionsValidationError
	Storage         *StorageError
	SignerID        AccountID
	ReceiverID      string
	TxNonce         Nonce
	KeyNonce        Nonce // ak_nonce in JSON: the nonce of the access key or, for a gas key, its nonce at the index
	UpperBound      Nonce // exclusive upper bound of the nonce
	Balance         Balance
	Cost            Balance
	Amount          Balance // the missing amount
	Size            uint64  // bytes
	Limit           uint64  // bytes
	ShardID         uint32
	CongestionLevel json.Number // 0 to 1, as its JSON text: this package has no floating point
	MissedChunks    uint64
	NonceIndex      *uint16 // nil: the transaction has no nonce index
	NumNonces       uint16
	Reason          DepositCostFailureReason
}

var invalidTxRows = []errRow[InvalidTxError]{
	TxInvalidAccessKey:   {name: "InvalidAccessKeyError", inner: func(e *InvalidTxError) any { return pointee(&e.AccessKey) }},
	TxInvalidSignerID:    {name: "InvalidSignerId", fields: (*InvalidTxError).signer},
	TxSignerDoesNotExist: {name: "SignerDoesNotExist", fields: (*InvalidTxError).signer},
	TxInvalidNonce: {name: "InvalidNonce", order: "10", fields: func(e *InvalidTxError) []errField {
		return []errField{{"ak_nonce", &e.KeyNonce}, {"tx_nonce", &e.TxNonce}}
	}},
	TxNonceTooLarge: {name: "NonceTooLarge", fields: func(e *InvalidTxError) []errField {
		return []errField{{"tx_nonce", &e.TxNonce}, {"upper_bound", &e.UpperBound}}
	}},
	TxInvalidReceiverID: {name: "InvalidReceiverId", fields: func(e *InvalidTxError) []errField {
		return []errField{{"receiver_id", &e.ReceiverID}}
	}},
	TxInvalidSignature: {name: "InvalidSignature"},
	TxNotEnoughBalance: {name: "NotEnoughBalance", order: "201", fields: (*InvalidTxError).balanceCost},
	TxLackBalanceForState: {name: "LackBalanceForState", order: "10", fields: func(e *InvalidTxError) []errField {
		return []errField{{"amount", &e.Amount}, {"signer_id", &e.SignerID}}
	}},
	TxCostOverflow:      {name: "CostOverflow"},
	TxInvalidChain:      {name: "InvalidChain"},
	TxExpired:           {name: "Expired"},
	TxActionsValidation: {name: "ActionsValidation", inner: func(e *InvalidTxError) any { return pointee(&e.Actions) }},
	TxSizeExceeded: {name: "TransactionSizeExceeded", order: "10", fields: func(e *InvalidTxError) []errField {
		return []errField{{"limit", &e.Limit}, {"size", &e.Size}}
	}},
	TxInvalidVersion: {name: "InvalidTransactionVersion"},
	TxStorageError:   {name: "StorageError", inner: func(e *InvalidTxError) any { return pointee(&e.Storage) }},
	TxShardCongested: {name: "ShardCongested", order: "10", fields: func(e *InvalidTxError) []errField {
		return []errField{{"congestion_level", &e.CongestionLevel}, {"shard_id", &e.ShardID}}
	}},
	TxShardStuck: {name: "ShardStuck", order: "10", fields: func(e *InvalidTxError) []errField {
		return []errField{{"missed_chunks", &e.MissedChunks}, {"shard_id", &e.ShardID}}
	}},
	TxInvalidNonceIndex: {name: "InvalidNonceIndex", order: "10", fields: func(e *InvalidTxError) []errField {
		return []errField{{"num_nonces", &e.NumNonces}, {"tx_nonce_index", &e.NonceIndex}}
	}},
	TxNotEnoughGasKeyBalance: {name: "NotEnoughGasKeyBalance", order: "201", fields: (*InvalidTxError).balanceCost},
	TxNotEnoughBalanceForDeposit: {name: "NotEnoughBalanceForDeposit", order: "3012", fields: func(e *InvalidTxError) []errField {
		return []errField{{"balance", &e.Balance}, {"cost", &e.Cost}, {"reason", &e.Reason}, {"signer_id", &e.SignerID}}
	}},
}

func (e *InvalidTxError) signer() []errField { return []errField{{"signer_id", &e.SignerID}} }

func (e *InvalidTxError) balanceCost() []errField {
	return []errField{{"balance", &e.Balance}, {"cost", &e.Cost}, {"signer_id", &e.SignerID}}
}

// pointee returns the pointer *at, as a destination for decoding. If it is nil, pointee first
// allocates a value.
func pointee[T any](at **T) *T {
	if *at == nil {
		*at = new(T)
	}
	return *at
}

// String returns nearcore's name of the variant.
func (t InvalidTxTag) String() string { return errName(invalidTxRows, "InvalidTxError", int(t)) }

// Error returns the name.
func (t InvalidTxTag) Error() string { return t.String() }

// AppendJSON appends nearcore's JSON.
func (e *InvalidTxError) AppendJSON(b []byte) []byte {
	return appendError(b, invalidTxRows, int(e.Tag), e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *InvalidTxError) UnmarshalJSON(in []byte) error {
	*e = InvalidTxError{}
	tag, err := decodeError(in, invalidTxRows, e)
	e.Tag = InvalidTxTag(tag)
	return err
}

// Error returns the JSON.
func (e *InvalidTxError) Error() string { return "invalid transaction: " + string(e.AppendJSON(nil)) }

// Is returns whether target is e's tag.
func (e *InvalidTxError) Is(target error) bool { return target == e.Tag }

// Unwrap returns the error inside, if there is one.
func (e *InvalidTxError) Unwrap() error {
	switch {
	case e.Tag == TxInvalidAccessKey && e.AccessKey != nil:
		return e.AccessKey
	case e.Tag == TxActionsValidation && e.Actions != nil:
		return e.Actions
	case e.Tag == TxStorageError && e.Storage != nil:
		return e.Storage
	}
	return nil
}

// DepositCostFailureReason is why a gas key's transaction was charged for gas although its deposits
// could not be paid.
type DepositCostFailureReason byte

// The reasons.
const (
	DepositNotEnoughBalance    DepositCostFailureReason = 0
	DepositLackBalanceForState DepositCostFailureReason = 1
)

var depositReasonRows = []errRow[DepositCostFailureReason]{{name: "NotEnoughBalance"}, {name: "LackBalanceForState"}}

// AppendJSON appends the name in quotes.
func (d *DepositCostFailureReason) AppendJSON(b []byte) []byte {
	return appendError(b, depositReasonRows, int(*d), d)
}

// UnmarshalJSON reads the name.
func (d *DepositCostFailureReason) UnmarshalJSON(in []byte) error {
	tag, err := decodeError(in, depositReasonRows, d)
	*d = DepositCostFailureReason(tag)
	return err
}

// TxExecutionError is the failure in an outcome: exactly one of its fields is set.
type TxExecutionError struct {
	Action    *ActionError
	InvalidTx *InvalidTxError
}

var txExecutionRows = []errRow[TxExecutionError]{
	{name: "ActionError", inner: func(e *TxExecutionError) any { return pointee(&e.Action) }},
	{name: "InvalidTxError", inner: func(e *TxExecutionError) any { return pointee(&e.InvalidTx) }},
}

// AppendJSON appends {"ActionError": ...} or {"InvalidTxError": ...}.
func (e *TxExecutionError) AppendJSON(b []byte) []byte {
	tag := 0
	if e.InvalidTx != nil {
		tag = 1
	}
	return appendError(b, txExecutionRows, tag, e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *TxExecutionError) UnmarshalJSON(in []byte) error {
	*e = TxExecutionError{}
	_, err := decodeError(in, txExecutionRows, e)
	return err
}

// Error returns the text of the wrapped error.
func (e *TxExecutionError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the wrapped error.
func (e *TxExecutionError) Unwrap() error {
	if e.InvalidTx != nil {
		return e.InvalidTx
	}
	return e.Action
}
