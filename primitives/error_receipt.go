package primitives

// ReceiptValidationTag names a variant of ReceiptValidationError. A tag is itself an error, for
// errors.Is.
type ReceiptValidationTag byte

// The variants, by their borsh discriminants (nearcore core/primitives/src/errors.rs:488).
const (
	ReceiptInvalidPredecessorID          ReceiptValidationTag = iota // field AccountID
	ReceiptInvalidReceiverID                                         // field AccountID
	ReceiptInvalidSignerID                                           // field AccountID
	ReceiptInvalidDataReceiverID                                     // field AccountID
	ReceiptReturnedValueLengthExceeded                               // fields Length, Limit
	ReceiptInputDataDependenciesExceeded                             // fields Count, Limit
	ReceiptActionsValidation                                         // field Actions
	ReceiptSizeExceeded                                              // fields Size, Limit
	ReceiptInvalidRefundTo                                           // field AccountID
)

// ReceiptValidationError is why a receipt is invalid. The comments of the tags list the fields that
// apply.
type ReceiptValidationError struct {
	Tag       ReceiptValidationTag
	AccountID string // text that is no valid id
	Length    uint64 // bytes
	Size      uint64 // bytes
	Count     uint64 // input data dependencies
	Limit     uint64
	Actions   *ActionsValidationError
}

var receiptValidationRows = []errRow[ReceiptValidationError]{
	ReceiptInvalidPredecessorID:  {name: "InvalidPredecessorId", fields: (*ReceiptValidationError).account},
	ReceiptInvalidReceiverID:     {name: "InvalidReceiverId", fields: (*ReceiptValidationError).account},
	ReceiptInvalidSignerID:       {name: "InvalidSignerId", fields: (*ReceiptValidationError).account},
	ReceiptInvalidDataReceiverID: {name: "InvalidDataReceiverId", fields: (*ReceiptValidationError).account},
	ReceiptReturnedValueLengthExceeded: {name: "ReturnedValueLengthExceeded", fields: func(e *ReceiptValidationError) []errField {
		return []errField{{"length", &e.Length}, {"limit", &e.Limit}}
	}},
	ReceiptInputDataDependenciesExceeded: {name: "NumberInputDataDependenciesExceeded", order: "10",
		fields: func(e *ReceiptValidationError) []errField {
			return []errField{{"limit", &e.Limit}, {"number_of_input_data_dependencies", &e.Count}}
		}},
	ReceiptActionsValidation: {name: "ActionsValidation", inner: func(e *ReceiptValidationError) any { return pointee(&e.Actions) }},
	ReceiptSizeExceeded: {name: "ReceiptSizeExceeded", order: "10", fields: func(e *ReceiptValidationError) []errField {
		return []errField{{"limit", &e.Limit}, {"size", &e.Size}}
	}},
	ReceiptInvalidRefundTo: {name: "InvalidRefundTo", fields: (*ReceiptValidationError).account},
}

func (e *ReceiptValidationError) account() []errField {
	return []errField{{"account_id", &e.AccountID}}
}

// String returns nearcore's name of the variant.
func (t ReceiptValidationTag) String() string {
	return errName(receiptValidationRows, "ReceiptValidationError", int(t))
}

// Error returns the name.
func (t ReceiptValidationTag) Error() string { return t.String() }

// AppendJSON appends nearcore's JSON.
func (e *ReceiptValidationError) AppendJSON(b []byte) []byte {
	return appendError(b, receiptValidationRows, int(e.Tag), e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *ReceiptValidationError) UnmarshalJSON(in []byte) error {
	*e = ReceiptValidationError{}
	tag, err := decodeError(in, receiptValidationRows, e)
	e.Tag = ReceiptValidationTag(tag)
	return err
}

// Error returns the JSON.
func (e *ReceiptValidationError) Error() string { return "receipt: " + string(e.AppendJSON(nil)) }

// Is returns whether target is e's tag.
func (e *ReceiptValidationError) Is(target error) bool { return target == e.Tag }

// Unwrap returns the error of the actions, nil for other errors.
func (e *ReceiptValidationError) Unwrap() error {
	if e.Tag == ReceiptActionsValidation && e.Actions != nil {
		return e.Actions
	}
	return nil
}
