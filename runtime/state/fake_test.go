package state

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// fakeTrie is a Trie made of a map. It records "p" and the key for a path, and "v" and the key for a value.
type fakeTrie struct{ values map[string]string }

type fakeRecording struct{ list []string }

func (r *fakeRecording) add(s string) {
	if !slices.Contains(r.list, s) {
		r.list = append(r.list, s)
	}
}

func (r *fakeRecording) Size() uint64 { return uint64(100 * len(r.list)) }
func (r *fakeRecording) Reset()       { r.list = nil }
func (r *fakeRecording) Merge(o Recording) {
	for _, s := range o.(*fakeRecording).list {
		r.add(s)
	}
}

func record(rec Recording, s string) {
	if rec != nil {
		rec.(*fakeRecording).add(s)
	}
}

func (t fakeTrie) Root() primitives.Hash {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(t.values)) {
		b = append(append(append(append(b, k...), 0), t.values[k]...), 1)
	}
	return primitives.HashBytes(b)
}

func (t fakeTrie) NewRecording() Recording { return new(fakeRecording) }
func (t fakeTrie) MemoryUsage() uint64     { return 0 }
func (t fakeTrie) Get(key []byte, rec Recording) ([]byte, error) {
	record(rec, "p"+string(key))
	v, ok := t.values[string(key)]
	if !ok {
		return nil, nil
	}
	record(rec, "v"+string(key))
	return []byte(v), nil
}

func (t fakeTrie) Lookup(key []byte, rec Recording) (ValueRef, bool, error) {
	record(rec, "p"+string(key))
	v, ok := t.values[string(key)]
	return ValueRef{primitives.HashBytes([]byte(v)), uint32(len(v))}, ok, nil
}

func (t fakeTrie) Path(key []byte, rec Recording, path []Visit) ([]Visit, ValueRef, bool, error) {
	v, ok, err := t.Lookup(key, rec)
	return append(path, Visit{Hash: primitives.HashBytes(key)}), v, ok, err
}

func (t fakeTrie) Scan(prefix, after []byte, rec Recording, yield func(key, value []byte) bool) error {
	record(rec, "scan"+string(prefix))
	for _, k := range slices.Sorted(maps.Keys(t.values)) {
		if strings.HasPrefix(k, string(prefix)) && (after == nil || k > string(after)) && !yield([]byte(k), []byte(t.values[k])) {
			break
		}
	}
	return nil
}

func (t fakeTrie) Update(changes []Change, rec Recording) (Trie, error) {
	if !slices.IsSortedFunc(changes, func(a, b Change) int { return bytes.Compare(a.Key, b.Key) }) {
		panic("changes are not sorted")
	}
	next := fakeTrie{maps.Clone(t.values)}
	if next.values == nil {
		next.values = map[string]string{}
	}
	for _, c := range changes {
		record(rec, "u"+string(c.Key))
		if c.Value == nil {
			delete(next.values, string(c.Key))
		} else {
			next.values[string(c.Key)] = string(c.Value)
		}
	}
	return next, nil
}

func (t fakeTrie) FindSplit(Recording) (primitives.TrieSplit, error) {
	return primitives.TrieSplit{}, ErrNoSplit
}

func finalize(t *testing.T, u *TrieUpdate) Finalized {
	t.Helper()
	f, err := u.Finalize()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func dataKey(key string) []byte { return primitives.AppendContractDataKey(nil, "alice", []byte(key)) }
