package trie

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// listed is a node in the list of all nodes of a trie, each before what is below it.
type listed struct {
	hash   primitives.Hash
	value  *primitives.Hash
	used   uint64 // by the nodes up to this one
	parent int    // -1: none
}

// list appends the nodes below h.
func (p *referenceTrie) list(t *testing.T, h primitives.Hash, parent int, out []listed) []listed {
	t.Helper()
	n, err := p.Node(h)
	if err != nil {
		t.Fatal(err)
	}
	x := listed{hash: h, parent: parent, used: costNode}
	if n.Kind == Leaf || n.Kind == Extension {
		x.used += uint64(len(n.Key)) * costKeyByte
	}
	if n.Kind == Leaf || n.Kind == BranchWithValue {
		x.used += valueCost(n.Value.Len)
		x.value = &n.Value.Hash
	}
	if len(out) > 0 {
		x.used += out[len(out)-1].used
	}
	at := len(out)
	out = append(out, x)
	if n.Kind == Extension {
		return p.list(t, n.Child, at, out)
	}
	for i := range n.Children {
		if n.Mask>>i&1 == 1 {
			out = p.list(t, n.Children[i], at, out)
		}
	}
	return out
}

// referencePart makes a part from a list of all nodes. The part begins and ends at the first nodes
// with a value after two amounts of memory usage. It has everything between these two nodes, and
// for both of them everything above and to the left.
func (p *referenceTrie) referencePart(all []listed, id PartID) [][]byte {
	set := map[primitives.Hash]bool{}
	total := all[len(all)-1].used
	first := func(i uint64) int {
		switch i {
		case 0:
			return 0
		case id.Total:
			return len(all)
		}
		limit := total/id.Total*i + min(i, total%id.Total)
		at := slices.IndexFunc(all, func(x listed) bool { return x.used > limit && x.value != nil })
		for x := at; x >= 0; x = all[x].parent {
			set[all[x].hash] = true
			for s := range x { // siblings left of x
				if all[s].parent == all[x].parent {
					set[all[s].hash] = true
				}
			}
		}
		return at
	}
	from, to := first(id.Index), first(id.Index+1)
	for i := from; i < to; i++ {
		set[all[i].hash] = true
		if v := all[i].value; v != nil {
			set[*v] = true
		}
	}
	for x := from; x >= 0; x = all[x].parent {
		set[all[x].hash] = true
	}
	out := [][]byte{}
	for h := range set {
		out = append(out, p.Bytes(h))
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

// partWorld is a random trie, with values of all sizes and keys that are prefixes of others.
func partWorld(t *testing.T, seed uint64, o Options) *world {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 77))
	w := newWorld(t, New(o))
	set := map[string][]byte{}
	for range 10 + rng.IntN(300) {
		key := make([]byte, rng.IntN(6))
		for i := range key {
			key[i] = byte(rng.IntN(4)) * 0x11
		}
		value := bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(40))
		if rng.IntN(20) == 0 {
			value = bytes.Repeat([]byte{1}, rng.IntN(5000))
		}
		set[string(key)] = value
	}
	var changes []Change
	for _, k := range slices.Sorted(maps.Keys(set)) {
		changes = append(changes, Change{Key: []byte(k), Value: set[k]})
	}
	w.apply(changes)
	return w
}

// TestPartsMatchReference: parts equal those of a second implementation that follows the
// definition. Each part can be validated on its own; together they are the whole state and all
// levels of its frontier. Tries that are mostly not in memory give the same parts.
func TestPartsMatchReference(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		w := partWorld(t, seed, Options{Frontier: 300})
		all := w.reference.list(t, w.reference.Root(), -1, nil)
		d := &disk{frontier: map[string]FrontierEntry{}}
		d.finalise(t, w.f.Empty(), w.root, w.truth)
		stubs := d.forest(300)
		for _, n := range []uint64{1, 2, 3, 5, 7, 16, 50} {
			cold, err := stubs.Import(d.entries(Top), w.root.Hash())
			if err != nil {
				t.Fatal(err)
			}
			got, frontier := map[string][]byte{}, map[string]FrontierEntry{}
			for i := range n {
				id := PartID{i, n}
				part, err := w.root.Part(id)
				if err != nil {
					t.Fatal(err)
				}
				if want := w.reference.referencePart(all, id); !slices.EqualFunc(part, want, bytes.Equal) {
					t.Fatalf("seed %d, part %v: %d strings, want %d", seed, id, len(part), len(want))
				}
				if again, err := cold.Part(id); err != nil || !slices.EqualFunc(part, again, bytes.Equal) {
					t.Fatalf("seed %d, part %v of a trie that is not in memory: %d strings, want %d: %v", seed, id, len(again), len(part), err)
				}
				p, err := OpenPart(part, w.root.Hash(), id, 300)
				if err != nil {
					t.Fatalf("seed %d, part %v: %v", seed, id, err)
				}
				for _, c := range p.Pairs {
					if _, twice := got[string(c.Key)]; twice {
						t.Fatalf("seed %d, part %v: key %x is in two parts", seed, id, c.Key)
					}
					got[string(c.Key)] = c.Value
				}
				for level := range p.Frontier {
					for _, e := range p.Frontier[level] {
						frontier[rowKey(level, e.Path)] = e
					}
				}
			}
			if !maps.EqualFunc(got, w.truth, bytes.Equal) {
				t.Fatalf("seed %d: %d parts have %d pairs, want %d", seed, n, len(got), len(w.truth))
			}
			for key, e := range d.frontier {
				if have := frontier[key]; !equalEntries(have, e) {
					t.Fatalf("seed %d: frontier of %d parts has %v, want %v", seed, n, have, e)
				}
			}
			if len(frontier) != len(d.frontier) {
				t.Fatalf("seed %d: frontier of %d parts has %d entries, want %d", seed, n, len(frontier), len(d.frontier))
			}
			cold.Release()
		}
		w.root.Release()
	}
}

// TestAlteredPartIsRefused: OpenPart refuses a part in which anything is missing, superfluous,
// duplicate or from another part, and every part of another state.
func TestAlteredPartIsRefused(t *testing.T) {
	t.Parallel()
	w := partWorld(t, 3, Options{})
	other := partWorld(t, 4, Options{})
	open := func(strings [][]byte, id PartID) error {
		_, err := OpenPart(strings, w.root.Hash(), id, 0)
		return err
	}
	for i := range uint64(5) {
		id := PartID{i, 5}
		part, err := w.root.Part(id)
		if err != nil || open(part, id) != nil {
			t.Fatal(err)
		}
		shuffled := slices.Clone(part)
		slices.Reverse(shuffled)
		if err := open(shuffled, id); err != nil {
			t.Errorf("in another order: %v", err)
		}
		for k := range part {
			less := slices.Delete(slices.Clone(part), k, k+1)
			if err := open(less, id); !errors.Is(err, ErrMissing) {
				t.Errorf("without string %d: %v", k, err)
			}
			if err := open(append(less, bytes.Clone(part[(k+1)%len(part)])), id); !errors.Is(err, ErrMissing) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("with a string in place of %d: %v", k, err)
			}
			if err := open(append(slices.Clone(part), bytes.Clone(part[k])), id); !errors.Is(err, ErrCorrupt) {
				t.Errorf("with string %d twice: %v", k, err)
			}
			hurt := slices.Clone(part)
			if hurt[k] = append(bytes.Clone(part[k]), 1); !errors.Is(open(hurt, id), ErrMissing) {
				t.Errorf("with string %d damaged: accepted", k)
			}
		}
		if err := open(append(slices.Clone(part), []byte("nobody leads here")), id); !errors.Is(err, ErrCorrupt) {
			t.Errorf("with a string too much: %v", err)
		}
		for _, bad := range []PartID{{(i + 1) % 5, 5}, {i, 6}, {i + 1, 7}} {
			if open(part, bad) == nil {
				t.Errorf("part %v is taken for %v", id, bad)
			}
		}
		if theirs, err := other.root.Part(id); err != nil || !errors.Is(open(theirs, id), ErrMissing) {
			t.Errorf("a part of another state: %v", err)
		}
		if open(part, PartID{i, i}) == nil {
			t.Error("a part behind the last is taken")
		}
	}
	if _, err := OpenPart(nil, primitives.Hash{}, PartID{0, 1}, 0); err != nil {
		t.Errorf("the part of an empty state: %v", err)
	}
	if _, err := OpenPart([][]byte{{}}, primitives.Hash{}, PartID{0, 1}, 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a string of an empty state: %v", err)
	}
	if NumParts(0) != 0 || NumParts(1) != 1 || NumParts(PartUsage) != 1 || NumParts(PartUsage+1) != 2 {
		t.Error("numbers of parts")
	}
}

// FuzzPart: OpenPart does not panic on any input, and a part that it accepts equals the one that
// the trie returns.
func FuzzPart(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(1), uint16(7), []byte{1})
	f.Add(uint64(2), uint8(1), uint8(0), uint16(300), []byte("\x03\x04"))
	f.Fuzz(func(t *testing.T, seed uint64, total, index uint8, where uint16, in []byte) {
		w := partWorld(t, seed%16, Options{})
		defer w.root.Release()
		id := PartID{uint64(index), max(uint64(total), 1)}
		id.Index %= id.Total
		part, err := w.root.Part(id)
		if err != nil {
			t.Fatal(err)
		}
		hurt := slices.Clone(part)
		at := int(where) % len(hurt)
		s := bytes.Clone(hurt[at])
		for i, b := range in {
			if len(s) > 0 {
				s[(int(where)+i*7)%len(s)] ^= b
			}
		}
		hurt[at] = s
		_, err = OpenPart(hurt, w.root.Hash(), id, 300)
		if same := bytes.Equal(s, part[at]); same != (err == nil) {
			t.Errorf("changed %v: %v", !same, err)
		}
		// a root that claims a wrong hash
		for _, root := range []primitives.Hash{primitives.HashBytes(s), primitives.HashBytes(in)} {
			if _, err := OpenPart(append(slices.Clone(hurt), in), root, id, 300); err != nil && !errors.Is(err, ErrMissing) && !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
		}
	})
}
