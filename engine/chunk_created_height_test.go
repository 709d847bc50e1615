package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// createdAt makes a block like node.make, except that the first shard's chunk has another created
// height, which determines its validators.
func (n *node) createdAt(parent primitives.Hash, height, created primitives.Height) (*primitives.Block, []*primitives.Chunk) {
	n.t.Helper()
	honest, chunks := n.make(parent, height, false)
	id, c := chunks[0].Header.ShardID, *chunks[0]
	signer, err := n.ChunkProducer(parent, id)
	if err != nil {
		n.t.Fatal(err)
	}
	c.Header.HeightCreated = created
	c.Hash = c.Header.ChunkHash()
	c.Whole, c.Header.Signature = c.Hash, seedKey(signer.AccountID).Sign(c.Hash[:])
	p := &Proposal{Parent: parent, Height: height, Timestamp: honest.Header.Timestamp,
		Vote: parameters.Newest(primitives.NumberingRelease), Chunks: []*primitives.Chunk{&c, chunks[1]},
		Endorsements: [][]primitives.Signature{nil, honest.Body.ChunkEndorsements[1]}, Approvals: honest.Header.Approvals}
	list, err := n.Validation().Validators(primitives.ChunkKey{ShardID: id, EpochID: honest.Header.EpochID, HeightCreated: created})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, v := range list {
		p.Endorsements[0] = append(p.Endorsements[0], seedKey(v.AccountID).Sign(primitives.ChunkEndorsementBytes(c.Hash)))
	}
	b, err := n.NewBlock(p, n.producer(parent, height))
	if err != nil {
		n.t.Fatal(err)
	}
	return b, p.Chunks
}

// TestChunkOfAnotherCreatedHeightIsAccepted: neard does not require that a chunk was created at the
// height after its previous block (chain/chain/src/chain.rs validate_block_impl,
// chunk_validation.rs). The producer is the one at the following height; the validators are those
// of the claimed height. This engine treats such blocks the same way, with bodies and with headers
// alone.
func TestChunkOfAnotherCreatedHeightIsAccepted(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc", "dd", "ee")
	maker, follower := openNode(t, g), openNode(t, g)
	var heads []*primitives.BlockHeader
	orders := map[bool]int{}
	for height := primitives.Height(1); height < 24; height++ {
		parent := maker.Head().Hash
		created := height + height%5 // 0 to 4 above the block's height
		b, chunks := maker.createdAt(parent, height, created)
		id := chunks[0].Header.ShardID
		own, err := maker.ChunkValidators(maker.Head(), id)
		if err != nil {
			t.Fatal(err)
		}
		other, err := maker.Validation().Validators(primitives.ChunkKey{ShardID: id, EpochID: b.Header.EpochID, HeightCreated: created})
		if err != nil {
			t.Fatal(err)
		}
		same := len(own) == len(other)
		for i := range own {
			same = same && own[i].AccountID == other[i].AccountID
		}
		orders[same]++
		w, err := maker.Witness(chunks[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := follower.Witnesses().CheckWitness(w.ChunkStateWitness, nil); err != nil {
			t.Errorf("the witness of a chunk on %d that says %d: %v", height-1, created, err)
		}
		if held, err := follower.Witnesses().CheckHeld(w.ChunkStateWitness, nil); !held || err != nil {
			t.Errorf("by the state: %v, %v", held, err)
		}
		if _, err := follower.Witnesses().CheckChunk(chunks[0]); (err != nil) != (created != height) {
			t.Errorf("without its witness: %v", err)
		}
		maker.accept(b, chunks)
		follower.accept(b, chunks)
		heads = append(heads, b.Header)
	}
	if orders[false] == 0 {
		t.Error("validators were drawn in the same order for all heights")
	}
	behind := openNode(t, g)
	if got, err := behind.HeaderChain().Add(heads); got != len(heads) || err != nil && !errors.Is(err, headerchain.ErrKnown) {
		t.Errorf("%d headers of %d taken: %v", got, len(heads), err)
	}
	// Endorsements by validators of another height do not count.
	parent := maker.Head().Hash
	for created := maker.Head().Height() + 2; ; created++ {
		b, chunks := maker.createdAt(parent, maker.Head().Height()+1, created)
		honest, err := maker.ChunkValidators(maker.Head(), chunks[0].Header.ShardID)
		if err != nil {
			t.Fatal(err)
		}
		sigs := make([]primitives.Signature, len(honest))
		for i, v := range honest {
			sigs[i] = seedKey(v.AccountID).Sign(primitives.ChunkEndorsementBytes(chunks[0].Hash))
		}
		b.Body.ChunkEndorsements = append([][]primitives.Signature{sigs}, b.Body.ChunkEndorsements[1:]...)
		h := *b.Header
		h.BlockBodyHash, h.ChunkEndorsements = b.Body.Hash(), chain.EndorsementBitmaps(b.Body.ChunkEndorsements)
		b.Header = h.Init()
		chain.SignBlock(b, maker.producer(parent, h.Height))
		_, err = maker.Process(b, chunks, false)
		if errors.Is(err, chain.InvalidChunkEndorsement) {
			return
		}
		if created > 100 {
			t.Fatalf("endorsed in another order than that of its height: %v", err)
		}
	}
}
