package refmodel

import "github.com/troupe-chain/troupe/primitives"

type invalid = primitives.ActionsValidationError

// Invalid returns the reason why the actions are not allowed in a transaction, or in a new receipt,
// to the account. It returns nil if they are allowed (action_validation.rs validate_actions).
// Incoming receipts are not validated, because they may have been created under older rules.
func (v Rules) Invalid(actions []primitives.Action, to primitives.AccountID) *invalid {
	if v >= 87 {
		keys, entries := commitments(actions)
		if keys > mostKeys {
			return &invalid{Tag: primitives.ActionsTotalNumberOfStateInitKeys, Count: keys, Limit: mostKeys}
		}
		if entries > mostEntries {
			return &invalid{Tag: primitives.ActionsTotalNumberOfStateInitEntries, Count: entries, Limit: mostEntries}
		}
	}
	delegates := 0
	for i, a := range actions {
		if a.Tag() == primitives.TagDeleteAccount && i+1 < len(actions) {
			return &invalid{Tag: primitives.ActionsDeleteMustBeFinal}
		}
		if a.Tag() == primitives.TagDelegate || a.Tag() == primitives.TagDelegateV2 {
			if delegates++; delegates > 1 {
				return &invalid{Tag: primitives.ActionsDelegateMustBeOnlyOne}
			}
		}
		if e := v.invalid(a, to); e != nil {
			return e
		}
	}
	return nil
}

// invalid checks one action, as Invalid checks a list of them.
func (v Rules) invalid(a primitives.Action, to primitives.AccountID) *invalid {
	switch a := a.(type) {
	case *primitives.FunctionCall:
		if a.Gas == 0 {
			return &invalid{Tag: primitives.ActionsFunctionCallZeroAttachedGas}
		}
		if v >= 87 && a.Method == "" {
			return &invalid{Tag: primitives.ActionsFunctionCallEmptyMethodName}
		}
	case *primitives.Transfer:
		if v == 87 && named0u(to) {
			return &invalid{Tag: primitives.ActionsTransferToUniversalAccount, AccountID: string(to)}
		}
	case *primitives.DeterministicStateInit:
		if id := a.Init.DerivedAccount(); id != to {
			return &invalid{Tag: primitives.ActionsInvalidDeterministicStateInitReceiver, DerivedID: id, ReceiverID: to}
		}
	case *primitives.UniversalStateInit:
		return v.invalidInit(a.Init, to)
	case *primitives.Delegate:
		return v.invalidDelegate(a.Action.Actions, a.Action.ReceiverID)
	case *primitives.DelegateV2:
		if v >= 87 {
			return &invalid{Tag: primitives.ActionsRemovedProtocolFeature, Feature: "DelegateV2", Version: primitives.ProtocolVersion(v)}
		}
		return v.invalidDelegate(a.Action.Actions, a.Action.ReceiverID)
	default: // the generator makes no invalid actions of other types
	}
	return nil
}

func (v Rules) invalidDelegate(actions []primitives.Action, to primitives.AccountID) *invalid {
	if v >= 87 {
		for _, a := range actions {
			if a.Tag() == primitives.TagWithdrawFromGasKey {
				return &invalid{Tag: primitives.ActionsWithdrawFromGasKeyInDelegate}
			}
		}
	}
	return v.Invalid(actions, to)
}

// invalidInit implements action_validation.rs validate_universal_state_init.
func (v Rules) invalidInit(raw primitives.RawStateInit, to primitives.AccountID) *invalid {
	if v < 88 {
		return &invalid{Tag: primitives.ActionsUnsupportedProtocolFeature, Feature: "UniversalAccounts", Version: primitives.ProtocolVersion(v)}
	}
	if id := universalID(raw); id != to {
		return &invalid{Tag: primitives.ActionsInvalidUniversalStateInitReceiver, DerivedID: id, ReceiverID: to}
	}
	if !isCanonical(raw) {
		return &invalid{Tag: primitives.ActionsMalformedUniversalStateInit}
	}
	for _, e := range readInit(raw).data {
		if n := uint64(len(e.key)); n > longestKey {
			return &invalid{Tag: primitives.ActionsUniversalStateInitKeyLength, Length: n, Limit: longestKey}
		}
	}
	return nil
}

// commitments counts the distinct keys and entries of all state inits, including those in delegate
// actions.
func commitments(actions []primitives.Action) (keys, entries uint64) {
	for _, a := range actions {
		var k, e uint64
		switch a := a.(type) {
		case *primitives.DeterministicStateInit:
			e = uint64(len(a.Init.Data))
		case *primitives.UniversalStateInit:
			if s := readInit(a.Init); s != nil {
				k, e = s.distinct()
			}
		case *primitives.Delegate:
			k, e = commitments(a.Action.Actions)
		case *primitives.DelegateV2:
			k, e = commitments(a.Action.Actions)
		default: // the remaining actions have neither keys nor entries
		}
		keys, entries = keys+k, entries+e
	}
	return keys, entries
}
