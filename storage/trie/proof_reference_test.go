package trie

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// referenceScan is nearcore's TrieIteratorImpl (ops/iter.rs) over a referenceTrie. It scans either
// a prefix or the keys from a bound on. It returns the pairs; p remembers the nodes that are read
// after the seek.
func referenceScan(t *testing.T, p *referenceTrie, start []byte, prefixSeek, exclusive bool) (pairs []pair) {
	t.Helper()
	type crumb struct {
		n      *RawNode // nil: empty
		status string
		child  int
		bound  bool
	}
	var trail []*crumb
	var key []byte
	descend := func(h *RawNode) *crumb {
		c := &crumb{n: h, status: "entering"}
		trail = append(trail, c)
		return c
	}
	read := func(h [32]byte) *RawNode {
		n, err := p.Node(h)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	nibbles := func(enc []byte) []byte { return extNibs(enc).appendNibbles(nil) }
	isBranch := func(n *RawNode) bool { return n != nil && (n.Kind == Branch || n.Kind == BranchWithValue) }
	increment := func(c *crumb) {
		switch {
		case c.bound, c.n == nil:
			c.status = "exiting"
		case c.status == "entering":
			c.status = "at"
		case c.status == "at" && isBranch(c.n):
			c.status, c.child = "child", 0
		case c.status == "child" && c.child < 15:
			c.child++
		default:
			c.status = "exiting"
		}
	}
	rest := keyNibs(start, 0).appendNibbles(nil)
	ptr, have := p.Root(), !p.Root().IsZero()
	ignored := new(bool)
	previous := ignored
	matches := func(ext []byte) bool {
		if prefixSeek {
			return bytes.HasPrefix(ext, rest)
		}
		return bytes.Compare(ext, rest) >= 0
	}
seek:
	for {
		*previous = prefixSeek
		var n *RawNode
		if have {
			n = read(ptr)
		}
		c := descend(n)
		previous = &c.bound
		switch {
		case n == nil:
			break seek
		case n.Kind == Leaf:
			if ext := nibbles(n.Key); !matches(ext) {
				key = append(key, ext...)
				c.status = "exiting"
			}
			break seek
		case n.Kind == Extension:
			ext := nibbles(n.Key)
			if !bytes.HasPrefix(rest, ext) {
				if !matches(ext) {
					key = append(key, ext...)
					c.status = "exiting"
				}
				break seek
			}
			rest, ptr, c.status = rest[len(ext):], n.Child, "at"
			key = append(key, ext...)
		default:
			if len(rest) == 0 {
				break seek
			}
			i := rest[0]
			key = append(key, i)
			c.status, c.child = "child", int(i)
			if n.Mask>>i&1 == 0 {
				c.bound = prefixSeek
				break seek
			}
			ptr, rest = n.Children[i], rest[1:]
		}
	}
	if !prefixSeek {
		p.Forget()
	}
	skip := false
	if last := trail[len(trail)-1]; exclusive && last.n != nil {
		at := slices.Clone(key)
		if last.n.Kind == Leaf {
			at = append(at, nibbles(last.n.Key)...)
		}
		skip = last.status == "entering" && (last.n.Kind == Leaf || last.n.Kind == BranchWithValue) && bytes.Equal(packNibbles(at), start)
	}
	for len(trail) > 0 {
		c := trail[len(trail)-1]
		increment(c)
		value := func() {
			if skip {
				skip = false
				return
			}
			v, err := p.read(c.n.Value.Hash)
			if err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, pair{packNibbles(key), value{data: v}})
		}
		switch {
		case c.status == "exiting":
			if isBranch(c.n) {
				if len(key) > 0 {
					key = key[:len(key)-1]
				}
			} else if c.n != nil {
				key = key[:len(key)-len(nibbles(c.n.Key))]
			}
			trail = trail[:len(trail)-1]
		case c.status == "at" && isBranch(c.n):
			if c.n.Kind == BranchWithValue {
				value()
			}
		case c.status == "at":
			key = append(key, nibbles(c.n.Key)...)
			if c.n.Kind == Leaf {
				value()
			} else {
				descend(read(c.n.Child))
			}
		default:
			if c.child == 0 {
				key = append(key, 0)
			}
			if c.n.Mask>>c.child&1 == 1 {
				key[len(key)-1] = byte(c.child)
				descend(read(c.n.Children[c.child]))
			}
		}
	}
	return pairs
}

// TestScanMatchesNearcoresIterator compares pairs and recorded nodes with nearcore's iterator.
func TestScanMatchesNearcoresIterator(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, New(Options{}))
		letters, longest := 2+r.IntN(7), 1+r.IntN(5)
		w.apply(randomChanges(r, w, r.IntN(60), letters, longest, 0))
		keys := slices.Sorted(maps.Keys(w.truth))
		for range 40 {
			prefix := randomKey(r, letters, longest)
			if len(keys) > 0 && r.IntN(2) == 0 {
				prefix = []byte(keys[r.IntN(len(keys))])
				prefix = prefix[:r.IntN(len(prefix)+1)]
			}
			var rec Recording
			w.reference.Forget()
			want := referenceScan(t, w.reference, prefix, true, false)
			s := w.root.Scan(prefix, nil, &rec)
			for i := 0; s.Next(); i++ {
				if i >= len(want) || !bytes.Equal(s.Key(), want[i].key) || !bytes.Equal(s.Value(), want[i].val.data) {
					t.Fatalf("seed %d: scan of %x: pair %d is %x", seed, prefix, i, s.Key())
				}
			}
			if got, want := hashesOf(&rec), sortedHashes(w.reference.Visited()); s.Err() != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d: scan of %x recorded %v, want %v, error %v", seed, prefix, got, want, s.Err())
			}
			proven := w.root.ScanProven(prefix)
			for proven.Next() {
			}
			nodes := 0
			for _, e := range rec.Entries() {
				if !e.value {
					nodes++
				}
			}
			proof := proven.Proof()
			if len(proof) < nodes || len(proof) > 0 && primitives.HashBytes(proof[0]) != w.root.Hash() {
				t.Fatalf("seed %d: proof of %d nodes under %x, want at least %d", seed, len(proof), prefix, nodes)
			}
			for _, s := range proof {
				if !rec.Contains(primitives.HashBytes(s)) {
					t.Fatalf("seed %d: proof of %x has %x", seed, prefix, s)
				}
			}
			count := 0
			for _, k := range keys {
				if bytes.HasPrefix([]byte(k), prefix) {
					count++
				}
			}
			if got, want := len(want), count; got != want {
				t.Fatalf("seed %d: %d pairs under %x, want %d", seed, got, prefix, want)
			}
			// From a key on, without and with a prefix.
			after := randomKey(r, letters, longest)
			if len(keys) > 0 && r.IntN(2) == 0 {
				after = []byte(keys[r.IntN(len(keys))])
			}
			rec.Reset()
			want = referenceScan(t, w.reference, after, false, true)
			i := 0
			for s = w.root.Scan(nil, after, &rec); s.Next(); i++ {
				if i >= len(want) || !bytes.Equal(s.Key(), want[i].key) || bytes.Compare(s.Key(), after) <= 0 {
					t.Fatalf("seed %d: scan after %x: pair %d is %x", seed, after, i, s.Key())
				}
			}
			if got, want := hashesOf(&rec), sortedHashes(w.reference.Visited()); !slices.Equal(got, want) {
				t.Fatalf("seed %d: scan after %x recorded %v, want %v", seed, after, got, want)
			}
			if got, want := i, len(want); got != want {
				t.Fatalf("seed %d: %d pairs after %x, want %d", seed, got, after, want)
			}
			i = 0
			for s = w.root.Scan(prefix, append(slices.Clone(prefix), after...), nil); s.Next(); i++ {
			}
			for _, k := range keys {
				if bytes.HasPrefix([]byte(k), prefix) && k > string(prefix)+string(after) {
					i--
				}
			}
			if i != 0 {
				t.Fatalf("seed %d: scan of %x after %x: %d pairs too many", seed, prefix, after, i)
			}
		}
	}
}
