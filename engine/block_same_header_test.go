package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// TestSecondBodyOfHeaderCannotAddReceipts: a chunk header arrives with two bodies, in a block or
// with a witness. Receipts in the second body have no effect, because the engine uses its own. A
// body with other transactions is refused. A header that does not match its body is never added to
// validChunks.
func TestSecondBodyOfHeaderCannotAddReceipts(t *testing.T) {
	maker := openNode(t, testGenesis(t, "aa"))
	fresh := func() *node {
		n := openNode(t, testGenesis(t, "aa"))
		for h := primitives.Height(1); h <= maker.Head().Height(); h++ {
			at := maker.Head()
			for at.Height() > h {
				at = maker.Imported(at.Header().PrevHash)
			}
			chunks := make([]*primitives.Chunk, len(at.Shards))
			for i := range at.Shards {
				chunks[i] = at.Shards[i].Chunk
			}
			n.accept(at.Block, chunks)
		}
		return n
	}
	root := maker.Head().Hash
	for nonce := range primitives.Nonce(3) {
		at := maker.Head()
		maker.accept(maker.make(at.Hash, at.Height()+1, false, transfer(root, nonce+1)))
	}
	at := maker.Head()
	if len(at.Shards[0].Outgoing) == 0 {
		t.Fatal("no receipt goes to another shard")
	}
	b, chunks := maker.make(at.Hash, at.Height()+1, false, transfer(root, 4))
	own := chunks[0].PrevOutgoingReceipts
	forged := *own[0]
	forged.PredecessorID = "thief"
	bodies := map[string][]*primitives.Receipt{
		"the same": own, "none": nil, "one twice": append(own[:len(own):len(own)], own[0]), "a forged one": append([]*primitives.Receipt{&forged}, own[1:]...),
	}
	for name, receipts := range bodies {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{false, true} { // only a correct body may be marked as whole
				if whole && name != "the same" {
					continue
				}
				n := fresh()
				for _, way := range []string{"first", "again", "behind a witness"} {
					body := *chunks[0]
					if body.PrevOutgoingReceipts, body.Whole = receipts, (primitives.Hash{}); whole {
						body.Whole = body.Hash
					}
					if way == "behind a witness" {
						n = fresh()
						parent := n.Head()
						shown := &primitives.Chunk{Hash: body.Hash, Header: body.Header, ChunkBody: primitives.ChunkBody{Transactions: body.Transactions}}
						if err := n.validateChunk(shown, &parent.Shards[0], parent.Layout); err != nil || !n.validChunks.has(body.Hash) {
							t.Fatal(err)
						}
					}
					p, err := n.BeginImport(b, []*primitives.Chunk{&body, chunks[1]}, false)
					if err != nil {
						t.Fatalf("%s: %v", way, err)
					}
					if got := p.entry.Shards[0].Chunk.PrevOutgoingReceipts; !primitives.SameReceipts(got, at.Shards[0].Outgoing) {
						t.Errorf("%s: the chunk has %d receipts, want those of the engine", way, len(got))
					}
					n2 := 0
					for i := range p.entry.Shards {
						for _, x := range p.entry.Shards[i].Incoming {
							if n2++; x.PredecessorID == "thief" {
								t.Errorf("%s: a forged receipt comes to shard %d", way, i)
							}
						}
					}
					if n2 != len(own) {
						t.Errorf("%s: %d receipts come, want %d", way, n2, len(own))
					}
					p.Drop()
					other := body
					other.Transactions = nil
					if p, err := n.BeginImport(b, []*primitives.Chunk{&other, chunks[1]}, false); !errors.Is(err, chain.InvalidTxRoot) {
						t.Errorf("%s: other transactions: %v", way, err)
						p.Drop()
					}
				}
			}
		})
	}
	n := fresh()
	parent := n.Head()
	for _, lie := range []func(*primitives.ChunkHeader){
		func(h *primitives.ChunkHeader) { h.EncodedMerkleRoot[3]++ },
		func(h *primitives.ChunkHeader) { h.EncodedLength++ },
		func(h *primitives.ChunkHeader) { h.PrevOutgoingReceiptsRoot[3]++ },
	} {
		body := *chunks[0]
		lie(&body.Header)
		body.Hash = body.Header.ChunkHash() // the mark of the correct body is copied too
		for range 2 {
			if err := n.validateChunk(&body, &parent.Shards[0], parent.Layout); err == nil || n.validChunks.has(body.Hash) {
				t.Errorf("a header that lies: %v", err)
			}
		}
	}
}
