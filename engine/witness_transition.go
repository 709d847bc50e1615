package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TransitionKind is the kind of a Transition.
type TransitionKind byte

// The kinds of transitions.
const (
	TransitionChunk   TransitionKind = iota // application of a new chunk of the shard
	TransitionMissing                       // effects of a block in which the shard has no new chunk
	TransitionSplit                         // creation of a child shard's state by a split
)

// Transition is one step of a shard's state, with the proof of the state that the step reads
// (nearcore: ChunkStateTransition). A state witness contains a transition for the shard's newest
// chunk, and one transition for each step after that chunk. A Transition is read-only.
type Transition struct {
	Kind   TransitionKind
	Block  primitives.Hash // block of the transition; for a split, the last block of the old layout
	Height primitives.Height
	Shard  primitives.ShardID // shard of the transition; for a split, the child

	Pre, Post primitives.Hash    // state roots before and after the transition
	Proof     [][]byte           // trie nodes and values that were read, distinct and ascending; without contract code
	Codes     []state.CodeAccess // called contract code, without code that this transition deployed
	Receipts  primitives.Hash    // hash of the borsh list of executed receipts; only for a new chunk
}

// size returns an estimate of the memory of t, in bytes.
func (t *Transition) size() int64 {
	n := int64(256)
	for _, s := range t.Proof {
		n += int64(len(s)) + 24
	}
	for _, c := range t.Codes {
		n += int64(len(c.Key)) + 80
	}
	return n
}

// Proof returns the recorded nodes and values, ascending. rec must be from a trie of the engine or
// from a ProofTrie.
func Proof(rec state.Recording) [][]byte { return inner(rec).Proof() }

// makeTransition returns the transition of a finished job. Block and Height are not set, because
// the job does not know them.
func (j *Job) makeTransition() *Transition {
	t := &Transition{Kind: TransitionMissing, Shard: j.ID, Pre: j.input.Trie.Root(), Post: j.result.Trie.Root(),
		Proof: Proof(j.result.Recording), Codes: j.result.Accesses}
	if j.input.NewChunk {
		t.Kind, t.Receipts = TransitionChunk, receiptsHash(j.input.Incoming)
	}
	return t
}

// receiptsHash returns the hash of the borsh encoding of the list.
func receiptsHash(list []*primitives.Receipt) primitives.Hash {
	return primitives.HashBytes(primitives.AppendReceipts(nil, list))
}

// Transition returns the transition of a shard by a block. If the block's layout does not have the
// shard, the result is the split after the block that creates the shard. If the cache does not have
// the transition, Transition computes the transition again. The computation uses states in memory,
// or undoes changes from the flat head's state. Errors: ErrUnknown if the block is unknown;
// ErrUntracked if the shard is not held; storage.ErrGone if too much has changed after the block,
// or if the layout has changed. Safe for concurrent use.
func (e *Engine) Transition(block primitives.Hash, shard primitives.ShardID) (*Transition, error) {
	if t := e.proofs.get(block, shard); t != nil {
		return t, nil
	}
	entry, err := e.Block(block)
	if err != nil {
		return nil, err
	}
	var t *Transition
	if entry.Layout.Has(shard) {
		t, err = e.proveBlock(entry, shard)
	} else {
		t, err = e.proveSplit(entry, shard)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: prove the transition of block %d in shard %d: %w", entry.Height(), shard, err)
	}
	e.proofs.keep(t)
	return t, nil
}

// proveBlock computes a transition by applying one shard of a block again.
func (e *Engine) proveBlock(entry *BlockNode, shard primitives.ShardID) (*Transition, error) {
	if entry.Header().PrevHash.IsZero() {
		return nil, fmt.Errorf("%w: a state transition of the genesis", ErrUnknown)
	}
	if index, err := entry.Layout.Index(shard); err != nil || !entry.Shards[index].Held() {
		return nil, errors.Join(err, fmt.Errorf("%w: shard %d", ErrUntracked, shard))
	}
	parent, err := e.StateAt(entry.Header().PrevHash)
	if err != nil {
		return nil, err
	}
	defer parent.Release()
	before, err := e.parentStates(parent, entry.Layout)
	if err != nil {
		return nil, err
	}
	if parent.historical != nil {
		root, err := e.stateFromFlatHead(entry, parent.BlockNode, shard, &before)
		if err != nil {
			return nil, err
		}
		defer root.Release()
	}
	job, err := e.jobOnParent(entry, parent, &before, shard)
	if err != nil {
		return nil, err
	}
	job.prove = true
	job.Run()
	if job.err != nil {
		return nil, job.err
	}
	t := job.transition
	t.Block, t.Height = entry.Hash, entry.Height()
	release(job.result.Trie)
	job.releaseRecording()
	return t, nil
}

// maxProveUndoBytes bounds the bytes of a shard's changes that are undone to compute a transition.
// Usually these are the changes of one or two blocks, because the shard has had no chunk since.
const maxProveUndoBytes = 64 << 20

// stateFromFlatHead computes the state of a shard before a block that the flat head has passed, and
// puts it into b. stateFromFlatHead undoes changes from the flat head's state. The caller must
// release the result. A producer needs that state after catching up a shard that has no recent
// chunks: the witness of the shard's next chunk contains the transition of the shard's newest
// chunk. stateFromFlatHead returns storage.ErrGone if the state cannot be computed.
func (e *Engine) stateFromFlatHead(
	entry, parent *BlockNode,
	shard primitives.ShardID,
	b *parentStates,
) (*trie.Root, error) {
	e.mu.RLock()
	base := e.flatHead
	e.mu.RUnlock()
	gone := fmt.Errorf("the trie before the transition is not in memory: %w", storage.ErrGone)
	if base.Height() < entry.Height() || !base.Layout.Equal(parent.Layout) || !entry.Layout.Equal(parent.Layout) ||
		!base.Acquire() {
		return nil, gone
	}
	defer base.Release()
	index, err := parent.Layout.Index(shard)
	if err != nil {
		return nil, err
	}
	x := &b.shards[index]
	// If the shard was caught up starting with the state after parent, parent has no chunk extra of
	// the shard. The header of the shard's chunk in this block repeats that extra.
	if !x.Held() {
		c := entry.Shards[index].Chunk
		if c == nil || parent.Block.Body.Chunks[index].HeightIncluded != parent.Height() {
			return nil, gone
		}
		x.Extra = extraFromHeader(&c.Header)
	}
	root, err := undoTo(e.store, ref(parent), shard, base, maxProveUndoBytes)
	if errors.Is(err, ErrFarBehind) || err == nil && root == nil {
		return nil, errors.Join(err, gone)
	}
	if err != nil {
		return nil, err
	}
	if root.Hash() != x.Extra.StateRoot {
		defer root.Release()
		return nil, fmt.Errorf(
			"%w: shard %d after block %d has state root %v, not %v",
			ErrInconsistent,
			shard,
			parent.Height(),
			root.Hash(),
			x.Extra.StateRoot,
		)
	}
	b.tries[index] = rooted(root)
	return root, nil
}

// jobForReapply returns the job that applies one shard of a known block again, on the states of its
// parent.
func (e *Engine) jobForReapply(entry *BlockNode, parent *State, shard primitives.ShardID) (*Job, error) {
	before, err := e.parentStates(parent, entry.Layout)
	if err != nil {
		return nil, err
	}
	return e.jobOnParent(entry, parent, &before, shard)
}

// jobOnParent does the same as jobForReapply, on the states in before.
func (e *Engine) jobOnParent(
	entry *BlockNode,
	parent *State,
	before *parentStates,
	shard primitives.ShardID,
) (*Job, error) {
	index, err := entry.Layout.Index(shard)
	if err != nil {
		return nil, err
	}
	p := &BlockImport{entry: entry, parent: parent.BlockNode, prev: before.shards}
	if p.patch, p.mocks, err = e.storedPatch(entry.Hash); err != nil {
		return nil, err
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	states := func(i primitives.ShardIndex) state.Trie { return before.tries[i] }
	if err := e.makeJobs(p, before.chunks, states); err != nil {
		return nil, err
	}
	return &p.jobs[index], nil
}

// proveSplit computes the transition that creates a child shard from the split shard's state.
func (e *Engine) proveSplit(entry *BlockNode, child primitives.ShardID) (*Transition, error) {
	e.epochMu.Lock()
	layout, err := e.epochs.ShardLayoutFromPrev(entry.Hash)
	e.epochMu.Unlock()
	if err != nil {
		return nil, err
	}
	if !layout.Has(child) {
		return nil, fmt.Errorf("%w: shard %d", ErrUnknown, child)
	}
	if !entry.Acquire() {
		return nil, fmt.Errorf("the trie before the transition is not in memory: %w", storage.ErrGone)
	}
	defer entry.Release()
	from, keep, err := parentAndIntervals(layout, child)
	if err != nil {
		return nil, err
	}
	family, _ := layout.Children(from)
	index, err := entry.Layout.Index(from)
	if err != nil {
		return nil, err
	}
	if entry.Shards[index].root == nil { // entry was loaded from the store, without tries
		return nil, fmt.Errorf("the trie before the transition is not in memory: %w", storage.ErrGone)
	}
	whole, t, err := restrict(entry, &entry.Shards[index], child, family[0] == child, keep)
	if err != nil {
		return nil, err
	}
	whole.Release()
	return t, nil
}

// parentAndIntervals returns the shard from which a child was split, and the key ranges that the
// child keeps.
func parentAndIntervals(
	layout primitives.ShardLayout,
	child primitives.ShardID,
) (primitives.ShardID, []trie.Interval, error) {
	from, err := layout.Parent(child)
	if err != nil {
		return 0, nil, err
	}
	keep, err := childIntervals(layout, from, child)
	return from, keep, err
}

// restrict returns the state of a child of a split shard, and the child's transition. The caller
// holds the states of parent. The right child's proof also contains the groups of buffered
// receipts, because these receipts are subtracted from the child's congestion info (nearcore
// chain/chain/src/resharding/manager.rs:220).
func restrict(
	parent *BlockNode,
	prev *ShardState,
	child primitives.ShardID,
	left bool,
	keep []trie.Interval,
) (*trie.Root, *Transition, error) {
	var rec trie.Recording
	if !left {
		for _, to := range parent.Layout.ShardIDs() {
			if _, err := prev.root.Get(primitives.AppendBufferedGroupsKey(nil, to), &rec); err != nil {
				return nil, nil, err
			}
		}
	}
	whole, err := prev.root.Forest().RetainIntervals(prev.root, keep, &rec)
	if err != nil {
		return nil, nil, err
	}
	return whole, &Transition{Kind: TransitionSplit, Block: parent.Hash, Height: parent.Height(), Shard: child,
		Pre: prev.root.Hash(), Post: whole.Hash(), Proof: rec.Proof()}, nil
}

// splitOff returns the state of a child of a split shard. If proofs are wanted, splitOff also puts
// the child's transition into the cache.
func (e *Engine) splitOff(
	parent *BlockNode,
	prev *ShardState,
	child primitives.ShardID,
	left bool,
	keep []trie.Interval,
) (*trie.Root, error) {
	if !e.proofs.wanted.Load() {
		return prev.root.Forest().RetainIntervals(prev.root, keep, nil)
	}
	whole, t, err := restrict(parent, prev, child, left, keep)
	if err == nil {
		e.proofs.keep(t)
	}
	return whole, err
}

// Transitions returns the transitions in the witness of a chunk on the block prev. main is the
// transition of the shard's newest chunk. implicit are the transitions after that chunk, oldest
// first: one for each block in which the shard has no new chunk, and one for a split (nearcore
// chain/chain/src/stateless_validation/state_witness.rs collect_state_transition_data). If the
// newest chunk is in the genesis, main has no proof. Errors are those of Transition.
func (e *Engine) Transitions(
	prev primitives.Hash,
	shard primitives.ShardID,
) (main *Transition, implicit []*Transition, err error) {
	e.epochMu.Lock()
	layout, err := e.epochs.ShardLayoutFromPrev(prev)
	e.epochMu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	var since primitives.Height
	for hash, first := prev, true; ; first = false {
		at, err := e.Block(hash)
		if err != nil {
			return nil, nil, err
		}
		before := shard
		if !at.Layout.Equal(layout) {
			if before, err = layout.Parent(shard); err != nil {
				return nil, nil, err
			}
		}
		index, err := at.Layout.Index(before)
		if err != nil {
			return nil, nil, err
		}
		if first {
			since = at.Block.Body.Chunks[index].HeightIncluded
		}
		if before != shard {
			t, err := e.Transition(hash, shard)
			if err != nil {
				return nil, nil, err
			}
			implicit = append(implicit, t)
		}
		shard, layout = before, at.Layout
		switch {
		case at.Height() < since:
			return nil, nil, fmt.Errorf("engine: the chunk of shard %d of height %d is in no block", shard, since)
		case at.Height() > since:
			t, err := e.Transition(hash, shard)
			if err != nil {
				return nil, nil, err
			}
			implicit = append(implicit, t)
			hash = at.Header().PrevHash
			continue
		case at.Header().PrevHash.IsZero():
			main = &Transition{
				Block:    hash,
				Height:   at.Height(),
				Shard:    shard,
				Post:     at.Shards[index].Extra.StateRoot,
				Receipts: receiptsHash(nil),
			}
		default:
			if main, err = e.Transition(hash, shard); err != nil {
				return nil, nil, err
			}
		}
		slices.Reverse(implicit)
		return main, implicit, nil
	}
}

// Codes returns the code of the contracts in t.Codes, which validators may request. It returns
// storage.ErrGone if the state was garbage collected.
func (e *Engine) Codes(t *Transition) ([][]byte, error) {
	if len(t.Codes) == 0 {
		return nil, nil
	}
	entry, parent, err := e.blockForReapply(nil, t.Block)
	if err != nil {
		return nil, err
	}
	defer parent.Release()
	before, err := e.parentStates(parent, entry.Layout)
	if err != nil {
		return nil, err
	}
	index, err := entry.Layout.Index(t.Shard)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(t.Codes))
	for i, c := range t.Codes {
		code, err := before.tries[index].Get(c.Key, nil)
		if err != nil {
			return nil, err
		}
		if primitives.HashBytes(code) != c.Hash {
			return nil, fmt.Errorf("engine: %w: the contract code under key %x does not hash to %v", ErrInconsistent, c.Key, c.Hash)
		}
		out[i] = slices.Clone(code)
	}
	return out, nil
}

// ApplyTransition applies a transition using only its proof and the contract code in codes, as a
// validator does with a witness. The inputs other than state and code come from the transition's
// block, which must be known, and from that block's parent. The result of a split has only the
// field Trie. The proof is not valid if the error wraps state.ErrMissing or trie.ErrCorrupt, or if
// the resulting root differs from t.Post. Safe for concurrent use.
func (e *Engine) ApplyTransition(t *Transition, codes [][]byte) (*apply.Result, error) {
	if t.Kind == TransitionSplit {
		return e.applySplit(t)
	}
	proof, err := ProofTrie(append(t.Proof[:len(t.Proof):len(t.Proof)], codes...), t.Pre)
	if err != nil {
		return nil, err
	}
	entry, parent, err := e.blockForReapply(nil, t.Block)
	if err != nil {
		return nil, err
	}
	defer parent.Release()
	job, err := e.jobForReapply(entry, parent, t.Shard)
	if err != nil {
		return nil, err
	}
	job.input.Trie, job.input.Recording = proof, nil
	var r *apply.Result
	err = Catch(func() (err error) {
		r, err = apply.Apply(&job.input)
		return err
	})
	return r, err
}

func (e *Engine) applySplit(t *Transition) (*apply.Result, error) {
	e.epochMu.Lock()
	layout, err := e.epochs.ShardLayoutFromPrev(t.Block)
	e.epochMu.Unlock()
	if err != nil {
		return nil, err
	}
	_, keep, err := parentAndIntervals(layout, t.Shard)
	if err != nil {
		return nil, err
	}
	p, err := trie.NewPartial(t.Proof, t.Pre)
	if err != nil {
		return nil, unproven(err)
	}
	if p, err = p.RetainIntervals(keep, nil); err != nil {
		return nil, unproven(err)
	}
	return &apply.Result{Trie: proofTrie{p}}, nil
}
