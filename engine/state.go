package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// State is a block with its shards' states. Recent blocks have tries. Older ones that the store
// still has are made of values (historicalTrie): reads give the same values and node counts, but
// roots are unknown.
type State struct {
	*BlockNode
	historical []state.Trie // nil: use the node's roots, which are retained
	ask        func() error // of StateUntil
}

// StateAt returns the states after a block. The caller calls Release. ErrUnknown: unknown block.
// storage.ErrGone: the state was collected.
func (e *Engine) StateAt(hash primitives.Hash) (*State, error) { return e.StateUntil(nil, hash) }

// StateUntil is StateAt for a reader that may be cancelled: ask is called before each read of a
// state that is not in memory and during long scans, and its error ends the read. nil: never
// cancelled.
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
		return nil, fmt.Errorf(
			"engine: state of block %v: %w, the earliest is of height %d",
			rec.Ref(),
			storage.ErrGone,
			tail,
		)
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

// Block returns a block from memory, else from the store without states. ErrUnknown. Safe for
// concurrent use.
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

// record returns a stored block, or ErrUnknown.
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

// Release releases the states.
func (s *State) Release() {
	if s.historical == nil {
		s.BlockNode.Release()
	}
}

// trieOf returns a shard's state for the runtime. The caller holds the node.
func (e *BlockNode) trieOf(shard primitives.ShardIndex) state.Trie {
	s := &e.Shards[shard]
	if s.root == nil {
		return unheldTrie{s.ID}
	}
	return rooted(s.root)
}

// storedValues are the values of a shard after a block, read from the store.
type storedValues struct {
	e        *Engine
	at       storage.BlockRef
	shard    primitives.ShardID
	accounts storage.AccountRange
	ask      func() error // returns an error to stop reading; nil: never stop
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
