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

// TransitionKind tells what a transition does to the state.
type TransitionKind byte

// The kinds.
const (
	TransitionChunk   TransitionKind = iota // the block's new chunk
	TransitionMissing                       // what a block does to a shard without a new chunk
	TransitionSplit                         // what a child keeps of the shard that is split behind the block
)

// Transition is one step of a shard's state and what proves it: nearcore's ChunkStateTransition, of which a state witness has one
// for the last new chunk and one for each step since. All of it is read only.
type Transition struct {
	Kind   TransitionKind
	Block  primitives.Hash // of a split the last one of the layout before
	Height primitives.Height
	Shard  primitives.ShardID // of a split the child

	Pre, Post primitives.Hash    // state roots
	Proof     [][]byte           // the nodes and values that were read, distinct, ascending; code of contracts is not among them
	Codes     []state.CodeAccess // contracts that were called and had been there before
	Receipts  primitives.Hash    // H(borsh) of the receipts that a new chunk applied, in their order
}

// size is about what a transition takes in memory.
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

// Proof returns the strings of a recording that the engine's tries or ProofTrie's made, ascending.
func Proof(rec state.Recording) [][]byte { return inner(rec).Proof() }

// makeTransition makes the transition of a job that has run, but for the block, which the job does not know.
func (j *Job) makeTransition() *Transition {
	t := &Transition{Kind: TransitionMissing, Shard: j.ID, Pre: j.input.Trie.Root(), Post: j.result.Trie.Root(),
		Proof: Proof(j.result.Recording), Codes: j.result.Accesses}
	if j.input.NewChunk {
		t.Kind, t.Receipts = TransitionChunk, receiptsHash(j.input.Incoming)
	}
	return t
}

// receiptsHash is H(borsh(receipts)).
func receiptsHash(list []*primitives.Receipt) primitives.Hash {
	return primitives.HashBytes(primitives.AppendReceipts(nil, list))
}

// Transition returns what a block did to a shard of its layout, or, if the shard is not of that, what the shard gets in the split
// behind the block. It is made again if it was not kept: of states in memory, or else of the folded one, of which what has changed since is
// taken back. ErrUnknown; storage.ErrGone if that is too much, or of another layout. Safe from any goroutine.
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
		return nil, fmt.Errorf("engine: what block %d does to shard %d: %w", entry.Height(), shard, err)
	}
	e.proofs.keep(t)
	return t, nil
}

// proveBlock applies a shard's part of a block again.
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

// maxProveUndoBytes is how many bytes of a shard are taken back to prove a chunk: what a block or two have changed of it, as it has had no chunk since.
const maxProveUndoBytes = 64 << 20

// stateFromFlatHead makes the state of a shard before a block that a fold has passed, for the caller to release, of that of the folded block, and puts it in its place. Who has
// got a shard when that had no chunk for a while has to prove the last one, or nobody could make the next. storage.ErrGone: it can't be made.
func (e *Engine) stateFromFlatHead(entry, parent *BlockNode, shard primitives.ShardID, b *parentStates) (*trie.Root, error) {
	e.mu.RLock()
	base := e.flatHead
	e.mu.RUnlock()
	gone := fmt.Errorf("its trie: %w", storage.ErrGone)
	if base.Height() < entry.Height() || !base.Layout.Equal(parent.Layout) || !entry.Layout.Equal(parent.Layout) || !base.Acquire() {
		return nil, gone
	}
	defer base.Release()
	index, err := parent.Layout.Index(shard)
	if err != nil {
		return nil, err
	}
	x := &b.shards[index]
	if !x.Held() { // the shard came in with the state after parent, of which the block's chunk tells
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
		return nil, fmt.Errorf("%w: shard %d after block %d has root %v, and not %v", ErrInconsistent, shard, parent.Height(), root.Hash(), x.Extra.StateRoot)
	}
	b.tries[index] = rooted(root)
	return root, nil
}

// jobForReapply makes the job of a shard of a known block once more, on the states of its parent.
func (e *Engine) jobForReapply(entry *BlockNode, parent *State, shard primitives.ShardID) (*Job, error) {
	before, err := e.parentStates(parent, entry.Layout)
	if err != nil {
		return nil, err
	}
	return e.jobOnParent(entry, parent, &before, shard)
}

// jobOnParent makes it on what the parent left.
func (e *Engine) jobOnParent(entry *BlockNode, parent *State, before *parentStates, shard primitives.ShardID) (*Job, error) {
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
	if err := e.makeJobs(p, before.chunks, func(i primitives.ShardIndex) state.Trie { return before.tries[i] }); err != nil {
		return nil, err
	}
	return &p.jobs[index], nil
}

// proveSplit restricts the state of the shard that a child comes from again.
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
		return nil, fmt.Errorf("its trie: %w", storage.ErrGone)
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
	if entry.Shards[index].root == nil { // it is from the store
		return nil, fmt.Errorf("its trie: %w", storage.ErrGone)
	}
	whole, t, err := restrict(entry, &entry.Shards[index], child, family[0] == child, keep)
	if err != nil {
		return nil, err
	}
	whole.Release()
	return t, nil
}

// parentAndIntervals returns the shard that a child comes from, and the keys that it keeps of that.
func parentAndIntervals(layout primitives.ShardLayout, child primitives.ShardID) (primitives.ShardID, []trie.Interval, error) {
	from, err := layout.Parent(child)
	if err != nil {
		return 0, nil, err
	}
	keep, err := childIntervals(layout, from, child)
	return from, keep, err
}

// restrict derives what a child keeps of a split shard, with what proves it. The caller holds the parent's states. Of the right child it is
// makeTransition too what is buffered, which its congestion info is without (nearcore chain/chain/src/resharding/manager.rs:220).
func restrict(parent *BlockNode, prev *ShardState, child primitives.ShardID, left bool, keep []trie.Interval) (*trie.Root, *Transition, error) {
	var rec trie.Recording
	if !left {
		for _, to := range parent.Layout.ShardIDs() {
			if _, err := prev.root.Get(primitives.AppendBufferedGroupsKey(nil, to), &rec); err != nil {
				return nil, nil, err
			}
		}
	}
	whole, err := prev.root.Forest().Restrict(prev.root, keep, &rec)
	if err != nil {
		return nil, nil, err
	}
	return whole, &Transition{Kind: TransitionSplit, Block: parent.Hash, Height: parent.Height(), Shard: child,
		Pre: prev.root.Hash(), Post: whole.Hash(), Proof: rec.Proof()}, nil
}

// splitOff derives what a child keeps of a split shard, and keeps the proof if somebody asks.
func (e *Engine) splitOff(parent *BlockNode, prev *ShardState, child primitives.ShardID, left bool, keep []trie.Interval) (*trie.Root, error) {
	if !e.proofs.wanted.Load() {
		return prev.root.Forest().Restrict(prev.root, keep, nil)
	}
	whole, t, err := restrict(parent, prev, child, left, keep)
	if err == nil {
		e.proofs.keep(t)
	}
	return whole, err
}

// Transitions returns what the witness of a chunk on a block proves: what the shard's last new chunk did, and every step since,
// oldest first: one for each block without a new chunk, and one for a split (nearcore state_witness.rs
// collect_state_transition_data). The main one has no proof if it is the genesis. Errors are those of Transition.
func (e *Engine) Transitions(prev primitives.Hash, shard primitives.ShardID) (main *Transition, implicit []*Transition, err error) {
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
			main = &Transition{Block: hash, Height: at.Height(), Shard: shard, Post: at.Shards[index].Extra.StateRoot, Receipts: receiptsHash(nil)}
		default:
			if main, err = e.Transition(hash, shard); err != nil {
				return nil, nil, err
			}
		}
		slices.Reverse(implicit)
		return main, implicit, nil
	}
}

// Codes returns the code of the contracts that a transition names: what others may ask for to check it. storage.ErrGone if the state
// was collected.
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

// ApplyTransition does what a transition does, on nothing of the state but its proof and the contracts' code that is given with it,
// as one who checks a witness. The result's Trie is of the proof; of a split there is nothing else. An error that wraps
// state.ErrMissing or trie.ErrCorrupt, and another root than Post, mean that the transition proves nothing. What else a chunk needs is
// taken from the block, which must be known, and its parent. Safe from any goroutine.
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
	if p, err = p.Restrict(keep, nil); err != nil {
		return nil, unproven(err)
	}
	return &apply.Result{Trie: proofTrie{p}}, nil
}
