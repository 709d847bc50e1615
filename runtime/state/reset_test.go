package state

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestResetUpdateBehavesLikeNew checks that after Reset an update behaves like a new one, whatever
// it was used for before, and that Reset of a zero TrieUpdate works too.
func TestResetUpdateBehavesLikeNew(t *testing.T) {
	t.Parallel()
	trie, next := fakeTrie{values: map[string]string{string(dataKey("dog")): "puppy"}}, fakeTrie{values: map[string]string{string(dataKey("cat")): "kitten"}}
	for _, keys := range []int{0, 1, 50, 2 * mostReused} {
		u := New(trie, 1000)
		for i := range keys {
			key := dataKey(fmt.Sprint("key ", i))
			u.Set(key, []byte("value"))
			if _, err := u.Get(dataKey("dog")); err != nil {
				t.Fatal(err)
			}
			commit(u)
			u.Remove(key)
			u.access(CodeAccess{Hash: primitives.HashBytes(key)})
		}
		if keys == 0 {
			u = new(TrieUpdate)
		}
		u.Reset(next)
		for key, want := range map[string]string{"cat": "kitten", "dog": "", "key 0": ""} {
			if v, err := u.Get(dataKey(key)); err != nil || string(v) != want {
				t.Errorf("after %d keys: %s is %q (%v), want %q", keys, key, v, err, want)
			}
		}
		u.Reset(next)
		u.entries = u.entries[:len(u.entries):len(u.entries)]
		if len(u.entries) == 0 {
			u.entries = nil
		}
		if want := NewUnrecorded(next); !reflect.DeepEqual(u, want) {
			t.Errorf("after %d keys: %+v, want %+v", keys, u, want)
		}
	}
}

// TestAccessesListEachCodeOnce checks that Accesses has each code once, in the order of the first
// lookup, for few and many codes.
func TestAccessesListEachCodeOnce(t *testing.T) {
	t.Parallel()
	u := NewUnrecorded(fakeTrie{})
	const most = 3 * fewAccesses
	for n := range most {
		for i := range n + 1 {
			u.access(CodeAccess{Hash: primitives.HashBytes([]byte{byte(i)})})
		}
	}
	got := u.Accesses()
	if len(got) != most {
		t.Fatalf("%d accesses, want %d", len(got), most)
	}
	for i, a := range got {
		if a.Hash != primitives.HashBytes([]byte{byte(i)}) {
			t.Errorf("access %d is %v", i, a.Hash)
		}
	}
}
