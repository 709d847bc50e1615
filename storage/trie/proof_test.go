package trie

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// reader is what a root and what its proof shows have in common.
type reader struct {
	get    func([]byte, *Recording) ([]byte, error)
	path   func([]byte, *Recording) ([]Visit, ValueID, bool, error)
	scan   func(prefix, after []byte, rec *Recording, yield func(k, v []byte) bool) error
	split  func(*Recording) (primitives.TrieSplit, error)
	update func([]Change, *Recording) (primitives.Hash, uint64, error)
	keep   func([]Interval, *Recording) (primitives.Hash, error)
}

func readerOf(r *Root) reader {
	return reader{
		get: r.Get,
		path: func(k []byte, rec *Recording) ([]Visit, ValueID, bool, error) {
			path, v, found, err := r.Path(k, rec, nil)
			return path, v.ValueID, found, err
		},
		scan: func(prefix, after []byte, rec *Recording, yield func(k, v []byte) bool) error {
			s := r.Scan(prefix, after, rec)
			for s.Next() {
				if !yield(s.Key(), s.Value()) {
					return nil
				}
			}
			return s.Err()
		},
		split: r.FindSplit,
		update: func(c []Change, rec *Recording) (primitives.Hash, uint64, error) {
			next, err := r.Forest().Update(r, c, rec)
			if err != nil {
				return primitives.Hash{}, 0, err
			}
			defer next.Release()
			return next.Hash(), next.MemoryUsage(), nil
		},
		keep: func(i []Interval, rec *Recording) (primitives.Hash, error) {
			next, err := r.Forest().RetainIntervals(r, i, rec)
			if err != nil {
				return primitives.Hash{}, err
			}
			defer next.Release()
			return next.Hash(), nil
		},
	}
}

func readerOfProof(p *Partial) reader {
	return reader{
		get:   p.Get,
		path:  func(k []byte, rec *Recording) ([]Visit, ValueID, bool, error) { return p.Path(k, rec, nil) },
		scan:  p.Scan,
		split: p.FindSplit,
		update: func(c []Change, rec *Recording) (primitives.Hash, uint64, error) {
			next, err := p.Update(c, rec)
			if err != nil {
				return primitives.Hash{}, 0, err
			}
			return next.Root(), next.MemoryUsage(), nil
		},
		keep: func(i []Interval, rec *Recording) (primitives.Hash, error) {
			next, err := p.RetainIntervals(i, rec)
			if err != nil {
				return primitives.Hash{}, err
			}
			return next.Root(), nil
		},
	}
}

// work is a random list of operations. Each runs on a reader and returns a text with its result and
// with what rec has recorded so far.
type work []func(r *reader, rec *Recording) string

// randomWork returns random work. If bounded is set, it may contain scans that start after a key.
// Such scans do not record how they find their beginning, so a proof made from the recording lacks
// those nodes.
func randomWork(r *rand.Rand, w *world, letters, longest int, bounded bool) (out work) {
	for range 1 + r.IntN(12) {
		key, after := randomKey(r, letters, longest), []byte(nil)
		if bounded && r.IntN(2) == 0 {
			after = randomKey(r, letters, longest)
		}
		most := r.IntN(8)
		switch r.IntN(4) {
		case 0:
			out = append(out, func(r *reader, rec *Recording) string {
				v, err := r.get(key, rec)
				return fmt.Sprint("get ", v, v == nil, err)
			})
		case 1:
			out = append(out, func(r *reader, rec *Recording) string {
				path, v, found, err := r.path(key, rec)
				if !found {
					v = ValueID{}
				}
				return fmt.Sprint("path ", path, v, found, err)
			})
		case 2:
			prefix := key[:r.IntN(len(key)+1)]
			out = append(out, func(r *reader, rec *Recording) string {
				var b bytes.Buffer
				n := 0
				err := r.scan(prefix, after, rec, func(k, v []byte) bool {
					fmt.Fprint(&b, k, v, " ")
					n++
					return n != most
				})
				return fmt.Sprint("scan ", b.String(), err)
			})
		default:
			out = append(out, func(r *reader, rec *Recording) string {
				split, err := r.split(rec)
				if errors.Is(err, ErrNoSplit) {
					err = ErrNoSplit
				}
				return fmt.Sprint("split ", split, err)
			})
		}
	}
	changes := randomChanges(r, w, r.IntN(20), letters, longest, 0.5)
	out = append(out, func(r *reader, rec *Recording) string {
		root, usage, err := r.update(changes, rec)
		return fmt.Sprint("update ", root, usage, err)
	})
	if r.IntN(3) == 0 {
		a, b := randomKey(r, letters, longest), randomKey(r, letters, longest)
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		out = append(out, func(r *reader, rec *Recording) string {
			root, err := r.keep([]Interval{{a, b}}, rec)
			return fmt.Sprint("keep ", root, err)
		})
	}
	return out
}

func (w work) do(r reader, rec *Recording) (out []string) {
	for _, f := range w {
		said := f(&r, rec)
		out = append(out, fmt.Sprintf("%s; %d bytes recorded, %v", said, rec.Size(), hashesOf(rec)))
	}
	return out
}

// TestPartialEqualsRootOnItsProof: on the proof of what was read from a root, the same work has the
// same results and records, step by step. If some of the proof is removed, the work fails with
// ErrMissing at some step, and until then equals the work on the root.
func TestPartialEqualsRootOnItsProof(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 11))
		w := newWorld(t, New(Options{}))
		letters, longest := 2+r.IntN(7), 1+r.IntN(5)
		w.apply(randomChanges(r, w, r.IntN(80), letters, longest, 0))
		list := randomWork(r, w, letters, longest, false)
		var rec, again Recording
		want := list.do(readerOf(w.root), &rec)
		proof := rec.Proof()
		mixed := append(slices.Clone(proof), []byte("not referenced"), nil)
		if len(proof) > 0 {
			mixed = append(mixed, proof[0])
		}
		r.Shuffle(len(mixed), func(i, k int) { mixed[i], mixed[k] = mixed[k], mixed[i] })
		p, err := NewPartial(mixed, w.root.Hash())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.MemoryUsage(), w.root.MemoryUsage(); got != want {
			t.Fatalf("seed %d: memory usage = %d, want %d", seed, got, want)
		}
		for i, got := range list.do(readerOfProof(p), &again) {
			if got != want[i] {
				t.Fatalf("seed %d: on the proof:\n%s\nwant\n%s", seed, got, want[i])
			}
		}
		if got := again.Proof(); !slices.EqualFunc(got, proof, bytes.Equal) {
			t.Fatalf("seed %d: the proof of the proof has %d strings, want %d", seed, len(got), len(proof))
		}
		for i := range proof {
			less := slices.Delete(slices.Clone(proof), i, i+1)
			p, err := NewPartial(less, w.root.Hash())
			if errors.Is(err, ErrMissing) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			missed := false
			for k, f := range list {
				part, whole := readerOfProof(p), readerOf(w.root)
				got, want := f(&part, new(Recording)), f(&whole, new(Recording))
				if got == want {
					continue
				}
				missed = true
				if !strings.Contains(got, ErrMissing.Error()) {
					t.Fatalf("seed %d: without string %d step %d says\n%s\nwant\n%s", seed, i, k, got, want)
				}
			}
			if !missed {
				t.Fatalf("seed %d: nobody missed string %d", seed, i)
			}
		}
		w.root.Release()
	}
}

// TestUpdatedPartialKeepsOldOne: the result of an update can be read and updated again, and the
// trie before the update does not change.
func TestUpdatedPartialKeepsOldOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 12))
		w := newWorld(t, New(Options{}))
		p, err := NewPartial(nil, primitives.Hash{})
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			before, list := p, randomWork(r, w, 5, 4, true)
			var rec, again Recording
			want := list.do(readerOf(w.root), &rec)
			changes := randomChanges(r, w, r.IntN(20), 5, 4, 0.3)
			if p, err = p.Update(changes, nil); err != nil {
				t.Fatal(err)
			}
			if got := list.do(readerOfProof(before), &again); !slices.Equal(got, want) {
				t.Fatalf("seed %d: after an update the old trie returns\n%v\nwant\n%v", seed, got, want)
			}
			w.apply(changes)
			if p.Root() != w.root.Hash() || p.MemoryUsage() != w.root.MemoryUsage() {
				t.Fatalf("seed %d: root %v, want %v", seed, p.Root(), w.root.Hash())
			}
		}
		w.root.Release()
	}
}

// TestPartialRefusesFalseNodes: a Partial refuses strings that are not nodes, and nodes with false
// contents.
func TestPartialRefusesFalseNodes(t *testing.T) {
	t.Parallel()
	value := []byte("value")
	id := ValueID{uint32(len(value)), primitives.HashBytes(value)}
	good := RawNode{Kind: Leaf, Key: []byte{0x20, 'a'}, Value: id, MemoryUsage: 109}
	with := func(change func(n *RawNode)) []byte {
		n := good
		change(&n)
		return borsh.Marshal(&n)
	}
	read := func(list ...[]byte) error {
		p, err := NewPartial(append(list, value), primitives.HashBytes(list[0]))
		if err == nil {
			_, err = p.Get([]byte("a"), nil)
		}
		if err == nil {
			_, err = p.Update([]Change{{Key: []byte("a"), Value: []byte{}}, {Key: []byte("b"), Value: []byte{}}}, nil)
		}
		return err
	}
	leaf := borsh.Marshal(&good)
	if err := read(leaf); err != nil {
		t.Fatal(err)
	}
	branch := RawNode{Kind: Branch, Mask: 1 << 6, MemoryUsage: 60}
	branch.Children[6] = primitives.HashBytes(with(func(n *RawNode) { n.Key = []byte{0x31} }))
	for name, list := range map[string][][]byte{
		"empty":             {{}},
		"cut":               {leaf[:len(leaf)-1]},
		"longer":            {append(bytes.Clone(leaf), 0)},
		"tag":               {append([]byte{4}, leaf[1:]...)},
		"no key":            {with(func(n *RawNode) { n.Key = nil })},
		"no leaf's key":     {with(func(n *RawNode) { n.Key = []byte{0, 'a'} })},
		"bits in the key":   {with(func(n *RawNode) { n.Key = []byte{0x21, 'a'} })},
		"high bits":         {with(func(n *RawNode) { n.Key = []byte{0x60, 'a'} })},
		"long key":          {with(func(n *RawNode) { n.Key = append([]byte{0x20}, make([]byte, MaxKeyLen+1)...) })},
		"length of the key": {append([]byte{0, 255, 255, 255, 255}, leaf[5:]...)},
		"empty extension":   {borsh.Marshal(&RawNode{Kind: Extension, Key: []byte{0}, MemoryUsage: 100})},
		"usage":             {with(func(n *RawNode) { n.MemoryUsage = 108 })},
		"huge usage":        {with(func(n *RawNode) { n.MemoryUsage = 1 << 60 })},
		"length of value":   {with(func(n *RawNode) { n.Value.Len, n.MemoryUsage = 4, 108 })},
		"child uses more":   {borsh.Marshal(&branch), with(func(n *RawNode) { n.Key = []byte{0x31} })},
	} {
		t.Run(name, func(t *testing.T) {
			if err := read(list...); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want %v", err, ErrCorrupt)
			}
		})
	}
	if _, err := NewPartial(slices.Repeat([][]byte{make([]byte, 1<<20)}, 65), primitives.Hash{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("65 MiB: %v, want %v", err, ErrCorrupt)
	}
	// A tower of branches, each with the same child sixteen times, shows 16^20 pairs in 20 strings.
	top, tower := leafOf(id), [][]byte(nil)
	for range 20 {
		tower = append(tower, top)
		n := RawNode{Kind: Branch, Mask: 0xffff, MemoryUsage: 1 << 50}
		for i := range n.Children {
			n.Children[i] = primitives.HashBytes(top)
		}
		top = borsh.Marshal(&n)
	}
	p, err := NewPartial(append(tower, top, value), primitives.HashBytes(top))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Scan(nil, nil, nil, func(_, _ []byte) bool { return true }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("scan of 16^20 pairs: %v, want %v", err, ErrCorrupt)
	}
}

func leafOf(v ValueID) []byte {
	return borsh.Marshal(&RawNode{Kind: Leaf, Key: []byte{0x20}, Value: v, MemoryUsage: 52 + valueCost(v.Len)})
}

// TestPartialReadersAreIndependent: concurrent readers with separate recordings do not affect each
// other; the race detector checks it.
func TestPartialReadersAreIndependent(t *testing.T) {
	t.Parallel()
	w := benchTrieOf(t, 300)
	var rec Recording
	for _, k := range w.keys {
		if _, err := w.root.Get(k, &rec); err != nil {
			t.Fatal(err)
		}
	}
	p, err := NewPartial(rec.Proof(), w.root.Hash())
	if err != nil {
		t.Fatal(err)
	}
	recs, done := make([]Recording, 4), make(chan error)
	for i := range recs {
		go func() {
			for k := i; k < len(w.keys); k += len(recs) {
				if v, err := p.Get(w.keys[k], &recs[i]); err != nil || v == nil {
					done <- fmt.Errorf("%x: %v, %w", w.keys[k], v, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range recs {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for i := range recs[1:] {
		recs[0].Merge(&recs[i+1])
	}
	if got, want := hashesOf(&recs[0]), hashesOf(&rec); !slices.Equal(got, want) || recs[0].Size() != rec.Size() {
		t.Errorf("merged %d strings, want %d", len(got), len(want))
	}
}

// BenchmarkPartial measures decoding a proof of n reads, and reading and updating it, compared with
// the same work on the whole trie.
func BenchmarkPartial(b *testing.B) {
	w := benchWorld(b, 500_000)
	const n = 10_000
	keys, changes := make([][]byte, n), make([]Change, n)
	for i := range keys {
		keys[i] = w.keys[i*len(w.keys)/n]
		changes[i] = Change{Key: keys[i], Value: bytes.Repeat([]byte{byte(i), 1}, 40)}
	}
	work := func(b *testing.B, r reader, rec *Recording) {
		for _, k := range keys {
			if _, err := r.get(k, rec); err != nil {
				b.Fatal(err)
			}
		}
		if _, _, err := r.update(changes, rec); err != nil {
			b.Fatal(err)
		}
	}
	var rec Recording
	work(b, readerOf(w.root), &rec)
	proof, root := rec.Proof(), w.root.Hash()
	b.Run(fmt.Sprintf("trie=whole/keys=%d", n), func(b *testing.B) {
		for b.Loop() {
			rec.Reset()
			work(b, readerOf(w.root), &rec)
		}
	})
	b.Run(fmt.Sprintf("trie=proof/keys=%d", n), func(b *testing.B) {
		var rec Recording
		for b.Loop() {
			p, err := NewPartial(proof, root)
			if err != nil {
				b.Fatal(err)
			}
			rec.Reset()
			work(b, readerOfProof(p), &rec)
		}
		b.ReportMetric(float64(rec.Size()), "B/proof")
	})
}
