package trie

import (
	"bytes"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func TestMergedRecordingsEqualWhole(t *testing.T) {
	t.Parallel()
	w := benchTrieOf(t, 300)
	var all, first, second Recording
	for i, k := range w.keys {
		for _, rec := range []*Recording{&all, []*Recording{&first, &second}[i%2]} {
			if v, err := w.root.Get(k, rec); v == nil || err != nil {
				t.Fatal(err)
			}
		}
	}
	if all.Len() < len(w.keys) || all.Size() < uint64(100*len(w.keys)) {
		t.Errorf("recorded %d strings of %d bytes", all.Len(), all.Size())
	}
	both := first.Clone()
	both.Merge(&second)
	if got, want := hashesOf(both), hashesOf(&all); !slices.Equal(got, want) || both.Size() != all.Size() {
		t.Errorf("merged %d strings of %d bytes, want %d of %d", both.Len(), both.Size(), all.Len(), all.Size())
	}
	n, size := first.Len(), first.Size()
	for _, k := range w.keys {
		if _, err := w.root.Get(k, &first); err != nil {
			t.Fatal(err)
		}
	}
	last := first.Entries()[first.Len()-1].Hash
	first.Truncate(n)
	if first.Len() != n || first.Size() != size || first.Contains(last) {
		t.Errorf("truncated to %d strings of %d bytes, want %d of %d", first.Len(), first.Size(), n, size)
	}
	first.Merge(&second)
	if got, want := hashesOf(&first), hashesOf(&all); !slices.Equal(got, want) {
		t.Errorf("after truncation merged %d strings, want %d", len(got), len(want))
	}
	proof := all.Proof()
	total := 0
	for i, s := range proof {
		total += len(s)
		if i > 0 && bytes.Compare(proof[i-1], s) >= 0 {
			t.Errorf("string %d of the proof is not greater than the last", i)
		}
		if !all.Contains(primitives.HashBytes(s)) {
			t.Errorf("string %d of the proof is not recorded", i)
		}
	}
	if got, want := uint64(total), all.Size(); got != want {
		t.Errorf("proof of %d bytes, want %d", got, want)
	}
	p, err := NewPartial(proof, w.root.Hash())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range w.keys {
		got, err := p.Get(k, nil)
		want, _ := w.root.Get(k, nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("Get(%q) from the proof = %x, %v, want %x", k, got, err, want)
		}
	}
	all.Reset()
	if all.Len() != 0 || all.Size() != 0 || all.Contains(last) {
		t.Errorf("after Reset: %d strings", all.Len())
	}
}

func TestProofGivesSameLookup(t *testing.T) {
	t.Parallel()
	w := benchTrieOf(t, 50)
	for _, k := range append(w.keys, []byte("absent"), nil) {
		proof, err := w.root.Prove(k)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPartial(proof, w.root.Hash())
		if err != nil {
			t.Fatal(err)
		}
		v, found, err := p.Lookup(k, nil)
		want, wanted, _ := w.root.Lookup(k, nil)
		if err != nil || found != wanted || v != want.ValueID && found {
			t.Errorf("Lookup(%q) in its proof = %v, %v, %v, want %v, %v", k, v, found, err, want.ValueID, wanted)
		}
	}
}

// TestLookupDoesNotAllocate bounds the allocations of lookups, because lookups are the hot path of
// execution.
func TestLookupDoesNotAllocate(t *testing.T) {
	w := benchTrieOf(t, 300)
	var rec Recording
	if got := testing.AllocsPerRun(10, func() {
		for _, k := range w.keys {
			if _, err := w.root.Get(k, nil); err != nil {
				t.Fatal(err)
			}
		}
	}); got != 0 {
		t.Errorf("allocations of lookups = %v, want 0", got)
	}
	run := func() {
		rec.Reset()
		for _, k := range w.keys[:20] {
			if _, err := w.root.Get(k, &rec); err != nil {
				t.Fatal(err)
			}
		}
	}
	run()
	if got := testing.AllocsPerRun(10, run); got != 0 {
		t.Errorf("allocations of recorded lookups = %v, want 0", got)
	}
}

func benchTrieOf(t *testing.T, accounts int) *benchTrie {
	t.Helper()
	w := &benchTrie{f: New(Options{}), keys: benchKeys(accounts)}
	var err error
	if w.root, err = w.f.Build(w.pairs); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestKnownPathsAreRecorded: changes of keys that were looked up before record the same as other
// changes.
func TestKnownPathsAreRecorded(t *testing.T) {
	t.Parallel()
	f := New(Options{})
	keys := benchKeys(500)
	root, err := f.Build((&benchTrie{keys: keys}).pairs)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Release()
	var known, all []Change
	var first, second Recording
	for i := 0; i < len(keys); i += 3 {
		key := bytes.Clone(keys[i])
		if i%2 == 0 {
			key[len(key)-1] ^= 1 // an absent one, near by
		}
		c := Change{Key: key, Value: []byte{byte(i)}}
		all = append(all, c)
		if c.Known = i%4 < 2; c.Known {
			for _, rec := range []*Recording{&first, &second} {
				if _, err := root.Get(key, rec); err != nil {
					t.Fatal(err)
				}
			}
		}
		known = append(known, c)
	}
	a, err := f.Update(root, known, &first)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	b, err := f.Update(root, all, &second)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if a.Hash() != b.Hash() || !slices.Equal(first.Entries(), second.Entries()) {
		t.Errorf("with known keys: root %v, %d recorded; want %v, %d", a.Hash(), first.Len(), b.Hash(), second.Len())
	}
}
