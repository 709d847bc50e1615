package trie

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// referenceRetain is nearcore's retain_multi_range_recursive (ops/resharding.rs) on a
// referenceTrie.
func referenceRetain(t *testing.T, p *referenceTrie, keep []Interval) *referenceTrie {
	t.Helper()
	var from, to [][]byte
	for _, i := range keep {
		from = append(from, keyNibs(i.From, 0).appendNibbles(nil))
		to = append(to, keyNibs(i.To, 0).appendNibbles(nil))
	}
	contains := func(key []byte) bool {
		for i := range from {
			if bytes.Compare(from[i], key) <= 0 && bytes.Compare(key, to[i]) < 0 {
				return true
			}
		}
		return false
	}
	open := func(l referenceLink) *referenceNode {
		n, err := p.open(l)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var retain func(n *referenceNode, key []byte)
	retain = func(n *referenceNode, key []byte) {
		descend := false
		for i := range from {
			if bytes.HasPrefix(from[i], key) || bytes.HasPrefix(to[i], key) {
				descend = true
			} else if contains(key) && bytes.Compare(from[i], key) <= 0 && bytes.Compare(key, to[i]) < 0 {
				return
			}
		}
		if !descend {
			*n = referenceNode{kind: noReferenceNode}
			return
		}
		switch n.kind {
		case noReferenceNode:
			return
		case Leaf:
			if !contains(n.key.appendNibbles(slices.Clone(key))) {
				*n = referenceNode{kind: noReferenceNode}
			}
			return
		case Branch:
			if !contains(key) {
				n.val = nil
			}
			n.rest = 0
			for i := range n.kids {
				if !n.kids[i].exist {
					continue
				}
				child := open(n.kids[i])
				retain(child, append(slices.Clone(key), byte(i)))
				n.kids[i] = referenceLink{node: child, exist: true}
				n.rest += child.usage()
			}
		default:
			child := open(n.kid)
			retain(child, n.key.appendNibbles(slices.Clone(key)))
			n.kid, n.rest = referenceLink{node: child, exist: true}, child.usage()
		}
		if err := p.squash(n); err != nil {
			t.Fatal(err)
		}
	}
	out := &referenceTrie{known: maps.Clone(p.known), seen: map[primitives.Hash]bool{}}
	if p.root.IsZero() {
		return out
	}
	root := open(referenceLink{hash: p.root, exist: true})
	retain(root, nil)
	if root.kind != noReferenceNode {
		out.root = out.flatten(root)
	}
	return out
}

func TestRetainIntervalsMatchesNearcore(t *testing.T) {
	t.Parallel()
	copied := 0 // subtrees
	defer func() {
		if copied == 0 {
			t.Error("no subtree was copied from the forest before")
		}
	}()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		d := &disk{frontier: map[string]FrontierEntry{}}
		options := Options{Frontier: uint64(1 + r.IntN(2000)), Loader: d.load}
		f := New(options)
		w := newWorld(t, f)
		letters, longest := 2+r.IntN(7), 1+r.IntN(5)
		w.apply(randomChanges(r, w, r.IntN(60), letters, longest, 0))
		w.apply(randomChanges(r, w, r.IntN(20), letters, longest, 0.5))
		if r.IntN(2) == 0 { // a part of the trie is not loaded
			d.finalise(t, nil, w.root, w.truth)
			w.root.Release()
			f = New(options)
			var err error
			if w.root, err = f.Import(d.entries(0), w.reference.Root()); err != nil {
				t.Fatal(err)
			}
			w.f = f
		}
		for range 5 {
			var keep []Interval
			for range r.IntN(4) {
				a, b := randomKey(r, letters, longest), randomKey(r, letters, longest)
				if bytes.Compare(a, b) > 0 {
					a, b = b, a
				}
				keep = append(keep, Interval{a, b})
			}
			w.reference.Forget()
			reference := referenceRetain(t, w.reference, keep)
			var rec Recording
			child := w.fork()
			first, err := f.RetainIntervals(child.root, keep, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.RetainIntervals(child.root, keep, &rec)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := got.Hash(), reference.Root(); got != want || first.Hash() != want {
				t.Fatalf("seed %d: root = %v and %v, want %v", seed, got, first.Hash(), want)
			}
			if got, want := hashesOf(&rec), sortedHashes(w.reference.Visited()); !slices.Equal(got, want) {
				t.Fatalf("seed %d: recorded %v, want %v", seed, got, want)
			}
			first.Release()
			child.root.Release()
			child.root, child.reference = got, reference
			for k := range child.truth {
				if !slices.ContainsFunc(keep, func(i Interval) bool { return string(i.From) <= k && k < string(i.To) }) {
					delete(child.truth, k)
				}
			}
			frontier, err := child.root.Frontier(0)
			if err != nil {
				t.Fatal(err)
			}
			root, lent := child.root.Retain(), 0
			other := New(Options{Frontier: options.Frontier, Loader: root.Range})
			if r.IntN(3) > 0 { // gone after a while: then subtrees are loaded
				left := r.IntN(8)
				other.SetSource(Source{Load: root.Range, Borrow: func(use func(*Root) error) error {
					if lent++; lent > left {
						return nil
					}
					copied++
					return use(root)
				}})
			}
			adopted, err := other.Import(frontier, root.Hash())
			if err == nil && r.IntN(2) == 0 {
				adopted.Release()
				adopted, err = other.Inherit(root)
			}
			if err != nil || adopted.Hash() != child.root.Hash() || adopted.MemoryUsage() != child.root.MemoryUsage() {
				t.Fatalf("seed %d: adopted %v, %v", seed, adopted.Hash(), err)
			}
			grown := &world{t, other, adopted, child.reference, maps.Clone(child.truth)}
			grown.apply(randomChanges(r, grown, r.IntN(10), letters, longest, 0.5))
			for k := range grown.truth {
				grown.lookup([]byte(k))
			}
			grown.root.Release()
			if s := other.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.HashNodes != 0 {
				t.Fatalf("seed %d: left over in the adopting forest: %+v", seed, s)
			}
			root.Release()
			if r.IntN(2) == 0 { // the parent goes first
				w.root.Release()
				w = child
			} else {
				child.apply(randomChanges(r, child, r.IntN(10), letters, longest, 0.5))
				child.root.Release()
			}
		}
		w.root.Release()
		if s := f.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.HashNodes != 0 {
			t.Fatalf("seed %d: left over: %+v", seed, s)
		}
	}
}

// TestInheritCopiesLazily: inheriting a child shard's trie copies nothing at first, and later
// copies only what is read, whatever the size of the state.
func TestInheritCopiesLazily(t *testing.T) {
	t.Parallel()
	for _, accounts := range []int{500, 20_000} {
		w := &benchTrie{f: New(Options{Frontier: 4 << 10, Poison: true}), keys: benchKeys(accounts)}
		parent, err := w.f.Build(w.pairs)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := w.f.RetainIntervals(parent, SplitIntervals(primitives.AccountID(fmt.Sprintf("user%07d", accounts/2)), true), nil)
		if err != nil {
			t.Fatal(err)
		}
		f := New(Options{Frontier: 4 << 10, Poison: true})
		f.SetSource(Source{Load: whole.Range, Borrow: func(use func(*Root) error) error { return use(whole) }})
		child, err := f.Inherit(whole)
		if err != nil {
			t.Fatal(err)
		}
		if s := f.Stats(); s.Nodes != 1 || child.Hash() != whole.Hash() || child.MemoryUsage() != whole.MemoryUsage() {
			t.Errorf("%d accounts: %+v, root %v, want one node and %v", accounts, s, child.Hash(), whole.Hash())
		}
		v, err := child.Get(w.keys[7], nil)
		want, werr := whole.Get(w.keys[7], nil)
		if err != nil || werr != nil || v == nil || !bytes.Equal(v, want) {
			t.Errorf("%d accounts: %x, %v, want %x, %v", accounts, v, err, want, werr)
		}
		if s := f.Stats(); s.Nodes > 1000 {
			t.Errorf("%d accounts: %d nodes were copied to read one account", accounts, s.Nodes)
		}
		mine, err := child.Frontier(0)
		theirs, werr := whole.Frontier(0)
		if err != nil || werr != nil || len(mine) != len(theirs) {
			t.Fatalf("%d accounts: a frontier of %d, %v, want %d, %v", accounts, len(mine), err, len(theirs), werr)
		}
		for i := range mine {
			if !bytes.Equal(mine[i].Path, theirs[i].Path) || mine[i].Hash != theirs[i].Hash || mine[i].Size != theirs[i].Size {
				t.Fatalf("%d accounts: frontier entry %d is %+v, want %+v", accounts, i, mine[i], theirs[i])
			}
		}
		next, _, err := f.Evict(child, child, 1<<60) // with the hash nodes above the frontier
		if err != nil || next.Hash() != child.Hash() {
			t.Fatalf("%d accounts: %v, %v", accounts, next, err)
		}
		child.Release()
		if v, err := next.Get(w.keys[7], nil); err != nil || !bytes.Equal(v, want) {
			t.Errorf("%d accounts, after it has left the memory: %x, %v, want %x", accounts, v, err, want)
		}
		next.Release()
		if s := f.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.HashNodes != 0 {
			t.Errorf("%d accounts: left over: %+v", accounts, s)
		}
		w.f.Abandon()
		whole.Release()
		if v, err := parent.Get(w.keys[7], nil); err != nil || v == nil {
			t.Errorf("%d accounts: the shard before: %x, %v", accounts, v, err)
		}
		parent.Release()
	}
}

// TestSplitIntervalsMatchNearcore: the two lists of intervals for alice.near (nearcore
// ops/resharding.rs:352).
func TestSplitIntervalsMatchNearcore(t *testing.T) {
	t.Parallel()
	left, right := SplitIntervals("alice.near", true), SplitIntervals("alice.near", false)
	if got, want := len(left), 22; got != want {
		t.Errorf("left intervals = %d, want %d", got, want)
	}
	if got, want := len(right), 18; got != want {
		t.Errorf("right intervals = %d, want %d", got, want)
	}
	in := func(list []Interval, key string) bool {
		return slices.ContainsFunc(list, func(i Interval) bool { return string(i.From) <= key && key < string(i.To) })
	}
	for _, c := range []struct {
		key         string
		left, right bool
	}{
		{"\x00alice.nea", true, false}, {"\x00alice.near", false, true}, {"\x02aaa\x02\x00k", true, false}, {"\x09zoe,k", false, true},
		{"\x17alice.near,d", false, true}, {"\x07", true, true}, {"\x07\x00\x00", true, true}, {"\x0a", true, true}, {"\x0b\x01", true, true},
		{"\x0f", true, true}, {"\x12x", true, true}, {"\x13x", true, true}, {"\x0d", true, false}, {"\x0e\x01", true, false},
		{"\x10\x01", true, false}, {"\x11\x01", true, false}, {"\x14alice.near,d", false, true}, {"\x08", false, false}, {"\x15", false, false},
	} {
		if got := in(left, c.key); got != c.left {
			t.Errorf("left has %q = %v, want %v", c.key, got, c.left)
		}
		if got := in(right, c.key); got != c.right {
			t.Errorf("right has %q = %v, want %v", c.key, got, c.right)
		}
	}
}

// TestRangeYieldsPairsInOrder: a range of a root has the pairs in it, in order, and ends when yield
// returns false.
func TestRangeYieldsPairsInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		f := New(Options{})
		w := newWorld(t, f)
		letters, longest := 2+r.IntN(6), 1+r.IntN(5)
		w.apply(randomChanges(r, w, r.IntN(80), letters, longest, 0))
		for range 30 {
			from, to := randomKey(r, letters, longest), randomKey(r, letters, longest)
			if r.IntN(5) == 0 {
				from = nil
			}
			if r.IntN(5) == 0 {
				to = nil
			}
			var want, got []string
			for _, k := range slices.Sorted(maps.Keys(w.truth)) {
				if k >= string(from) && (to == nil || k < string(to)) {
					want = append(want, k+"="+string(w.truth[k]))
				}
			}
			stop := r.IntN(len(want) + 2)
			want = want[:min(stop+1, len(want))]
			err := w.root.Range(from, to, func(k, v []byte) bool {
				got = append(got, string(k)+"="+string(v))
				return len(got) <= stop
			})
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d: %q to %q: %q, %v, want %q", seed, from, to, got, err, want)
			}
		}
	}
}
