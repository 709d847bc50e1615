package action

import (
	"bytes"
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// External is the host environment of one call: the state of the account, and the promises that the
// call makes (nearcore ext.rs RuntimeExt). Each method names the errors that a contract can cause.
// Any other error comes from the state and means that the chunk cannot be applied.
type External struct {
	State *state.TrieUpdate

	block      *Block
	account    primitives.AccountID
	actionHash primitives.Hash
	dataCount  uint64 // number of data ids generated so far
	path       []state.Visit

	receiptStart uint64 // value of RecordedBound before the receipt's first action

	promises []*Promise
	resumes  []Resume
	weights  []weighted
}

// NewExternal returns the environment of a call that is the first action of its receipt, or that
// has no receipt, such as a view.
func NewExternal(b *Block, u *state.TrieUpdate, account primitives.AccountID, actionHash primitives.Hash) *External {
	x := new(External)
	x.begin(b, u, account, actionHash)
	return x
}

func (x *External) begin(b *Block, u *state.TrieUpdate, account primitives.AccountID, actionHash primitives.Hash) {
	*x = External{State: u, block: b, account: account, actionHash: actionHash, receiptStart: u.UpperBound()}
}

// Made returns the promises that the call has created so far and the yields that it has resumed. The caller
// must not change the slices.
func (x *External) Made() ([]*Promise, []Resume) { return x.promises, x.resumes }

// Errors that a contract can cause. The VM translates them into nearcore's errors.
var (
	ErrReceiptIndex = errors.New("no such promise")
	ErrActionIndex  = errors.New("no state init at this index")
	ErrEntryExists  = errors.New("data entry exists already")
)

// NodeCount counts the trie nodes and values that an access pays for. Touched counts nodes and
// values that the chunk accesses for the first time. Cached counts repeated accesses.
type NodeCount struct{ Touched, Cached uint64 }

func (n *NodeCount) add(u *state.TrieUpdate, h primitives.Hash, paid bool) {
	if u.Touch(h, paid) {
		n.Cached++
	} else {
		n.Touched++
	}
}

func (x *External) dataKey(key []byte) []byte {
	return primitives.AppendContractDataKey(make([]byte, 0, 2+len(x.account)+len(key)), x.account, key)
}

// Read returns the value of an entry. Before Read reads the value, it calls pay with the value's
// length n and returns pay's error, if any. The lookup of trie nodes costs nothing. The returned
// NodeCount counts only the value, and is zero if this chunk wrote the entry.
func (x *External) Read(key []byte, pay func(n uint32) error) (value []byte, found bool, n NodeCount, err error) {
	k := x.dataKey(key)
	ref, found, err := x.State.Find(k)
	if !found || err != nil {
		return nil, false, n, err
	}
	if err := pay(ref.Len()); err != nil {
		return nil, false, n, err
	}
	if !ref.InOverlay() {
		n.add(x.State, ref.Hash(), false)
	}
	value, err = x.State.Get(k)
	return value, true, n, err
}

// Has returns whether an entry exists. Has counts no nodes.
func (x *External) Has(key []byte) (bool, error) { return x.State.Contains(x.dataKey(key)) }

// Write sets an entry and returns the old value; nil if there was none. If there is an old value,
// Write first calls pay with its length n. If pay fails, Write returns pay's error and an empty
// NodeCount, and the entry stays. Otherwise the caller pays for the returned NodeCount.
func (x *External) Write(key, value []byte, pay func(n uint32) error) (old []byte, n NodeCount, err error) {
	k := x.dataKey(key)
	if old, n, err = x.replace(k, pay); err != nil {
		return nil, n, err
	}
	x.State.Set(k, append([]byte{}, value...))
	return old, n, nil
}

// Remove removes an entry and returns the old value; nil if there was none. pay and n are as for
// Write.
func (x *External) Remove(key []byte, pay func(n uint32) error) (old []byte, n NodeCount, err error) {
	k := x.dataKey(key)
	if old, n, err = x.replace(k, pay); err != nil {
		return nil, n, err
	}
	x.State.Remove(k)
	return old, n, nil
}

// replace returns the value that the caller is about to replace. The NodeCount includes every
// node on the path.
func (x *External) replace(key []byte, pay func(n uint32) error) (old []byte, n NodeCount, err error) {
	var ref state.Ref
	var found bool
	x.path, ref, found, err = x.State.FindPath(key, x.path[:0])
	if err != nil {
		return nil, n, err
	}
	for i := range x.path { // these nodes count as cached for the following accesses, even if pay fails
		n.add(x.State, x.path[i].Hash, true)
	}
	if !found {
		return nil, n, nil
	}
	if err := pay(ref.Len()); err != nil {
		return nil, NodeCount{}, err
	}
	if !ref.InOverlay() {
		n.add(x.State, ref.Hash(), true)
	}
	old, err = x.State.Get(key)
	return old, n, err
}

// RecordedBound returns the upper bound of the recorded state's size, in bytes.
// PerReceiptStorageProofSizeLimit bounds how much one receipt may add to that size.
func (x *External) RecordedBound() uint64 { return x.State.UpperBound() }

// ProofStart returns the value of RecordedBound from which PerReceiptStorageProofSizeLimit is
// counted. If the version limits all calls of a receipt together, ProofStart returns the value
// before the receipt's first action. Otherwise it returns the current value.
func (x *External) ProofStart() uint64 {
	if x.block.Config.Version.Has(parameters.EnforcePerReceiptStorageProofLimit) {
		return x.receiptStart
	}
	return x.RecordedBound()
}

// Stake returns the stake of an account in this epoch; 0 if the account is no validator.
func (x *External) Stake(id primitives.AccountID) primitives.Balance {
	if x.block.Stakes == nil {
		return primitives.Balance{}
	}
	return x.block.Stakes.Stake(id)
}

// TotalStake returns the sum of all stakes of this epoch.
func (x *External) TotalStake() primitives.Balance {
	if x.block.Stakes == nil {
		return primitives.Balance{}
	}
	return x.block.Stakes.Total()
}

func (x *External) newDataID() primitives.Hash {
	id := primitives.DataID(x.actionHash, x.block.Height, x.dataCount)
	x.dataCount++
	return id
}

func (x *External) promise(i int) (*Promise, error) {
	if i < 0 || i >= len(x.promises) {
		return nil, ErrReceiptIndex
	}
	return x.promises[i], nil
}

// Create makes a promise that runs after all promises in after have returned. Errors:
// ErrReceiptIndex.
func (x *External) Create(receiver primitives.AccountID, after []int) (index int, err error) {
	p := &Promise{Receiver: receiver}
	for range after {
		p.Inputs = append(p.Inputs, x.newDataID())
	}
	for i, at := range after {
		before, err := x.promise(at)
		if err != nil {
			return 0, err
		}
		before.Receivers = append(before.Receivers, primitives.DataReceiver{DataID: p.Inputs[i], ReceiverID: receiver})
	}
	x.promises = append(x.promises, p)
	return len(x.promises) - 1, nil
}

// Yield makes a promise to the account itself that runs when the data id is resumed.
func (x *External) Yield() (index int, data primitives.Hash) {
	data = x.newDataID()
	x.promises = append(x.promises, &Promise{Receiver: x.account, Inputs: []primitives.Hash{data}, Yield: true})
	x.State.SetYieldStatus(x.account, data, state.Yielded)
	return len(x.promises) - 1, data
}

// YieldWithID does the same as Yield, with an id that the contract chose. ok is false if another
// yield has this id, even if this call created that yield.
func (x *External) YieldWithID(id primitives.Hash) (index int, ok bool, err error) {
	taken, err := x.State.HasYieldID(x.account, id)
	if taken || err != nil {
		return 0, false, err
	}
	index, data := x.Yield()
	x.State.SetYieldID(x.account, id, data)
	return index, true, nil
}

// Resume resumes a yield of the account with a payload. ok is false if no yield has this data id.
func (x *External) Resume(data primitives.Hash, payload []byte) (ok bool, err error) {
	stored, err := x.State.HasYieldReceipt(x.account, data)
	if err != nil {
		return false, err
	}
	status, err := x.State.HasYieldStatus(x.account, data)
	if err != nil || !stored && !status {
		return false, err
	}
	x.resumes = append(x.resumes, Resume{data, append([]byte{}, payload...)})
	x.State.SetYieldStatus(x.account, data, state.ResumeInitiated)
	return true, nil
}

// ResumeByID is Resume with the id that the contract chose.
func (x *External) ResumeByID(id primitives.Hash, payload []byte) (ok bool, err error) {
	data, found, err := x.State.DataIDOfYield(x.account, id)
	if err != nil || !found {
		return false, err
	}
	return x.Resume(data, payload)
}

// Append adds an action to a promise and returns the action's index in the promise. The promise
// takes ownership of the action. Errors: ErrReceiptIndex.
func (x *External) Append(promise int, a primitives.Action) (int, error) {
	p, err := x.promise(promise)
	if err != nil {
		return 0, err
	}
	p.Actions = append(p.Actions, a)
	return len(p.Actions) - 1, nil
}

// AppendCall appends a function call. If weight is not 0, the new call gets a share of the gas
// that the running call leaves unused.
func (x *External) AppendCall(promise int, a *primitives.FunctionCall, weight uint64) error {
	if _, err := x.Append(promise, a); err != nil {
		return err
	}
	if weight > 0 {
		x.weights = append(x.weights, weighted{a, weight})
	}
	return nil
}

// AddStateInitEntry adds a key and value to a state init. Errors: ErrReceiptIndex, ErrActionIndex,
// ErrEntryExists.
func (x *External) AddStateInitEntry(promise, action int, key, value []byte) error {
	p, err := x.promise(promise)
	if err != nil {
		return err
	}
	if action < 0 || action >= len(p.Actions) {
		return ErrActionIndex
	}
	init, ok := p.Actions[action].(*primitives.DeterministicStateInit)
	if !ok {
		return ErrActionIndex
	}
	at, exists := slices.BinarySearchFunc(init.Init.Data, key, func(e primitives.StateEntry,
		key []byte) int {
		return bytes.Compare(e.Key, key)
	})
	if exists {
		return ErrEntryExists
	}
	init.Init.Data = slices.Insert(init.Init.Data, at, primitives.StateEntry{Key: bytes.Clone(key), Value: append([]byte{}, value...)})
	return nil
}

// Receiver returns the receiver of a promise. Errors: ErrReceiptIndex.
func (x *External) Receiver(promise int) (primitives.AccountID, error) {
	p, err := x.promise(promise)
	if err != nil {
		return "", err
	}
	return p.Receiver, nil
}

// SetRefundTo sets the account that gets a promise's deposits back. Errors: ErrReceiptIndex.
func (x *External) SetRefundTo(promise int, id primitives.AccountID) error {
	p, err := x.promise(promise)
	if err == nil {
		p.RefundTo = id
	}
	return err
}
