package partialwitness

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestStepDefersLongDecoding: Step does not decode a payload that is long, that decompresses to
// many bytes, or that does not decompress.
func TestStepDefersLongDecoding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *primitives.ChunkStateWitness)
		spoil  func(payload []byte) []byte
		quick  bool
		want   error
	}{
		"short":            {func(*primitives.ChunkStateWitness) {}, nil, true, nil},
		"long":             {func(w *primitives.ChunkStateWitness) { w.Main.Base = append(w.Main.Base, noise(quickSize+1)) }, nil, false, nil},
		"unpacks long":     {func(w *primitives.ChunkStateWitness) { w.Main.Base = append(w.Main.Base, make([]byte, quickRaw)) }, nil, false, nil},
		"corrupt":          {func(*primitives.ChunkStateWitness) {}, func(b []byte) []byte { return b[:len(b)-1] }, false, ErrCoding},
		"of another chunk": {func(w *primitives.ChunkStateWitness) { w.Header.HeightCreated = 5 }, nil, true, ErrPart},
	} {
		t.Run(name, func(t *testing.T) {
			for _, validators := range []int{1, 4} {
				x := newNetwork(t, 1, validators, 1, 0)
				x.head = 4
				w := sample()
				w.Header.HeightCreated = 4
				key := w.Key()
				c.change(w)
				payload, err := Encode(w)
				if err != nil {
					t.Fatal(err)
				}
				if c.spoil != nil {
					payload = c.spoil(payload)
				}
				parts, err := Parts(key, nil, payload, validators, secret(account(0)))
				if err != nil {
					t.Fatal(err)
				}
				node, works := x.nodes[account(validators-1)], []*Work(nil)
				for _, p := range parts {
					out, err := node.Step(Part{p, true})
					if err != nil && !errors.Is(err, ErrKnown) {
						t.Fatal(name, err)
					}
					if len(out.Validate) > 0 {
						t.Errorf("%s is put together where its parts are taken", name)
					}
					works = append(works, out.Work...)
				}
				if len(works) != 1 {
					t.Fatalf("%d works", len(works))
				}
				if got := works[0].Quick(); got != c.quick {
					t.Errorf("%d validators: quick %v", validators, got)
				} else if !got {
					works[0].Run()
				}
				out, err := node.Step(Worked{works[0]})
				if !errors.Is(err, c.want) || (len(out.Validate) == 1) != (c.want == nil) {
					t.Errorf("%d validators: %v, %d to be validated", validators, err, len(out.Validate))
				}
			}
		})
	}
}

// noise returns incompressible bytes.
func noise(n int) []byte {
	out := make([]byte, 0, n)
	for at := (primitives.Hash{}); len(out) < n; {
		at = primitives.HashBytes(at[:])
		out = append(out, at[:]...)
	}
	return out
}
