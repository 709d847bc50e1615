package primitives

import (
	"net/netip"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

var (
	someKey    = ChunkKey{ShardID: 2, EpochID: Hash{1}, HeightCreated: 7}
	someHeader = ChunkHeader{ChunkHeaderInner: ChunkHeaderInner{Version: ChunkInnerV5, HeightCreated: 7, ShardID: 2}, Signature: ZeroED25519Signature}
	somePart   = ChunkPart{Ord: 3, Part: []byte("part"), Proof: MerklePath{{Hash: Hash{2}, Direction: Right}}}
	someProof  = ReceiptProof{From: 1, To: 2, Proof: MerklePath{{Hash: Hash{3}}}}
	someStep   = StateTransition{Block: Hash{4}, Base: [][]byte{{1}, {2, 3}}, PostState: Hash{5}}
	someAnchor = &ChunkAnchor{PrevBlock: Hash{6}, PrevPrevBlock: Hash{7}}
)

func FuzzChunkStateWitness(f *testing.F) {
	arrives(f, &ChunkStateWitness{Header: someHeader, Main: someStep, Sources: []SourceProof{{Hash{1}, someProof}, {Hash{2}, someProof}},
		Implicit: []StateTransition{someStep, {}}}, &ChunkStateWitness{Header: someHeader})
}

func FuzzPartialWitness(f *testing.F) {
	arrives(f, &PartialWitness{ShardID: 1, Ord: 2, Part: []byte("part"), EncodedLength: 9, Signature: ZeroED25519Signature})
}

func FuzzVersionedPartialWitness(f *testing.F) {
	p := PartialWitness{ShardID: 1, Ord: 2, Part: []byte("part"), EncodedLength: 9, Signature: ZeroED25519Signature}
	anchored := p
	anchored.Anchor = someAnchor
	arrives(f, &VersionedPartialWitness{p}, &VersionedPartialWitness{anchored})
}

func FuzzContractAccesses(f *testing.F) {
	a := ContractAccesses{Key: someKey, Contracts: []Hash{{1}, {2}}, Transition: TransitionKey{Hash{3}, 1}, Signature: ZeroED25519Signature}
	anchored := a
	anchored.Anchor = someAnchor
	arrives(f, &a, &anchored)
}

func FuzzContractCodeRequest(f *testing.F) {
	arrives(f, &ContractCodeRequest{Requester: "node0", Key: someKey, Contracts: []Hash{{1}}, Signature: ZeroED25519Signature})
}

func FuzzContractCodeResponse(f *testing.F) {
	arrives(f, &ContractCodeResponse{Key: someKey, Responder: "node0", Compressed: []byte("code"), Signature: ZeroED25519Signature},
		&ContractCodeResponse{Key: someKey, Compressed: []byte("code")})
}

func FuzzPartialContractDeploys(f *testing.F) {
	p := PartialContractDeploys{Key: someKey, Ord: 1, Part: []byte("part"), EncodedLength: 5, Signature: ZeroED25519Signature}
	anchored := p
	anchored.Anchor = someAnchor
	arrives(f, &p, &anchored)
}

func FuzzPartialChunk(f *testing.F) {
	arrives(f, &PartialChunk{Header: someHeader, Parts: []ChunkPart{somePart}, Receipts: []ReceiptProof{someProof}},
		&PartialChunk{Header: someHeader, Receipts: []ReceiptProof{someProof}, Anchor: &PartialChunkAnchor{Hash{1}, Hash{2}}})
}

func FuzzChunkForward(f *testing.F) {
	arrives(f, NewChunkForward(&someHeader, []ChunkPart{somePart, {}}))
}

func FuzzChunkRequest(f *testing.F) {
	arrives(f, &ChunkRequest{ChunkHash: Hash{1}, Ords: []uint64{0, 3}, Shards: []ShardID{0, 5}})
}

func FuzzChunkResponse(f *testing.F) {
	arrives(f, &ChunkResponse{ChunkHash: Hash{1}, Parts: []ChunkPart{somePart}, Receipts: []ReceiptProof{someProof}})
}

func FuzzStateHeaderRequest(f *testing.F) {
	arrives(f, &StateHeaderRequest{ShardID: 1, SyncHash: Hash{2}, Addr: netip.MustParseAddrPort("127.0.0.1:24567")},
		&StateHeaderRequest{Addr: netip.MustParseAddrPort("[::ffff:1.2.3.4]:1")})
}

func FuzzStatePartRequest(f *testing.F) {
	arrives(f, &StatePartRequest{ShardID: 1, SyncHash: Hash{2}, Part: 3, Addr: netip.MustParseAddrPort("[::1]:24567")})
}

func FuzzStateRequestAck(f *testing.F) {
	arrives(f, &StateRequestAck{ShardID: 1, Part: 3, Body: StateBusy}, &StateRequestAck{Header: true, Body: StateError})
}

func FuzzStateResponse(f *testing.F) {
	header := &StateHeader{Chunk: Chunk{Header: someHeader}, ChunkProof: somePart.Proof, PrevChunkHeader: &someHeader, PrevChunkProof: &somePart.Proof,
		Incoming: []BlockReceipts{{Hash{1}, []ReceiptProof{someProof}}}, RootProofs: [][]RootProof{{{Hash{2}, somePart.Proof}}}, Root: StateRootNode{[]byte("root"), 7}}
	arrives(f, &StateResponse{ShardID: 1, Header: header}, &StateResponse{Part: &StatePart{Number: 1, Compressed: true, Body: []byte("body")}}, &StateResponse{})
}

// TestUnorderedMapsAreCanonicalized: a map of proofs and a set of shards decode in any order, and
// with repetitions, as in borsh-rs; they are encoded in the canonical order.
func TestUnorderedMapsAreCanonicalized(t *testing.T) {
	t.Parallel()
	w := &ChunkStateWitness{Header: someHeader, Sources: []SourceProof{{Hash{2}, someProof}, {Hash{1}, someProof}, {Hash{2}, ReceiptProof{From: 9}}}}
	r, back := borsh.NewReader(w.AppendBorsh(nil)), new(ChunkStateWitness)
	if back.DecodeBorsh(r); r.Close() != nil || !r.Loose() || len(back.Sources) != 2 || back.Sources[0].Chunk != (Hash{1}) || back.Sources[1].From != 9 {
		t.Errorf("%v: sources %+v", r.Close(), back.Sources)
	}
	q := &ChunkRequest{Shards: []ShardID{3, 1, 3, 2}}
	r, again := borsh.NewReader(q.AppendBorsh(nil)), new(ChunkRequest)
	if again.DecodeBorsh(r); r.Close() != nil || !r.Loose() || len(again.Shards) != 3 || again.Shards[0] != 1 || again.Shards[2] != 3 {
		t.Errorf("%v: shards %v", r.Close(), again.Shards)
	}
	r = borsh.NewReader((&ChunkRequest{Shards: []ShardID{1, 2}}).AppendBorsh(nil))
	if again.DecodeBorsh(r); r.Loose() {
		t.Error("the canonical order counts as loose")
	}
	for _, wrong := range []borsh.Appender{
		&PartialWitness{Signature: ZeroED25519Signature}, &ContractAccesses{Signature: ZeroED25519Signature},
	} {
		raw := wrong.AppendBorsh(nil)
		raw[len(raw)-66] ^= 1 // the last letter of the differentiator
		var err error
		switch wrong.(type) {
		case *PartialWitness:
			err = borsh.Unmarshal(raw, new(PartialWitness))
		default:
			err = borsh.Unmarshal(raw, new(ContractAccesses))
		}
		if err == nil {
			t.Errorf("%T with another differentiator reads", wrong)
		}
	}
}
