package wire

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestProvedMessageIsVerifiedOnce: after Prove, Verify returns the same result without another
// check, for valid and forged signatures. A removed edge is verified anew.
func TestProvedMessageIsVerifiedOnce(t *testing.T) {
	t.Parallel()
	a, b := keyA.PublicKey(), keyB.PublicKey()
	edge := NewEdge(a, b, 7, SignEdge(keyA, b, 7).Signature, SignEdge(keyB, a, 7).Signature)
	badEdge := *edge
	badEdge.LowSig = badEdge.HighSig
	host := NewSnapshotHost(keyA, primitives.Hash{1}, 2, []primitives.ShardID{3})
	badHost := *host
	badHost.PeerID = b
	msg := NewRouted(keyA, ToPeer(b), &Ping{}, 0)
	badMsg := *msg
	badMsg.Author = b
	keys := primitives.NewVerifier(4)
	for _, m := range []Message{&RoutingTable{Edges: []*Edge{edge, &badEdge}}, &SnapshotHosts{Hosts: []*SnapshotHost{host, &badHost}}, msg, &badMsg} {
		Prove(m, keys)
	}
	// for the test only: shows whether Verify checks again
	edge.Nonce, host.EpochHeight, msg.Author = 9, 9, b
	badEdge.LowSig, badHost.PeerID, badMsg.Author = edge.LowSig, a, a
	if !edge.Verify() || !host.Verify() || !msg.Verify() || !msg.Hop().Verify() {
		t.Error("a verified signature is verified again")
	}
	if badEdge.Verify() || badHost.Verify() || badMsg.Verify() {
		t.Error("an invalid signature is accepted after Prove")
	}
	if edge.Remove(keyA).Verify() {
		t.Error("an edge is proven by the one before it")
	}
	long := &SnapshotHosts{Hosts: make([]*SnapshotHost, MaxHosts+1)}
	for i := range long.Hosts {
		long.Hosts[i] = &badHost
	}
	badHost.proven = unproven
	if Prove(long, keys); badHost.proven != unproven {
		t.Error("a list that is too long is checked")
	}
}

// TestShardListsAreLimited: a handshake with too many shards is refused, and of a host only one
// shard beyond the limit is read.
func TestShardListsAreLimited(t *testing.T) {
	t.Parallel()
	h := &Handshake{Tier: T2, Version: 86, Oldest: 83, Sender: keyA.PublicKey(), Target: keyB.PublicKey(), ListenPort: 1,
		Chain: ChainInfo{Genesis: GenesisID{ChainID: "test"}}, PartialEdge: SignEdge(keyA, keyB.PublicKey(), 7)}
	h.Chain.TrackedShards = make([]primitives.ShardID, maxTrackedShards)
	if _, err := Decode(Append(nil, h)); err != nil {
		t.Errorf("%d shards: %v", maxTrackedShards, err)
	}
	h.Chain.TrackedShards = append(h.Chain.TrackedShards, 1)
	if _, err := Decode(Append(nil, h)); err == nil {
		t.Error("one shard too many is taken")
	}
	s := &SnapshotHosts{Hosts: []*SnapshotHost{NewSnapshotHost(keyA, primitives.Hash{}, 1, make([]primitives.ShardID, 5000))}}
	m, err := Decode(Append(nil, s))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.(*SnapshotHosts).Hosts[0].Shards); n != MaxHostShards+1 {
		t.Errorf("%d shards of a host are kept", n)
	}
}

// TestStoredPayloadDoesNotRetainFrame: stored account data does not retain its frame.
func TestStoredPayloadDoesNotRetainFrame(t *testing.T) {
	t.Parallel()
	d := &AccountData{PeerID: keyA.PublicKey(), Version: 1}
	if err := d.Sign(keyB); err != nil {
		t.Fatal(err)
	}
	frame := Append(nil, &AccountsData{Data: []*AccountData{d}})
	m, err := Decode(frame)
	if err != nil {
		t.Fatal(err)
	}
	clear(frame)
	if got := m.(*AccountsData).Data[0]; !bytes.Equal(got.Payload, d.Payload) || !got.Verify(got.AccountKey) {
		t.Error("the payload changes with the frame")
	}
}

// BenchmarkRouted measures sending and receiving a validator's message.
func BenchmarkRouted(b *testing.B) {
	body := &PartialWitness{PartialWitness: primitives.PartialWitness{Part: make([]byte, 2000), Signature: primitives.ZeroED25519Signature}}
	to := ToPeer(keyB.PublicKey())
	b.Run("op=send", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Append(nil, NewRouted(keyA, to, body, 1))
		}
	})
	frame := Append(nil, NewRouted(keyA, to, body, 1))
	keys := primitives.NewVerifier(4)
	b.Run("op=receive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m, err := Decode(frame)
			if err != nil {
				b.Fatal(err)
			}
			if Prove(m, keys); !m.(*Routed).Verify() {
				b.Fatal("not proven")
			}
		}
	})
}

// TestMessageIsSignedWhenEncoded: a message is signed when it is encoded, not before, and as
// NewRouted signs it. A bare one is never signed, and is valid only for a target that has it from
// its author.
func TestMessageIsSignedWhenEncoded(t *testing.T) {
	t.Parallel()
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	to, pong := ToPeer(key.PublicKey()), &Pong{Nonce: 7, Source: key.PublicKey()}
	m, want := Unsigned(key, to, pong, 1), NewRouted(key, to, pong, 1)
	if m.Signature != "" || m.Hash() != want.Hash() {
		t.Error("it is signed before")
	}
	bare := m.Bare()
	if frame := Append(nil, m); !bytes.Equal(frame, Append(nil, want)) || m.Signature != want.Signature {
		t.Errorf("%x, want %x", frame, Append(nil, want))
	}
	got, err := Decode(Append(nil, bare))
	if err != nil {
		t.Fatal(err)
	}
	r := got.(*Routed)
	if !r.IsBare() || r.VerifyFor() || r.Hash() != want.Hash() {
		t.Errorf("%+v", r)
	}
	if r.Direct(); !r.VerifyFor() || r.Verify() {
		t.Error("a bare message is refused by its target, or accepted by other nodes")
	}
	if !bare.IsBare() || want.IsBare() {
		t.Error("IsBare is wrong for a bare or a signed message")
	}
}

// TestTrackedShardsArePartOfAccountData: the tracked shards are part of account data, which
// otherwise equals neard's encoding. Other contents of the field are skipped.
func TestTrackedShardsArePartOfAccountData(t *testing.T) {
	t.Parallel()
	d := &AccountData{PeerID: keyB.PublicKey(), Version: 3, Timestamp: Timestamp{Seconds: 7}}
	if err := d.Sign(keyA); err != nil {
		t.Fatal(err)
	}
	plain := d.Payload
	d.Holds = []primitives.ShardID{1, 1 << 40}
	if err := d.Sign(keyA); err != nil || len(d.Payload) <= len(plain) {
		t.Fatal(err)
	}
	var inner []byte
	for it := range accountKeyPayload.items(plain) {
		inner = it.b
	}
	other := appendMessage(nil, 2, func(b []byte) []byte { return appendBytes(append(b, inner...), holdsField, "no shards") })
	for i, tt := range []struct {
		payload []byte
		want    int
	}{{plain, 0}, {d.Payload, 2}, {other, 0}} {
		p := SignedPayload{Payload: tt.payload, Signature: keyA.Sign(tt.payload)}
		m, err := Decode(Append(nil, &AccountsData{Data: []*AccountData{{SignedPayload: p}}}))
		if err != nil {
			t.Fatal(err)
		}
		got := m.(*AccountsData).Data[0]
		if len(got.Holds) != tt.want || tt.want == 2 && got.Holds[1] != 1<<40 || !got.Verify(keyA.PublicKey()) || got.Version != 3 {
			t.Errorf("%d: %+v", i, got)
		}
	}
}
