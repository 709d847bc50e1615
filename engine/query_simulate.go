package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// MaxSimulatedBlocks is the greatest number of blocks that a simulation runs. A promise yield times
// out after 200 blocks, and its callbacks need a few more blocks.
const MaxSimulatedBlocks = 250

// simulatedBlockTime is the time between the blocks of a simulation, in ns.
const simulatedBlockTime = 1_000_000_000

// SimulateOptions configure Simulate.
type SimulateOptions struct {
	// Signature checks the transaction's signature. verify.Checked accepts every signature, so that
	// an unsigned transaction can be simulated.
	Signature verify.SignatureFunc
	// VM runs the contracts, for example to trace them; nil: the engine's VM.
	VM action.VM
	// Alone runs a transaction of an earlier block again. Simulate then does not check the
	// transaction, and ignores the receipts and bandwidth requests that are pending after the block
	// of the simulated state. The queues in the states must be empty.
	Alone bool
	// Mocks are the overrides of contracts' signature checks that were in force in the
	// transaction's original block, or nil. Simulate uses Mocks only with Alone.
	Mocks *primitives.Mocks
}

// Simulate runs a transaction and all its receipts on the state after the block `at`, and discards
// the new state. Simulate runs the transaction and the receipts in imaginary blocks. Every shard
// has a chunk in each of these blocks, no other transaction arrives, and the epoch does not end.
// Receipts that already wait in the shards' queues run too. Errors: *primitives.InvalidTxError if
// the RPC would refuse the transaction; ErrUntracked if a shard is not held; ctx's error, which is
// checked between blocks. Safe for concurrent use.
func (e *Engine) Simulate(
	ctx context.Context,
	at *State,
	tx *primitives.SignedTransaction,
	o SimulateOptions,
) (*view.Simulation, error) {
	if !o.Alone {
		invalid, err := e.checkAt(at.BlockNode, at.Trie, tx, o.Signature)
		if err != nil {
			return nil, err
		}
		if invalid != nil {
			return nil, invalid
		}
	}
	s, err := e.newSimulation(at, tx, o)
	if err != nil {
		return nil, err
	}
	defer s.release()
	n := 0
	for n < MaxSimulatedBlocks && len(s.waiting) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.step(); err != nil {
			return nil, fmt.Errorf("engine: simulated block %d: %w", s.block.Height, err)
		}
		n++
		// The chunk has refused the transaction, and the chunks of further blocks would refuse the
		// transaction too.
		if _, refused := s.waiting[tx.Hash()]; refused && o.Alone {
			break
		}
	}
	return &view.Simulation{
		FinalOutcome: s.look(), At: view.At{Height: at.Height(), Hash: at.Hash}, Blocks: n, Complete: len(s.waiting) == 0,
		Unlinked: s.unlinked(),
	}, nil
}

// simulation is the state of one Simulate: a chain of imaginary blocks.
type simulation struct {
	at     *State
	tx     *primitives.SignedTransaction
	shards []simulatedShard
	block  action.Block // the last simulated block
	hash   primitives.Hash
	base   apply.Input

	calls    *linkRecorder                // nil: the engine has no VM
	waiting  map[primitives.Hash]struct{} // ids of the transaction and its receipts that have no outcome yet
	outcomes map[primitives.Hash]view.OutcomeProof
	receipts map[primitives.Hash]*primitives.Receipt
}

// simulatedShard is a shard after the last imaginary block.
type simulatedShard struct {
	id         primitives.ShardID
	state      state.Trie
	owned      bool // the simulation must release the field state
	gasLimit   primitives.Gas
	congestion primitives.CongestionInfo
	missed     uint64 // number of blocks since the shard's last chunk
	requests   []primitives.BandwidthRequest
	outgoing   []*primitives.Receipt
}

func (e *Engine) newSimulation(at *State, tx *primitives.SignedTransaction, o SimulateOptions) (*simulation, error) {
	s := &simulation{
		at: at, tx: tx, hash: at.Hash,
		waiting:  map[primitives.Hash]struct{}{tx.Hash(): {}},
		outcomes: map[primitives.Hash]view.OutcomeProof{}, receipts: map[primitives.Hash]*primitives.Receipt{},
	}
	h := at.Header()
	e.epochMu.Lock()
	info, err := e.epochs.EpochInfo(h.EpochID)
	var minimum primitives.Balance
	if err == nil {
		minimum, err = e.epochs.MinimumStake(at.Hash)
	}
	e.epochMu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%w: epoch of block %v: %w", ErrUnknown, at.Hash, err)
	}
	// No signature check, because checkAt has verified the signature.
	s.base = apply.Input{Layout: at.Layout, NewChunk: true, Signature: verify.Checked}
	s.block = e.actionBlock(at.BlockNode, info)
	s.block.Height, s.block.Timestamp, s.block.RandomValue = h.Height, h.Timestamp, h.RandomValue
	s.block.GasPrice, s.block.MinimumStake, s.block.Beside = h.NextGasPrice, minimum, true
	if s.block.Mocks = e.mocks.Load(); o.Alone {
		s.block.Mocks = o.Mocks
	}
	if o.VM != nil {
		s.block.VM = o.VM
	}
	if s.block.VM != nil {
		s.calls = &linkRecorder{VM: s.block.VM}
		s.block.VM = s.calls
	}
	for i := range at.Shards {
		from, c := &at.Shards[i], at.Block.Body.Chunks[i]
		if !from.Held() {
			return nil, fmt.Errorf("%w: shard %d, and a simulation needs all", ErrUntracked, from.ID)
		}
		x := simulatedShard{id: from.ID, state: at.Trie(primitives.ShardIndex(i)), gasLimit: from.Extra.GasLimit}
		if !o.Alone {
			x.congestion, x.missed = from.Extra.CongestionInfo, uint64(h.Height-c.HeightIncluded)
			x.requests, x.outgoing = from.Extra.BandwidthRequests, from.Outgoing
		}
		s.shards = append(s.shards, x)
	}
	return s, nil
}

// linkRecorder is a VM that records calls of contracts which import host functions that this protocol
// version does not have (action.LinkError). Not safe for concurrent use.
type linkRecorder struct {
	action.VM
	calls []view.UnlinkedCall
}

// Call implements action.VM.
func (r *linkRecorder) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	out, err := r.VM.Call(c, x)
	if link, ok := out.Cause.(*action.LinkError); ok && err == nil && len(r.calls) < maxUnlinkedCalls {
		for _, m := range link.Missing {
			r.calls = append(r.calls, view.UnlinkedCall{Receipt: c.ReceiptID, Account: c.CurrentAccount, Code: c.CodeHash, Missing: m})
		}
	}
	return out, err
}

// maxUnlinkedCalls is the number of records that linkRecorder keeps before it ignores further calls. A
// call gets one record for each missing import.
const maxUnlinkedCalls = 1000

// unlinked returns the records of calls with missing imports, except those of receipts that do not
// belong to the simulated transaction. unlinked returns nil if there are no such records.
func (s *simulation) unlinked() []view.UnlinkedCall {
	if s.calls == nil {
		return nil
	}
	return slices.DeleteFunc(s.calls.calls, func(u view.UnlinkedCall) bool {
		_, ours := s.outcomes[u.Receipt]
		return !ours
	})
}

// release releases the trie that applying a chunk created.
func release(t state.Trie) {
	if f, ok := t.(forkTrie); ok {
		t = f.local
	}
	if t, ok := t.(stateTrie); ok {
		t.root.Release()
	}
}

func (s *simulation) release() {
	for i := range s.shards {
		if s.shards[i].owned {
			release(s.shards[i].state)
		}
	}
}

// step applies the next imaginary block.
func (s *simulation) step() error {
	prev := s.hash
	s.hash = primitives.HashBytes(
		binary.LittleEndian.AppendUint64(append([]byte("simulated"), prev[:]...), uint64(s.block.Height+1)),
	)
	s.block.Height, s.block.Timestamp, s.block.PrevHash = s.block.Height+1, s.block.Timestamp+simulatedBlockTime, prev
	s.block.RandomValue = primitives.HashBytes(s.block.RandomValue[:])
	in := s.base
	in.Block = s.block
	in.Congestion, in.Requests = nil, nil
	lists := make([][][]*primitives.Receipt, len(s.shards))
	for i := range s.shards {
		x := &s.shards[i]
		in.Congestion = append(in.Congestion, apply.ShardCongestion{Shard: x.id, Info: x.congestion, Missed: x.missed})
		in.Requests = append(in.Requests, bandwidth.SenderRequests{Shard: x.id, Requests: x.requests})
		for k, g := range chain.GroupReceipts(x.outgoing, s.at.Layout) {
			lists[k] = append(lists[k], g.Receipts)
		}
		x.missed = 0
	}
	for i := range s.shards {
		if err := s.apply(in, i, apply.OrderIncoming(prev, lists[i])); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the chunk of shard i. in contains the block's values. The transaction is put into
// the first chunk of its signer's shard.
func (s *simulation) apply(in apply.Input, i int, incoming []*primitives.Receipt) error {
	x := &s.shards[i]
	in.Block.ShardID, in.Trie, in.GasLimit, in.Incoming = x.id, x.state, x.gasLimit, incoming
	if _, first := s.waiting[s.tx.Hash()]; first && x.id == s.at.Layout.ShardOf(s.tx.SignerID) {
		in.Transactions = []apply.Transaction{{SignedTransaction: s.tx, Valid: true}}
	}
	r, err := apply.Apply(&in)
	if err != nil {
		return err
	}
	old := *x
	x.state, x.owned = r.Trie, true
	if old.owned {
		release(old.state)
	}
	x.congestion, x.requests, x.outgoing = r.Congestion, r.BandwidthRequests, r.Outgoing
	for _, list := range [][]*primitives.Receipt{incoming, r.Outgoing} {
		for _, receipt := range list {
			s.receipts[receipt.ID] = receipt
		}
	}
	for k := range r.Processed {
		s.receipts[r.Processed[k].ID] = r.Processed[k].Receipt
	}
	for k := range r.Outcomes {
		o := &r.Outcomes[k]
		if _, ours := s.waiting[o.ID]; !ours {
			continue
		}
		delete(s.waiting, o.ID)
		s.outcomes[o.ID] = view.OutcomeProof{OutcomeWithID: *o, BlockHash: s.hash}
		for _, id := range o.ReceiptIDs {
			s.waiting[id] = struct{}{}
		}
	}
	return nil
}

// look returns the outcomes so far in the form of a transaction status.
func (s *simulation) look() view.FinalOutcome {
	out := txstatus.Look(s.tx, s)
	for _, id := range txstatus.Receipts(&out) {
		if x := s.receipts[id]; x != nil {
			out.Receipts = append(out.Receipts, x)
		}
	}
	return out
}

// Outcome implements txstatus.Source.
func (s *simulation) Outcome(id primitives.Hash) (view.OutcomeProof, bool) {
	o, ok := s.outcomes[id]
	return o, ok
}

// IsRefund implements txstatus.Source.
func (s *simulation) IsRefund(id primitives.Hash, _ *view.OutcomeProof) bool {
	x := s.receipts[id]
	return x != nil && x.PredecessorID == primitives.SystemAccount
}

// IsFinal implements txstatus.Source. Imaginary blocks count as final.
func (s *simulation) IsFinal(primitives.Hash) bool { return true }
