package view

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// ChangeKind is which part of an account changed. Its text is the type of the change's JSON without
// _update or _deletion.
type ChangeKind byte

// The kinds, in the order of the trie's columns.
const (
	AccountChange ChangeKind = iota
	ContractCodeChange
	AccessKeyChange
	GasKeyNonceChange // reported for updates, but not for deletions
	DataChange
)

var changeNames = [...]string{"account", "contract_code", "access_key", "gas_key_nonce", "data"}

// String returns the stem of the JSON's type.
func (k ChangeKind) String() string { return changeNames[k] }

// Change is one write to an account, its keys, code or data (nearcore StateChangeWithCauseView).
type Change struct {
	Cause     primitives.StateChangeCause
	Kind      ChangeKind
	Deletion  bool
	AccountID primitives.AccountID
	Account   primitives.Account         // if Kind is AccountChange
	Handle    primitives.PublicKeyHandle // if Kind is AccessKeyChange or GasKeyNonceChange
	AccessKey primitives.AccessKey       // if Kind is AccessKeyChange
	Index     uint16                     // if Kind is GasKeyNonceChange
	Nonce     primitives.Nonce           // if Kind is GasKeyNonceChange
	Key       []byte                     // if Kind is DataChange
	Value     []byte                     // if Kind is DataChange or ContractCodeChange
}

// AppendChanges appends the reply of changes.
func AppendChanges(b []byte, block *primitives.Hash, cs []Change) []byte {
	b = AppendHash(append(b, `{"block_hash":`...), block)
	return append(appendList(append(b, `,"changes":`...), cs, AppendChange), '}')
}

// AppendChange appends a change with sorted members.
func AppendChange(b []byte, c *Change) []byte { return sortedOrder.Change(b, c) }

func appendChangeType(b []byte, c *Change) []byte {
	b = append(append(b, '"'), c.Kind.String()...)
	if c.Deletion {
		return append(b, `_deletion"`...)
	}
	return append(b, `_update"`...)
}

// changed appends what changed.
func (e *Encoder) changed(b []byte, c *Change) []byte {
	switch c.Kind {
	case AccountChange:
		if !c.Deletion {
			return e.account(b, &c.Account, c.AccountID, nil)
		}
		return append(AppendAccountID(append(b, `{"account_id":`...), c.AccountID), '}')
	case ContractCodeChange:
		return e.codeChange(b, c)
	case AccessKeyChange:
		return e.accessKeyChange(b, c)
	case GasKeyNonceChange:
		return e.gasKeyNonceChange(b, c)
	case DataChange:
		return e.dataChange(b, c)
	}
	panic(fmt.Sprintf("view: no JSON form of change kind %d", c.Kind))
}

// causeNames are the names by CauseKind. Kind 10 is retired: some testnet nodes once wrote it in
// place of the next kind, and nearcore shows it as that kind (views.rs:2869).
var causeNames = [...]string{
	"not_writable_to_disk", "initial_state", "transaction_processing", "action_receipt_processing_started",
	"action_receipt_gas_reward", "receipt_processing", "postponed_receipt", "updated_delayed_receipts",
	"validator_accounts_update", "migration", "bandwidth_scheduler_state_update", "bandwidth_scheduler_state_update",
}

// Effect is a part of an account that was written in a block (nearcore StateChangeKindView). There
// is one for each key of the trie, so an account may occur several times. Nonces of gas keys have
// none.
type Effect struct {
	Kind      ChangeKind // any kind but GasKeyNonceChange
	AccountID primitives.AccountID
}

// AppendEffects appends the reply of block_effects. nearcore names the list "changes", the
// interface specification "block_effects". Clients of both names exist, so the reply has both
// members; the reply of the method with nearcore's old name only has nearcore's member.
func AppendEffects(b []byte, block *primitives.Hash, es []Effect) []byte {
	b = appendEffectList(append(b, `{"block_effects":`...), es)
	b = AppendHash(append(b, `,"block_hash":`...), block)
	return append(appendEffectList(append(b, `,"changes":`...), es), '}')
}

// AppendChangesInBlock appends the reply of EXPERIMENTAL_changes_in_block (nearcore
// StateChangesKindsView in RpcStateChangesInBlockByTypeResponse).
func AppendChangesInBlock(b []byte, block *primitives.Hash, es []Effect) []byte {
	b = AppendHash(append(b, `{"block_hash":`...), block)
	return append(appendEffectList(append(b, `,"changes":`...), es), '}')
}

func appendEffectList(b []byte, es []Effect) []byte {
	return appendList(b, es, func(b []byte, e *Effect) []byte {
		b = AppendAccountID(append(b, `{"account_id":`...), e.AccountID)
		return append(append(append(b, `,"type":"`...), e.Kind.String()...), `_touched"}`...)
	})
}
