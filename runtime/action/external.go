package action

import (
	"bytes"
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// External is the world of one call: the state of its account, and the promises it makes (nearcore
// ext.rs RuntimeExt). Errors are the state's and make the chunk impossible to apply, but for the
// ones named.
type External struct {
	State *state.TrieUpdate

	block      *Block
	account    primitives.AccountID
	actionHash primitives.Hash
	dataCount  uint64 // of data ids made
	path       []state.Visit

	receiptStart uint64 // recorded bound before the receipt's first action

	promises []*Promise
	resumes  []Resume
	weights  []weighted
}

// NewExternal is the world of a call whose receipt starts now, or that no receipt makes: of a view,
// or of a test.
func NewExternal(b *Block, u *state.TrieUpdate, account primitives.AccountID, actionHash primitives.Hash) *External {
	x := new(External)
	x.begin(b, u, account, actionHash)
	return x
}

func (x *External) begin(b *Block, u *state.TrieUpdate, account primitives.AccountID, actionHash primitives.Hash) {
	*x = External{State: u, block: b, account: account, actionHash: actionHash, receiptStart: u.UpperBound()}
}

// Made is what the call has promised so far, and which yields it answered. They stay the
// External's.
func (x *External) Made() ([]*Promise, []Resume) { return x.promises, x.resumes }

// What a contract can do wrong here; the VM has nearcore's names for it.
var (
	ErrReceiptIndex = errors.New("no such promise")
	ErrActionIndex  = errors.New("no state init at this index")
	ErrEntryExists  = errors.New("data entry exists already")
)

// NodeCount is how many nodes and values of the trie an access paid for: seen in this chunk for the
// first time, and again.
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

// Read returns an entry's value. pay is asked to pay for its n bytes before it is read; its error
// is returned. Nodes are not to be paid for: those of the lookup are not counted, and the value
// only says in n whether it was looked at before, unless it was written in this chunk.
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

// Has tells whether there is an entry; no nodes are counted.
func (x *External) Has(key []byte) (bool, error) { return x.State.Contains(x.dataKey(key)) }

// Write sets an entry and returns the old value, nil if there was none. pay is asked to pay for an
// old value of n bytes before anything is written; its error is returned, and then nothing is to be
// paid for nodes. Else the counts are to be paid after it.
func (x *External) Write(key, value []byte, pay func(n uint32) error) (old []byte, n NodeCount, err error) {
	k := x.dataKey(key)
	if old, n, err = x.replace(k, pay); err != nil {
		return nil, n, err
	}
	x.State.Set(k, append([]byte{}, value...))
	return old, n, nil
}

// Remove removes an entry and returns the old value, nil if there was none. It is as Write.
func (x *External) Remove(key []byte, pay func(n uint32) error) (old []byte, n NodeCount, err error) {
	k := x.dataKey(key)
	if old, n, err = x.replace(k, pay); err != nil {
		return nil, n, err
	}
	x.State.Remove(k)
	return old, n, nil
}

// replace reads the value that goes; every node on the way counts.
func (x *External) replace(key []byte, pay func(n uint32) error) (old []byte, n NodeCount, err error) {
	var ref state.Ref
	var found bool
	x.path, ref, found, err = x.State.FindPath(key, x.path[:0])
	if err != nil {
		return nil, n, err
	}
	for i := range x.path { // seen from now on, even if nobody pays for them
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

// RecordedBound is the upper bound of the recorded state; a call may raise it by 4 000 000 bytes
// (limits' PerReceiptStorageProofSizeLimit).
func (x *External) RecordedBound() uint64 { return x.State.UpperBound() }

// ProofStart is the bound that this limit counts from: now, when the call starts, or where the
// receipt's first action started in versions that count a receipt's calls together.
func (x *External) ProofStart() uint64 {
	if x.block.Config.Version.Has(parameters.EnforcePerReceiptStorageProofLimit) {
		return x.receiptStart
	}
	return x.RecordedBound()
}

// Stake is an account's stake in this epoch, 0 if it does not validate.
func (x *External) Stake(id primitives.AccountID) primitives.Balance {
	if x.block.Stakes == nil {
		return primitives.Balance{}
	}
	return x.block.Stakes.Stake(id)
}

// TotalStake is the sum over all validators of this epoch.
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

// Create makes a promise that runs when all of after have answered; ErrReceiptIndex.
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

// Yield makes a promise to the account itself that waits to be resumed by the data id.
func (x *External) Yield() (index int, data primitives.Hash) {
	data = x.newDataID()
	x.promises = append(x.promises, &Promise{Receiver: x.account, Inputs: []primitives.Hash{data}, Yield: true})
	x.State.SetYieldStatus(x.account, data, state.Yielded)
	return len(x.promises) - 1, data
}

// YieldWithID is Yield with an id of the contract's choice; ok is false if that is taken, also
// earlier in this call.
func (x *External) YieldWithID(id primitives.Hash) (index int, ok bool, err error) {
	taken, err := x.State.HasYieldID(x.account, id)
	if taken || err != nil {
		return 0, false, err
	}
	index, data := x.Yield()
	x.State.SetYieldID(x.account, id, data)
	return index, true, nil
}

// Resume answers a yield of the account; ok is false if there is none with this data id.
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

// ResumeByID is Resume by the id that the contract chose.
func (x *External) ResumeByID(id primitives.Hash, payload []byte) (ok bool, err error) {
	data, found, err := x.State.DataIDOfYield(x.account, id)
	if err != nil || !found {
		return false, err
	}
	return x.Resume(data, payload)
}

// Append adds an action to a promise and returns its index there; ErrReceiptIndex. The promise owns
// the action.
func (x *External) Append(promise int, a primitives.Action) (int, error) {
	p, err := x.promise(promise)
	if err != nil {
		return 0, err
	}
	p.Actions = append(p.Actions, a)
	return len(p.Actions) - 1, nil
}

// AppendCall is Append of a call that gets a share of the gas that is left at the end, if weight is
// not 0.
func (x *External) AppendCall(promise int, a *primitives.FunctionCall, weight uint64) error {
	if _, err := x.Append(promise, a); err != nil {
		return err
	}
	if weight > 0 {
		x.weights = append(x.weights, weighted{a, weight})
	}
	return nil
}

// AddStateInitEntry adds a pair to a state init; ErrReceiptIndex, ErrActionIndex, ErrEntryExists.
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
	at, exists := slices.BinarySearchFunc(init.Init.Data, key, func(e primitives.StateEntry, key []byte) int { return bytes.Compare(e.Key, key) })
	if exists {
		return ErrEntryExists
	}
	init.Init.Data = slices.Insert(init.Init.Data, at, primitives.StateEntry{Key: bytes.Clone(key), Value: append([]byte{}, value...)})
	return nil
}

// Receiver is who a promise goes to; ErrReceiptIndex.
func (x *External) Receiver(promise int) (primitives.AccountID, error) {
	p, err := x.promise(promise)
	if err != nil {
		return "", err
	}
	return p.Receiver, nil
}

// SetRefundTo names who gets a promise's deposits back; ErrReceiptIndex.
func (x *External) SetRefundTo(promise int, id primitives.AccountID) error {
	p, err := x.promise(promise)
	if err == nil {
		p.RefundTo = id
	}
	return err
}
