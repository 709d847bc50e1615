package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
)

// State is a block with the states of its shards. The states of recent blocks are tries. The states
// of blocks that are no longer in memory are historicalTries, which read only values from the
// store. A historicalTrie returns the values and node counts that the trie would return, but its
// root is unknown.
type State struct {
	*BlockNode
	historical []state.Trie // states by shard index; nil: the State holds the node and uses its roots
	ask        func() error // called before each read, see StateUntil; nil: not called
}

// StateAt returns the states after a block. The caller must call Release. Errors: ErrUnknown if the
// block is unknown; storage.ErrGone if the state was garbage collected.
func (e *Engine) StateAt(hash primitives.Hash) (*State, error) { return e.StateUntil(nil, hash) }

// StateTail returns the height of the lowest block after which the states of all held shards are
// known. After a state sync it may be above the store's tail: below the block with whose states the
// store began, only late shards have a state (BootstrapSync), and reading another shard from the
// store would return its state after that block. Safe for concurrent use.
func (e *Engine) StateTail() primitives.Height { return max(e.store.Tip().Tail, e.begins) }

// StateUntil does the same as StateAt for a reader that can be cancelled. If the state is not in
// memory, each read calls ask first, and long scans call ask repeatedly. An error of ask ends the
// read. With a nil ask the reader cannot be cancelled.
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
	if tail := e.StateTail(); rec.Ref().Height < tail {
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

// Block returns a block from memory or, without states, from the store. It returns ErrUnknown if
// there is no such block. Safe for concurrent use.
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

// record returns the record of a stored block. It returns ErrUnknown if there is no such block.
func (e *Engine) record(hash primitives.Hash) (*storage.Record, error) {
	rec, err := e.store.BlockByHash(hash)
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: block %v", ErrUnknown, hash)
	}
	return rec, err
}

// Trie returns the state of the shard with this index. The Trie is valid until Release.
func (s *State) Trie(shard primitives.ShardIndex) state.Trie {
	if s.historical == nil {
		return s.trieOf(shard)
	}
	return s.historical[shard]
}

// Release releases the states. The caller must not use the states afterwards.
func (s *State) Release() {
	if s.historical == nil {
		s.BlockNode.Release()
	}
}

// trieOf returns the state of a shard in the form that the runtime uses. The caller holds the node.
func (e *BlockNode) trieOf(shard primitives.ShardIndex) state.Trie {
	s := &e.Shards[shard]
	if s.root == nil {
		return unheldTrie{s.ID}
	}
	return rooted(s.root)
}

// storedValues implements historicalValues for a shard's state after a stored block.
type storedValues struct {
	e        *Engine
	at       storage.BlockRef
	shard    primitives.ShardID
	accounts storage.AccountRange
	ask      func() error // called before each read; an error ends the read; nil: not called
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
