package refmodel

import "github.com/troupe-chain/troupe/primitives"

// delegated has the fields that Delegate and DelegateV2 have in common.
type delegated struct {
	sender, receiver primitives.AccountID
	actions          []primitives.Action
	nonce            primitives.TransactionNonce
	until            primitives.Height
	key              primitives.PublicKey
}

// delegate implements actions.rs apply_delegate_action and validate_delegate_action_key.
func (x *receipt) delegate(d delegated, sig primitives.Signature, hash primitives.Hash) *failure {
	if !sig.Verify(hash[:], d.key) {
		return &failure{Tag: primitives.ActionDelegateInvalidSignature}
	}
	if x.Height > d.until {
		return &failure{Tag: primitives.ActionDelegateExpired}
	}
	if d.sender != x.r.ReceiverID {
		return &failure{Tag: primitives.ActionDelegateSenderDoesNotMatchReceiver, SenderID: d.sender, ReceiverID: x.r.ReceiverID}
	}
	k := x.account.key(d.key)
	if k == nil {
		return badKey(primitives.InvalidAccessKeyError{Tag: primitives.KeyNotFound, AccountID: d.sender, PublicKey: d.key})
	}
	last := &k.Nonce
	switch {
	case !d.nonce.HasIndex && k.GasKey != nil:
		return badKey(primitives.InvalidAccessKeyError{Tag: primitives.KeyDelegateRequiresNonGasKey})
	case d.nonce.HasIndex && k.GasKey == nil:
		return badKey(primitives.InvalidAccessKeyError{Tag: primitives.KeyDelegateRequiresGasKey})
	case d.nonce.HasIndex && int(d.nonce.Index) >= len(k.Rows):
		return &failure{Tag: primitives.ActionDelegateInvalidNonceIndex, NonceIndex: d.nonce.Index, NumNonces: uint16(len(k.Rows))}
	case d.nonce.HasIndex:
		last = &k.Rows[d.nonce.Index]
	}
	if d.nonce.Nonce <= *last {
		return &failure{Tag: primitives.ActionDelegateInvalidNonce, DelegateNonce: d.nonce.Nonce, KeyNonce: *last}
	}
	if most := primitives.Nonce(x.Height) * noncesOfABlock; d.nonce.Nonce >= most {
		return &failure{Tag: primitives.ActionDelegateNonceTooLarge, DelegateNonce: d.nonce.Nonce, UpperBound: most}
	}
	if p := k.FunctionCall; p != nil {
		if e := permits(p, &d); e != nil {
			return badKey(*e)
		}
	}
	*last = d.nonce.Nonce
	x.made = append(x.made, &primitives.Receipt{PredecessorID: d.sender, ReceiverID: d.receiver, Body: &primitives.ActionReceipt{
		SignerID: x.b.SignerID, SignerPublicKey: x.b.SignerPublicKey, Actions: d.actions,
	}})
	return nil
}

func badKey(e primitives.InvalidAccessKeyError) *failure {
	return &failure{Tag: primitives.ActionDelegateAccessKeyError, AccessKey: &e}
}

// permits returns why a function call key does not permit the delegated actions, or nil if it does.
func permits(p *primitives.FunctionCallPermission, d *delegated) *primitives.InvalidAccessKeyError {
	full := &primitives.InvalidAccessKeyError{Tag: primitives.KeyRequiresFullAccess}
	if len(d.actions) != 1 {
		return full
	}
	call, ok := d.actions[0].(*primitives.FunctionCall)
	switch {
	case !ok:
		return full
	case !call.Deposit.IsZero():
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyDepositWithFunctionCall}
	case string(d.receiver) != p.ReceiverID:
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyReceiverMismatch, TxReceiver: d.receiver, KeyReceiver: p.ReceiverID}
	}
	for _, name := range p.MethodNames {
		if name == call.Method {
			return nil
		}
	}
	if len(p.MethodNames) > 0 {
		return &primitives.InvalidAccessKeyError{Tag: primitives.KeyMethodNameMismatch, MethodName: call.Method}
	}
	return nil
}
