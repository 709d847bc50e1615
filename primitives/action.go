package primitives

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ActionTag is the borsh discriminant of an action (nearcore core/primitives/src/action/mod.rs).
type ActionTag byte

// The 16 actions of protocol 88. UniversalStateInit needs the feature UniversalAccounts. Protocol
// versions without the feature decode that action and then reject it.
const (
	TagCreateAccount ActionTag = iota
	TagDeployContract
	TagFunctionCall
	TagTransfer
	TagStake
	TagAddKey
	TagDeleteKey
	TagDeleteAccount
	TagDelegate
	TagDeployGlobalContract
	TagUseGlobalContract
	TagDeterministicStateInit
	TagTransferToGasKey
	TagWithdrawFromGasKey
	TagDelegateV2
	TagUniversalStateInit
	NumActionTags // number of actions
)

// Action is one step of a transaction or receipt. The types below are the only ones.
//
//sumtype:decl
type Action interface {
	Tag() ActionTag
	// appendPayload appends what follows the tag.
	appendPayload(b []byte) []byte
}

type (
	// CreateAccount creates the receiver.
	CreateAccount struct{}
	// DeployContract replaces the receiver's own code.
	DeployContract struct {
		Code     []byte
		CodeHash *Hash // hash of the code, if only the hash is known; see NewViewedTransaction
	}
	// FunctionCall runs a method of the receiver's contract.
	FunctionCall struct {
		Method  string
		Args    []byte
		Gas     Gas
		Deposit Balance
	}
	// Transfer moves tokens to the receiver.
	Transfer struct{ Deposit Balance }
	// Stake sets the receiver's validator stake; 0 unstakes.
	Stake struct {
		Stake     Balance
		PublicKey PublicKey
	}
	// AddKey adds an access key or gas key to the receiver.
	AddKey struct {
		PublicKey PublicKey
		AccessKey AccessKey
	}
	// DeleteKey removes a key of the receiver.
	DeleteKey struct{ PublicKey PublicKey }
	// DeleteAccount removes the receiver and sends its balance to the beneficiary.
	DeleteAccount struct{ Beneficiary AccountID }
	// Delegate carries actions signed by the inner sender (NEP-366).
	Delegate struct {
		Action    DelegateAction
		Signature Signature
	}
	// DelegateV2 is Delegate with a nonce that may belong to a gas key.
	DelegateV2 struct {
		Action    DelegateActionV2
		Signature Signature
	}
	// DeployGlobalContract distributes code to every shard.
	DeployGlobalContract struct {
		Code     []byte
		CodeHash *Hash // as in DeployContract
		Mode     GlobalDeployMode
	}
	// UseGlobalContract makes the receiver use global code.
	UseGlobalContract struct{ ID GlobalContractID }
	// DeterministicStateInit creates or initialises a 0s... account.
	DeterministicStateInit struct {
		Init    StateInit
		Deposit Balance
	}
	// UniversalStateInit creates or initialises a 0u... account. The account's id is the hash of
	// Init. Init may be malformed: validation of the action decides that, not decoding.
	UniversalStateInit struct {
		Init    RawStateInit
		Deposit Balance
	}
	// TransferToGasKey adds to a gas key's balance.
	TransferToGasKey struct {
		PublicKey PublicKey
		Deposit   Balance
	}
	// WithdrawFromGasKey moves balance from a gas key to its account.
	WithdrawFromGasKey struct {
		PublicKey PublicKey
		Amount    Balance
	}
)

// GlobalDeployMode says by what a global contract is identified: its code hash or its deployer.
type GlobalDeployMode byte

// The modes.
const (
	GlobalByCodeHash  GlobalDeployMode = 0
	GlobalByAccountID GlobalDeployMode = 1
)

// GlobalContractID identifies global code: by the account that deployed it if Account is not empty,
// else by hash.
type GlobalContractID struct {
	Account AccountID
	Hash    Hash
}

// Len is the length that fees and storage count, in bytes: 32, or the account's length.
func (g *GlobalContractID) Len() int {
	if g.Account != "" {
		return len(g.Account)
	}
	return len(g.Hash)
}

// AppendBorsh appends 0 ‖ hash or 1 ‖ account; the trie uses the same form.
func (g *GlobalContractID) AppendBorsh(b []byte) []byte {
	if g.Account != "" {
		return g.Account.AppendBorsh(append(b, 1))
	}
	return append(append(b, 0), g.Hash[:]...)
}

// DecodeBorsh reads what AppendBorsh writes.
func (g *GlobalContractID) DecodeBorsh(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
		*g = GlobalContractID{Hash: ReadHash(r)}
	case 1:
		*g = GlobalContractID{Account: ReadAccountID(r)}
	default:
		r.BadTag("GlobalContractIdentifier", tag)
	}
}

// StateEntry is one pair of a state init's data.
type StateEntry struct{ Key, Value []byte }

// StateInit is DeterministicAccountStateInit V1: code and data sorted by key.
type StateInit struct {
	Code GlobalContractID
	Data []StateEntry
}

// AppendBorsh appends tag 0, code, data.
func (s *StateInit) AppendBorsh(b []byte) []byte {
	return AppendStateEntries(s.Code.AppendBorsh(append(b, 0)), s.Data)
}

// DecodeBorsh reads what AppendBorsh writes.
func (s *StateInit) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("DeterministicAccountStateInit", tag)
		return
	}
	s.Code.DecodeBorsh(r)
	s.Data = ReadStateEntries(r)
}

// AppendStateEntries appends pairs in the given order.
func AppendStateEntries(b []byte, list []StateEntry) []byte {
	return borsh.AppendSlice(b, list, func(b []byte, e *StateEntry) []byte {
		return borsh.AppendBytes(borsh.AppendBytes(b, e.Key), e.Value)
	})
}

// ReadStateEntries reads pairs and returns them sorted by key. It accepts any order. Of pairs with
// equal keys the last pair counts. borsh-rs does the same in nearcore, because the feature
// de_strict_order of borsh-rs is off.
func ReadStateEntries(r *borsh.Reader) []StateEntry {
	list := borsh.Slice(r, 8, func(r *borsh.Reader) StateEntry {
		return StateEntry{Key: r.BytesCopy(), Value: r.BytesCopy()}
	})
	byKey := func(a, b StateEntry) int { return bytes.Compare(a.Key, b.Key) }
	ascend := true
	for i := 1; i < len(list); i++ {
		ascend = ascend && byKey(list[i-1], list[i]) < 0
	}
	if ascend {
		return list
	}
	r.Loosen()
	slices.SortStableFunc(list, byKey)
	last := list[:0]
	for i, e := range list {
		if i+1 == len(list) || byKey(e, list[i+1]) != 0 {
			last = append(last, e)
		}
	}
	return last
}

// Tag of each action.
func (*CreateAccount) Tag() ActionTag          { return TagCreateAccount }
func (*DeployContract) Tag() ActionTag         { return TagDeployContract }
func (*FunctionCall) Tag() ActionTag           { return TagFunctionCall }
func (*Transfer) Tag() ActionTag               { return TagTransfer }
func (*Stake) Tag() ActionTag                  { return TagStake }
func (*AddKey) Tag() ActionTag                 { return TagAddKey }
func (*DeleteKey) Tag() ActionTag              { return TagDeleteKey }
func (*DeleteAccount) Tag() ActionTag          { return TagDeleteAccount }
func (*Delegate) Tag() ActionTag               { return TagDelegate }
func (*DelegateV2) Tag() ActionTag             { return TagDelegateV2 }
func (*DeployGlobalContract) Tag() ActionTag   { return TagDeployGlobalContract }
func (*UseGlobalContract) Tag() ActionTag      { return TagUseGlobalContract }
func (*DeterministicStateInit) Tag() ActionTag { return TagDeterministicStateInit }
func (*UniversalStateInit) Tag() ActionTag     { return TagUniversalStateInit }
func (*TransferToGasKey) Tag() ActionTag       { return TagTransferToGasKey }
func (*WithdrawFromGasKey) Tag() ActionTag     { return TagWithdrawFromGasKey }

func (*CreateAccount) appendPayload(b []byte) []byte    { return b }
func (a *DeployContract) appendPayload(b []byte) []byte { return borsh.AppendBytes(b, a.Code) }
func (a *FunctionCall) appendPayload(b []byte) []byte {
	b = borsh.AppendBytes(borsh.AppendString(b, a.Method), a.Args)
	return a.Deposit.AppendBorsh(borsh.AppendUint64(b, uint64(a.Gas)))
}
func (a *Transfer) appendPayload(b []byte) []byte { return a.Deposit.AppendBorsh(b) }
func (a *Stake) appendPayload(b []byte) []byte {
	return a.PublicKey.AppendBorsh(a.Stake.AppendBorsh(b))
}
func (a *AddKey) appendPayload(b []byte) []byte {
	return a.AccessKey.AppendBorsh(a.PublicKey.AppendBorsh(b))
}
func (a *DeleteKey) appendPayload(b []byte) []byte     { return a.PublicKey.AppendBorsh(b) }
func (a *DeleteAccount) appendPayload(b []byte) []byte { return a.Beneficiary.AppendBorsh(b) }
func (a *Delegate) appendPayload(b []byte) []byte {
	return a.Signature.AppendBorsh(a.Action.AppendBorsh(b))
}
func (a *DelegateV2) appendPayload(b []byte) []byte {
	return a.Signature.AppendBorsh(a.Action.AppendBorsh(append(b, 0)))
}
func (a *DeployGlobalContract) appendPayload(b []byte) []byte {
	return append(borsh.AppendBytes(b, a.Code), byte(a.Mode))
}
func (a *UseGlobalContract) appendPayload(b []byte) []byte { return a.ID.AppendBorsh(b) }
func (a *DeterministicStateInit) appendPayload(b []byte) []byte {
	return a.Deposit.AppendBorsh(a.Init.AppendBorsh(b))
}
func (a *UniversalStateInit) appendPayload(b []byte) []byte {
	return a.Deposit.AppendBorsh(borsh.AppendBytes(b, a.Init))
}
func (a *TransferToGasKey) appendPayload(b []byte) []byte {
	return a.Deposit.AppendBorsh(a.PublicKey.AppendBorsh(b))
}
func (a *WithdrawFromGasKey) appendPayload(b []byte) []byte {
	return a.Amount.AppendBorsh(a.PublicKey.AppendBorsh(b))
}

// DeployedCode returns the code that an action deploys; ok is false for actions that deploy none.
func DeployedCode(a Action) (code []byte, ok bool) {
	if local, ok := a.(*DeployContract); ok {
		return local.Code, true
	}
	if global, ok := a.(*DeployGlobalContract); ok {
		return global.Code, true
	}
	return nil, false
}

// AppendAction appends tag ‖ payload.
func AppendAction(b []byte, a Action) []byte { return a.appendPayload(append(b, byte(a.Tag()))) }

// AppendActions appends a vector of actions.
func AppendActions(b []byte, as []Action) []byte {
	b = borsh.AppendLen(b, len(as))
	for _, a := range as {
		b = AppendAction(b, a)
	}
	return b
}

// MaxActionsKept is how many actions of a list are kept when input of a client is decoded
// (borsh.NewClientReader). MaxActionsKept is far above the valid maximum (max_actions_per_receipt,
// 100). So a longer list is never valid, and only its length is needed.
const MaxActionsKept = 1024

// ReadActions reads a vector of actions and keeps all.
func ReadActions(r *borsh.Reader) []Action { return borsh.Slice(r, 1, ReadAction) }

// readActions reads a vector of actions. unkept is the number of actions that were read but not
// kept.
func readActions(r *borsh.Reader) (list []Action, unkept int) {
	return borsh.SliceKept(r, 1, MaxActionsKept, ReadAction)
}

// ReadAction reads tag ‖ payload; after an error the result is nil.
func ReadAction(r *borsh.Reader) Action {
	a := readAction(r, true)
	if r.Err() != nil {
		return nil
	}
	return a
}

// readAction reads tag ‖ payload. If delegates is false it refuses the delegate actions.
func readAction(r *borsh.Reader, delegates bool) Action {
	switch tag := ActionTag(r.Byte()); tag {
	case TagCreateAccount:
		return &CreateAccount{}
	case TagDeployContract:
		return &DeployContract{Code: r.BytesCopy()}
	case TagFunctionCall:
		return &FunctionCall{Method: r.String(), Args: r.BytesCopy(), Gas: Gas(r.Uint64()), Deposit: ReadBalance(r)}
	case TagTransfer:
		return &Transfer{Deposit: ReadBalance(r)}
	case TagStake:
		return &Stake{Stake: ReadBalance(r), PublicKey: ReadPublicKey(r)}
	case TagAddKey:
		a := &AddKey{PublicKey: ReadPublicKey(r)}
		a.AccessKey.DecodeBorsh(r)
		return a
	case TagDeleteKey:
		return &DeleteKey{PublicKey: ReadPublicKey(r)}
	case TagDeleteAccount:
		return &DeleteAccount{Beneficiary: ReadAccountID(r)}
	case TagDelegate:
		if !delegates {
			break
		}
		a := &Delegate{}
		a.Action.DecodeBorsh(r)
		a.Signature.DecodeBorsh(r)
		return a
	case TagDeployGlobalContract:
		a := &DeployGlobalContract{Code: r.BytesCopy()}
		if m := r.Byte(); m > 1 {
			r.BadTag("GlobalContractDeployMode", m)
		} else {
			a.Mode = GlobalDeployMode(m)
		}
		return a
	case TagUseGlobalContract:
		a := &UseGlobalContract{}
		a.ID.DecodeBorsh(r)
		return a
	case TagDeterministicStateInit:
		a := &DeterministicStateInit{}
		a.Init.DecodeBorsh(r)
		a.Deposit.DecodeBorsh(r)
		return a
	case TagUniversalStateInit:
		return &UniversalStateInit{Init: r.BytesCopy(), Deposit: ReadBalance(r)}
	case TagTransferToGasKey:
		return &TransferToGasKey{PublicKey: ReadPublicKey(r), Deposit: ReadBalance(r)}
	case TagWithdrawFromGasKey:
		return &WithdrawFromGasKey{PublicKey: ReadPublicKey(r), Amount: ReadBalance(r)}
	case TagDelegateV2:
		if !delegates {
			break
		}
		a := &DelegateV2{}
		if v := r.Byte(); v != 0 {
			r.BadTag("VersionedDelegateActionPayload", v)
			return nil
		}
		a.Action.DecodeBorsh(r)
		a.Signature.DecodeBorsh(r)
		return a
	default:
		r.BadTag("Action", byte(tag))
		return nil
	}
	r.Failf("DelegateAction mustn't contain a nested one")
	return nil
}
