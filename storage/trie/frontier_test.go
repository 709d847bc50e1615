package trie

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// disk is what storage keeps of a trie: flat values and the frontier.
type disk struct {
	flat     map[string][]byte
	frontier map[string]FrontierEntry // by level and path
	mu       sync.Mutex
	loads    int
	pairs    int // loaded
	rows     int // pages of entries
}

func (d *disk) load(from, to []byte, yield func(k, v []byte) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loads++
	for _, k := range slices.Sorted(maps.Keys(d.flat)) {
		if k >= string(from) && (to == nil || k < string(to)) {
			if d.pairs++; !yield([]byte(k), d.flat[k]) {
				break
			}
		}
	}
	return nil
}

// page is the disk's Rows.
func (d *disk) page(level int, path []byte, yield func(FrontierEntry) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rows++
	for _, e := range d.entries(level) {
		if bytes.HasPrefix(e.Path, path) && !yield(e) {
			break
		}
	}
	return nil
}

func (d *disk) source() Source { return Source{Load: d.load, Rows: d.page} }

// forest is one that finds all levels on the disk.
func (d *disk) forest(limit uint64) *Forest {
	f := New(Options{Frontier: limit})
	f.SetSource(d.source())
	return f
}

func (d *disk) entries(level int) []FrontierEntry {
	var out []FrontierEntry
	for _, p := range slices.Sorted(maps.Keys(d.frontier)) {
		if int(p[0]) != level {
			continue
		}
		e, stored := d.frontier[p], FrontierEntry{Path: []byte(p[1:])}
		if err := borsh.Unmarshal(borsh.Marshal(&e), &stored); err != nil {
			panic(err)
		}
		out = append(out, stored)
	}
	return out
}

// finalise stores what next has beyond old.
func (d *disk) finalise(t *testing.T, old *Root, next *Root, flat map[string][]byte) {
	t.Helper()
	puts, gone, err := next.FrontiersSince(old)
	if err != nil {
		t.Fatal(err)
	}
	for level := range Levels {
		put, removed, err := next.FrontierSince(old, level)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(put, puts[level], equalEntries) || !slices.EqualFunc(removed, gone[level], bytes.Equal) {
			t.Fatalf("of level %d alone %v are put and %x removed, with all others %v and %x", level, put, removed, puts[level], gone[level])
		}
		for _, p := range removed {
			if _, ok := d.frontier[rowKey(level, p)]; !ok {
				t.Fatalf("removed path %x of level %d, which was not there", p, level)
			}
			delete(d.frontier, rowKey(level, p))
		}
		for _, e := range put {
			d.frontier[rowKey(level, e.Path)] = e
		}
		d.flat = maps.Clone(flat)
		all, err := next.Frontier(level)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.entries(level); !slices.EqualFunc(got, all, equalEntries) {
			t.Fatalf("differences of level %d lead to %v, want %v", level, got, all)
		}
	}
}

func rowKey(level int, path []byte) string { return string(append([]byte{byte(level)}, path...)) }

func equalEntries(a, b FrontierEntry) bool {
	return bytes.Equal(a.Path, b.Path) && a.Hash == b.Hash && a.Size == b.Size && a.IsValue == b.IsValue && bytes.Equal(a.Data, b.Data)
}

func TestForestRestartsFromFrontier(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		limit := uint64(1 + r.IntN(3000))
		d := &disk{frontier: map[string]FrontierEntry{}}
		f := d.forest(limit)
		w := newWorld(t, f)
		letters, longest := 2+r.IntN(7), 1+r.IntN(5)
		for range 25 {
			old := w.root.Retain()
			w.apply(randomChanges(r, w, r.IntN(30), letters, longest, []float64{0.1, 0.5, 0.9}[r.IntN(3)]))
			d.finalise(t, old, w.root, w.truth)
			old.Release()
			if r.IntN(4) == 0 { // restart
				w.root.Release()
				if s := f.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.HashNodes != 0 {
					t.Fatalf("seed %d: left over: %+v", seed, s)
				}
				f = d.forest(limit)
				level := []int{0, Top, Top}[r.IntN(3)]
				if r.IntN(5) == 0 { // a disk without entries
					f = New(Options{Frontier: limit, Loader: d.load})
				}
				d.loads = 0
				root, err := f.Import(d.entries(level), w.reference.Root())
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				w.f, w.root = f, root
				if r.IntN(3) == 0 {
					var after []byte
					for {
						next, err := root.Verify(after, 1+r.IntN(3), r.IntN(2) == 0)
						if err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
						if after = next; after == nil {
							break
						}
					}
				}
			}
			for range 5 {
				w.lookup(randomKey(r, letters, longest))
				if keys := slices.Sorted(maps.Keys(w.truth)); len(keys) > 0 {
					w.lookup([]byte(keys[r.IntN(len(keys))]))
				}
			}
		}
		built := w.build()
		if got, want := built.Hash(), w.root.Hash(); got != want {
			t.Fatalf("seed %d: built root = %v, want %v", seed, got, want)
		}
		built.Release()
		w.root.Release()
		if s := f.Stats(); s.Nodes != 0 || s.Bytes != 0 || s.HashNodes != 0 {
			t.Fatalf("seed %d: left over: %+v", seed, s)
		}
	}
}

// TestImportLoadsLazily checks that an import loads nothing, that lookups from many goroutines at
// once load only the subtrees that they need, and that damaged data leads to an error that names
// the place.
func TestImportLoadsLazily(t *testing.T) {
	t.Parallel()
	keys := benchKeys(2000)
	b := &benchTrie{keys: keys}
	flat := map[string][]byte{}
	b.pairs(func(k, v []byte) bool { flat[string(k)] = bytes.Clone(v); return true })
	d := &disk{frontier: map[string]FrontierEntry{}}
	source := New(Options{Frontier: 64 << 10})
	full, err := source.Build(b.pairs)
	if err != nil {
		t.Fatal(err)
	}
	d.finalise(t, nil, full, flat)
	f := d.forest(64 << 10)
	root, err := f.Import(d.entries(0), full.Hash())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.loads, 0; got != want {
		t.Errorf("loads by an import = %d, want %d", got, want)
	}
	if got, want := root.MemoryUsage(), full.MemoryUsage(); got != want {
		t.Errorf("memory usage = %d, want %d", got, want)
	}
	if s := f.Stats(); s.HashNodes < 10 || s.Nodes > 200 {
		t.Errorf("after the import: %+v", s)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var rec Recording
			for i := range 50 {
				k := keys[(i*71+g)%len(keys)]
				if v, err := root.Get(k, &rec); err != nil || !bytes.Equal(v, flat[string(k)]) {
					t.Errorf("Get(%q) = %x, %v", k, v, err)
				}
			}
		})
	}
	wg.Go(func() { // a writer among the readers
		at := root.Retain()
		for i := range 50 {
			next, err := f.Update(at, []Change{{Key: keys[(i*131)%len(keys)], Value: []byte{byte(i)}}}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			at.Release()
			at = next
		}
		at.Release()
	})
	wg.Wait()

	d.flat[string(keys[0])] = []byte("damage")
	bad := d.forest(64 << 10)
	if root, err = bad.Import(d.entries(0), full.Hash()); err != nil {
		t.Fatal(err)
	}
	before := bad.Stats()
	if _, err := root.Get(keys[0], nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "path 00000705") {
		t.Errorf("Get from a damaged subtree: %v", err)
	}
	if _, err := bad.Update(root, []Change{{Key: keys[0]}}, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Update of a damaged subtree: %v", err)
	}
	if _, err := root.Verify(nil, 1000, false); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Verify of a damaged subtree: %v", err)
	}
	if got := bad.Stats(); got != before {
		t.Errorf("after failures: %+v, want %+v", got, before)
	}
	if _, err := bad.Import(d.entries(0)[1:], full.Hash()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Import of a part: %v, want %v", err, ErrCorrupt)
	}
	if _, err := bad.Import(nil, primitives.Hash{1}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Import of nothing: %v, want %v", err, ErrCorrupt)
	}
}

// TestReadersBesideWriterSeeTheirRoot reads held roots while a writer derives, forks and releases
// others.
func TestReadersBesideWriterSeeTheirRoot(t *testing.T) {
	t.Parallel()
	w := benchTrieOf(t, 200)
	roots := make(chan *Root, 8)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var rec Recording
			for root := range roots {
				rec.Reset()
				count := 0
				s := root.Scan(nil, nil, &rec)
				for s.Next() {
					if v, err := root.Get(s.Key(), nil); err != nil || !bytes.Equal(v, s.Value()) {
						t.Errorf("Get(%x) = %x, %v, scanned %x", s.Key(), v, err, s.Value())
					}
					count++
				}
				p, err := NewPartial(rec.Proof(), root.Hash())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := p.Get(w.keys[0], nil); err != nil || got == nil || count != len(w.keys) {
					t.Errorf("of %d pairs, the first is %x, %v", count, got, err)
				}
				root.Release()
			}
		})
	}
	base := w.root.Retain()
	for i := range 300 {
		var changes []Change
		for k := i % 7; k < len(w.keys); k += 37 {
			changes = append(changes, Change{Key: w.keys[k], Value: bytes.Repeat([]byte{byte(i)}, i*10)})
		}
		next, err := w.f.Update(base, changes, nil)
		if err != nil {
			t.Fatal(err)
		}
		roots <- next.Retain()
		if i%5 == 0 { // a fork that goes nowhere
			next.Release()
			continue
		}
		base.Release()
		base = next
	}
	close(roots)
	wg.Wait()
	base.Release()
	w.root.Release()
	if s := w.f.Stats(); s.Nodes != 0 || s.Bytes != 0 {
		t.Errorf("left over: %+v", s)
	}
}
