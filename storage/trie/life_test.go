package trie

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// version is a block's state: what an engine holds of it, and what it must be.
type version struct {
	root    *Root
	changes []Change // since the one before
	truth   map[string][]byte
}

// forestRun uses a forest as a node does. One writer updates and evicts, and readers hold the roots that
// they read. Advances of the flat head run beside the writer and release roots on their own
// goroutine. Restarts begin with what the last advance has stored.
type forestRun struct {
	t          *testing.T
	rng        *rand.Rand
	disk       *disk
	modelRoots *Forest // where the truth is built

	mu   sync.Mutex // live
	live []*version // from the flat head up
}

func (l *forestRun) truthOf(truth map[string][]byte) primitives.Hash {
	root, err := l.modelRoots.Build(func(yield func(k, v []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(truth)) {
			if !yield([]byte(k), truth[k]) {
				return
			}
		}
	})
	if err != nil {
		l.t.Fatal(err)
	}
	defer root.Release()
	return root.Hash()
}

// open begins with the stored frontier and applies the versions above the flat head again.
func (l *forestRun) open() {
	f := New(Options{Frontier: 400, Poison: true})
	first := l.live[0]
	f.SetSource(Source{Load: sourceOf(first.truth).Load, Rows: l.disk.page})
	var err error
	if first.root, err = f.Import(l.disk.entries(Top), l.truthOf(first.truth)); err != nil {
		l.t.Fatal(err)
	}
	for i, v := range l.live[1:] {
		if v.root, err = f.Update(l.live[i].root, v.changes, nil); err != nil {
			l.t.Fatal(err)
		}
		if want := l.truthOf(v.truth); v.root.Hash() != want {
			l.t.Fatalf("version %d of %d does not lead to its root again: %v, want %v", i+1, len(l.live), v.root.Hash(), want)
		}
	}
}

// write derives the next version from the newest.
func (l *forestRun) write(rec *Recording) {
	last := l.live[len(l.live)-1]
	v := &version{truth: maps.Clone(last.truth)}
	for range l.rng.IntN(8) {
		key, value := randomKey(l.rng, 6, 4), randomValue(l.rng)
		if l.rng.IntN(3) == 0 {
			if keys := slices.Sorted(maps.Keys(v.truth)); len(keys) > 0 {
				key = []byte(keys[l.rng.IntN(len(keys))])
			}
			value = nil
		}
		if slices.ContainsFunc(v.changes, func(c Change) bool { return string(c.Key) == string(key) }) {
			continue
		}
		v.changes = append(v.changes, Change{Key: key, Value: value})
		if v.truth[string(key)] = value; value == nil {
			delete(v.truth, string(key))
		}
	}
	slices.SortFunc(v.changes, func(a, b Change) int { return slices.Compare(a.Key, b.Key) })
	rec.Reset()
	for _, c := range v.changes {
		if _, err := last.root.Get(c.Key, rec); err != nil {
			l.t.Fatal(err)
		}
	}
	var err error
	if v.root, err = last.root.Forest().Update(last.root, v.changes, rec); err != nil {
		l.t.Fatal(err)
	}
	if got, want := v.root.Hash(), l.truthOf(v.truth); got != want {
		l.t.Fatalf("root %v, want %v", got, want)
	}
	if l.rng.IntN(3) == 0 {
		full := v.root
		if v.root, _, err = full.Forest().Evict(full, l.live[0].root, 1+l.rng.Uint64N(4000)); err != nil {
			l.t.Fatal(err)
		}
		full.Release()
	}
	l.mu.Lock()
	l.live = append(l.live, v)
	l.mu.Unlock()
}

// read looks at versions until done, as the door and the RPC do.
func (l *forestRun) read(done <-chan struct{}, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	for {
		select {
		case <-done:
			return
		default:
		}
		l.mu.Lock()
		v := l.live[rng.IntN(len(l.live))]
		root := v.root.Retain()
		l.mu.Unlock()
		for range 4 {
			key := randomKey(rng, 6, 4)
			if got, err := root.Get(key, nil); err != nil || string(got) != string(v.truth[string(key)]) {
				l.t.Errorf("Get(%x) = %x, %v, want %x", key, got, err, v.truth[string(key)])
			}
		}
		root.Release()
	}
}

// fold stores the state of a version, beside the writer.
func (l *forestRun) fold(from, to *version, done chan<- struct{}) {
	puts, gone, err := to.root.FrontiersSince(from.root)
	if err != nil {
		l.t.Error(err)
	}
	l.disk.mu.Lock()
	for level := range Levels {
		for _, p := range gone[level] {
			delete(l.disk.frontier, rowKey(level, p))
		}
		for _, e := range puts[level] {
			l.disk.frontier[rowKey(level, e.Path)] = e
		}
	}
	l.disk.flat = to.truth
	l.disk.mu.Unlock()
	from.root.Release()
	to.root.Release()
	close(done)
}

// TestForestMatchesModel: whatever readers, advances and releases do beside the writer, each
// version has the root hash of its pairs. Its changes since the last flat head lead to that hash
// again; otherwise a start would report an inconsistency.
func TestForestMatchesModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		l := &forestRun{t: t, rng: rand.New(rand.NewPCG(seed, 2)), modelRoots: New(Options{}),
			disk: &disk{flat: map[string][]byte{}, frontier: map[string]FrontierEntry{}},
			live: []*version{{truth: map[string][]byte{}}}}
		var rec Recording
		for range 6 { // restarts
			l.open()
			done := make(chan struct{})
			var readers sync.WaitGroup
			for r := range uint64(2) {
				readers.Go(func() { l.read(done, seed<<8|r) })
			}
			var folded chan struct{}
			var to *version
			end := func() {
				<-folded
				folded = nil
				l.mu.Lock()
				i := slices.Index(l.live, to)
				gone := l.live[:i]
				l.live = slices.Clone(l.live[i:])
				l.mu.Unlock()
				to.root.Forest().SetSource(Source{Load: sourceOf(to.truth).Load, Rows: l.disk.page})
				for _, v := range gone {
					v.root.Release()
				}
			}
			for range 40 {
				l.write(&rec)
				if folded != nil && l.rng.IntN(2) == 0 {
					end()
				}
				if folded == nil && len(l.live) > 3 && l.rng.IntN(3) == 0 {
					from := l.live[0]
					to = l.live[len(l.live)-1-l.rng.IntN(2)]
					folded = make(chan struct{})
					from.root.Retain()
					to.root.Retain()
					go l.fold(from, to, folded)
				}
			}
			if folded != nil {
				end()
			}
			close(done)
			readers.Wait()
			f := l.live[0].root.Forest()
			for _, v := range l.live {
				v.root.Release()
			}
			if s := f.Stats(); s.Nodes != 0 || s.Roots != 0 {
				t.Fatalf("seed %d: left over: %+v", seed, s)
			}
			if t.Failed() {
				return
			}
		}
	}
}
