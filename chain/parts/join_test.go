package parts

import (
	"bytes"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestWhole: the body that is put together is said to be whole if its header is that of its code to the last bit; else whoever validates it codes it again.
func TestWhole(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(c *primitives.Chunk, parts [][]byte) [][]byte // nil: another code
		give  []int
		whole bool
	}{
		"as many as are needed": {give: []int{3, 4, 5}, whole: true},
		"more than are needed":  {give: []int{1, 3, 4, 5, 9}, whole: true},
		"no code":               {give: []int{0, 1, 2, 9}, spoil: func(_ *primitives.Chunk, parts [][]byte) [][]byte { parts[9][0] ^= 1; return parts }},
		"no code, seen by data": {give: []int{2, 3, 4, 9}, spoil: func(_ *primitives.Chunk, parts [][]byte) [][]byte { parts[9][0] ^= 1; return parts }},
		"something behind it":   {give: []int{0, 1, 2}, spoil: padded},
	} {
		n := newNetwork(t, 1, 10, 0)
		c, list := one(t, n, 4, nil)
		if tt.spoil != nil {
			parts := make([][]byte, len(list))
			for i := range list {
				parts[i] = bytes.Clone(list[i].Part)
			}
			parts = tt.spoil(c, parts)
			if name == "something behind it" {
				var err error
				if parts, err = n.rs.Encode(slices.Concat(parts[:n.rs.DataParts()]...)); err != nil {
					t.Fatal(err)
				}
			}
			root, paths := primitives.MerklizeParts(parts)
			for i := range list {
				list[i] = primitives.ChunkPart{Ord: uint64(i), Part: parts[i], Proof: paths[i]}
			}
			c.Header.EncodedMerkleRoot = root
			signBy(&c.Header, 0)
		}
		p := n.nodes[producers[0]]
		x := &primitives.PartialChunk{Header: c.Header}
		for _, i := range tt.give {
			x.Parts = append(x.Parts, list[i])
		}
		out, err := p.Step(0, Partial{x})
		if err != nil || len(out.Complete) != 1 {
			t.Errorf("%s: %v, %d chunks came of it, %d bad ones", name, err, len(out.Complete), len(out.Bad))
			continue
		}
		if got := out.Complete[0].Chunk; (got.Whole == got.Hash) != tt.whole || !tt.whole && !got.Whole.IsZero() {
			t.Errorf("%s: said to be whole: %v, want %v", name, got.Whole == got.Hash, tt.whole)
		}
		asked := 0
		p.verify = func(primitives.Signature, []byte, primitives.PublicKey) bool { asked++; return false }
		f := primitives.NewChunkForward(&c.Header, slices.Clone(list[6:8]))
		if _, err := p.Step(0, Forward{f}); err != nil || asked > 0 {
			t.Errorf("%s: a forward of a chunk that is here: %v, %d signatures looked at", name, err, asked)
		}
	}
}

// padded sets the last byte of the data, which the length does not cover.
func padded(c *primitives.Chunk, parts [][]byte) [][]byte {
	if int(c.Header.EncodedLength) == 3*len(parts[0]) {
		panic("the chunk of the tests has no padding")
	}
	parts[2][len(parts[2])-1] = 1
	return parts
}
