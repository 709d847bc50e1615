package primitives

import (
	"bytes"
	"os"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// bodies are the routed messages whose content is of this package's types, by borsh tag (nearcore
// chain/network/src/network_protocol/mod.rs).
var bodies = map[byte]func() codec{
	11: func() codec { return new(ChunkRequest) },
	12: func() codec { return new(ChunkResponse) },
	16: func() codec { return new(PartialChunk) },
	18: func() codec { return new(ChunkForward) },
	21: func() codec { return new(WitnessAck) },
	22: func() codec { return new(PartialWitness) },
	23: func() codec { return new(PartialWitness) },
	24: func() codec { return new(ChunkEndorsement) },
	27: func() codec { return new(StatePartRequest) },
	28: func() codec { return new(ContractAccesses) },
	31: func() codec { return new(PartialContractDeploys) },
	32: func() codec { return new(StateHeaderRequest) },
	34: func() codec { return new(StateRequestAck) },
}

// signer finds the known key that has signed.
func signer(keys map[string]SecretKey, data []byte, sig Signature) (SecretKey, bool) {
	for _, k := range keys {
		if sig.Verify(data, k.PublicKey()) {
			return k, true
		}
	}
	return SecretKey{}, false
}

// signedIn returns what is signed in a body, and the signer if it is named.
func signedIn(v codec) (list []struct {
	data []byte
	sig  Signature
	by   AccountID
}) {
	add := func(data []byte, sig Signature, by AccountID) {
		list = append(list, struct {
			data []byte
			sig  Signature
			by   AccountID
		}{data, sig, by})
	}
	switch v := v.(type) {
	case *PartialChunk:
		hash := v.Header.ChunkHash()
		add(hash[:], v.Header.Signature, "")
	case *OptimisticBlock:
		hash := v.Hash()
		add(hash[:], v.Signature, "")
	case *ChunkForward:
		add(v.ChunkHash[:], v.Signature, "")
	case *PartialWitness:
		add(v.SignedBytes(), v.Signature, "")
	case *ContractAccesses:
		add(v.SignedBytes(), v.Signature, "")
	case *PartialContractDeploys:
		add(v.SignedBytes(), v.Signature, "")
	case *ChunkEndorsement:
		add(ChunkEndorsementBytes(v.ChunkHash), v.Signature, v.Metadata.AccountID)
		add(v.Metadata.AppendBorsh(nil), v.MetadataSignature, v.Metadata.AccountID)
	}
	return list
}

func hashText(h Hash) string { return string(h[:]) }

// TestRecordedBodiesKeepTheirBytes: every body of chunks, witnesses, contracts and states that
// neard nodes have sent decodes, encodes to the same bytes, and has the signatures of the known
// keys; parts are proven by their headers. It runs on the excerpt in testdata and, if present, on
// the whole recording.
func TestRecordedBodiesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	t.Run("cut", func(t *testing.T) { testBodies(t, "../internal/testkit/replay/testdata/net.jsonl.gz") })
	t.Run("whole", func(t *testing.T) {
		whole := testutil.Data("neard/net/frames.jsonl.gz")
		testutil.Need(t, whole, "the cut was read")
		if os.Getenv("TROUPE_REPLAY") == "" {
			t.Skip("TROUPE_REPLAY=all reads the whole recording too")
		}
		testBodies(t, whole)
	})
}

func testBodies(t *testing.T, path string) {
	nodes, frames := testutil.Frames(t, path, func(kind string) bool {
		return kind == "routed" || kind == "optimistic_block" || kind == "state_response"
	})
	keys := map[string]SecretKey{}
	for _, n := range nodes {
		k, err := ParseSecretKey(n.ValidatorKey.SecretKey)
		if err != nil {
			t.Fatal(err)
		}
		keys[n.ValidatorKey.AccountID] = k
	}
	counts, signatures, parts := map[byte]int{}, 0, 0
	roots := map[Hash]int{} // parts of chunks, by their root
	for f := range frames {
		var tag byte
		var raw []byte
		var v codec
		switch f.Kind {
		case "optimistic_block": // inner, signature and hash are recorded separately
			m := testutil.ProtoField(f.Bytes, 36)
			o := new(OptimisticBlock)
			tag, v = 254, o
			raw = append(bytes.Clone(testutil.ProtoField(m, 1)), testutil.ProtoField(testutil.ProtoField(m, 2), 1)...)
			if borsh.Unmarshal(raw, o) != nil || string(testutil.ProtoField(testutil.ProtoField(m, 3), 1)) != hashText(o.Hash()) {
				t.Fatalf("line %d: another hash", f.Line)
			}
		case "state_response":
			tag, raw, v = 255, testutil.ProtoField(f.Message(31), 1), new(StateResponse)
		default:
			var ok bool
			if tag, raw, ok = f.Routed(); !ok || bodies[tag] == nil {
				continue
			}
			v = bodies[tag]()
		}
		if err := borsh.Unmarshal(raw, v); err != nil {
			t.Fatalf("line %d, body %d: %v", f.Line, tag, err)
		}
		if got := v.AppendBorsh(nil); !bytes.Equal(got, raw) {
			t.Fatalf("line %d, body %d: %x became %x", f.Line, tag, raw, got)
		}
		counts[tag]++
		for _, s := range signedIn(v) {
			k, known := keys[string(s.by)], s.by != ""
			if !known {
				k, known = signer(keys, s.data, s.sig)
			}
			if !known || k.Sign(s.data) != s.sig {
				t.Fatalf("line %d, body %d: the signature is not that of %q", f.Line, tag, s.by)
			}
			signatures++
		}
		var proven []ChunkPart
		var root Hash
		switch v := v.(type) {
		case *PartialChunk:
			proven, root = v.Parts, v.Header.EncodedMerkleRoot
			if NewChunkForward(&v.Header, nil).ChunkHash != v.Header.ChunkHash() {
				t.Errorf("line %d: a forward of another chunk", f.Line)
			}
			for i := range v.Receipts {
				if !v.Receipts[i].Verify(v.Header.PrevOutgoingReceiptsRoot) {
					t.Errorf("line %d: receipts that are not proven", f.Line)
				}
			}
		case *ChunkForward:
			if proven, root = v.Parts, v.MerkleRoot; !v.Consistent() {
				t.Errorf("line %d: an inconsistent forward", f.Line)
			}
		}
		for i := range proven {
			if !proven[i].Verify(root, 4) {
				t.Errorf("line %d: part %d is not proven", f.Line, proven[i].Ord)
			}
			parts++
			roots[root]++
		}
	}
	t.Logf("bodies %v, %d signatures, %d parts of %d chunks", counts, signatures, parts, len(roots))
	for tag := range bodies {
		if counts[tag] == 0 {
			t.Errorf("no body %d", tag)
		}
	}
}
