package chunkparts

import (
	"bytes"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// ask returns the response to a request.
func (n *network) ask(p *Pool, hash primitives.Hash, ords []uint64, shards ...primitives.ShardID) *primitives.ChunkResponse {
	n.t.Helper()
	out, err := p.Step(0, Request{&primitives.ChunkRequest{ChunkHash: hash, Ords: ords, Shards: shards}, "x"})
	if err != nil || len(out.Answer) != 1 {
		n.t.Fatalf("%v, %d answers", err, len(out.Answer))
	}
	return out.Answer[0].Body
}

// TestRequestsReadOnlyWhatTheyNeed: a request for parts and shards that do not exist reads no
// stored chunk, a request for receipts encodes no parts, and a stored chunk is encoded once for
// several requests.
func TestRequestsReadOnlyWhatTheyNeed(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	e := n.views[""]
	p := n.nodes[""]
	e.stored[c.Hash] = c
	total := uint64(n.rs.TotalParts())
	if a := n.ask(p, c.Hash, []uint64{total, 1 << 40}); len(a.Parts)+len(a.Receipts) > 0 || e.reads > 0 {
		t.Errorf("of unknown part numbers: %d parts, read %d times", len(a.Parts), e.reads)
	}
	if a := n.ask(p, c.Hash, nil); len(a.Parts) > 0 || e.reads > 0 {
		t.Errorf("of nothing: %d parts, read %d times", len(a.Parts), e.reads)
	}
	if a := n.ask(p, c.Hash, nil, 77); len(a.Receipts) > 0 || len(p.encoded) > 0 {
		t.Errorf("of no shard: %d receipts, %d coded", len(a.Receipts), len(p.encoded))
	}
	if a := n.ask(p, c.Hash, nil, 3, 2, 3); len(a.Receipts) != 2 || len(p.encoded) != 1 || p.encoded[0].parts != nil {
		t.Errorf("of shards alone: %d receipts, %d coded", len(a.Receipts), len(p.encoded))
	}
	before := e.reads
	for _, ord := range []uint64{7, 1, 7, 9} {
		a := n.ask(p, c.Hash, []uint64{ord, ord, total}, 0)
		if len(a.Parts) != 1 || len(a.Receipts) != 1 || !bytes.Equal(a.Parts[0].Part, list[ord].Part) || !a.Parts[0].Verify(c.Header.EncodedMerkleRoot, int(total)) {
			t.Errorf("part %d: %d parts, %d receipts", ord, len(a.Parts), len(a.Receipts))
		}
	}
	if e.reads != before+1 {
		t.Errorf("the stored chunk was read %d times for four requests", e.reads-before)
	}
	other := *c
	other.Header.EncodedLength++
	other.Hash = other.Header.ChunkHash()
	e.stored[other.Hash] = &other
	if a := n.ask(p, other.Hash, []uint64{1}); len(a.Parts) > 0 {
		t.Error("parts that the header does not know")
	}
	for h := primitives.Height(5); h < 40; h++ {
		c, _ := one(t, n, h, nil)
		e.stored[c.Hash] = c
		if a := n.ask(p, c.Hash, []uint64{0}); len(a.Parts) != 1 {
			t.Errorf("at %d: %d parts", h, len(a.Parts))
		}
	}
	if len(p.encoded) != maxEncodedChunks {
		t.Errorf("%d coded chunks are kept", len(p.encoded))
	}
	for _, x := range p.encoded {
		x.bytes = maxEncodedBytes
	}
	if n.ask(p, c.Hash, []uint64{0}); len(p.encoded) != 1 || p.encoded[0].hash != c.Hash {
		t.Errorf("%d large ones are kept", len(p.encoded))
	}
}

// TestStoredPartsAreSentWithoutChunk: stored parts are sent, and the stored chunk is not read for
// the missing ones.
func TestStoredPartsAreSentWithoutChunk(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	e, p := n.views[producers[2]], n.nodes[producers[2]]
	e.stored[c.Hash] = c
	e.kept = map[primitives.Hash]*primitives.PartialChunk{c.Hash: {Header: c.Header, Parts: slices.Clone(list[2:4]), Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)[1:2]}}
	if a := n.ask(p, c.Hash, []uint64{2, 5, 3}, 1, 2); len(a.Parts) != 2 || len(a.Receipts) != 1 || a.Parts[1].Ord != 3 || e.reads > 0 {
		t.Errorf("%d parts, %d receipts, read %d times", len(a.Parts), len(a.Receipts), e.reads)
	}
}
