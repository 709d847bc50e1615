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

// hashesOf returns the sorted hashes of a recording.
func hashesOf(r *Recording) []primitives.Hash {
	var out []primitives.Hash
	for _, e := range r.Entries() {
		out = append(out, e.Hash)
	}
	slices.SortFunc(out, primitives.Hash.Compare)
	return out
}

func sortedHashes(h []primitives.Hash) []primitives.Hash {
	h = slices.Clone(h)
	slices.SortFunc(h, primitives.Hash.Compare)
	return h
}

// world is a forest, its reference, and the truth about one version.
type world struct {
	t         *testing.T
	f         *Forest
	root      *Root
	reference *referenceTrie
	truth     map[string][]byte
}

func newWorld(t *testing.T, f *Forest) *world {
	return &world{t, f, f.Empty(), newReference(nil, primitives.Hash{}), map[string][]byte{}}
}

// fork returns an independent version.
func (w *world) fork() *world {
	return &world{w.t, w.f, w.root.Retain(), w.reference, maps.Clone(w.truth)}
}

func (w *world) apply(changes []Change) {
	w.t.Helper()
	var rec Recording
	next, err := w.f.Update(w.root, changes, &rec)
	if err != nil {
		w.t.Fatal(err)
	}
	w.reference.Forget()
	reference, err := w.reference.Update(changes)
	if err != nil {
		w.t.Fatal(err)
	}
	if got, want := next.Hash(), reference.Root(); got != want {
		w.t.Fatalf("root = %v, want %v, after %s", got, want, show(changes))
	}
	if got, want := hashesOf(&rec), sortedHashes(w.reference.Visited()); !slices.Equal(got, want) {
		w.t.Fatalf("update recorded %v, want %v, for %s", got, want, show(changes))
	}
	for i, e := range rec.Entries() {
		if got, want := rec.AppendBytes(nil, i), w.reference.Bytes(e.Hash); !bytes.Equal(got, want) || int(e.Len) != len(want) {
			w.t.Fatalf("recorded bytes %x (length %d), want %x", got, e.Len, want)
		}
	}
	if !reference.Root().IsZero() {
		n, err := reference.Node(reference.Root())
		if err != nil {
			w.t.Fatal(err)
		}
		if got, want := next.MemoryUsage(), n.MemoryUsage; got != want {
			w.t.Fatalf("memory usage = %d, want %d", got, want)
		}
	}
	w.root.Release()
	w.root, w.reference = next, reference
	for _, c := range changes {
		if c.Value == nil {
			delete(w.truth, string(c.Key))
		} else {
			w.truth[string(c.Key)] = c.Value
		}
	}
}

func (w *world) lookup(key []byte) {
	w.t.Helper()
	var rec Recording
	w.reference.Forget()
	got, err := w.root.Get(key, &rec)
	if err != nil {
		w.t.Fatal(err)
	}
	want, err := w.reference.Get(key)
	if err != nil {
		w.t.Fatal(err)
	}
	if truth, ok := w.truth[string(key)]; !bytes.Equal(got, want) || !bytes.Equal(got, truth) || (got != nil) != ok {
		w.t.Fatalf("Get(%x) = %x, want %x (reference %x)", key, got, truth, want)
	}
	var order []primitives.Hash
	for _, e := range rec.Entries() {
		order = append(order, e.Hash)
	}
	if want := w.reference.Visited(); !slices.Equal(order, want) {
		w.t.Fatalf("Get(%x) recorded %v, want %v", key, order, want)
	}
	path, _, found, err := w.root.Path(key, nil, nil)
	if err != nil || found != (got != nil) {
		w.t.Fatalf("Path(%x): %v, %v", key, found, err)
	}
	n := len(path)
	if found {
		n++
	}
	if n < rec.Len() {
		w.t.Fatalf("path of %d nodes, recorded %d", len(path), rec.Len())
	}
}

func show(changes []Change) string {
	var b bytes.Buffer
	for _, c := range changes {
		if c.Value == nil {
			fmt.Fprintf(&b, "%x deleted; ", c.Key)
		} else {
			fmt.Fprintf(&b, "%x = %.8x(%d); ", c.Key, c.Value, len(c.Value))
		}
	}
	return b.String()
}

// randomKey makes keys that often share prefixes or are prefixes of each other.
func randomKey(r *rand.Rand, letters, longest int) []byte {
	key := make([]byte, r.IntN(longest+1))
	for i := range key {
		key[i] = []byte{0, 1, 0x10, 0x11, 0xff, 0x1f, 0xf0, 'a'}[r.IntN(letters)]
	}
	return key
}

func randomValue(r *rand.Rand) []byte {
	n := r.IntN(4)
	if r.IntN(20) == 0 {
		n = r.IntN(3 * maxInline)
	}
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(r.IntN(3))
	}
	return v
}

func randomChanges(r *rand.Rand, w *world, n, letters, longest int, deletions float64) []Change {
	set := map[string][]byte{}
	existing := slices.Sorted(maps.Keys(w.truth))
	for range n {
		switch {
		case r.Float64() >= deletions:
			set[string(randomKey(r, letters, longest))] = randomValue(r)
		case len(existing) > 0 && r.IntN(8) > 0:
			set[existing[r.IntN(len(existing))]] = nil
		default:
			set[string(randomKey(r, letters, longest))] = nil
		}
	}
	var out []Change
	for _, k := range slices.Sorted(maps.Keys(set)) {
		out = append(out, Change{Key: []byte(k), Value: set[k]})
	}
	return out
}

// TestForestMatchesReferenceTrie compares roots, memory usage and recorded nodes with those of
// nearcore's algorithm, which applies changes key by key, over random histories with forks. At the
// end it checks that all memory was freed.
func TestForestMatchesReferenceTrie(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := New(Options{})
		worlds := []*world{newWorld(t, f)}
		letters, longest := 2+r.IntN(7), 1+r.IntN(5)
		for range 30 {
			i := r.IntN(len(worlds))
			w := worlds[i]
			switch r.IntN(8) {
			case 0:
				if len(worlds) < 5 {
					worlds = append(worlds, w.fork())
				}
			case 1:
				if len(worlds) > 1 {
					w.root.Release()
					worlds = slices.Delete(worlds, i, i+1)
				}
			default:
				w.apply(randomChanges(r, w, r.IntN(12), letters, longest, []float64{0.1, 0.5, 0.9}[r.IntN(3)]))
			}
			for range 4 {
				w := worlds[r.IntN(len(worlds))]
				w.lookup(randomKey(r, letters, longest))
				if keys := slices.Sorted(maps.Keys(w.truth)); len(keys) > 0 {
					w.lookup([]byte(keys[r.IntN(len(keys))]))
				}
			}
		}
		for _, w := range worlds {
			for k := range w.truth {
				w.lookup([]byte(k))
			}
			built := w.build()
			if got, want := built.Hash(), w.root.Hash(); got != want {
				t.Fatalf("seed %d: built root = %v, want %v", seed, got, want)
			}
			if got, want := built.MemoryUsage(), w.root.MemoryUsage(); got != want {
				t.Fatalf("seed %d: built usage = %d, want %d", seed, got, want)
			}
			built.Release()
		}
		r.Shuffle(len(worlds), func(i, j int) { worlds[i], worlds[j] = worlds[j], worlds[i] })
		for _, w := range worlds {
			w.root.Release()
		}
		if s := f.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.Roots != 0 {
			t.Fatalf("seed %d: left over: %+v", seed, s)
		}
	}
}

// build makes the world's content anew.
func (w *world) build() *Root {
	w.t.Helper()
	root, err := w.f.Build(func(yield func(k, v []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(w.truth)) {
			if !yield([]byte(k), w.truth[k]) {
				return
			}
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return root
}
