package chunkparts

import (
	"bytes"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestOnlyExactReassemblyIsWhole: a reassembled body is marked whole only if it encodes to exactly
// the signed parts.
func TestOnlyExactReassemblyIsWhole(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(c *primitives.Chunk, parts [][]byte) [][]byte // nil: other parity parts
		give  []int
		whole bool
	}{
		"as many as are needed": {give: []int{3, 4, 5}, whole: true},
		"more than are needed":  {give: []int{1, 3, 4, 5, 9}, whole: true},
		"no code":               {give: []int{0, 1, 2, 9}, spoil: func(_ *primitives.Chunk, parts [][]byte) [][]byte { parts[9][0] ^= 1; return parts }},
		"no code, seen by data": {give: []int{2, 3, 4, 9}, spoil: func(_ *primitives.Chunk, parts [][]byte) [][]byte { parts[9][0] ^= 1; return parts }},
		"padding changed":       {give: []int{0, 1, 2}, spoil: padded},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, 1, 10, 0)
			c, list := one(t, n, 4, nil)
			if tt.spoil != nil {
				parts := make([][]byte, len(list))
				for i := range list {
					parts[i] = bytes.Clone(list[i].Part)
				}
				parts = tt.spoil(c, parts)
				if name == "padding changed" {
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
				t.Errorf("got %v, %d chunks came of it, %d bad ones", err, len(out.Complete), len(out.Bad))
				return
			}
			if got := out.Complete[0].Chunk; (got.Whole == got.Hash) != tt.whole || !tt.whole && !got.Whole.IsZero() {
				t.Errorf("said to be whole: %v, want %v", got.Whole == got.Hash, tt.whole)
			}
			asked := 0
			p.verify = func(primitives.Signature, []byte, primitives.PublicKey) bool { asked++; return false }
			f := primitives.NewChunkForward(&c.Header, slices.Clone(list[6:8]))
			if _, err := p.Step(0, Forward{f}); err != nil || asked > 0 {
				t.Errorf("a forward of a chunk that is here: %v, %d signatures looked at", err, asked)
			}
		})
	}
}

// padded changes the last byte of the data parts, which is padding: EncodedLength does not cover
// it.
func padded(c *primitives.Chunk, parts [][]byte) [][]byte {
	if int(c.Header.EncodedLength) == 3*len(parts[0]) {
		panic("the chunk of the tests has no padding")
	}
	parts[2][len(parts[2])-1] = 1
	return parts
}

// TestRequestedChunksOutliveHorizon: chunks below the horizon are removed after any move of the
// head. Requested chunks stay until the pool gives up requesting them.
func TestRequestedChunksOutliveHorizon(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	p := n.nodes[producers[2]]
	know := func(heights ...primitives.Height) {
		for _, h := range heights {
			x := &primitives.ChunkHeader{}
			x.HeightCreated, x.PrevBlockHash = h, primitives.Hash{byte(h)}
			p.entryFor(x.ChunkHash(), x, nil)
		}
	}
	head := func(h primitives.Height, want int) {
		t.Helper()
		if _, err := p.Step(0, Head{Height: h}); err != nil {
			t.Fatal(err)
		}
		of := 0
		for _, list := range p.byHeight {
			of += len(list)
		}
		if len(p.entries) != want || of != want || len(p.bySlot) != want || len(p.byPrev) != want {
			t.Errorf("at %d: %d chunks, %d by height, %d by place, %d by block, want %d", h, len(p.entries), of, len(p.bySlot), len(p.byPrev), want)
		}
		for _, e := range p.entries {
			if e.header.HeightCreated < p.low {
				t.Errorf("at %d: one of %d below %d", h, e.header.HeightCreated, p.low)
			}
		}
	}
	know(5, 6, 7, 200)
	p.want(p.byPrev[primitives.Hash{6}][0], primitives.Hash{6}, 0)
	head(5+HeightHorizon, 4)
	head(6+HeightHorizon, 3)
	head(8+HeightHorizon, 2)
	know(9, 2)
	head(9+HeightHorizon, 3)
	p.byPrev[primitives.Hash{6}][0].want = nil
	head(10+HeightHorizon, 1)
	head(1<<40, 0)
	know(1 << 40)
	head(1<<40+HeightHorizon+1, 0)
	if len(p.wants) != 0 {
		t.Errorf("%d are asked for", len(p.wants))
	}
}
