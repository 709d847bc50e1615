package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// The discriminants of NEP-461 (nearcore core/primitives/src/signable_message.rs). The signed bytes
// of a delegate action begin with one of these discriminants, so that the action's signature is
// never valid for a transaction.
const (
	delegateDiscriminant   uint32 = 1<<30 + 366
	delegateV2Discriminant uint32 = 1<<30 + 611
)

// DelegateAction is what the inner sender of a meta transaction signs (NEP-366).
type DelegateAction struct {
	SenderID       AccountID
	ReceiverID     AccountID
	Actions        []Action // never Delegate or DelegateV2
	Nonce          Nonce
	MaxBlockHeight Height
	PublicKey      PublicKey
	Unkept         int // number of actions that decoding dropped, see MaxActionsKept
}

// DelegateActionV2 is DelegateAction with a nonce that may belong to a gas key.
type DelegateActionV2 struct {
	SenderID       AccountID
	ReceiverID     AccountID
	Actions        []Action // never Delegate or DelegateV2
	Nonce          TransactionNonce
	MaxBlockHeight Height
	PublicKey      PublicKey
	Unkept         int // number of actions that decoding dropped, see MaxActionsKept
}

func appendDelegateHead(b []byte, sender, receiver AccountID, actions []Action) []byte {
	return AppendActions(receiver.AppendBorsh(sender.AppendBorsh(b)), actions)
}

func readInnerActions(r *borsh.Reader) (list []Action, unkept int) {
	return borsh.SliceKept(r, 1, MaxActionsKept, func(r *borsh.Reader) Action { return readAction(r, false) })
}

// AppendBorsh appends the fields.
func (d *DelegateAction) AppendBorsh(b []byte) []byte {
	b = appendDelegateHead(b, d.SenderID, d.ReceiverID, d.Actions)
	b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(d.Nonce)), uint64(d.MaxBlockHeight))
	return d.PublicKey.AppendBorsh(b)
}

// DecodeBorsh reads the fields; a nested delegate action is an error.
func (d *DelegateAction) DecodeBorsh(r *borsh.Reader) {
	d.SenderID, d.ReceiverID = ReadAccountID(r), ReadAccountID(r)
	d.Actions, d.Unkept = readInnerActions(r)
	d.Nonce, d.MaxBlockHeight, d.PublicKey = Nonce(r.Uint64()), Height(r.Uint64()), ReadPublicKey(r)
}

// SignedHash returns the hash that the sender signs.
func (d *DelegateAction) SignedHash() Hash {
	return HashBytes(d.AppendBorsh(borsh.AppendUint32(nil, delegateDiscriminant)))
}

// AppendBorsh appends the fields, without the version tag.
func (d *DelegateActionV2) AppendBorsh(b []byte) []byte {
	b = appendDelegateHead(b, d.SenderID, d.ReceiverID, d.Actions)
	b = borsh.AppendUint64(d.Nonce.AppendBorsh(b), uint64(d.MaxBlockHeight))
	return d.PublicKey.AppendBorsh(b)
}

// DecodeBorsh reads the fields; a nested delegate action is an error.
func (d *DelegateActionV2) DecodeBorsh(r *borsh.Reader) {
	d.SenderID, d.ReceiverID = ReadAccountID(r), ReadAccountID(r)
	d.Actions, d.Unkept = readInnerActions(r)
	d.Nonce.DecodeBorsh(r)
	d.MaxBlockHeight, d.PublicKey = Height(r.Uint64()), ReadPublicKey(r)
}

// SignedHash returns the hash that the sender signs; the version tag 0 is part of it.
func (d *DelegateActionV2) SignedHash() Hash {
	return HashBytes(d.AppendBorsh(append(borsh.AppendUint32(nil, delegateV2Discriminant), 0)))
}
