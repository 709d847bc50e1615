package logic

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// External is the environment of one call: the account's state, the validators, the receipts that
// the call creates. Nodes use *action.External. pay is called once, after an entry is found and
// before its value is read, counted or changed. If pay fails, the access ends with pay's error.
// This order is consensus, and action.TestStorageAccessIsChargedBeforeValueRead checks it. Errors
// come from the state, except action.ErrActionIndex, action.ErrEntryExists and errors of pay. The
// caller must not change returned values, which are valid during the call. The implementation must
// copy arguments that it keeps.
type External interface {
	Read(key []byte, pay func(n uint32) error) (value []byte, found bool, n action.NodeCount, err error)
	Has(key []byte) (bool, error)
	Write(key, value []byte, pay func(n uint32) error) (old []byte, n action.NodeCount, err error)
	Remove(key []byte, pay func(n uint32) error) (old []byte, n action.NodeCount, err error)
	RecordedBound() uint64
	ProofStart() uint64

	Stake(id primitives.AccountID) primitives.Balance
	TotalStake() primitives.Balance

	Create(receiver primitives.AccountID, after []int) (index int, err error)
	Receiver(receipt int) (primitives.AccountID, error)
	SetRefundTo(receipt int, id primitives.AccountID) error
	Append(receipt int, a primitives.Action) (int, error)
	AppendCall(receipt int, a *primitives.FunctionCall, weight uint64) error
	AddStateInitEntry(receipt, action int, key, value []byte) error
	Yield() (receipt int, data primitives.Hash)
	YieldWithID(id primitives.Hash) (receipt int, ok bool, err error)
	Resume(data primitives.Hash, payload []byte) (ok bool, err error)
	ResumeByID(id primitives.Hash, payload []byte) (ok bool, err error)
}

var _ External = (*action.External)(nil)
