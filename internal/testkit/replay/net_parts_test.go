package replay

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// TestChunkPartsEqualNeards: for every chunk of a recorded network, the producer's pool sends each
// validator the same bytes as neard: its parts, and the receipts for the shards that it tracks in
// this epoch or the next. Validators forward the parts that neards forwarded. The pools of
// receivers then report the chunk as ready and complete. A node that tracks all shards reassembles
// the body from the recorded parts.
func TestChunkPartsEqualNeards(t *testing.T) {
	n := readNetwork(t, netPath())
	e := n.open(t, engine.Options{Par: par})
	view := e.ChunkPartsView(func(h primitives.Hash) *primitives.Chunk { return n.chunks[h] })
	var head chunkparts.Head
	pool := func(me primitives.AccountID) *chunkparts.Pool {
		p := chunkparts.New(me, view, e.Coding(), primitives.Signature.Verify, func(int) int { return 0 })
		if _, err := p.Step(0, head); err != nil {
			t.Fatal(err)
		}
		return p
	}
	every := pool("")
	chunks, sent, forwards := 0, 0, 0
	var epoch primitives.EpochID // of the block before
	for _, b := range n.blocks {
		if b.Header.PrevHash.IsZero() {
			continue
		}
		head = chunkparts.Head{Hash: b.Header.PrevHash, Height: b.Header.PrevHeight}
		if _, err := every.Step(0, head); err != nil {
			t.Fatal(err)
		}
		bodies := n.bodies(b)
		for i, c := range bodies {
			h := b.Body.Chunks[i]
			if h.HeightIncluded != b.Header.Height {
				continue
			}
			producer, err := e.ChunkProducer(b.Header.PrevHash, h.ShardID)
			if err != nil {
				t.Fatal(err)
			}
			coded, err := chain.EncodeBody(&c.ChunkBody, e.Coding())
			if err != nil {
				t.Fatal(err)
			}
			whole := *c
			whole.Header = *h
			whole.Header.HeightIncluded = 0
			maker := pool(producer.AccountID)
			out, err := maker.Step(0, chunkparts.Made{Chunk: &whole, Body: coded})
			if err != nil || len(out.Send) < 2 { // one of the four is kicked out for some epochs
				t.Fatalf("shard %d at %d: %v, sent to %d", h.ShardID, h.HeightCreated, err, len(out.Send))
			}
			chunks++
			for _, want := range n.partial[c.Hash] {
				found := false
				for _, s := range out.Send {
					found = found || bytes.Equal(s.Body.AppendBorsh(nil), want.AppendBorsh(nil))
				}
				if !found {
					t.Errorf("shard %d at %d: neard sent parts that this node does not send", h.ShardID, h.HeightCreated)
				}
				sent++
			}
			passed := map[string]bool{}
			for _, s := range out.Send {
				got, err := pool(s.To).Step(0, chunkparts.Partial{PartialChunk: s.Body.(*primitives.PartialChunk)})
				if err != nil || len(got.Complete) != 1 || len(s.Body.(*primitives.PartialChunk).Parts) > 0 && len(got.Ready) != 1 {
					t.Errorf("shard %d at %d, %s: %v, %d ready, %d complete", h.ShardID, h.HeightCreated, s.To, err, len(got.Ready), len(got.Complete))
				}
				for _, f := range got.Send {
					passed[string(s.To)+" "+string(f.To)+string(f.Body.AppendBorsh(nil))] = true
				}
			}
			for _, f := range n.forwards[c.Hash] {
				if f.from == f.to || len(passed) == 0 {
					continue
				}
				// at the start of an epoch a node that does not know it yet uses the previous one
				if !passed[string(f.from)+" "+string(f.to)+string(f.raw)] && b.Header.EpochID == epoch {
					t.Errorf("shard %d at %d: neard's %s passes parts on to %s", h.ShardID, h.HeightCreated, f.from, f.to)
				}
				forwards++
			}
			got, err := every.Step(0, chunkparts.Partial{PartialChunk: n.partial[c.Hash][0]})
			if err != nil || len(got.Complete) != 1 || !bytes.Equal(got.Complete[0].Chunk.ChunkBody.AppendBorsh(nil), c.ChunkBody.AppendBorsh(nil)) {
				t.Errorf("shard %d at %d, from one part: %v, %d complete", h.ShardID, h.HeightCreated, err, len(got.Complete))
			}
			q := &primitives.ChunkRequest{ChunkHash: c.Hash, Ords: []uint64{3, 0, 7, 3}, Shards: []primitives.ShardID{h.ShardID}}
			for _, p := range []*chunkparts.Pool{every, maker, pool("")} { // the last one reads it from the store
				a, err := p.Step(0, chunkparts.Request{ChunkRequest: q})
				if err != nil || len(a.Answer) != 1 || len(a.Answer[0].Body.Parts) != 2 || len(a.Answer[0].Body.Receipts) != 1 || !bytes.Equal(a.Answer[0].Body.Parts[1].Part, coded.Parts[3]) {
					t.Fatalf("shard %d at %d, asked for two parts: %v, %+v", h.ShardID, h.HeightCreated, err, a.Answer)
				}
			}
		}
		epoch = b.Header.EpochID
		if _, err := e.Process(b, bodies, false); err != nil {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
	}
	t.Logf("%d chunks, %d messages of neards, %d forwards", chunks, sent, forwards)
	if chunks < 500 || sent < chunks || all() && forwards < 5000 || forwards == 0 {
		t.Error("that is few")
	}
}
