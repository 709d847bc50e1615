package wire

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestBytesMatchNearcoresTests checks the bytes in nearcore's own tests (network_protocol/tests.rs,
// types.rs).
func TestBytesMatchNearcoresTests(t *testing.T) {
	t.Parallel()
	var answer primitives.Hash
	for i := range answer {
		answer[i] = 42
	}
	q := NewRouted(keyA, ToPeer(keyB.PublicKey()), &TxStatusRequest{"test_x", answer}, 0)
	body := join([]byte{6, 0, 0, 0}, []byte("test_x"), answer[:])
	if got, want := v3Body(t, q), join([]byte{1, 1}, body); !bytes.Equal(got, want) {
		t.Errorf("TxStatusRequest in the third form: %x, want %x", got, want)
	}
	if want := join([]byte{2}, body); !bytes.Equal(q.tagged, want) {
		t.Errorf("TxStatusRequest in the first form: %x, want %x", q.tagged, want)
	}
	for kind, want := range map[BodyKind][2]byte{BodyVersionedWitness: {0, 15}, BodyVersionedForward: {0, 16}, BodyPartialWitness: {0, 3},
		BodyPartialWitnessForward: {0, 4}, BodyPing: {1, 5}, BodyPong: {1, 6}, BodyBlockApproval: {0, 0}, BodyChunkRequest: {1, 3}} {
		if got := bodies[kind].tieredTag(); got != want || tiered[want] != kind {
			t.Errorf("%v has the tag %v, want %v; the tag is of %v", kind, got, want, tiered[want])
		}
		if kind.IsT1() != (want[0] == 0) {
			t.Errorf("%v on T1: %v", kind, kind.IsT1())
		}
	}
	if BodyVersionedWitness != 40 || BodyVersionedForward != 41 || !BodyVersionedWitness.MayGoToSelf() || !BodyVersionedForward.MayGoToSelf() {
		t.Error("witnesses with a version")
	}
}

// v3Body returns borsh_body of the third form of a message.
func v3Body(t *testing.T, m *Routed) (body []byte) {
	t.Helper()
	for it := range peerMessage.items(m.AppendV3(nil)) {
		for it := range routedV3.items(it.b) {
			if it.num == 4 {
				body = it.b
			}
		}
	}
	return body
}

// TestFirstByteDistinguishesProtobuf: all field numbers are 4 or more, so that the first byte
// distinguishes a frame from the format before protobuf.
func TestFirstByteDistinguishesProtobuf(t *testing.T) {
	t.Parallel()
	for _, m := range []Message{sampleHandshake(), &Disconnect{}, &PeersRequest{}, &HeadersRequest{}, &EpochSyncRequest{},
		NewRouted(keyA, ToPeer(keyB.PublicKey()), &Ping{}, 0)} {
		if b := Append(nil, m); b[0] < 32 {
			t.Errorf("%v begins with %d", m.Kind(), b[0])
		}
	}
}

// TestMessageFormsHaveSameHash: hash and signature of a message are the same in all its forms.
func TestMessageFormsHaveSameHash(t *testing.T) {
	t.Parallel()
	m := NewRouted(keyA, ToPeer(keyB.PublicKey()), &ChunkRequest{primitives.ChunkRequest{Ords: []uint64{1}}}, 9)
	first, err := Decode(Append(nil, m))
	if err != nil {
		t.Fatal(err)
	}
	third, err := Decode(m.AppendV3(nil))
	if err != nil {
		t.Fatal(err)
	}
	a, b := first.(*Routed), third.(*Routed)
	if a.Hash() != b.Hash() || a.Hash() != m.Hash() || !a.Verify() || !b.Verify() {
		t.Errorf("%v, %v, %v", a.Hash(), b.Hash(), m.Hash())
	}
	if b.Body.BodyKind().String() != "PartialEncodedChunkRequest" {
		t.Errorf("it is called %v", b.Body.BodyKind())
	}
}
