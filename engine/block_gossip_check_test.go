package engine

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// TestValidateForGossipIgnoresChunkBodies: a signed block passes without chunk bodies, and
// BeginImport does not verify its signatures again. A block with a forged chunk signature, without
// approvals or with a wrong next epoch fails. Of these, Precheck refuses only the one without
// approvals: the other defects cannot be seen without the parent, so the peer that sent such a
// block is not blamed.
func TestValidateForGossipIgnoresChunkBodies(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb", "cc"))
	b, chunks := n.make(n.Head().Hash, 1, false)
	producer := n.producer(n.Head().Hash, 1)
	unapproved := changed(b, nil, func(h *primitives.BlockHeader) { h.Approvals = nil })
	chain.SignBlock(unapproved, producer)
	wrongEpoch := changed(b, nil, func(h *primitives.BlockHeader) { h.NextEpochID = primitives.EpochID{7} })
	chain.SignBlock(wrongEpoch, producer)
	forged := changed(b, nil, func(*primitives.BlockHeader) {})
	forged.Body.Chunks = append([]*primitives.ChunkHeader{}, b.Body.Chunks...)
	x := *b.Body.Chunks[0]
	x.Signature = seedKey("nobody").Sign(nil)
	forged.Body.Chunks[0] = &x
	forged.Header.BlockBodyHash = forged.Body.Hash()
	chain.SignBlock(forged, producer)
	for want, bad := range map[chain.Invalid]*primitives.Block{chain.NotEnoughApprovals: unapproved,
		chain.InvalidChunk: forged, chain.InvalidEpochHash: wrongEpoch} {
		if _, err := n.Precheck(bad); (err == nil) != (bad != unapproved) || err != nil && !errors.Is(err, want) {
			t.Errorf("%v: Precheck returned %v", want, err)
		}
		if err := n.ValidateForGossip(bad); !errors.Is(err, want) {
			t.Errorf("%v: ValidateForGossip returned %v", want, err)
		}
		if _, err := n.BeginImport(bad, chunks, false); !errors.Is(err, want) || VerdictOf(err) != VerdictInvalid || errors.Is(err, chain.InvalidSignature) {
			t.Errorf("%v: BeginImport returned %v", want, err)
		}
	}
	var checks, random atomic.Int64
	vrf := n.o.VRF
	n.o.VRF = func(key primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool {
		random.Add(1)
		return vrf(key, input, value, proof)
	}
	n.o.Verify = func(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
		checks.Add(1)
		return s.Verify(data, key)
	}
	if err := n.ValidateForGossip(b); err != nil {
		t.Fatal(err)
	}
	vetted := checks.Swap(0)
	if a := n.accept(b, chunks); !a.IsHead || vetted < 3 || checks.Load() >= vetted || random.Load() != 1 {
		t.Errorf("%d signatures were checked before, %d then, and %d random values", vetted, checks.Load(), random.Load())
	}
	if orphan, _ := n.make(n.Head().Hash, 2, false); n.ValidateForGossip(changed(orphan, nil, func(h *primitives.BlockHeader) { h.PrevHash = primitives.Hash{7} })) == nil {
		t.Error("an orphan is vetted")
	}
}
