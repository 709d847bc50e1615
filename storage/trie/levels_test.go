package trie

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestBuiltFrontierEqualsThatOfTrie: the frontier that a build emits equals that of the resulting
// trie, with or without a bound on the memory of nodes.
func TestBuiltFrontierEqualsThatOfTrie(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 8))
		d := &disk{frontier: map[string]FrontierEntry{}}
		limit := uint64(1 + r.IntN(3000))
		f := d.forest(limit)
		w := newWorld(t, f)
		w.apply(randomChanges(r, w, 1+r.IntN(200), 2+r.IntN(7), 1+r.IntN(5), 0))
		got := map[string]FrontierEntry{}
		root, err := New(Options{Frontier: limit}).BuildFrontier(pairsOf(w.truth), uint64(r.IntN(2)), func(level int, e *FrontierEntry) {
			x := *e
			if x.Path = bytes.Clone(e.Path); x.IsValue {
				x.Data = w.truth[string(packNibbles(e.Path))]
			}
			if _, twice := got[rowKey(level, x.Path)]; twice {
				t.Errorf("seed %d: path %x of level %d twice", seed, x.Path, level)
			}
			got[rowKey(level, x.Path)] = x
		})
		if err != nil || root.Hash() != w.root.Hash() {
			t.Fatalf("seed %d: root %v, %v, want %v", seed, root.Hash(), err, w.root.Hash())
		}
		d.finalise(t, nil, w.root, w.truth)
		same := func(a, b FrontierEntry) bool {
			return bytes.Equal(a.Path, b.Path) && a.Hash == b.Hash && a.Size == b.Size && a.IsValue == b.IsValue
		}
		if !maps.EqualFunc(got, d.frontier, same) {
			t.Fatalf("seed %d: built %d entries, the trie has %d\n%v\n%v", seed, len(got), len(d.frontier), got, d.frontier)
		}
	}
}

// pairsOf yields pairs in order.
func pairsOf(truth map[string][]byte) func(yield func(k, v []byte) bool) {
	return func(yield func(k, v []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(truth)) {
			if !yield([]byte(k), truth[k]) {
				return
			}
		}
	}
}

// bigDisk has the state of many accounts, with all levels, built without room for the nodes.
func bigDisk(t testing.TB, accounts int) (*disk, *Root, [][]byte) {
	keys := benchKeys(accounts)
	b := &benchTrie{keys: keys}
	d := &disk{flat: map[string][]byte{}, frontier: map[string]FrontierEntry{}}
	b.pairs(func(k, v []byte) bool { d.flat[string(k)] = bytes.Clone(v); return true })
	f := New(Options{})
	root, err := f.BuildFrontier(b.pairs, 1, func(level int, e *FrontierEntry) {
		x := *e
		x.Path = bytes.Clone(e.Path)
		d.frontier[rowKey(level, x.Path)] = x
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, root, keys
}

// TestBuildWithBoundKeepsLittle: a build with a bound keeps few nodes in memory. A start then reads
// one frontier entry; a first read loads one page of entries for each level and one page of pairs;
// after Preload, it loads only the last two pages.
func TestBuildWithBoundKeepsLittle(t *testing.T) {
	t.Parallel()
	d, full, keys := bigDisk(t, 30_000)
	if s := full.Forest().Stats(); s.Bytes > 4<<20 {
		t.Errorf("a build without room keeps %d bytes of %d", s.Bytes, full.MemoryUsage())
	}
	f := d.forest(0)
	root, err := f.Import(d.entries(Top), full.Hash())
	if err != nil {
		t.Fatal(err)
	}
	touch := func(i int) (pages, loads, pairs int) {
		d.rows, d.loads, d.pairs = 0, 0, 0
		if v, err := root.Get(keys[i], nil); err != nil || !bytes.Equal(v, d.flat[string(keys[i])]) {
			t.Fatalf("Get(%q) = %x, %v", keys[i], v, err)
		}
		return d.rows, d.loads, d.pairs
	}
	if pages, loads, pairs := touch(len(keys) / 3); pages < 3 || pages > 4 || loads != 1 || pairs > 30 {
		t.Errorf("the first touch read %d pages of entries and %d pairs in %d loads", pages, pairs, loads)
	}
	par := func(n int, do func(i int)) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}
	if err := root.Preload(64<<10, par, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	if pages, loads, pairs := touch(len(keys) / 5 * 4); pages > 1 || loads != 1 || pairs > 30 {
		t.Errorf("a touch after a preload read %d pages of entries and %d pairs in %d loads", pages, pairs, loads)
	}
	if err := root.Preload(0, par, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	if pages, loads, _ := touch(len(keys) / 7); pages != 0 || loads != 1 {
		t.Errorf("a touch after a whole preload read %d pages of entries, %d loads", pages, loads)
	}
	before := f.Stats().Bytes // entries of another version: pairs tell
	next, _, err := f.Evict(root, root, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	root.Release()
	root = next
	if s := f.Stats(); s.Bytes > before/4 {
		t.Errorf("%d of %d bytes stay", s.Bytes, before)
	}
	for k, e := range d.frontier {
		if k[0] == 1 {
			e.Hash[0] ^= 1
			d.frontier[k] = e
		}
	}
	if _, loads, pairs := touch(len(keys) / 2); loads == 0 || pairs < 50 {
		t.Errorf("beside entries of another version a touch read %d pairs in %d loads", pairs, loads)
	}
	d.frontier = map[string]FrontierEntry{rowKey(Top, nil): d.frontier[rowKey(Top, nil)]}
	f = d.forest(0)
	if root, err = f.Import(d.entries(Top), full.Hash()); err != nil {
		t.Fatal(err)
	}
	touch(5)
}

// TestVerifyKeepsNothing: verifying the stored data reads all of it, keeps nothing in memory, and
// finds damaged data.
func TestVerifyKeepsNothing(t *testing.T) {
	t.Parallel()
	d, full, keys := bigDisk(t, 5_000)
	f := d.forest(0)
	root, err := f.Import(d.entries(Top), full.Hash())
	if err != nil {
		t.Fatal(err)
	}
	check := func() error {
		for after := []byte(nil); ; {
			var err error
			if after, err = root.Verify(after, 7, false); err != nil || after == nil {
				return err
			}
		}
	}
	if err := check(); err != nil || d.pairs != len(d.flat) {
		t.Errorf("a check read %d of %d pairs: %v", d.pairs, len(d.flat), err)
	}
	if s := f.Stats(); s.HashNodes != 1 {
		t.Errorf("a check left %+v", s)
	}
	d.flat[string(keys[4321])] = []byte("damage")
	if err := check(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a check of damaged pairs: %v", err)
	}
}

// TestStaleSourceIsUsedIfHashMatches: data from a stale source is used if it has the expected hash,
// and then nothing else is read. If it has another hash, or if reading it fails, the source itself
// is read.
func TestStaleSourceIsUsedIfHashMatches(t *testing.T) {
	t.Parallel()
	d, full, keys := bigDisk(t, 700)
	stale := &disk{flat: maps.Clone(d.flat), frontier: maps.Clone(d.frontier)}
	changed := keys[len(keys)/2]
	stale.flat[string(changed)] = []byte("another")
	failing := errors.New("no disk")
	for _, what := range []string{"same", "stale", "failing", "busy", "none"} {
		f := d.forest(0)
		src := d.source()
		asked, right, given := 0, 0, 0
		src.Stale = func() (*Source, func(bool)) {
			asked++
			if what == "busy" {
				return nil, nil
			}
			early := stale.source()
			switch what {
			case "same":
				early = Source{Load: d.flatOnly().load, Rows: stale.page}
			case "failing":
				early.Load = func(_, _ []byte, _ func(k, v []byte) bool) error { return failing }
				early.Rows = func(int, []byte, func(FrontierEntry) bool) error { return failing }
			}
			given++
			return &early, func(ok bool) {
				given--
				if ok {
					right++
				}
			}
		}
		if what == "none" {
			src.Stale = nil
		}
		f.SetSource(src)
		root, err := f.Import(d.entries(Top), full.Hash())
		if err != nil {
			t.Fatal(err)
		}
		d.loads, d.rows = 0, 0
		for i := 0; i < len(keys); i += 7 {
			if v, err := root.Get(keys[i], nil); err != nil || !bytes.Equal(v, d.flat[string(keys[i])]) {
				t.Fatalf("%s: Get(%q) = %x, %v", what, keys[i], v, err)
			}
		}
		if v, err := root.Get(changed, nil); err != nil || !bytes.Equal(v, d.flat[string(changed)]) {
			t.Fatalf("%s: Get(%q) = %x, %v", what, changed, v, err)
		}
		if given != 0 {
			t.Errorf("%s: %d readers are not given back", what, given)
		}
		switch what {
		case "same":
			if d.loads+d.rows > 0 || right != asked || asked == 0 {
				t.Errorf("%s: %d loads and %d pages of the source itself; %d of %d found", what, d.loads, d.rows, right, asked)
			}
		case "stale":
			if d.loads != 1 || d.rows != 0 || right != asked-1 {
				t.Errorf("%s: %d loads and %d pages of the source itself, want that of the key that has changed; %d of %d found", what, d.loads, d.rows, right, asked)
			}
		default:
			if d.loads == 0 || d.rows == 0 || right != 0 {
				t.Errorf("%s: %d loads and %d pages of the source itself; %d found", what, d.loads, d.rows, right)
			}
		}
		root.Release()
	}
}

// flatOnly is a disk with the same pairs, which counts for itself.
func (d *disk) flatOnly() *disk { return &disk{flat: d.flat, frontier: d.frontier} }
