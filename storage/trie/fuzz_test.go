package trie

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// FuzzRawNode: every input is either rejected or is the canonical encoding of the decoded node.
func FuzzRawNode(f *testing.F) {
	for _, n := range []RawNode{{Kind: Leaf, Key: []byte{0x20}}, {Kind: Extension, Key: []byte{0x11}}, branchOf(map[int]byte{3: 1, 15: 2}), {Kind: BranchWithValue, Mask: 1}} {
		f.Add(borsh.Marshal(&n))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var n RawNode
		if borsh.Unmarshal(in, &n) == nil && !bytes.Equal(borsh.Marshal(&n), in) {
			t.Errorf("%x decodes, but encodes as %x", in, borsh.Marshal(&n))
		}
	})
}

// fuzzChanges decodes batches of changes from fuzzed bytes: a key of up to 3 bytes and a value or
// deletion each.
func fuzzChanges(in []byte) (batches [][]Change) {
	for len(in) > 0 && len(batches) < 6 {
		n := int(in[0] % 12)
		in = in[1:]
		set := map[string][]byte{}
		for ; n > 0 && len(in) >= 2; n-- {
			l := min(int(in[0]>>4)%4, len(in)-1)
			key := in[1 : 1+l]
			if v := in[0] & 0xf; v < 6 {
				set[string(key)] = nil
			} else {
				set[string(key)] = bytes.Repeat([]byte{v}, int(v)*int(v-6))
			}
			in = in[1+l:]
		}
		var changes []Change
		for _, k := range slices.Sorted(maps.Keys(set)) {
			changes = append(changes, Change{Key: []byte(k), Value: set[k]})
		}
		batches = append(batches, changes)
	}
	return batches
}

// FuzzForest compares updates with the reference and looks for leaks.
func FuzzForest(f *testing.F) {
	f.Add([]byte("\x03\x2fab\x2fac\x2eb\x01\x20ab"))
	f.Add([]byte("\x0b\x1fa\x2fab\x3fabc\x3fabd\x2fb\x01\x02\x10a\x20ab\x02\x30abc\x3babd"))
	f.Fuzz(func(t *testing.T, in []byte) {
		w := newWorld(t, New(Options{}))
		for _, changes := range fuzzChanges(in) {
			w.apply(changes)
		}
		for k := range w.truth {
			w.lookup([]byte(k))
		}
		w.root.Release()
		if s := w.f.Stats(); s.Nodes != 0 || s.Bytes != 0 {
			t.Errorf("left over: %+v", s)
		}
	})
}

// FuzzPartial: with a damaged proof, an operation either fails or returns what it returns on the
// whole trie. Nothing panics, even if the string with the root's hash is not a node.
func FuzzPartial(f *testing.F) {
	f.Add([]byte("\x03\x2fab\x2fac\x2eb\x03\x20ab\x2fad\x10b"), uint8(1), uint16(3))
	f.Add([]byte("\x0b\x1fa\x2fab\x3fabc\x3fabd\x2fb\x01\x02\x10a\x20ab\x02\x30abc\x3babd"), uint8(2), uint16(9))
	f.Fuzz(func(t *testing.T, in []byte, which uint8, where uint16) {
		batches := fuzzChanges(in)
		if len(batches) < 2 {
			return
		}
		whole, err := newReference(nil, primitives.Hash{}).Update(batches[0])
		if err != nil {
			t.Fatal(err)
		}
		want, err := whole.Update(batches[1])
		if err != nil {
			t.Fatal(err)
		}
		var proof [][]byte
		for _, h := range whole.Visited() {
			proof = append(proof, bytes.Clone(whole.Bytes(h)))
		}
		got, err := updated(proof, whole.Root(), batches[1])
		if err != nil || got.Root() != want.Root() {
			t.Fatalf("on the proof: %v, %v, want %v", got, err, want.Root())
		}
		if len(proof) == 0 {
			return
		}
		hurt := proof[int(which)%len(proof)]
		hurt[int(where)%len(hurt)] ^= byte(where>>8) | 1
		if _, err = updated(proof, whole.Root(), batches[1]); !errors.Is(err, ErrMissing) {
			t.Errorf("on a damaged proof: %v, want %v", err, ErrMissing)
		}
		for _, s := range [][]byte{hurt, in} { // a root that lies about itself
			p, err := NewPartial(append(proof, in), primitives.HashBytes(s))
			bad := func(err error) bool {
				return err != nil && !errors.Is(err, ErrMissing) && !errors.Is(err, ErrCorrupt)
			}
			if bad(err) {
				t.Error(err)
			}
			if err != nil {
				continue
			}
			for _, c := range batches[1] {
				if _, err := p.Get(c.Key, nil); bad(err) {
					t.Error(err)
				}
				for _, after := range [][]byte{nil, c.Key} {
					if err := p.Scan(c.Key, after, nil, func(_, _ []byte) bool { return true }); bad(err) {
						t.Error(err)
					}
				}
			}
			if _, err := p.Update(batches[1], nil); bad(err) {
				t.Error(err)
			}
			if _, err := p.FindSplit(nil); bad(err) && !errors.Is(err, ErrNoSplit) {
				t.Error(err)
			}
			if _, err := p.RetainIntervals(SplitIntervals("b", where%2 == 0), nil); bad(err) {
				t.Error(err)
			}
		}
	})
}

// updated applies changes to what a proof shows.
func updated(proof [][]byte, root primitives.Hash, changes []Change) (*Partial, error) {
	p, err := NewPartial(proof, root)
	if err != nil {
		return nil, err
	}
	return p.Update(changes, nil)
}
