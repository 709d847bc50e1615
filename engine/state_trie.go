package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// stateTrie implements state.Trie for a trie.Root.
type stateTrie struct{ root *trie.Root }

// recording implements state.Recording for a trie.Recording.
type recording struct{ trie.Recording }

func (r *recording) Merge(o state.Recording) { r.Recording.Merge(&o.(*recording).Recording) }

func inner(rec state.Recording) *trie.Recording {
	if rec == nil {
		return nil
	}
	return &rec.(*recording).Recording
}

func (t stateTrie) Root() primitives.Hash         { return t.root.Hash() }
func (t stateTrie) NewRecording() state.Recording { return new(recording) }
func (t stateTrie) Cold() bool                    { return t.root.Cold() }
func (t stateTrie) MemoryUsage() uint64           { return t.root.MemoryUsage() }

func (t stateTrie) Get(key []byte, rec state.Recording) ([]byte, error) {
	return t.root.Get(key, inner(rec))
}

func (t stateTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	v, found, err := t.root.Lookup(key, inner(rec))
	return state.ValueRef{Hash: v.Hash, Len: v.Len}, found, err
}

func (t stateTrie) Path(
	key []byte,
	rec state.Recording,
	path []state.Visit,
) ([]state.Visit, state.ValueRef, bool, error) {
	visits, v, found, err := t.root.Path(key, inner(rec), nil)
	for _, x := range visits {
		path = append(path, state.Visit(x))
	}
	return path, state.ValueRef{Hash: v.Hash, Len: v.Len}, found, err
}

func (t stateTrie) Scan(prefix, after []byte, rec state.Recording, yield func(key, value []byte) bool) error {
	s := t.root.Scan(prefix, after, inner(rec))
	for s.Next() {
		if !yield(s.Key(), s.Value()) {
			return nil
		}
	}
	return s.Err()
}

func (t stateTrie) Update(changes []state.Change, rec state.Recording) (state.Trie, error) {
	root, err := t.root.Forest().Update(t.root, trieChanges(changes), inner(rec))
	if err != nil {
		return nil, err
	}
	return stateTrie{root}, nil
}

func (t stateTrie) FindSplit(rec state.Recording) (primitives.TrieSplit, error) {
	split, err := t.root.FindSplit(inner(rec))
	return split, noSplit(err)
}

func trieChanges(changes []state.Change) []trie.Change {
	list := make([]trie.Change, len(changes))
	for i, c := range changes {
		list[i] = trie.Change(c)
	}
	return list
}

// noSplit adds state.ErrNoSplit to an error that wraps trie.ErrNoSplit.
func noSplit(err error) error {
	if errors.Is(err, trie.ErrNoSplit) {
		err = fmt.Errorf("%w: %w", state.ErrNoSplit, err)
	}
	return err
}

// StateTrie returns r as the runtime's state.Trie. StateTrie is for callers that apply chunks
// without an engine.
func StateTrie(r *trie.Root) state.Trie { return stateTrie{r} }

// TrieRoot returns the root of a trie from StateTrie, or of the trie that results from applying a
// chunk to such a trie. On a fork, the result is the root of the fork's own trie, without the
// remote state.
func TrieRoot(t state.Trie) *trie.Root { return rootOf(t) }
