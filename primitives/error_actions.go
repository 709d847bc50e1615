package primitives

// ActionsValidationTag names a variant of ActionsValidationError. A tag is itself an error, for
// errors.Is.
type ActionsValidationTag byte

// The variants, by their borsh discriminants (near-primitives 0.38.0 src/errors.rs
// ActionsValidationError).
const (
	ActionsDeleteMustBeFinal                     ActionsValidationTag = iota //
	ActionsTotalPrepaidGasExceeded                                           // fields PrepaidGas, GasLimit
	ActionsTotalNumberExceeded                                               // fields Count, Limit
	ActionsAddKeyMethodNamesBytesExceeded                                    // fields Count, Limit
	ActionsAddKeyMethodNameLengthExceeded                                    // fields Length, Limit
	ActionsIntegerOverflow                                                   //
	ActionsInvalidAccountID                                                  // field AccountID
	ActionsContractSizeExceeded                                              // fields Size, Limit
	ActionsFunctionCallMethodNameLengthExceeded                              // fields Length, Limit
	ActionsFunctionCallArgumentsLengthExceeded                               // fields Length, Limit
	ActionsUnsuitableStakingKey                                              // field PublicKey
	ActionsFunctionCallZeroAttachedGas                                       //
	ActionsDelegateMustBeOnlyOne                                             //
	ActionsUnsupportedProtocolFeature                                        // fields Feature, Version
	ActionsInvalidDeterministicStateInitReceiver                             // fields ReceiverID, DerivedID
	ActionsDeterministicStateInitKeyLength                                   // fields Length, Limit
	ActionsDeterministicStateInitValueLength                                 // fields Length, Limit
	ActionsGasKeyInvalidNumNonces                                            // fields RequestedNonces, NonceLimit
	ActionsAddGasKeyWithNonZeroBalance                                       // field Balance
	ActionsGasKeyFunctionCallAllowanceNotAllowed                             //
	ActionsTotalNumberOfDeploysExceeded                                      // fields Count, Limit

	// The variants from here on exist since protocol version 87.
	ActionsFunctionCallEmptyMethodName       //
	ActionsInvalidUniversalStateInitReceiver // fields ReceiverID, DerivedID
	ActionsUniversalStateInitKeyLength       // fields Length, Limit
	ActionsUniversalStateInitValueLength     // fields Length, Limit
	ActionsMalformedUniversalStateInit       //
	ActionsRemovedProtocolFeature            // fields Feature, Version
	ActionsWithdrawFromGasKeyInDelegate      //
	ActionsTotalNumberOfStateInitKeys        // fields Count, Limit
	ActionsTotalNumberOfStateInitEntries     // fields Count, Limit
	ActionsTransferToUniversalAccount        // field AccountID
)

// ActionsValidationError is why the runtime refuses a list of actions before any action runs. The
// comments of the tags list the fields that apply.
type ActionsValidationError struct {
	Tag             ActionsValidationTag
	PrepaidGas      Gas
	GasLimit        Gas
	Count           uint64 // actions, bytes, keys or entries, as the variant says
	Length          uint64 // bytes
	Size            uint64 // bytes
	Limit           uint64
	AccountID       string // may be an invalid id
	PublicKey       PublicKey
	Feature         string
	Version         ProtocolVersion
	ReceiverID      AccountID
	DerivedID       AccountID
	RequestedNonces uint16
	NonceLimit      uint16
	Balance         Balance
}

var actionsValidationRows = []errRow[ActionsValidationError]{
	ActionsDeleteMustBeFinal: {name: "DeleteActionMustBeFinal"},
	ActionsTotalPrepaidGasExceeded: {name: "TotalPrepaidGasExceeded", order: "10", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"limit", &e.GasLimit}, {"total_prepaid_gas", &e.PrepaidGas}}
	}},
	ActionsTotalNumberExceeded: {name: "TotalNumberOfActionsExceeded", order: "10", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"limit", &e.Limit}, {"total_number_of_actions", &e.Count}}
	}},
	ActionsAddKeyMethodNamesBytesExceeded: {name: "AddKeyMethodNamesNumberOfBytesExceeded", order: "10",
		fields: func(e *ActionsValidationError) []errField {
			return []errField{{"limit", &e.Limit}, {"total_number_of_bytes", &e.Count}}
		}},
	ActionsAddKeyMethodNameLengthExceeded: {name: "AddKeyMethodNameLengthExceeded", fields: (*ActionsValidationError).lengthLimit},
	ActionsIntegerOverflow:                {name: "IntegerOverflow"},
	ActionsInvalidAccountID: {name: "InvalidAccountId", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"account_id", &e.AccountID}}
	}},
	ActionsContractSizeExceeded: {name: "ContractSizeExceeded", order: "10", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"limit", &e.Limit}, {"size", &e.Size}}
	}},
	ActionsFunctionCallMethodNameLengthExceeded: {
		name:   "FunctionCallMethodNameLengthExceeded",
		fields: (*ActionsValidationError).lengthLimit,
	},
	ActionsFunctionCallArgumentsLengthExceeded: {
		name:   "FunctionCallArgumentsLengthExceeded",
		fields: (*ActionsValidationError).lengthLimit,
	},
	ActionsUnsuitableStakingKey: {name: "UnsuitableStakingKey", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"public_key", &e.PublicKey}}
	}},
	ActionsFunctionCallZeroAttachedGas: {name: "FunctionCallZeroAttachedGas"},
	ActionsDelegateMustBeOnlyOne:       {name: "DelegateActionMustBeOnlyOne"},
	ActionsUnsupportedProtocolFeature: {name: "UnsupportedProtocolFeature", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"protocol_feature", &e.Feature}, {"version", &e.Version}}
	}},
	ActionsInvalidDeterministicStateInitReceiver: {name: "InvalidDeterministicStateInitReceiver", order: "10",
		fields: func(e *ActionsValidationError) []errField {
			return []errField{{"derived_id", &e.DerivedID}, {"receiver_id", &e.ReceiverID}}
		}},
	ActionsDeterministicStateInitKeyLength: {name: "DeterministicStateInitKeyLengthExceeded", fields: (*ActionsValidationError).lengthLimit},
	ActionsDeterministicStateInitValueLength: {name: "DeterministicStateInitValueLengthExceeded",
		fields: (*ActionsValidationError).lengthLimit},
	ActionsGasKeyInvalidNumNonces: {name: "GasKeyInvalidNumNonces", order: "10", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"limit", &e.NonceLimit}, {"requested_nonces", &e.RequestedNonces}}
	}},
	ActionsAddGasKeyWithNonZeroBalance: {name: "AddGasKeyWithNonZeroBalance", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"balance", &e.Balance}}
	}},
	ActionsGasKeyFunctionCallAllowanceNotAllowed: {name: "GasKeyFunctionCallAllowanceNotAllowed"},
	ActionsTotalNumberOfDeploysExceeded: {name: "TotalNumberOfDeployActionsExceeded", order: "10",
		fields: func(e *ActionsValidationError) []errField {
			return []errField{{"limit", &e.Limit}, {"number_of_deploy_actions", &e.Count}}
		}},
	ActionsFunctionCallEmptyMethodName: {name: "FunctionCallEmptyMethodName"},
	ActionsInvalidUniversalStateInitReceiver: {name: "InvalidUniversalStateInitReceiver", order: "10",
		fields: func(e *ActionsValidationError) []errField {
			return []errField{{"derived_id", &e.DerivedID}, {"receiver_id", &e.ReceiverID}}
		}},
	ActionsUniversalStateInitKeyLength:   {name: "UniversalStateInitKeyLengthExceeded", fields: (*ActionsValidationError).lengthLimit},
	ActionsUniversalStateInitValueLength: {name: "UniversalStateInitValueLengthExceeded", fields: (*ActionsValidationError).lengthLimit},
	ActionsMalformedUniversalStateInit:   {name: "MalformedUniversalStateInit"},
	ActionsRemovedProtocolFeature: {name: "RemovedProtocolFeature", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"protocol_feature", &e.Feature}, {"version", &e.Version}}
	}},
	ActionsWithdrawFromGasKeyInDelegate: {name: "WithdrawFromGasKeyNotAllowedInDelegate"},
	ActionsTotalNumberOfStateInitKeys: {name: "TotalNumberOfStateInitKeysExceeded", order: "10",
		fields: func(e *ActionsValidationError) []errField {
			return []errField{{"limit", &e.Limit}, {"number_of_keys", &e.Count}}
		}},
	ActionsTotalNumberOfStateInitEntries: {name: "TotalNumberOfStateInitEntriesExceeded", order: "10",
		fields: func(e *ActionsValidationError) []errField {
			return []errField{{"limit", &e.Limit}, {"number_of_entries", &e.Count}}
		}},
	ActionsTransferToUniversalAccount: {name: "TransferToUniversalAccountNotAllowed", fields: func(e *ActionsValidationError) []errField {
		return []errField{{"account_id", &e.AccountID}}
	}},
}

func (e *ActionsValidationError) lengthLimit() []errField {
	return []errField{{"length", &e.Length}, {"limit", &e.Limit}}
}

// String returns nearcore's name of the variant.
func (t ActionsValidationTag) String() string {
	return errName(actionsValidationRows, "ActionsValidationError", int(t))
}

// Error returns the name.
func (t ActionsValidationTag) Error() string { return t.String() }

// AppendJSON appends nearcore's JSON.
func (e *ActionsValidationError) AppendJSON(b []byte) []byte {
	return appendError(b, actionsValidationRows, int(e.Tag), e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *ActionsValidationError) UnmarshalJSON(in []byte) error {
	*e = ActionsValidationError{}
	tag, err := decodeError(in, actionsValidationRows, e)
	e.Tag = ActionsValidationTag(tag)
	return err
}

// Error returns the JSON.
func (e *ActionsValidationError) Error() string { return "actions: " + string(e.AppendJSON(nil)) }

// Is returns whether target is e's tag.
func (e *ActionsValidationError) Is(target error) bool { return target == e.Tag }
