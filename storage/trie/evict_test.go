package trie

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// sourceOf is a source of the version that has these pairs, which must not change.
func sourceOf(truth map[string][]byte) Source { return Source{Load: (&disk{flat: truth}).load} }

// held is a version that a reader holds while the writer goes on.
type held struct {
	root  *Root
	truth map[string][]byte
}

// TestEvictionKeepsHeldVersions: whatever is evicted at whatever moment, every held version has the
// same pairs and hash as before, and reads of it record the same nodes, also on abandoned branches.
// Evicted memory is freed, and freed memory is filled with a pattern to detect its use.
func TestEvictionKeepsHeldVersions(t *testing.T) {
	t.Parallel()
	var gone, fell uint64
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 6))
		f := New(Options{Frontier: uint64(100 + r.IntN(3000)), Poison: true})
		w := newWorld(t, f)
		letters, longest := 2+r.IntN(7), 1+r.IntN(5)
		base := w.root.Retain()
		f.SetSource(sourceOf(nil))
		var readers []held
		for range 40 {
			w.apply(randomChanges(r, w, r.IntN(30), letters, longest, []float64{0.1, 0.5, 0.9}[r.IntN(3)]))
			if r.IntN(3) == 0 { // an advance of the flat head
				base.Release()
				base = w.root.Retain()
				d := &disk{flat: maps.Clone(w.truth), frontier: map[string]FrontierEntry{}}
				if seed%2 == 0 {
					d.finalise(t, nil, w.root, w.truth)
				}
				f.SetSource(d.source())
			}
			if r.IntN(2) == 0 {
				next, n, err := f.Evict(w.root, base, 1+r.Uint64N(1<<uint(8+r.IntN(12))))
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if next.Hash() != w.root.Hash() || next.MemoryUsage() != w.root.MemoryUsage() {
					t.Fatalf("seed %d: root %v became %v", seed, w.root.Hash(), next.Hash())
				}
				gone += n
				if r.IntN(3) > 0 {
					next, w.root = w.root, next
				} // else the chain goes on with what has all of it, and the other one is a branch
				readers = append(readers, held{next, maps.Clone(w.truth)})
			}
			for range 5 {
				w.lookup(randomKey(r, letters, longest))
				if keys := slices.Sorted(maps.Keys(w.truth)); len(keys) > 0 {
					w.lookup([]byte(keys[r.IntN(len(keys))]))
				}
			}
			for len(readers) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(readers))
				x := readers[i]
				readers = slices.Delete(readers, i, i+1)
				for range 3 {
					if keys := slices.Sorted(maps.Keys(x.truth)); len(keys) > 0 {
						k := keys[r.IntN(len(keys))]
						if got, err := x.root.Get([]byte(k), nil); err != nil || string(got) != string(x.truth[k]) {
							t.Fatalf("seed %d: Get(%x) of an older version = %x, %v, want %x", seed, k, got, err, x.truth[k])
						}
					}
				}
				x.root.Release()
			}
		}
		for _, x := range readers {
			x.root.Release()
		}
		base.Release()
		f.SetSource(sourceOf(maps.Clone(w.truth)))
		before := f.Stats().Bytes
		next, n, err := f.Evict(w.root, w.root, 1<<60)
		if err != nil {
			t.Fatal(err)
		}
		w.root.Release()
		w.root = next
		if after := f.Stats().Bytes; n > 0 && after < before {
			fell += before - after
		}
		for k := range w.truth {
			w.lookup([]byte(k))
		}
		w.root.Release()
		if s := f.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.HashNodes != 0 {
			t.Fatalf("seed %d: left over: %+v", seed, s)
		}
	}
	if gone == 0 || fell == 0 {
		t.Errorf("%d bytes went, and memory fell by %d", gone, fell)
	}
}

// TestEvictKeepsRecentlyUsedSubtrees: the subtrees that were used last stay in memory, whether they
// were written or only read.
func TestEvictKeepsRecentlyUsedSubtrees(t *testing.T) {
	t.Parallel()
	b := &benchTrie{keys: benchKeys(4000)}
	flat := map[string][]byte{}
	b.pairs(func(k, v []byte) bool { flat[string(k)] = slices.Clone(v); return true })
	f := New(Options{Frontier: 16 << 10, Poison: true})
	root, err := f.Build(b.pairs)
	if err != nil {
		t.Fatal(err)
	}
	source := &disk{frontier: map[string]FrontierEntry{}}
	source.finalise(t, nil, root, flat)
	f.SetSource(source.source())
	evict := func(want uint64) {
		next, _, err := f.Evict(root, root, want)
		if err != nil {
			t.Fatal(err)
		}
		root.Release()
		root = next
	}
	all := f.Stats().Bytes
	evict(1 << 60)
	if v, known := root.Peek(b.keys[5]); known || source.loads+source.rows != 0 {
		t.Errorf("peeking at what is not in memory: %x, %v, %d loads", v, known, source.loads+source.rows)
	}
	if got := f.Stats().Bytes; got > all/8 {
		t.Errorf("%d of %d bytes stay where all may go", got, all)
	}
	if s := f.Stats(); s.HashNodes != 1 {
		t.Errorf("%d stubs are left where one tells all", s.HashNodes)
	}
	for i := 0; i < len(b.keys); i += 20 { // all of it comes back
		if _, err := root.Get(b.keys[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	if v, known := root.Peek(b.keys[40]); !known || string(v) != string(flat[string(b.keys[40])]) {
		t.Errorf("peeking at what is in memory: %x, %v", v, known)
	}
	if v, known := root.Peek(append(slices.Clone(b.keys[40]), 'x')); !known || v != nil {
		t.Errorf("peeking at what is absent: %x, %v", v, known)
	}
	hot := b.keys[len(b.keys)/3]
	for range 200 {
		if _, err := root.Get(hot, nil); err != nil {
			t.Fatal(err)
		}
		next, err := f.Update(root, nil, nil) // time passes
		if err != nil {
			t.Fatal(err)
		}
		root.Release()
		root = next
	}
	loaded := f.Stats().Bytes
	evict(loaded / 2)
	if got := f.Stats().Bytes; got > loaded*3/4 {
		t.Errorf("%d of %d bytes stay where half was to go", got, loaded)
	}
	source.loads, source.rows = 0, 0
	if _, err := root.Get(hot, nil); err != nil || source.loads+source.rows != 0 {
		t.Errorf("what is used all the time was loaded again, %v", err)
	}
	root.Release()
	if s := f.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.HashNodes != 0 {
		t.Errorf("left over: %+v", s)
	}
}
