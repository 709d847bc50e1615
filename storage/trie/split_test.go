package trie

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// splitTrie returns a trie with the given accounts in its four columns. A key of sizes is "column
// name", its value the length of the stored value. A column without accounts gets an empty value at
// the key that is only the column's byte, as in nearcore's tests.
func splitTrie(t *testing.T, sizes map[string]int) *Root {
	t.Helper()
	var pairs []string
	used := map[byte]bool{}
	var keys []string
	for k := range sizes {
		keys = append(keys, k)
		used[k[0]] = true
	}
	for _, c := range splitColumns {
		if !used[c] {
			keys = append(keys, string(c))
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		pairs = append(pairs, fmt.Sprintf("%x", k), strings.Repeat("01", sizes[k]))
	}
	var changes []Change
	for i := 0; i < len(pairs); i += 2 {
		changes = append(changes, Change{Key: unhex(t, pairs[i]), Value: unhex(t, pairs[i+1])})
	}
	f := New(Options{})
	root, err := f.Update(f.Empty(), changes, nil)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// total is the usage of the four columns, from the sizes of the tries that the vectors describe.
func columnUsage(t *testing.T, r *Root) (total uint64) {
	t.Helper()
	m := r.forest.arena.mem()
	var walk func(ref uint32, path []byte)
	walk = func(ref uint32, path []byte) {
		n := m.at(ref)
		if len(path) >= 2 {
			total += n.usage()
			return
		}
		switch n.kind() {
		case kindExtension:
			walk(n.child(), extNibs(n.ext()).appendNibbles(path))
		case kindBranch, kindBranchValue:
			for i := range byte(16) {
				if c := n.kid(i); c != 0 {
					walk(c, append(slices.Clone(path), i))
				}
			}
		}
	}
	walk(r.ref, nil)
	return total
}

// TestSplitsMatchVectorA78: nearcore core/store/src/trie/split.rs:637-1382.
func TestSplitsMatchVectorA78(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		sizes map[string]int
		want  string // "": none
	}{
		{"middle child", nil, ""},
		{"key too short", map[string]int{"\x00\x10": 100}, ""},
		{"invalid bytes", map[string]int{"\x00\x01\x01": 100}, ""},
		{"big middle account", map[string]int{"\x00aa": 1000, "\x00ab": 10000, "\x00ac": 3000}, "ab-0"},
		{"big middle account with children", map[string]int{"\x00aa": 1000, "\x00ab": 10000, "\x00ab\x00": 5, "\x00ab\x10": 5, "\x00ac": 3000}, "ab-0"},
		{"trivial accounts", map[string]int{"\x00aa": 1000, "\x00ab": 1000, "\x00ba": 1000, "\x00bb": 1000}, "ab-0"},
		{"trivial accounts and code", map[string]int{"\x00aa": 1000, "\x00ab": 1000, "\x00ba": 1000, "\x00bb": 1000, "\x01bb": 5000}, "bb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := splitTrie(t, c.sizes)
			var rec Recording
			got, err := root.FindSplit(&rec)
			if c.want == "" {
				if !errors.Is(err, ErrNoSplit) {
					t.Errorf("FindSplit = %v, %v, want %v", got, err, ErrNoSplit)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := got.Boundary, primitives.AccountID(c.want); got != want {
				t.Errorf("boundary = %s, want %s", got, want)
			}
			if got, want := got.LeftMemory+got.RightMemory, columnUsage(t, root); got != want {
				t.Errorf("memory = %d, want %d", got, want)
			}
			p, err := NewPartial(rec.Proof(), root.Hash())
			if err != nil {
				t.Fatal(err)
			}
			var again Recording
			if split, err := p.FindSplit(&again); err != nil || split != got {
				t.Errorf("on the proof = %v, %v, want %v", split, err, got)
			}
			if got, want := hashesOf(&again), hashesOf(&rec); !slices.Equal(got, want) {
				t.Errorf("proof used %v, recorded %v", got, want)
			}
		})
	}
	// find_middle_child, split.rs:637
	var sums [16]uint64
	if i, ok := middleChild(&sums, 10); ok {
		t.Errorf("middle child of nothing = %d, want none", i)
	}
	for i := range sums {
		sums[i] = 100
	}
	if i, ok := middleChild(&sums, 1000); i != 10 || !ok {
		t.Errorf("middle child = %d, want 10", i)
	}
	if i, ok := middleChild(&sums, 2000); i != 15 || !ok {
		t.Errorf("middle child beyond the sum = %d, want 15", i)
	}
}

// TestFoundSplitIsBestOfNeighbours repeats nearcore's big_random_trie: no neighbouring account
// gives a better split than the one that was found.
func TestFoundSplitIsBestOfNeighbours(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 4))
		letters := func(lo, hi int) string {
			b := make([]byte, lo+r.IntN(hi-lo+1))
			for i := range b {
				b[i] = 'a' + byte(r.IntN(26))
			}
			return string(b)
		}
		sizes := map[string]int{}
		var names []string
		for range 300 {
			name := letters(5, 15)
			names = append(names, name)
			sizes["\x00"+name] = 72
			if r.IntN(2) == 0 {
				sizes["\x02"+name+"\x02\x00"+letters(32, 32)] = 9
			}
		}
		for _, name := range names[:10] {
			sizes["\x01"+name] = 100 + r.IntN(100)
			for range 5 + r.IntN(5) {
				sizes["\x09"+name+","+letters(10, 20)] = 50 + r.IntN(50)
			}
		}
		if seed%2 == 1 {
			sizes["\x09"+names[0]+",big"] = 100_000
		}
		root := splitTrie(t, sizes)
		got, err := root.FindSplit(nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// The halves by the leaves alone, which make up nearly all.
		half := func(boundary string) (left, right int) {
			for k, n := range sizes {
				if strings.SplitN(strings.SplitN(k[1:], ",", 2)[0], "\x02", 2)[0] < boundary {
					left += n + 2*len(k) + 100
				} else {
					right += n + 2*len(k) + 100
				}
			}
			return left, right
		}
		diff := func(boundary string) int {
			left, right := half(boundary)
			return max(left, right) - min(left, right)
		}
		slices.Sort(names)
		best := diff(string(got.Boundary))
		for _, name := range names {
			for _, b := range []string{name, name + "-0"} {
				if d := diff(b); d < best-1500 {
					t.Errorf("seed %d: %s splits with a difference of %d, %s of %d", seed, got.Boundary, best, b, d)
				}
			}
		}
	}
}
