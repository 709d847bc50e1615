package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// testTrie adapts storage/trie to state.Trie.
type testTrie struct{ root *trie.Root }

type testRecording struct{ trie.Recording }

func (r *testRecording) Merge(o state.Recording) { r.Recording.Merge(&o.(*testRecording).Recording) }

func of(rec state.Recording) *trie.Recording {
	if rec == nil {
		return nil
	}
	return &rec.(*testRecording).Recording
}

func (t testTrie) Root() primitives.Hash         { return t.root.Hash() }
func (t testTrie) NewRecording() state.Recording { return new(testRecording) }
func (t testTrie) MemoryUsage() uint64           { return t.root.MemoryUsage() }
func (t testTrie) Get(key []byte, rec state.Recording) ([]byte, error) {
	return t.root.Get(key, of(rec))
}

func (t testTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	v, found, err := t.root.Lookup(key, of(rec))
	return state.ValueRef{Hash: v.Hash, Len: v.Len}, found, err
}

func (t testTrie) Path(key []byte, rec state.Recording, path []state.Visit) ([]state.Visit, state.ValueRef, bool, error) {
	visits, v, found, err := t.root.Path(key, of(rec), nil)
	for _, x := range visits {
		path = append(path, state.Visit{Hash: x.Hash, Len: x.Len})
	}
	return path, state.ValueRef{Hash: v.Hash, Len: v.Len}, found, err
}

func (t testTrie) Scan(prefix, after []byte, rec state.Recording, yield func(key, value []byte) bool) error {
	s := t.root.Scan(prefix, after, of(rec))
	for s.Next() && yield(s.Key(), s.Value()) {
	}
	return s.Err()
}

func (t testTrie) Update(changes []state.Change, rec state.Recording) (state.Trie, error) {
	list := make([]trie.Change, len(changes))
	for i := range changes {
		list[i] = trie.Change(changes[i])
	}
	r, err := t.root.Forest().Update(t.root, list, of(rec))
	return testTrie{r}, err
}

func (t testTrie) FindSplit(rec state.Recording) (primitives.TrieSplit, error) {
	s, err := t.root.FindSplit(of(rec))
	if errors.Is(err, trie.ErrNoSplit) {
		err = fmt.Errorf("%w: %w", state.ErrNoSplit, err)
	}
	return s, err
}

// buildTrie returns a trie with the given entries.
func buildTrie(t testing.TB, values map[string][]byte) testTrie {
	t.Helper()
	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	root, err := trie.New(trie.Options{}).Build(func(yield func(k, v []byte) bool) {
		for _, k := range keys {
			if !yield([]byte(k), values[k]) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return testTrie{root}
}
