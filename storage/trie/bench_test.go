package trie

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// benchKeys makes n account keys (column 0) and n access keys (column 2), sorted.
func benchKeys(n int) [][]byte {
	var keys [][]byte
	for i := range n {
		var seed [8]byte
		binary.LittleEndian.PutUint64(seed[:], uint64(i))
		h := primitives.HashBytes(seed[:])
		name := fmt.Sprintf("user%07d.%x.near", i, h[:2])
		keys = append(keys, append([]byte{0}, name...))
		key := append(append([]byte{2}, name...), 2, 0)
		keys = append(keys, append(key, h[:]...))
	}
	slices.SortFunc(keys, slices.Compare)
	return keys
}

type benchTrie struct {
	f    *Forest
	root *Root
	keys [][]byte
}

var benchTries = map[int]*benchTrie{}

func benchWorld(b *testing.B, accounts int) *benchTrie {
	if t, ok := benchTries[accounts]; ok {
		return t
	}
	t := &benchTrie{f: New(Options{}), keys: benchKeys(accounts)}
	var err error
	if t.root, err = t.f.Build(t.pairs); err != nil {
		b.Fatal(err)
	}
	benchTries[accounts] = t
	return t
}

func (t *benchTrie) pairs(yield func(k, v []byte) bool) {
	var v [80]byte
	for i, k := range t.keys {
		binary.LittleEndian.PutUint64(v[:], uint64(i))
		if !yield(k, v[:80-k[0]*30]) {
			return
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		t := &benchTrie{keys: benchKeys(n)}
		b.Run(fmt.Sprintf("keys=%d", len(t.keys)), func(b *testing.B) {
			for b.Loop() {
				f := New(Options{})
				if _, err := f.Build(t.pairs); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(f.Stats().Bytes)/float64(len(t.keys)), "B/key")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(t.keys)), "ns/key")
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1000, 500_000} {
		for _, rec := range []*Recording{nil, new(Recording)} {
			t := benchWorld(b, n)
			b.Run(fmt.Sprintf("op=lookup/keys=%d/record=%v", len(t.keys), rec != nil), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				i := 0
				for b.Loop() {
					if i++; i%4000 == 0 && rec != nil {
						rec.Reset()
					}
					if v, err := t.root.Get(t.keys[r.IntN(len(t.keys))], rec); v == nil || err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, changed := range []int{10, 1000, 30_000} {
		t := benchWorld(b, 500_000)
		b.Run(fmt.Sprintf("op=update/keys=%d/changed=%d", len(t.keys), changed), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			root, i := t.root.Retain(), uint64(0)
			var rec Recording
			for b.Loop() {
				b.StopTimer()
				pick := map[int]bool{}
				for len(pick) < changed {
					pick[r.IntN(len(t.keys))] = true
				}
				var changes []Change
				for k := range pick {
					i++
					changes = append(changes, Change{Key: t.keys[k], Value: binary.LittleEndian.AppendUint64(make([]byte, 72), i)})
				}
				slices.SortFunc(changes, func(a, b Change) int { return slices.Compare(a.Key, b.Key) })
				rec.Reset()
				b.StartTimer()
				next, err := t.f.Update(root, changes, &rec)
				if err != nil {
					b.Fatal(err)
				}
				root.Release()
				root = next
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*changed), "ns/key")
			root.Release()
		})
	}
}

// BenchmarkImport is a restart: from the stored frontier to the first lookup.
func BenchmarkImport(b *testing.B) {
	t := benchWorld(b, 500_000)
	frontier, err := t.root.Frontier(0)
	if err != nil {
		b.Fatal(err)
	}
	values := make([][]byte, 0, len(t.keys))
	t.pairs(func(_, v []byte) bool { values = append(values, slices.Clone(v)); return true })
	load := func(from, to []byte, yield func(k, v []byte) bool) error {
		i, _ := slices.BinarySearchFunc(t.keys, from, slices.Compare)
		for ; i < len(t.keys) && (to == nil || slices.Compare(t.keys[i], to) < 0) && yield(t.keys[i], values[i]); i++ {
		}
		return nil
	}
	b.Run(fmt.Sprintf("op=import/keys=%d/entries=%d", len(t.keys), len(frontier)), func(b *testing.B) {
		for b.Loop() {
			root, err := New(Options{Loader: load}).Import(frontier, t.root.Hash())
			if err != nil {
				b.Fatal(err)
			}
			if v, err := root.Get(t.keys[4711], nil); v == nil || err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSplit measures two things. The first is how long a shard split stops blocks, which does
// not depend on the number of accounts. The second is the cost of each subtree that is read for the
// first time after it, either copied from the parent shard or loaded from its pairs.
func BenchmarkSplit(b *testing.B) {
	const accounts = 100_000
	w := benchWorld(b, accounts)
	keep := SplitIntervals(primitives.AccountID(fmt.Sprintf("user%07d", accounts/2)), true)
	child := func(origin bool) (*Root, *Root) {
		whole, err := w.f.RetainIntervals(w.root, keep, nil)
		if err != nil {
			b.Fatal(err)
		}
		f := New(Options{Loader: whole.Range})
		var root *Root
		if origin {
			f.SetSource(Source{Load: whole.Range, Borrow: func(use func(*Root) error) error { return use(whole) }})
			root, err = f.Inherit(whole)
		} else {
			var frontier []FrontierEntry
			if frontier, err = whole.Frontier(0); err == nil {
				root, err = f.Import(frontier, whole.Hash())
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		return root, whole
	}
	b.Run(fmt.Sprintf("op=split/accounts=%d", accounts), func(b *testing.B) {
		for b.Loop() {
			root, whole := child(true)
			root.Release()
			whole.Release()
		}
	})
	for _, op := range []string{"copy", "load"} {
		b.Run(fmt.Sprintf("op=%s/accounts=%d", op, accounts), func(b *testing.B) {
			var subtrees int
			for b.Loop() {
				root, whole := child(op == "copy")
				if _, err := root.Verify(nil, 1<<30, true); err != nil {
					b.Fatal(err)
				}
				subtrees = root.Forest().Stats().HashNodes
				root.Release()
				whole.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*subtrees), "us/subtree")
		})
	}
}
