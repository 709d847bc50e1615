package consensus_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
)

// optimistic returns the optimistic blocks that the validator has sent.
func (s *script) optimistic() (list []consensus.Send) {
	for _, x := range s.sent {
		if _, ok := x.Message.(*primitives.OptimisticBlock); ok {
			list = append(list, x)
		}
	}
	return list
}

// producerOf returns the producer of a height on the genesis.
func (s *script) producerOf(h primitives.Height) primitives.AccountID {
	by, err := s.maker.BlockProducer(s.maker.Genesis().Hash, h)
	s.fail(err)
	return by.AccountID
}

// TestBlockHasFieldsOfItsOptimisticBlock: the producer of a height announces the block as soon as
// it has the parent, once, to all chunk producers but itself, and the block that it makes later has
// the timestamp and the VRF output of the optimistic block.
func TestBlockHasFieldsOfItsOptimisticBlock(t *testing.T) {
	s := newScript(t, "ann")
	h := primitives.Height(2)
	for s.producerOf(h) != "ann" || s.producerOf(h-1) == "ann" {
		h++
	}
	// The genesis is the parent of all heights below. Only a block gives the parent of height h.
	s.block("parent", "genesis", h-1, []string{"ann", "bob", "cid", "dan"})
	s.sent = nil
	s.step(consensus.Received{From: "bob", Message: s.blocks["parent"]})
	list := s.optimistic()
	if len(list) != 1 {
		t.Fatalf("%d optimistic blocks", len(list))
	}
	o, parent := list[0].Message.(*primitives.OptimisticBlock), s.blocks["parent"]
	if o.Height != h || o.PrevBlockHash != parent.Hash() || o.Timestamp != uint64(s.now) && o.Timestamp != parent.Header.Timestamp+1 ||
		!slices.Equal(list[0].Receivers, []primitives.AccountID{"bob", "cid", "dan"}) || list[0].To != "" {
		t.Errorf("%+v to %v", o, list[0].Receivers)
	}
	if hash := o.Hash(); !o.Signature.Verify(hash[:], testnode.Key("ann").PublicKey()) {
		t.Error("the signature does not verify")
	}
	s.wait(time.Second)
	inner := primitives.NewApprovalInner(parent.Hash(), h-1, h)
	for _, by := range []primitives.AccountID{"bob", "cid", "dan"} {
		s.step(consensus.Received{From: "bob", Message: &primitives.Approval{Inner: inner, Target: h, AccountID: by,
			Signature: testnode.Key(by).Sign(inner.SignedBytes(h))}})
	}
	s.wait(3 * time.Second)
	i := slices.IndexFunc(s.sent, func(x consensus.Send) bool {
		b, ok := x.Message.(*primitives.Block)
		return ok && b.Header.Height == h
	})
	if i < 0 {
		t.Fatalf("no block %d: %v", h, s.lines)
	}
	b := s.sent[i].Message.(*primitives.Block)
	if b.Header.Timestamp != o.Timestamp || b.Header.RandomValue != o.RandomValue || b.Body.VRFValue != o.VRFValue || b.Body.VRFProof != o.VRFProof {
		t.Errorf("block at %d of %v, its optimistic block at %d of %v", b.Header.Timestamp, b.Header.RandomValue, o.Timestamp, o.RandomValue)
	}
	for _, x := range s.optimistic()[1:] { // of the heights above only
		if m := x.Message.(*primitives.OptimisticBlock); m.Height <= h {
			t.Errorf("another optimistic block of height %d", m.Height)
		}
	}
}

// TestNoOptimisticBlocksIsRespected: with the option a validator sends none and ignores those of
// others, and its blocks have the time at which they are made.
func TestNoOptimisticBlocksIsRespected(t *testing.T) {
	s := newScript(t, "ann")
	s.change = func(o *consensus.Options) { o.NoOptimisticBlocks = true }
	s.start()
	s.wait(20 * time.Second)
	if list := s.optimistic(); len(list) > 0 {
		t.Errorf("%d optimistic blocks", len(list))
	}
	o, err := s.maker.NewOptimisticBlock(s.maker.Genesis().Hash, 1, 0, testnode.Key(s.producerOf(1)))
	s.fail(err)
	s.step(consensus.Received{From: "bob", Message: o})
	if n := s.counters.Optimistic.Invalid.Load() + s.counters.Optimistic.Late.Load(); n > 0 {
		t.Errorf("%d counted", n)
	}
}

// TestFalseOptimisticBlocksAreDropped: forged and changed optimistic blocks, those of heights far
// ahead and of known heights, and a flood leave the validator as it was, and the flood is bounded.
func TestFalseOptimisticBlocksAreDropped(t *testing.T) {
	s := newScript(t, "ann")
	c := &s.counters.Optimistic
	genesis := s.maker.Genesis().Hash
	h := primitives.Height(1)
	for s.producerOf(h) == "ann" {
		h++
	}
	if h > 2 {
		t.Fatalf("the first height of another validator is %d", h)
	}
	key := testnode.Key(s.producerOf(h))
	send := func(change func(o *primitives.OptimisticBlock), key primitives.SecretKey) {
		t.Helper()
		o, err := s.maker.NewOptimisticBlock(genesis, h, 0, key)
		s.fail(err)
		change(o)
		hash := o.Hash()
		o.Signature = key.Sign(hash[:])
		s.sent = nil
		s.step(consensus.Received{From: "bob", Message: o})
		if len(s.sent) > 0 {
			t.Errorf("sent %+v", s.sent)
		}
	}
	invalid := func(name string, change func(o *primitives.OptimisticBlock), key primitives.SecretKey) {
		t.Helper()
		before := c.Invalid.Load()
		if send(change, key); c.Invalid.Load() != before+1 {
			t.Errorf("%s: %d invalid, want one more than %d", name, c.Invalid.Load(), before)
		}
	}
	invalid("signature", func(*primitives.OptimisticBlock) {}, testnode.Key("nobody"))
	invalid("random value", func(o *primitives.OptimisticBlock) { o.RandomValue[0]++ }, key)
	invalid("vrf value", func(o *primitives.OptimisticBlock) { o.VRFValue[0]++ }, key)
	invalid("vrf proof", func(o *primitives.OptimisticBlock) { o.VRFProof[0]++ }, key)
	invalid("time", func(o *primitives.OptimisticBlock) { o.Timestamp = 0 }, key)
	// A height far ahead that this validator may produce.
	far := h + 100
	for s.producerOf(far) != s.producerOf(h) {
		far++
	}
	invalid("far height", func(o *primitives.OptimisticBlock) { o.Height = far }, key)
	invalid("greatest height", func(o *primitives.OptimisticBlock) { o.Height = ^primitives.Height(0) }, key)
	for i := range 100 { // on unknown parents, and then many of one height
		send(func(o *primitives.OptimisticBlock) { o.PrevBlockHash[0], o.PrevBlockHash[1] = byte(i), 1 }, key)
	}
	if n := c.Orphans.Load(); n != 10 {
		t.Errorf("%d orphans", n)
	}
	before := c.Invalid.Load()
	for i := range 100 {
		send(func(o *primitives.OptimisticBlock) { o.Timestamp += uint64(i) }, key)
	}
	if c.Invalid.Load() != before || c.Failed.Load() > 0 {
		t.Errorf("%d invalid, %d failed", c.Invalid.Load()-before, c.Failed.Load())
	}
	s.block("b", "genesis", h, []string{"ann", "bob", "cid", "dan"})
	s.step(consensus.Received{From: "bob", Message: s.blocks["b"]})
	late := c.Late.Load()
	if send(func(*primitives.OptimisticBlock) {}, key); c.Late.Load() != late+1 || s.e.Tip().Height() != h {
		t.Errorf("%d late, the tip is at %d", c.Late.Load(), s.e.Tip().Height())
	}
}

// TestOrphanedOptimisticBlockIsUsed: an optimistic block that arrives before its parent is used
// when the parent is imported and all chunks on it are complete.
func TestOrphanedOptimisticBlockIsUsed(t *testing.T) {
	s := newScript(t, "ann")
	h := primitives.Height(2)
	for s.producerOf(h) == "ann" {
		h++
	}
	s.block("parent", "genesis", h-1, []string{"ann", "bob", "cid", "dan"})
	parent := s.blocks["parent"].Hash()
	o, err := s.maker.NewOptimisticBlock(parent, h, 0, testnode.Key(s.producerOf(h)))
	s.fail(err)
	s.wait(20 * time.Second) // heights below h are skipped, so that h is not far ahead
	s.step(consensus.Received{From: "bob", Message: o})
	if n := s.counters.Optimistic.Orphans.Load(); n != 1 {
		t.Fatalf("%d orphans, %d invalid", n, s.counters.Optimistic.Invalid.Load())
	}
	s.step(consensus.Received{From: "bob", Message: s.blocks["parent"]})
	s.chunkOn(parent)
	if want := fmt.Sprintf("applies 0 chunks of optimistic block %d", h); !slices.Contains(s.notes, want) {
		t.Errorf("no note %q in %q", want, s.notes)
	}
	if n := s.counters.Optimistic.Orphans.Load(); n != 0 {
		t.Errorf("%d orphans", n)
	}
}

// chunkOn gives the validator the chunk of the only shard on a block, if another validator makes
// it, in parts.
func (s *script) chunkOn(parent primitives.Hash) {
	by, err := s.maker.ChunkProducer(parent, 0)
	s.fail(err)
	if by.AccountID == s.me {
		return // made already
	}
	c, coded, err := s.maker.NewCodedChunk(parent, 0, nil, testnode.Key(by.AccountID))
	s.fail(err)
	view := s.maker.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil })
	out, err := chunkparts.New(by.AccountID, view, s.maker.Coding(), consensus.PlainVerifier{}.Verify, func(int) int { return 0 }).
		Step(0, chunkparts.Made{Chunk: c, Body: coded})
	s.fail(err)
	for _, x := range out.Send {
		s.step(consensus.Received{From: consensus.Peer(by.AccountID), Message: x.Body})
	}
}

// TestLaterOptimisticBlockWaitsForItsHeight: an optimistic block of a later height on the head does
// not replace that of the next height, and is not applied unless the next height is skipped.
func TestLaterOptimisticBlockWaitsForItsHeight(t *testing.T) {
	s := newScript(t, "ann")
	h := primitives.Height(2)
	for s.producerOf(h) == "ann" || s.producerOf(h+1) == "ann" {
		h++
	}
	s.block("parent", "genesis", h-1, []string{"ann", "bob", "cid", "dan"})
	parent := s.blocks["parent"].Hash()
	s.step(consensus.Received{From: "bob", Message: s.blocks["parent"]})
	s.chunkOn(parent)
	applied := func(h primitives.Height) bool {
		return slices.Contains(s.notes, fmt.Sprintf("applies 0 chunks of optimistic block %d", h))
	}
	for _, at := range []primitives.Height{h + 1, h} {
		o, err := s.maker.NewOptimisticBlock(parent, at, 0, testnode.Key(s.producerOf(at)))
		s.fail(err)
		s.step(consensus.Received{From: "bob", Message: o})
		if applied(h) != (at == h) || applied(h+1) {
			t.Fatalf("after optimistic block %d: %q", at, s.notes)
		}
	}
	s.wait(20 * time.Second) // height h is skipped
	if !applied(h + 1) {
		t.Errorf("optimistic block %d is not applied after its height has become the next: %q", h+1, s.notes)
	}
}
