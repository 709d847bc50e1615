package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// pairs implements historicalValues in memory.
type pairs map[string][]byte

func (p pairs) get(key []byte) ([]byte, error) { return p[string(key)], nil }

func (p pairs) scan(from, to []byte, yield func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if k >= string(from) && (to == nil || k < string(to)) && !yield([]byte(k), p[k]) {
			return nil
		}
	}
	return nil
}

// TestHistoricalTrieMatchesRealTrie compares paths, values and scans of a historicalTrie with those
// of a real trie, over updates and random sets of keys. The keys share many nibbles, and some are
// prefixes of others.
func TestHistoricalTrieMatchesRealTrie(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		key := func() []byte {
			k := make([]byte, 1+rng.IntN(4))
			for i := range k {
				k[i] = []byte{0, 1, 0x10, 0x11, 0x1f, 0xf0, 0xff}[rng.IntN(7)]
			}
			return k
		}
		root, err := trie.New(trie.Options{}).Build(func(func(k, v []byte) bool) {})
		if err != nil {
			t.Fatal(err)
		}
		base := pairs{}
		past := state.Trie(&historicalTrie{base: base})
		real := state.Trie(stateTrie{root})
		for round := range 4 {
			changed := map[string][]byte{}
			for range 1 + rng.IntN(20) {
				if v := []byte(fmt.Sprint(rng.Uint32())); rng.IntN(4) > 0 {
					changed[string(key())] = v
				} else {
					changed[string(key())] = nil
				}
			}
			var list []state.Change
			for _, k := range slices.Sorted(maps.Keys(changed)) {
				list = append(list, state.Change{Key: []byte(k), Value: changed[k]})
			}
			var err error
			if real, err = real.Update(list, nil); err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				for _, c := range list {
					if c.Value != nil {
						base[string(c.Key)] = c.Value
					}
				}
			} else if past, err = past.Update(list, nil); err != nil {
				t.Fatal(err)
			}
			for range 60 {
				k := key()
				want, wantRef, wantFound, err := real.Path(k, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, ref, found, err := past.Path(k, past.NewRecording(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != len(want) || found != wantFound || ref != wantRef {
					t.Fatalf("seed %d, round %d, key %x: %d nodes, %v %v; the trie has %d, %v %v", seed, round, k, len(got), found, ref, len(want), wantFound, wantRef)
				}
				a, _ := real.Get(k, nil)
				b, _ := past.Get(k, past.NewRecording())
				if !bytes.Equal(a, b) || (a == nil) != (b == nil) {
					t.Fatalf("seed %d: value of %x: %q, the trie has %q", seed, k, b, a)
				}
			}
			prefix := key()[:1]
			show := func(tr state.Trie, after []byte) (out string) {
				if err := tr.Scan(prefix, after, nil, func(k, v []byte) bool { out += fmt.Sprintf("%x=%s ", k, v); return true }); err != nil {
					t.Fatal(err)
				}
				return out
			}
			for _, after := range [][]byte{nil, append(prefix, 0x10)} {
				if got, want := show(past, after), show(real, after); got != want {
					t.Fatalf("seed %d: under %x behind %x: %s, want %s", seed, prefix, after, got, want)
				}
			}
		}
	}
}
