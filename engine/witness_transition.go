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

// TransitionKind is the kind of a state transition.
type TransitionKind byte

// The kinds of transitions.
const (
	TransitionChunk   TransitionKind = iota // the block's new chunk
	TransitionMissing                       // a block without a new chunk of the shard
	TransitionSplit                         // a child of the shard that is split after the block
)

// Transition is one step of a shard's state with its proof: nearcore's ChunkStateTransition. A
// state witness has one for the last new chunk and one for each step since. It is read-only.
type Transition struct {
	Kind   TransitionKind
	Block  primitives.Hash // for a split: the last block of the old layout
	Height primitives.Height
	Shard  primitives.ShardID // for a split: the child

	Pre, Post primitives.Hash    // state roots
	Proof     [][]byte           // nodes and values read, distinct, ascending; without contract code
	Codes     []state.CodeAccess // called contracts that existed before
	Receipts  primitives.Hash    // H(borsh) of the receipts that a new chunk applied, in order
}

// size estimates the transition's memory.
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

// Proof returns the strings of a recording made by the engine's tries or a ProofTrie, ascending.
func Proof(rec state.Recording) [][]byte { return inner(rec).Proof() }

// makeTransition returns the transition of a finished job, without the block, which the job does
// not know.
func (j *Job) makeTransition() *Transition {
	t := &Transition{Kind: TransitionMissing, Shard: j.ID, Pre: j.input.Trie.Root(), Post: j.result.Trie.Root(),
		Proof: Proof(j.result.Recording), Codes: j.result.Accesses}
	if j.input.NewChunk {
		t.Kind, t.Receipts = TransitionChunk, receiptsHash(j.input.Incoming)
	}
	return t
}

// receiptsHash returns H(borsh(receipts)).
func receiptsHash(list []*primitives.Receipt) primitives.Hash {
	return primitives.HashBytes(primitives.AppendReceipts(nil, list))
}

// Transition returns the transition of a shard by a block. If the shard is not in the block's
// layout, it is the transition by the split after the block. If it was not kept it is computed
// again, on states in memory or by undoing changes of the flat head. ErrUnknown; storage.ErrGone if
// too much has changed, or the layout. Safe for concurrent use.
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
		return nil, fmt.Errorf("engine: transition of block %d in shard %d: %w", entry.Height(), shard, err)
	}
	e.proofs.keep(t)
	return t, nil
}

// proveBlock applies a shard's part of a block again and records the proof.
func (e *Engine) proveBlock(entry *BlockNode, shard primitives.ShardID) (*Transition, error) {
	if entry.Header().PrevHash.IsZero() {
		return nil, fmt.Errorf("%w: the genesis", ErrUnknown)
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

// maxProveUndoBytes bounds the changes of a shard that are undone to prove a chunk: those of one or
// two blocks, as the shard has had no chunk since.
const maxProveUndoBytes = 64 << 20

// stateFromFlatHead computes the state of a shard before a block that the flat head has passed, by
// undoing changes, and puts it into b. The caller releases it. A producer that caught up a shard
// without recent chunks has to prove the last one to produce the next. storage.ErrGone: impossible.
func (e *Engine) stateFromFlatHead(
	entry, parent *BlockNode,
	shard primitives.ShardID,
	b *parentStates,
) (*trie.Root, error) {
	e.mu.RLock()
	base := e.flatHead
	e.mu.RUnlock()
	gone := fmt.Errorf("its trie is not in memory: %w", storage.ErrGone)
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
	// The shard was caught up with the state after parent, which the block's chunk describes.
	if !x.Held() {
		c := entry.Shards[index].Chunk
		if c == nil || parent.Block.Body.Chunks[index].HeightIncluded != parent.Height() {
			return nil, gone
		}
		x.Extra = extraFromHeader(&c.Header)
	}
	root, err := e.undoTo(ref(parent), shard, base, maxProveUndoBytes)
	if errors.Is(err, ErrFarBehind) || err == nil && root == nil {
		return nil, errors.Join(err, gone)
	}
	if err != nil {
		return nil, err
	}
	if root.Hash() != x.Extra.StateRoot {
		defer root.Release()
		return nil, fmt.Errorf(
			"%w: shard %d after block %d has root %v, and not %v",
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

// jobForReapply returns the job of a shard of a known block, on the states of its parent.
func (e *Engine) jobForReapply(entry *BlockNode, parent *State, shard primitives.ShardID) (*Job, error) {
	before, err := e.parentStates(parent, entry.Layout)
	if err != nil {
		return nil, err
	}
	return e.jobOnParent(entry, parent, &before, shard)
}

// jobOnParent is jobForReapply on given parent states.
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

// proveSplit computes a child's state from the split shard's again and records the proof.
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
		return nil, fmt.Errorf("its trie is not in memory: %w", storage.ErrGone)
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
	if entry.Shards[index].root == nil { // loaded from the store
		return nil, fmt.Errorf("its trie is not in memory: %w", storage.ErrGone)
	}
	whole, t, err := restrict(entry, &entry.Shards[index], child, family[0] == child, keep)
	if err != nil {
		return nil, err
	}
	whole.Release()
	return t, nil
}

// parentAndIntervals returns the shard that a child was split from, and the key ranges that the
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

// restrict computes the state of a child of a split shard, with its proof. The caller holds the
// parent's states. The right child's proof includes the buffered receipts, which are subtracted
// from its congestion info (nearcore chain/chain/src/resharding/manager.rs:220).
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

// splitOff computes the state of a child of a split shard, and keeps the proof if one is wanted.
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

// Transitions returns what the witness of a chunk on the block prev proves: the transition of the
// shard's last new chunk, and the steps since, oldest first: one for each block without a new
// chunk, and one for a split (nearcore chain/chain/src/stateless_validation/state_witness.rs
// collect_state_transition_data). main has no proof if it is the genesis. Errors are those of
// Transition.
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
			return nil, nil, fmt.Errorf("engine: shard %d has a chunk of height %d in no block", shard, since)
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

// Codes returns the code of the contracts in a transition, which validators may request.
// storage.ErrGone: the state was collected.
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
			return nil, fmt.Errorf("engine: %w: the code at %x is not %v", ErrInconsistent, c.Key, c.Hash)
		}
		out[i] = slices.Clone(code)
	}
	return out, nil
}

// ApplyTransition applies a transition on its proof and the given contract code alone, as a
// validator checks a witness. The result's Trie is the proof's; for a split it is the whole result.
// An error that wraps state.ErrMissing or trie.ErrCorrupt, or another root than Post, means that
// the transition proves nothing. Other inputs come from the block, which must be known, and its
// parent. Safe for concurrent use.
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
