package action

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// delegate is a delegate action of either version.
type delegate struct {
	sender, receiver primitives.AccountID
	actions          []primitives.Action
	nonce            primitives.TransactionNonce
	maxHeight        primitives.Height
	key              primitives.PublicKey
	hash             primitives.Hash // hash that the sender has signed
	signature        primitives.Signature
}

// delegate makes a new receipt with the actions that the inner sender signed. The relayer, which
// signed the outer transaction, pays for the new receipt (nearcore actions.rs
// apply_delegate_action).
func (x *Execution) delegate(d *delegate) (*failure, error) {
	if !x.Block.verify(d.signature, d.hash, d.key) {
		return &failure{Tag: primitives.ActionDelegateInvalidSignature}, nil
	}
	if x.Block.Height > d.maxHeight {
		return &failure{Tag: primitives.ActionDelegateExpired}, nil
	}
	if d.sender != x.Receipt.ReceiverID {
		return &failure{Tag: primitives.ActionDelegateSenderDoesNotMatchReceiver, SenderID: d.sender, ReceiverID: x.Receipt.ReceiverID}, nil
	}
	if fail, err := x.useDelegateKey(d); fail != nil || err != nil {
		return fail, err
	}
	receipt := &primitives.Receipt{
		PredecessorID: d.sender, ReceiverID: d.receiver,
		Body: &primitives.ActionReceipt{
			SignerID: x.Body.SignerID, SignerPublicKey: x.Body.SignerPublicKey, GasPrice: x.Body.GasPrice, Actions: d.actions,
		},
	}
	c := x.Block.Config
	// The send cost of the inner actions is burnt here, because this receipt sends them. The
	// execution cost of the inner actions is set aside for the new receipt.
	send, err := fees.PrepaidSend(c, x.Body.Actions)
	if err != nil {
		return nil, err
	}
	run, err := fees.PrepaidExec(c, d.actions, d.receiver)
	if err != nil {
		return nil, err
	}
	attached, err := fees.PrepaidGas(d.actions)
	if err != nil {
		return nil, err
	}
	reserve, err := run.Add(parameters.Cost{Gas: attached})
	if err == nil {
		reserve, err = reserve.Add(fees.NewReceiptExec(c))
	}
	if err == nil {
		reserve, err = reserve.Add(parameters.Cost{Gas: send.Gas})
	}
	if err == nil {
		err = x.add(send, reserve.Gas)
	}
	if err != nil {
		return nil, err
	}
	x.Result.NewReceipts = append(x.Result.NewReceipts, receipt)
	return nil, nil
}

func keyFailure(e primitives.InvalidAccessKeyError) *failure {
	return &failure{Tag: primitives.ActionDelegateAccessKeyError, AccessKey: &e}
}

// useDelegateKey checks the sender's key and stores the new nonce (nearcore
// validate_delegate_action_key).
func (x *Execution) useDelegateKey(d *delegate) (*failure, error) {
	handle := d.key.Handle()
	var key primitives.AccessKey
	found, err := x.State.AccessKey(d.sender, handle, &key)
	if err != nil {
		return nil, err
	}
	if !found {
		return keyFailure(primitives.InvalidAccessKeyError{Tag: primitives.KeyNotFound, AccountID: d.sender, PublicKey: d.key}), nil
	}
	current := key.Nonce
	switch {
	case !d.nonce.HasIndex && key.GasKey != nil:
		return keyFailure(primitives.InvalidAccessKeyError{Tag: primitives.KeyDelegateRequiresNonGasKey}), nil
	case d.nonce.HasIndex && key.GasKey == nil:
		return keyFailure(primitives.InvalidAccessKeyError{Tag: primitives.KeyDelegateRequiresGasKey}), nil
	case d.nonce.HasIndex && d.nonce.Index >= key.GasKey.NumNonces:
		return &failure{Tag: primitives.ActionDelegateInvalidNonceIndex, NonceIndex: d.nonce.Index, NumNonces: key.GasKey.NumNonces}, nil
	case d.nonce.HasIndex:
		if current, found, err = x.State.GasKeyNonce(d.sender, handle, d.nonce.Index); err != nil {
			return nil, err
		}
		if !found {
			return nil, state.Inconsistent("nonce row %d of a gas key of %s is missing", d.nonce.Index, d.sender)
		}
	}
	if d.nonce.Nonce <= current { // a delegate action's nonce must exceed the key's nonce in every nonce mode
		return &failure{Tag: primitives.ActionDelegateInvalidNonce, DelegateNonce: d.nonce.Nonce, KeyNonce: current}, nil
	}
	if bound := verify.NonceUpperBound(x.Block.Height); d.nonce.Nonce >= bound {
		return &failure{Tag: primitives.ActionDelegateNonceTooLarge, DelegateNonce: d.nonce.Nonce, UpperBound: bound}, nil
	}
	if key.FunctionCall != nil {
		if e := verify.Permission(key.FunctionCall, d.receiver, d.actions); e != nil {
			return keyFailure(*e), nil
		}
	}
	if d.nonce.HasIndex {
		x.State.SetGasKeyNonce(d.sender, handle, d.nonce.Index, d.nonce.Nonce)
		return nil, nil
	}
	key.Nonce = d.nonce.Nonce
	x.State.SetAccessKey(d.sender, handle, &key)
	return nil, nil
}
