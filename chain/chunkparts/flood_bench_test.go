package chunkparts

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// BenchmarkWrong measures the cost of three messages: an unsigned part and a part of another chunk
// of the same slot, which are dropped, and forwards of an unknown chunk, which are stored.
func BenchmarkWrong(b *testing.B) {
	n := newNetwork(b, 1, 10, 0)
	prev := primitives.Hash{4}
	for _, e := range n.views {
		e.known[prev] = true
	}
	n.heights[prev] = 4
	parts := make([][]byte, n.rs.TotalParts())
	for i := range parts {
		parts[i] = make([]byte, 30_000)
		parts[i][0] = byte(i)
	}
	root, paths := primitives.MerklizeParts(parts)
	header := func(salt int) *primitives.ChunkHeader {
		h := new(primitives.ChunkHeader)
		h.Version = primitives.ChunkInnerV4
		h.PrevBlockHash, h.HeightCreated, h.EncodedMerkleRoot, h.EncodedLength, h.GasLimit = prev, 4, root, 90_000, primitives.Gas(salt)
		signBy(h, 0)
		return h
	}
	part := []primitives.ChunkPart{{Ord: 2, Part: parts[2], Proof: paths[2]}}
	for _, c := range []struct {
		name string
		make func(salt int) Event
	}{
		{"part of nobody", func(salt int) Event {
			h := header(salt)
			h.Signature = primitives.ZeroED25519Signature
			return Partial{&primitives.PartialChunk{Header: *h, Parts: part}}
		}},
		{"another chunk of the maker", func(salt int) Event { return Partial{&primitives.PartialChunk{Header: *header(salt), Parts: part}} }},
		{"forward of the maker's", func(salt int) Event { return Forward{primitives.NewChunkForward(header(salt), part)} }},
	} {
		b.Run("what="+c.name, func(b *testing.B) {
			p := New(producers[2], n.nodes[producers[2]].chain, n.rs, primitives.NewVerifier(100).Verify, func(int) int { return 0 })
			if _, err := p.Step(0, Head{Hash: prev, Height: 3}); err != nil {
				b.Fatal(err)
			}
			list := make([]Event, b.N)
			for i := range list {
				list[i] = c.make(i)
			}
			sent := 0
			b.ReportAllocs()
			b.ResetTimer()
			for _, ev := range list {
				out, _ := p.Step(0, ev)
				sent += len(out.Send)
			}
			b.ReportMetric(float64(sent), "messages")
			b.ReportMetric(float64(len(p.entries)), "chunks")
			b.ReportMetric(float64(p.forwardBytes)/(1<<20), "MiB-waiting")
		})
	}
}
