package wire

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// anchoredBodies are the bodies that protocol version 87 changes, in their new form.
func anchoredBodies() []Body {
	anchor := &primitives.ChunkAnchor{PrevBlock: primitives.Hash{1}, PrevPrevBlock: primitives.Hash{2}}
	part := primitives.VersionedPartialWitness{PartialWitness: primitives.PartialWitness{EpochID: primitives.Hash{3}, ShardID: 4,
		HeightCreated: 5, Anchor: anchor, Ord: 6, Part: []byte("part"), EncodedLength: 7, Signature: primitives.ZeroED25519Signature}}
	key := primitives.ChunkKey{ShardID: 4, EpochID: primitives.Hash{3}, HeightCreated: 5}
	header := primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{Version: primitives.ChunkInnerV5, HeightCreated: 5,
		ShardID: 4}, Signature: primitives.ZeroED25519Signature}
	return []Body{
		&VersionedWitness{part}, &VersionedWitnessForward{part},
		&ContractAccesses{primitives.ContractAccesses{Key: key, Contracts: []primitives.Hash{{8}}, Anchor: anchor,
			Signature: primitives.ZeroED25519Signature}},
		&ContractDeploys{primitives.PartialContractDeploys{Key: key, Part: []byte("part"), Anchor: anchor,
			Signature: primitives.ZeroED25519Signature}},
		&PartialChunk{primitives.PartialChunk{Header: header, Anchor: &primitives.PartialChunkAnchor{PrevPrevBlock: primitives.Hash{2},
			EpochID: primitives.Hash{3}}}},
	}
}

// TestAnchoredBodiesKeepBytesInBothForms: the bodies of protocol version 87 keep bytes, hash and
// signature in the first and the third form of a routed message. Witness parts use tags 40 and 41,
// T1 15 and 16; the others keep their tags.
func TestAnchoredBodiesKeepBytesInBothForms(t *testing.T) {
	t.Parallel()
	kinds := []BodyKind{40, 41, 28, 31, 16}
	tiers := [][2]byte{{0, 15}, {0, 16}, {0, 6}, {1, 9}, {0, 1}}
	for i, body := range anchoredBodies() {
		m := NewRouted(keyA, ToPeer(keyB.PublicKey()), body, 7)
		if body.BodyKind() != kinds[i] || m.tagged[0] != byte(kinds[i]) {
			t.Errorf("%v has tag %d, want %d", body.BodyKind(), m.tagged[0], kinds[i])
		}
		if third := v3Body(t, m); !bytes.HasPrefix(third, tiers[i][:]) {
			t.Errorf("%v begins with %x in the third form, want %x", body.BodyKind(), third[:2], tiers[i])
		}
		for form, frame := range map[string][]byte{"first": Append(nil, m), "third": m.AppendV3(nil)} {
			got, err := Decode(frame)
			if err != nil {
				t.Errorf("%v in the %s form: %v", body.BodyKind(), form, err)
				continue
			}
			r := got.(*Routed)
			if !bytes.Equal(r.tagged, m.tagged) || r.Hash() != m.Hash() || !r.Verify() || !bytes.Equal(Append(nil, r), Append(nil, m)) {
				t.Errorf("%v in the %s form decodes to another message", body.BodyKind(), form)
			}
			for _, tier := range []Tier{T1, T3} {
				if tier.Allows(r) != body.BodyKind().IsT1() {
					t.Errorf("%v on %v", body.BodyKind(), tier)
				}
			}
		}
	}
}

// TestUnversionedWitnessWithAnchorIsRefused: bodies 22 and 23 have no version, so what is sent
// there cannot have an anchor.
func TestUnversionedWitnessWithAnchorIsRefused(t *testing.T) {
	t.Parallel()
	raw := anchoredBodies()[0].AppendBorsh(nil)
	for _, kind := range []byte{22, 23} {
		frame := Append(nil, &Routed{Target: ToPeer(keyB.PublicKey()), Author: keyA.PublicKey(), Signature: primitives.ZeroED25519Signature,
			TTL: 9, tagged: append([]byte{kind}, raw[1:]...)})
		if m, err := Decode(frame); err == nil {
			t.Errorf("body %d: %+v", kind, m)
		}
	}
}
