package primitives

// InvalidAccessKeyTag names a variant of InvalidAccessKeyError. A tag is itself an error, for
// errors.Is.
type InvalidAccessKeyTag byte

// The variants, by their borsh discriminants (nearcore core/primitives/src/errors.rs:341).
const (
	KeyNotFound                  InvalidAccessKeyTag = iota // fields AccountID, PublicKey
	KeyReceiverMismatch                                     // fields TxReceiver, KeyReceiver
	KeyMethodNameMismatch                                   // field MethodName
	KeyRequiresFullAccess                                   //
	KeyNotEnoughAllowance                                   // fields AccountID, PublicKey, Allowance, Cost
	KeyDepositWithFunctionCall                              //
	KeyDelegateRequiresNonGasKey                            //
	KeyDelegateRequiresGasKey                               //
)

// InvalidAccessKeyError is why a key may not sign a transaction. The comments of the tags list the
// fields that apply.
type InvalidAccessKeyError struct {
	Tag         InvalidAccessKeyTag
	AccountID   AccountID
	PublicKey   PublicKey
	TxReceiver  AccountID
	KeyReceiver string
	MethodName  string
	Allowance   Balance
	Cost        Balance
}

var invalidAccessKeyRows = []errRow[InvalidAccessKeyError]{
	KeyNotFound: {name: "AccessKeyNotFound", fields: func(e *InvalidAccessKeyError) []errField {
		return []errField{{"account_id", &e.AccountID}, {"public_key", &e.PublicKey}}
	}},
	KeyReceiverMismatch: {name: "ReceiverMismatch", order: "10", fields: func(e *InvalidAccessKeyError) []errField {
		return []errField{{"ak_receiver", &e.KeyReceiver}, {"tx_receiver", &e.TxReceiver}}
	}},
	KeyMethodNameMismatch: {name: "MethodNameMismatch", fields: func(e *InvalidAccessKeyError) []errField {
		return []errField{{"method_name", &e.MethodName}}
	}},
	KeyRequiresFullAccess: {name: "RequiresFullAccess"},
	KeyNotEnoughAllowance: {name: "NotEnoughAllowance", order: "0312", fields: func(e *InvalidAccessKeyError) []errField {
		return []errField{{"account_id", &e.AccountID}, {"allowance", &e.Allowance}, {"cost", &e.Cost}, {"public_key", &e.PublicKey}}
	}},
	KeyDepositWithFunctionCall:   {name: "DepositWithFunctionCall"},
	KeyDelegateRequiresNonGasKey: {name: "DelegateActionRequiresNonGasKey"},
	KeyDelegateRequiresGasKey:    {name: "DelegateActionRequiresGasKey"},
}

// String returns nearcore's name of the variant.
func (t InvalidAccessKeyTag) String() string {
	return errName(invalidAccessKeyRows, "InvalidAccessKeyError", int(t))
}

// Error returns the name.
func (t InvalidAccessKeyTag) Error() string { return t.String() }

// AppendJSON appends nearcore's JSON.
func (e *InvalidAccessKeyError) AppendJSON(b []byte) []byte {
	return appendError(b, invalidAccessKeyRows, int(e.Tag), e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *InvalidAccessKeyError) UnmarshalJSON(in []byte) error {
	*e = InvalidAccessKeyError{}
	tag, err := decodeError(in, invalidAccessKeyRows, e)
	e.Tag = InvalidAccessKeyTag(tag)
	return err
}

// Error returns the JSON.
func (e *InvalidAccessKeyError) Error() string { return "access key: " + string(e.AppendJSON(nil)) }

// Is returns whether target is e's tag.
func (e *InvalidAccessKeyError) Is(target error) bool { return target == e.Tag }
