package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// State is a block with the states of its shards after it. Those of recent blocks are tries; of older ones that the store
// still has they are made of values: reading gives the same, and counts as many nodes, but roots are unknown.
type State struct {
	*BlockNode
	historical []state.Trie // nil: the entry's roots, which are held
	ask        func() error // of StateUntil
}

// StateAt returns the states after a block: ErrUnknown for a block that is not known, storage.ErrGone for one whose state
// was collected. The caller calls Release.
func (e *Engine) StateAt(hash primitives.Hash) (*State, error) { return e.StateUntil(nil, hash) }

// StateUntil is StateAt for a reader that may have to stop: each read of a state that is not in memory asks first, and long scans ask in
// between; an error of ask ends the read and is returned. nil asks nobody.
func (e *Engine) StateUntil(ask func() error, hash primitives.Hash) (*State, error) {
	if at := e.BlockNode(hash); at != nil && at.Acquire() {
		return &State{BlockNode: at}, nil
	}
	rec, err := e.record(hash)
	if err != nil {
		return nil, err
	}
	if p := e.ancestorEngine(rec.Ref()); p != nil {
		return p.StateUntil(ask, hash)
	}
	if tail := e.store.Tip().Tail; rec.Ref().Height < tail {
		return nil, fmt.Errorf("engine: state of block %v: %w, the earliest is of height %d", rec.Ref(), storage.ErrGone, tail)
	}
	at, err := e.load(rec)
	if err != nil {
		return nil, err
	}
	s := &State{BlockNode: at, ask: ask}
	for i := range at.Shards {
		if !at.Shards[i].Held() {
			s.historical = append(s.historical, unheldTrie{at.Shards[i].ID})
			continue
		}
		values := e.valuesOf(ask, at, primitives.ShardIndex(i))
		s.historical = append(s.historical, overBase(&historicalTrie{base: values}, e.o.Base))
	}
	return s, nil
}

// Block returns a block: as it is in memory, else from the store, without states. ErrUnknown for one that is not known. Safe from any
// goroutine.
func (e *Engine) Block(hash primitives.Hash) (*BlockNode, error) {
	if at := e.BlockNode(hash); at != nil {
		return at, nil
	}
	rec, err := e.record(hash)
	if err != nil {
		return nil, err
	}
	return e.load(rec)
}

// record finds a block in the store, or ErrUnknown.
func (e *Engine) record(hash primitives.Hash) (*storage.Record, error) {
	rec, err := e.store.BlockByHash(hash)
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: block %v", ErrUnknown, hash)
	}
	return rec, err
}

// Trie returns the state of a shard. It is valid until Release.
func (s *State) Trie(shard primitives.ShardIndex) state.Trie {
	if s.historical == nil {
		return s.trieOf(shard)
	}
	return s.historical[shard]
}

// Release ends the use of the states.
func (s *State) Release() {
	if s.historical == nil {
		s.BlockNode.Release()
	}
}

// trieOf shows the runtime a shard's state after a block that is held.
func (e *BlockNode) trieOf(shard primitives.ShardIndex) state.Trie {
	s := &e.Shards[shard]
	if s.root == nil {
		return unheldTrie{s.ID}
	}
	return rooted(s.root)
}

// storedValues are the values of a shard after a block, from the store.
type storedValues struct {
	e        *Engine
	at       storage.BlockRef
	shard    primitives.ShardID
	accounts storage.AccountRange
	ask      func() error // whether to stop; nil: nobody wants that
}

func (s storedValues) get(key []byte) ([]byte, error) {
	if s.ask != nil {
		if err := s.ask(); err != nil {
			return nil, err
		}
	}
	v, err := s.e.store.ValueAt(s.at, s.shard, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

func (s storedValues) scan(from, to []byte, yield func(key, value []byte) bool) error {
	if s.ask != nil {
		if err := s.ask(); err != nil {
			return err
		}
	}
	return s.e.store.ScanUntil(s.ask, s.at, s.shard, s.accounts, from, to, yield)
}
