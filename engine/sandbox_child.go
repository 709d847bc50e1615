package engine

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// A child engine runs a sandbox world: an independent chain in memory that continues from a revert
// point of its parent engine.
//
// A child has its own store (storage.Store.Child) but shares the parent's forests: the child's
// states are further versions of the parent's tries, like the states of another branch. So creating
// a child copies no state, and the parent does not see the child's changes. A child's flat head
// never advances.
//
// The revert point must exist as long as the child does. The parent's forests read from the
// parent's flat state, and the revert point keeps the parent's flat head from advancing beyond the
// block at which the child begins. A child may have children.

// Child opens a child engine that continues after a revert point. change modifies the options that
// the child takes from e; nil: no change. Child returns ErrEnded if the revert point no longer
// exists. Safe for concurrent use.
func (e *Engine) Child(s *RevertPoint, change func(*Options)) (*Engine, error) {
	if s.Ended() || !s.at.Acquire() {
		return nil, fmt.Errorf("%w: block %v", ErrEnded, s.ref)
	}
	at := s.at.copyHeld()
	s.at.Release()
	store, err := e.store.Child(s.ref, s.final)
	if err != nil {
		at.Release()
		return nil, fmt.Errorf("engine: child engine after block %v: %w", s.ref, err)
	}
	o := e.o
	o.ProofBytes, o.Snapshots, o.Scheduled, o.StateBytes = 0, false, false, 0
	if change != nil {
		change(&o)
	}
	o.Store = store
	c := &Engine{
		o:        o,
		parent:   e,
		chain:    e.chain,
		store:    store,
		coding:   e.coding,
		vrf:      e.vrf,
		pricing:  e.pricing,
		genesis:  e.genesis,
		begins:   e.begins,
		entries:  map[primitives.Hash]*BlockNode{at.Hash: at},
		flatHead: at,
	}
	if at.Hash == e.genesis.Hash {
		c.genesis = at
	}
	c.witnesses = newWitnessChecker(c, c.coding, o.MainResults, &c.times.Applied)
	c.snapshots = newStateSnapshots(c, &c.o)
	c.headerChain = newHeaderChain(c)
	c.proofs = newWitnessCache(c, &c.o)
	c.epochProofs = &EpochProofs{store: c.store, chain: c, epochs: epochStore{c}}
	c.precompiler.init(c.o.VM, c.chain.ID)
	c.transactions = &Transactions{c.store, c}
	c.ancestry.init(c)
	c.pipeline.init()
	e.epochMu.Lock()
	c.epochs = e.epochs.Child(epochStore{c}, s.epochs)
	e.epochMu.Unlock()
	c.show(&head{entry: at, final: s.final})
	return c, nil
}

// copyHeld returns a copy of e. The copy holds the states of e by references of its own.
func (e *BlockNode) copyHeld() *BlockNode {
	t := &BlockNode{
		Block:       e.Block,
		Hash:        e.Hash,
		Layout:      e.Layout,
		Config:      e.Config,
		Tree:        e.Tree,
		Shards:      slices.Clone(e.Shards),
		finalHeight: e.finalHeight,
	}
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

// Discard closes a child engine: it releases the states and closes the child's store. No goroutine
// may use the child during or after the call, except readers that hold one of its BlockNodes.
// Discard panics if the engine is not a child.
func (e *Engine) Discard() error {
	if e.parent == nil {
		panic("engine: Discard called on an engine that is not a child")
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

// Size returns an estimate, in bytes, of the memory that the blocks of a child engine use: records,
// indexes and trie changes. Safe for concurrent use.
func (e *Engine) Size() uint64 {
	s := e.store.Stats()
	return s.LogBytes + entryBytes*uint64(s.Pending) + trieFactor*uint64(s.PendingBytes)
}

// Factors in the estimate of Size.
const (
	entryBytes = 8 << 10 // estimated bytes of a block in memory, without its record
	trieFactor = 8       // estimated bytes of trie nodes, values and history for each byte of state changes
)

// ancestorEngine returns the parent engine if the block `at` is below the first block of this
// child. Otherwise it returns nil.
func (e *Engine) ancestorEngine(at storage.BlockRef) *Engine {
	if e.parent != nil && at.Height < e.flatHead.Height() {
		return e.parent
	}
	return nil
}

// Forests returns the forests of the head's shards, for memory statistics.
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
