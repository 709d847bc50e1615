package primitives

import "strconv"

// ActionErrorTag names a variant of ActionErrorKind. A tag is itself an error, for errors.Is.
type ActionErrorTag byte

// The variants, by their borsh discriminants (near-primitives 0.38.0 src/errors.rs
// ActionErrorKind).
const (
	ActionAccountAlreadyExists               ActionErrorTag = iota // field AccountID
	ActionAccountDoesNotExist                                      // field AccountID
	ActionCreateAccountOnlyByRegistrar                             // fields AccountID, RegistrarID, PredecessorID
	ActionCreateAccountNotAllowed                                  // fields AccountID, PredecessorID
	ActionActorNoPermission                                        // fields AccountID, ActorID
	ActionDeleteKeyDoesNotExist                                    // fields AccountID, PublicKey
	ActionAddKeyAlreadyExists                                      // fields AccountID, PublicKey
	ActionDeleteAccountStaking                                     // field AccountID
	ActionLackBalanceForState                                      // fields AccountID, Amount
	ActionTriesToUnstake                                           // field AccountID
	ActionTriesToStake                                             // fields AccountID, Stake, Locked, Balance
	ActionInsufficientStake                                        // fields AccountID, Stake, MinimumStake
	ActionFunctionCallError                                        // field FunctionCall
	ActionNewReceiptValidationError                                // field Receipt
	ActionOnlyImplicitAccountCreationAllowed                       // field AccountID
	ActionDeleteAccountWithLargeState                              // field AccountID
	ActionDelegateInvalidSignature                                 //
	ActionDelegateSenderDoesNotMatchReceiver                       // fields SenderID, ReceiverID
	ActionDelegateExpired                                          //
	ActionDelegateAccessKeyError                                   // field AccessKey
	ActionDelegateInvalidNonce                                     // fields DelegateNonce, KeyNonce
	ActionDelegateNonceTooLarge                                    // fields DelegateNonce, UpperBound
	ActionGlobalContractDoesNotExist                               // field Identifier
	ActionGasKeyDoesNotExist                                       // fields AccountID, PublicKey
	ActionInsufficientGasKeyBalance                                // fields AccountID, PublicKey, Balance, Required
	ActionGasKeyBalanceTooHigh                                     // fields AccountID, PublicKey (may be none), Balance
	ActionDelegateInvalidNonceIndex                                // fields NonceIndex, NumNonces
	ActionTotalPromiseInputSizeExceeded                            // fields Size, Limit; only in nightly builds
	ActionReceiptStorageProofSizeExceeded                          // field Limit; since protocol version 87
	ActionMalformedUniversalStateInit                              // since protocol version 88
	ActionAccountNotInitialized                                    // field AccountID; since protocol version 88
)

// ActionErrorKind is why an action failed. The comments of the tags list the fields that apply.
type ActionErrorKind struct {
	Tag           ActionErrorTag
	AccountID     AccountID
	RegistrarID   AccountID
	PredecessorID AccountID
	ActorID       AccountID
	SenderID      AccountID
	ReceiverID    AccountID
	PublicKey     PublicKey
	Amount        Balance // the missing amount
	Stake         Balance
	Locked        Balance
	Balance       Balance
	MinimumStake  Balance
	Required      Balance
	FunctionCall  *FunctionCallError
	Receipt       *ReceiptValidationError
	AccessKey     *InvalidAccessKeyError
	DelegateNonce Nonce
	KeyNonce      Nonce // ak_nonce in JSON
	UpperBound    Nonce // exclusive upper bound of the nonce
	Identifier    GlobalContractID
	NonceIndex    uint16
	NumNonces     uint16
	Size          uint64 // bytes
	Limit         uint64 // bytes
}

var actionErrorRows = []errRow[ActionErrorKind]{
	ActionAccountAlreadyExists: {name: "AccountAlreadyExists", fields: (*ActionErrorKind).account},
	ActionAccountDoesNotExist:  {name: "AccountDoesNotExist", fields: (*ActionErrorKind).account},
	ActionCreateAccountOnlyByRegistrar: {name: "CreateAccountOnlyByRegistrar", order: "021", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"predecessor_id", &e.PredecessorID}, {"registrar_account_id", &e.RegistrarID}}
	}},
	ActionCreateAccountNotAllowed: {name: "CreateAccountNotAllowed", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"predecessor_id", &e.PredecessorID}}
	}},
	ActionActorNoPermission: {name: "ActorNoPermission", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"actor_id", &e.ActorID}}
	}},
	ActionDeleteKeyDoesNotExist: {name: "DeleteKeyDoesNotExist", fields: (*ActionErrorKind).key},
	ActionAddKeyAlreadyExists:   {name: "AddKeyAlreadyExists", fields: (*ActionErrorKind).key},
	ActionDeleteAccountStaking:  {name: "DeleteAccountStaking", fields: (*ActionErrorKind).account},
	ActionLackBalanceForState: {name: "LackBalanceForState", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"amount", &e.Amount}}
	}},
	ActionTriesToUnstake: {name: "TriesToUnstake", fields: (*ActionErrorKind).account},
	ActionTriesToStake: {name: "TriesToStake", order: "0321", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"balance", &e.Balance}, {"locked", &e.Locked}, {"stake", &e.Stake}}
	}},
	ActionInsufficientStake: {name: "InsufficientStake", order: "021", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"minimum_stake", &e.MinimumStake}, {"stake", &e.Stake}}
	}},
	ActionFunctionCallError: {
		name:  "FunctionCallError",
		inner: func(e *ActionErrorKind) any { return pointee(&e.FunctionCall) },
	},
	ActionNewReceiptValidationError: {
		name:  "NewReceiptValidationError",
		inner: func(e *ActionErrorKind) any { return pointee(&e.Receipt) },
	},
	ActionOnlyImplicitAccountCreationAllowed: {name: "OnlyImplicitAccountCreationAllowed", fields: (*ActionErrorKind).account},
	ActionDeleteAccountWithLargeState:        {name: "DeleteAccountWithLargeState", fields: (*ActionErrorKind).account},
	ActionDelegateInvalidSignature:           {name: "DelegateActionInvalidSignature"},
	ActionDelegateSenderDoesNotMatchReceiver: {name: "DelegateActionSenderDoesNotMatchTxReceiver", order: "10",
		fields: func(e *ActionErrorKind) []errField {
			return []errField{{"receiver_id", &e.ReceiverID}, {"sender_id", &e.SenderID}}
		}},
	ActionDelegateExpired:        {name: "DelegateActionExpired"},
	ActionDelegateAccessKeyError: {name: "DelegateActionAccessKeyError", inner: func(e *ActionErrorKind) any { return pointee(&e.AccessKey) }},
	ActionDelegateInvalidNonce: {name: "DelegateActionInvalidNonce", order: "10", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"ak_nonce", &e.KeyNonce}, {"delegate_nonce", &e.DelegateNonce}}
	}},
	ActionDelegateNonceTooLarge: {name: "DelegateActionNonceTooLarge", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"delegate_nonce", &e.DelegateNonce}, {"upper_bound", &e.UpperBound}}
	}},
	ActionGlobalContractDoesNotExist: {name: "GlobalContractDoesNotExist", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"identifier", &e.Identifier}}
	}},
	ActionGasKeyDoesNotExist: {name: "GasKeyDoesNotExist", fields: (*ActionErrorKind).key},
	ActionInsufficientGasKeyBalance: {name: "InsufficientGasKeyBalance", order: "0213", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"balance", &e.Balance}, {"public_key", &e.PublicKey}, {"required", &e.Required}}
	}},
	ActionGasKeyBalanceTooHigh: {name: "GasKeyBalanceTooHigh", order: "0?21", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"account_id", &e.AccountID}, {"balance", &e.Balance}, {"public_key", &e.PublicKey}}
	}},
	ActionDelegateInvalidNonceIndex: {name: "DelegateActionInvalidNonceIndex", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"nonce_index", &e.NonceIndex}, {"num_nonces", &e.NumNonces}}
	}},
	ActionTotalPromiseInputSizeExceeded: {name: "TotalPromiseInputSizeExceeded", order: "10", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"limit", &e.Limit}, {"size", &e.Size}}
	}},
	ActionReceiptStorageProofSizeExceeded: {name: "ReceiptStorageProofSizeExceeded", fields: func(e *ActionErrorKind) []errField {
		return []errField{{"limit", &e.Limit}}
	}},
	ActionMalformedUniversalStateInit: {name: "MalformedUniversalStateInit"},
	ActionAccountNotInitialized:       {name: "AccountNotInitialized", fields: (*ActionErrorKind).account},
}

func (e *ActionErrorKind) account() []errField { return []errField{{"account_id", &e.AccountID}} }

func (e *ActionErrorKind) key() []errField {
	return []errField{{"account_id", &e.AccountID}, {"public_key", &e.PublicKey}}
}

// String returns nearcore's name of the variant.
func (t ActionErrorTag) String() string { return errName(actionErrorRows, "ActionErrorKind", int(t)) }

// Error returns the name.
func (t ActionErrorTag) Error() string { return t.String() }

// AppendJSON appends nearcore's JSON.
func (e *ActionErrorKind) AppendJSON(b []byte) []byte {
	return appendError(b, actionErrorRows, int(e.Tag), e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *ActionErrorKind) UnmarshalJSON(in []byte) error {
	*e = ActionErrorKind{}
	tag, err := decodeError(in, actionErrorRows, e)
	e.Tag = ActionErrorTag(tag)
	return err
}

// Error returns the JSON.
func (e *ActionErrorKind) Error() string { return "action: " + string(e.AppendJSON(nil)) }

// Is returns whether target is e's tag.
func (e *ActionErrorKind) Is(target error) bool { return target == e.Tag }

// Unwrap returns the error inside, if there is one.
func (e *ActionErrorKind) Unwrap() error {
	switch {
	case e.Tag == ActionFunctionCallError && e.FunctionCall != nil:
		return e.FunctionCall
	case e.Tag == ActionNewReceiptValidationError && e.Receipt != nil:
		return e.Receipt
	case e.Tag == ActionDelegateAccessKeyError && e.AccessKey != nil:
		return e.AccessKey
	}
	return nil
}

// ActionError is the error of a failed action. Index counts from 0. Index is nil for errors of the
// receipt as a whole, such as LackBalanceForState after the receipt's last action.
type ActionError struct {
	Index *uint64
	Kind  ActionErrorKind
}

// NewActionError returns the error of the action at index.
func NewActionError(index uint64, kind *ActionErrorKind) *ActionError {
	return &ActionError{Index: &index, Kind: *kind}
}

// AppendJSON appends {"index", "kind"}.
func (e *ActionError) AppendJSON(b []byte) []byte {
	b = append(b, `{"index":`...)
	if e.Index == nil {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendUint(b, *e.Index, 10)
	}
	return append(e.Kind.AppendJSON(append(b, `,"kind":`...)), '}')
}

// UnmarshalJSON reads what AppendJSON writes.
func (e *ActionError) UnmarshalJSON(in []byte) error {
	*e = ActionError{}
	return decodeErrFields(in, []errField{{"index", &e.Index}, {"kind", &e.Kind}})
}

// Error returns the JSON.
func (e *ActionError) Error() string { return string(e.AppendJSON(nil)) }

// Unwrap returns the kind.
func (e *ActionError) Unwrap() error { return &e.Kind }
