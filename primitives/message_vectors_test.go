package primitives

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestChunkMessagesMatchNearPrimitives: the messages about chunks of protocol versions 86 and 87
// have the bytes and the signatures that near-primitives 0.38.0 gives them (internal/testkit/oracle,
// command messages).
func TestChunkMessagesMatchNearPrimitives(t *testing.T) {
	t.Parallel()
	h := func(s string) Hash { return HashBytes([]byte(s)) }
	path := MerklePath{{Hash: h("path"), Direction: Right}}
	var key SecretKey
	seen := map[string]int{}
	for n, raw := range testutil.Lines(t, "testdata/messages.jsonl.gz") {
		var line struct {
			Key, Type, Borsh string
			Version          ProtocolVersion
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatal(err)
		}
		if line.Key != "" {
			var err error
			if key, err = ParseSecretKey(line.Key); err != nil || line.Version != 87 {
				t.Fatalf("key %v, EarlyKickout from %d", err, line.Version)
			}
			continue
		}
		want, err := hex.DecodeString(line.Borsh)
		if err != nil {
			t.Fatal(err)
		}
		// every second group of four is of a chunk without an anchor
		anchor := &ChunkAnchor{PrevBlock: h("prev"), PrevPrevBlock: h("prev_prev")}
		if seen[line.Type]%2 == 1 {
			anchor.PrevPrevBlock = Hash{}
		}
		seen[line.Type]++
		chunkAnchor := &PartialChunkAnchor{PrevPrevBlock: anchor.PrevPrevBlock, EpochID: h("epoch")}
		if line.Version < 87 {
			anchor, chunkAnchor = nil, nil
		}
		place := ChunkKey{ShardID: 3, EpochID: h("epoch"), HeightCreated: 1042}
		var made codec
		var back codec
		var data []byte
		var sig Signature
		switch line.Type {
		case "VersionedPartialEncodedStateWitness":
			part := make([]byte, 40)
			for i := range part {
				part[i] = byte(i)
			}
			p := &VersionedPartialWitness{PartialWitness{EpochID: place.EpochID, ShardID: 3, HeightCreated: 1042, Anchor: anchor,
				Ord: 2, Part: part, EncodedLength: 123}}
			p.Signature = key.Sign(p.SignedBytes())
			made, back = p, new(VersionedPartialWitness)
			data, sig = p.SignedBytes(), p.Signature
		case "ChunkContractAccesses":
			a := &ContractAccesses{Key: place, Contracts: []Hash{h("code")}, Transition: TransitionKey{h("main"), 1}, Anchor: anchor}
			a.Signature = key.Sign(a.SignedBytes())
			made, back, data, sig = a, new(ContractAccesses), a.SignedBytes(), a.Signature
		case "PartialEncodedContractDeploys":
			p := &PartialContractDeploys{Key: place, Ord: 3, Part: []byte{1, 2, 3}, EncodedLength: 9, Anchor: anchor}
			p.Signature = key.Sign(p.SignedBytes())
			made, back, data, sig = p, new(PartialContractDeploys), p.SignedBytes(), p.Signature
		case "PartialEncodedChunk":
			c := &PartialChunk{Parts: []ChunkPart{{Ord: 4, Part: []byte{7, 8}, Proof: path}}, Receipts: []ReceiptProof{{From: 3, Proof: path}},
				Anchor: chunkAnchor}
			// the header is nearcore's: it is the same in both forms
			read := new(PartialChunk)
			if err := borsh.Unmarshal(want, read); err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			c.Header = read.Header
			hash := c.Header.ChunkHash()
			made, back, data, sig = c, new(PartialChunk), hash[:], c.Header.Signature
			if c.Header.PrevBlockHash != h("prev") || c.Header.HeightCreated != 1042 || c.Header.ShardID != 3 {
				t.Errorf("line %d: header %+v", n, c.Header)
			}
		default:
			t.Fatalf("line %d: type %s", n, line.Type)
		}
		if got := made.AppendBorsh(nil); !bytes.Equal(got, want) {
			t.Errorf("%s of %d:\n%x, want\n%x", line.Type, line.Version, got, want)
		}
		if err := borsh.Unmarshal(want, back); err != nil || !bytes.Equal(back.AppendBorsh(nil), want) {
			t.Errorf("%s of %d does not survive decoding: %v", line.Type, line.Version, err)
		}
		if !sig.Verify(data, key.PublicKey()) {
			t.Errorf("%s of %d: signature", line.Type, line.Version)
		}
	}
	for _, kind := range []string{"VersionedPartialEncodedStateWitness", "ChunkContractAccesses", "PartialEncodedContractDeploys", "PartialEncodedChunk"} {
		if seen[kind] != 4 {
			t.Errorf("%d vectors of %s, want 4", seen[kind], kind)
		}
	}
}

// TestAnchoredFormsHaveOwnSignatures: a signature of one form is not valid for the other one, nor
// for another anchor.
func TestAnchoredFormsHaveOwnSignatures(t *testing.T) {
	t.Parallel()
	place := ChunkKey{ShardID: 3, EpochID: Hash{1}, HeightCreated: 9}
	for name, signed := range map[string]func(*ChunkAnchor) []byte{
		"witness part": func(a *ChunkAnchor) []byte {
			return (&PartialWitness{EpochID: place.EpochID, ShardID: 3, HeightCreated: 9, Anchor: a, Part: []byte("part")}).SignedBytes()
		},
		"accesses": func(a *ChunkAnchor) []byte { return (&ContractAccesses{Key: place, Anchor: a}).SignedBytes() },
		"deploys": func(a *ChunkAnchor) []byte {
			return (&PartialContractDeploys{Key: place, Part: []byte("part"), Anchor: a}).SignedBytes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := SecretKeyFromSeed(ED25519, name)
			sig := key.Sign(signed(&ChunkAnchor{Hash{1}, Hash{2}}))
			for what, a := range map[string]*ChunkAnchor{"V1": nil, "another parent": {Hash{3}, Hash{2}}, "another anchor": {Hash{1}, Hash{3}}} {
				if sig.Verify(signed(a), key.PublicKey()) {
					t.Errorf("the signature is valid for %s", what)
				}
			}
			if !sig.Verify(signed(&ChunkAnchor{Hash{1}, Hash{2}}), key.PublicKey()) {
				t.Error("the signature is not valid")
			}
		})
	}
}
