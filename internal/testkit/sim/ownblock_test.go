package sim

import (
	"testing"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// TestCrashedValidatorKeepsItsEndorsement: a validator produces a block with its own endorsement of
// a chunk, and crashes when the block is on disk and its signing journal is not. After the restart
// that block is its head and is sent to peers. The validator endorses no other chunk of that shard
// and height.
func TestCrashedValidatorKeepsItsEndorsement(t *testing.T) {
	w := newFaultlessWorld(t, 10, func(s *Scenario) { s.Shards = 1 })
	var g, m *node // makes the next block, and another one its chunk
	var at primitives.Hash
	var h primitives.Height
	for ; g == nil; w.next() {
		head := w.nodes[0].engine.Head()
		h, at = head.Height()+1, head.Hash
		for _, n := range w.nodes {
			if n.engine.Head().Hash != at {
				at = primitives.Hash{}
			}
		}
		if at.IsZero() {
			continue
		}
		block, err := w.nodes[0].engine.BlockProducer(at, h)
		chunk, cerr := w.nodes[0].engine.ChunkProducer(at, 0)
		if err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
		if block.AccountID != chunk.AccountID {
			g, m = w.byName[block.AccountID], w.byName[chunk.AccountID]
		}
	}
	g.busyRow = w.now + 60*second // its disk for blocks is faster
	for limit := w.now + 5*second; g.engine.Head().Height() < h; w.next() {
		if w.now > limit {
			t.Fatalf("%s makes no block %d: %s", g.name, h, w.where())
		}
	}
	own := g.engine.Head()
	first := own.Shards[0].Chunk.Hash
	if p, err := g.engine.BlockProducer(at, h); err != nil || p.AccountID != g.name || own.Height() != h || own.Header().PrevHash != at {
		t.Fatalf("the head is %d of %v, %v", own.Height(), p.AccountID, err)
	}
	list, err := g.engine.Validation().Validators(primitives.ChunkKey{EpochID: own.Header().EpochID, HeightCreated: h})
	if err != nil {
		t.Fatal(err)
	}
	endorsed := false
	for i := range list {
		endorsed = endorsed || list[i].AccountID == g.name && own.Block.Body.ChunkEndorsements[0][i] != ""
	}
	if !endorsed {
		t.Fatal("its block has no endorsement of its own")
	}
	g.crash()
	g.busyRow = 0
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
	if g.engine.Head().Hash != own.Hash {
		t.Fatal("its block is not on disk")
	}
	key := secretOf(user(0))
	tx := primitives.Transaction{SignerID: user(0), PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 1}, ReceiverID: user(1), BlockHash: at,
		Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}
	hash := tx.Hash()
	other, coded, err := m.engine.NewCodedChunk(at, 0, []*primitives.SignedTransaction{primitives.NewSignedTransaction(tx, key.Sign(hash[:]))}, secretOf(m.name))
	if err != nil || other.Hash == first {
		t.Fatal(err, "there is no other chunk")
	}
	p := chunkparts.New(m.name, m.engine.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil }), m.engine.Coding(), verify, w.rng.IntN)
	out, err := p.Step(0, chunkparts.Made{Chunk: other, Body: coded})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range out.Send { // it is given all parts
		g.step(g.life, consensus.Received{From: consensus.Peer(m.name), Message: s.Body})
	}
	for limit := w.now + second; w.now < limit; w.next() {
		if w.check.violation != nil {
			t.Fatal(w.check.violation)
		}
	}
	if got := w.check.signs.judged[chunkKey{g.name, 0, h, own.Header().EpochID}]; got == other.Hash {
		t.Errorf("%s has endorsed %v in its block %d, and endorses %v", g.name, first, h, got)
	}
}
