package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// HostErrorTag names a variant of HostError.
type HostErrorTag byte

// The variants, by their borsh discriminants (near-primitives 0.38.0 src/errors.rs HostError).
const (
	HostBadUTF16                            HostErrorTag = iota //
	HostBadUTF8                                                 //
	HostGasExceeded                                             //
	HostGasLimitExceeded                                        //
	HostBalanceExceeded                                         //
	HostEmptyMethodName                                         //
	HostGuestPanic                                              // field Text
	HostIntegerOverflow                                         //
	HostInvalidPromiseIndex                                     // field Number
	HostCannotAppendActionToJointPromise                        //
	HostCannotReturnJointPromise                                //
	HostInvalidPromiseResultIndex                               // field Number
	HostInvalidRegisterID                                       // field Number
	HostIteratorWasInvalidated                                  // field Number
	HostMemoryAccessViolation                                   //
	HostInvalidReceiptIndex                                     // field Number
	HostInvalidIteratorIndex                                    // field Number
	HostInvalidAccountID                                        //
	HostInvalidMethodName                                       //
	HostInvalidPublicKey                                        //
	HostProhibitedInView                                        // field Text
	HostNumberOfLogsExceeded                                    // field Limit
	HostKeyLengthExceeded                                       // fields Number, Limit
	HostValueLengthExceeded                                     // fields Number, Limit
	HostTotalLogLengthExceeded                                  // fields Number, Limit
	HostNumberPromisesExceeded                                  // fields Number, Limit
	HostNumberInputDataDependenciesExceeded                     // fields Number, Limit
	HostReturnedValueLengthExceeded                             // fields Number, Limit
	HostContractSizeExceeded                                    // fields Number, Limit
	HostDeprecated                                              // field Text
	HostECRecoverError                                          // field Text
	HostAltBn128InvalidInput                                    // field Text
	HostEd25519VerifyInvalidInput                               // field Text
	HostP256VerifyInvalidInput                                  // field Text
	HostMLDSAVerifyInvalidInput                                 // field Text
)

// HostError is the error of a host function in FunctionCallError. New executions report the error's
// text in ExecutionError instead, so a HostError only occurs in outcomes of old blocks. The
// comments of the tags list the fields that apply.
type HostError struct {
	Tag    HostErrorTag
	Text   string // message, or method name
	Number uint64 // index, count or length, as the variant says
	Limit  uint64
}

func (e *HostError) message() []errField { return []errField{{"msg", &e.Text}} }

func (e *HostError) method() []errField { return []errField{{"method_name", &e.Text}} }

func (e *HostError) lengthLimit() []errField {
	return []errField{{"length", &e.Number}, {"limit", &e.Limit}}
}

// hostNumber returns the fields of a variant with one number.
func hostNumber(name string) func(*HostError) []errField {
	return func(e *HostError) []errField { return []errField{{name, &e.Number}} }
}

// hostCount returns the fields of a variant with a limit and a count.
func hostCount(name string) func(*HostError) []errField {
	return func(e *HostError) []errField { return []errField{{"limit", &e.Limit}, {name, &e.Number}} }
}

var hostRows = []errRow[HostError]{
	HostBadUTF16:         {name: "BadUTF16"},
	HostBadUTF8:          {name: "BadUTF8"},
	HostGasExceeded:      {name: "GasExceeded"},
	HostGasLimitExceeded: {name: "GasLimitExceeded"},
	HostBalanceExceeded:  {name: "BalanceExceeded"},
	HostEmptyMethodName:  {name: "EmptyMethodName"},
	HostGuestPanic: {name: "GuestPanic", fields: func(e *HostError) []errField {
		return []errField{{"panic_msg", &e.Text}}
	}},
	HostIntegerOverflow:                  {name: "IntegerOverflow"},
	HostInvalidPromiseIndex:              {name: "InvalidPromiseIndex", fields: hostNumber("promise_idx")},
	HostCannotAppendActionToJointPromise: {name: "CannotAppendActionToJointPromise"},
	HostCannotReturnJointPromise:         {name: "CannotReturnJointPromise"},
	HostInvalidPromiseResultIndex:        {name: "InvalidPromiseResultIndex", fields: hostNumber("result_idx")},
	HostInvalidRegisterID:                {name: "InvalidRegisterId", fields: hostNumber("register_id")},
	HostIteratorWasInvalidated:           {name: "IteratorWasInvalidated", fields: hostNumber("iterator_index")},
	HostMemoryAccessViolation:            {name: "MemoryAccessViolation"},
	HostInvalidReceiptIndex:              {name: "InvalidReceiptIndex", fields: hostNumber("receipt_index")},
	HostInvalidIteratorIndex:             {name: "InvalidIteratorIndex", fields: hostNumber("iterator_index")},
	HostInvalidAccountID:                 {name: "InvalidAccountId"},
	HostInvalidMethodName:                {name: "InvalidMethodName"},
	HostInvalidPublicKey:                 {name: "InvalidPublicKey"},
	HostProhibitedInView:                 {name: "ProhibitedInView", fields: (*HostError).method},
	HostNumberOfLogsExceeded: {name: "NumberOfLogsExceeded", fields: func(e *HostError) []errField {
		return []errField{{"limit", &e.Limit}}
	}},
	HostKeyLengthExceeded:      {name: "KeyLengthExceeded", fields: (*HostError).lengthLimit},
	HostValueLengthExceeded:    {name: "ValueLengthExceeded", fields: (*HostError).lengthLimit},
	HostTotalLogLengthExceeded: {name: "TotalLogLengthExceeded", fields: (*HostError).lengthLimit},
	HostNumberPromisesExceeded: {name: "NumberPromisesExceeded", order: "10", fields: hostCount("number_of_promises")},
	HostNumberInputDataDependenciesExceeded: {
		name: "NumberInputDataDependenciesExceeded", order: "10", fields: hostCount("number_of_input_data_dependencies"),
	},
	HostReturnedValueLengthExceeded: {name: "ReturnedValueLengthExceeded", fields: (*HostError).lengthLimit},
	HostContractSizeExceeded:        {name: "ContractSizeExceeded", order: "10", fields: hostCount("size")},
	HostDeprecated:                  {name: "Deprecated", fields: (*HostError).method},
	HostECRecoverError:              {name: "ECRecoverError", fields: (*HostError).message},
	HostAltBn128InvalidInput:        {name: "AltBn128InvalidInput", fields: (*HostError).message},
	HostEd25519VerifyInvalidInput:   {name: "Ed25519VerifyInvalidInput", fields: (*HostError).message},
	HostP256VerifyInvalidInput:      {name: "P256VerifyInvalidInput", fields: (*HostError).message},
	HostMLDSAVerifyInvalidInput:     {name: "MlDsaVerifyInvalidInput", fields: (*HostError).message},
}

// String returns nearcore's name of the variant.
func (t HostErrorTag) String() string { return errName(hostRows, "HostError", int(t)) }

// AppendJSON appends nearcore's JSON.
func (e *HostError) AppendJSON(b []byte) []byte { return appendError(b, hostRows, int(e.Tag), e) }

// UnmarshalJSON reads nearcore's JSON.
func (e *HostError) UnmarshalJSON(in []byte) error {
	*e = HostError{}
	tag, err := decodeError(in, hostRows, e)
	e.Tag = HostErrorTag(tag)
	return err
}

// Error returns the JSON.
func (e *HostError) Error() string { return "host: " + string(e.AppendJSON(nil)) }

// AppendBorsh appends the form in which nodes exchange the error.
func (e *HostError) AppendBorsh(b []byte) []byte {
	return appendErrorBorsh(b, hostRows, int(e.Tag), e)
}

// DecodeBorsh reads what AppendBorsh writes.
func (e *HostError) DecodeBorsh(r *borsh.Reader) {
	*e = HostError{}
	e.Tag = HostErrorTag(decodeErrorBorsh(r, "HostError", hostRows, e))
}
