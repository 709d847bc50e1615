package engine

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// A child is an engine of a chain that goes on from a snapshot of another engine's, its parent, in its own way and in memory alone: a world.
// It has a store of its own (storage.Store.Child) and the same forests: its states are further versions of the parent's tries, as those of a
// branch are, so that making a child costs nothing of the state and what it changes is its own. It is never folded.
//
// As long as it is there its snapshot is to stay: that keeps the parent's folds, and so the source of the forests, behind the child's
// first block. A child may have children.

// Child opens a child behind a snapshot. change may set other options than the parent's. Safe from any goroutine. ErrEnded.
func (e *Engine) Child(s *RevertPoint, change func(*Options)) (*Engine, error) {
	if s.Ended() || !s.at.Acquire() {
		return nil, fmt.Errorf("%w: that of block %v", ErrEnded, s.ref)
	}
	at := s.at.copyHeld()
	s.at.Release()
	store, err := e.store.Child(s.ref, s.final)
	if err != nil {
		at.Release()
		return nil, fmt.Errorf("engine: a child behind block %v: %w", s.ref, err)
	}
	o := e.o
	o.ProofBytes, o.Snapshots, o.Scheduled, o.StateBytes = 0, false, false, 0
	if change != nil {
		change(&o)
	}
	o.Store = store
	c := &Engine{o: o, parent: e, chain: e.chain, store: store, coding: e.coding, vrf: e.vrf, pricing: e.pricing, genesis: e.genesis,
		entries: map[primitives.Hash]*BlockNode{at.Hash: at}, flatHead: at, mainResults: newMainResults(o.MainResults)}
	if at.Hash == e.genesis.Hash {
		c.genesis = at
	}
	c.ancestry.init(c)
	c.pipeline.init()
	e.epochMu.Lock()
	c.epochs = e.epochs.Child(epochStore{c}, s.epochs)
	e.epochMu.Unlock()
	c.show(&head{entry: at, final: s.final})
	return c, nil
}

// copyHeld is the same block with the same states, held by itself.
func (e *BlockNode) copyHeld() *BlockNode {
	t := &BlockNode{Block: e.Block, Hash: e.Hash, Layout: e.Layout, Config: e.Config, Tree: e.Tree, Shards: slices.Clone(e.Shards), finalHeight: e.finalHeight}
	t.refs.Store(1)
	t.persisted.Store(true)
	t.rules.Store(e.rules.Load())
	for i := range t.Shards {
		if r := t.Shards[i].root; r != nil {
			r.Retain()
		}
	}
	return t
}

// Discard ends a child: its states are given back, and its store is closed. Nothing uses it any more, but for who holds an entry.
func (e *Engine) Discard() error {
	if e.parent == nil {
		panic("engine: Discard of what is no child")
	}
	e.gone.Store(true)
	err := e.Close()
	e.EndRevertPoints()
	e.mu.Lock()
	gone := e.entries
	e.entries = map[primitives.Hash]*BlockNode{}
	e.mu.Unlock()
	for _, x := range gone {
		if !x.evicted {
			x.Release()
		}
	}
	if cerr := e.store.Close(); err == nil {
		err = cerr
	}
	return err
}

// Size is about what a child's blocks take in memory, in bytes: their records, what finds them, and what they have changed of the tries.
// Safe from any goroutine.
func (e *Engine) Size() uint64 {
	s := e.store.Stats()
	return s.LogBytes + entryBytes*uint64(s.Pending) + trieFactor*uint64(s.PendingBytes)
}

// Of Size: what an entry and a pending block take beside their record, and how many bytes of nodes, values and history a byte of a change is.
const (
	entryBytes = 8 << 10
	trieFactor = 8
)

// ancestorEngine is the parent of a child that begins above a block, nil: it is the engine's own.
func (e *Engine) ancestorEngine(at storage.BlockRef) *Engine {
	if e.parent != nil && at.Height < e.flatHead.Height() {
		return e.parent
	}
	return nil
}

// Forests are those of the head's shards, for those who look how much they hold.
func (e *Engine) Forests() (out []*trie.Forest) {
	head := e.Head()
	if !head.Acquire() {
		return nil
	}
	defer head.Release()
	for i := range head.Shards {
		if r := head.Shards[i].root; r != nil {
			out = append(out, r.Forest())
		}
	}
	return out
}
