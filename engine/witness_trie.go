package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// proofTrie implements state.Trie for a trie.Partial. A proofTrie records reads as stateTrie does.
type proofTrie struct{ p *trie.Partial }

// ProofTrie returns the state with this root, as far as proof contains it. The strings of proof may
// be in any order and may include contract code. Reading a value or node that the proof lacks
// returns state.ErrMissing. A contradiction in the proof returns trie.ErrCorrupt.
func ProofTrie(proof [][]byte, root primitives.Hash) (state.Proven, error) {
	p, err := trie.NewPartial(proof, root)
	if err != nil {
		return nil, unproven(err)
	}
	return proofTrie{p}, nil
}

// unproven adds state.ErrMissing to an error that wraps trie.ErrMissing.
func unproven(err error) error {
	if errors.Is(err, trie.ErrMissing) {
		err = fmt.Errorf("%w: %w", state.ErrMissing, err)
	}
	return err
}

func (t proofTrie) Root() primitives.Hash         { return t.p.Root() }
func (t proofTrie) NewRecording() state.Recording { return new(recording) }
func (t proofTrie) MemoryUsage() uint64           { return t.p.MemoryUsage() }

func (t proofTrie) CodeOf(hash primitives.Hash) []byte {
	code, found := t.p.Find(hash)
	if found && code == nil {
		code = []byte{}
	}
	return code
}

func (t proofTrie) Get(key []byte, rec state.Recording) ([]byte, error) {
	v, err := t.p.Get(key, inner(rec))
	return v, unproven(err)
}

func (t proofTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	v, found, err := t.p.Lookup(key, inner(rec))
	return state.ValueRef{Hash: v.Hash, Len: v.Len}, found, unproven(err)
}

func (t proofTrie) Path(
	key []byte,
	rec state.Recording,
	path []state.Visit,
) ([]state.Visit, state.ValueRef, bool, error) {
	visits, v, found, err := t.p.Path(key, inner(rec), nil)
	for _, x := range visits {
		path = append(path, state.Visit(x))
	}
	return path, state.ValueRef{Hash: v.Hash, Len: v.Len}, found, unproven(err)
}

func (t proofTrie) Scan(prefix, after []byte, rec state.Recording, yield func(key, value []byte) bool) error {
	return unproven(t.p.Scan(prefix, after, inner(rec), yield))
}

func (t proofTrie) Update(changes []state.Change, rec state.Recording) (state.Trie, error) {
	p, err := t.p.Update(trieChanges(changes), inner(rec))
	if err != nil {
		return nil, unproven(err)
	}
	return proofTrie{p}, nil
}

func (t proofTrie) FindSplit(rec state.Recording) (primitives.TrieSplit, error) {
	split, err := t.p.FindSplit(inner(rec))
	return split, unproven(noSplit(err))
}
