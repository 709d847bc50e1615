package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

var (
	keyA = primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	keyB = primitives.SecretKeyFromSeed(primitives.ED25519, "b")
	keyC = primitives.SecretKeyFromSeed(primitives.SECP256K1, "c")
)

// lenField is a length-delimited field.
func lenField(num uint32, v ...byte) []byte {
	return append(appendVarint(appendTag(nil, num, lenType), uint64(len(v))), v...)
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

var yes = lenField(18, 8, 1) // Disconnect{true}

func sampleHandshake() *Handshake {
	h := &Handshake{Tier: T2, Version: 86, Oldest: 83, Sender: keyA.PublicKey(), Target: keyB.PublicKey(), ListenPort: 24567,
		Chain: ChainInfo{Genesis: GenesisID{ChainID: "test"}, Height: 7, TrackedShards: []primitives.ShardID{3, 0}, Archival: true}}
	h.PartialEdge = SignEdge(keyA, keyB.PublicKey(), 1_700_000_001)
	return h
}

// TestFramesAreAcceptedAsInNearcore: frames are accepted and refused as by rust-protobuf 3.0.2 and
// nearcore's conversions.
func TestFramesAreAcceptedAsInNearcore(t *testing.T) {
	t.Parallel()
	hello := sampleHandshake()
	frame := Append(nil, hello)
	fields := hello.appendFields(nil)
	// the handshake with another sender_chain_info after its own
	chain := func(body []byte) []byte {
		return lenField(4, join(fields, lenField(6, body...))...)
	}
	genesis := lenField(1, join(lenField(1, 't'), lenField(2, lenField(1, make([]byte, 32)...)...))...)
	edge := NewEdge(keyA.PublicKey(), keyB.PublicKey(), 3, keyA.Sign(nil), keyB.Sign(nil)).AppendBorsh(nil)
	seconds := int64(1_700_000_000)
	ping := NewRouted(keyA, ToPeer(keyB.PublicKey()), &Ping{1, keyA.PublicKey()}, seconds)
	v1 := ping.Signature.AppendBorsh(ping.Author.AppendBorsh(ping.Target.AppendBorsh(nil)))
	routedOf := func(body ...byte) []byte { return lenField(17, lenField(1, join(v1, []byte{100}, body)...)...) }
	stamp := func(s, n uint64) []byte {
		return lenField(17, join(lenField(1, join(v1, []byte{100}, ping.tagged)...),
			lenField(2, appendUint(appendUint(nil, 1, s), 2, n)...))...)
	}
	failure := func(reason uint64) []byte {
		p := PeerInfo{ID: keyA.PublicKey()}
		return lenField(5, appendBorsh(appendUint(nil, 1, reason), 2, &p)...)
	}
	tests := []struct {
		name  string
		frame []byte
		ok    bool
	}{
		{"nothing", nil, false},
		{"disconnect", yes, true},
		{"only an unknown field", lenField(99, 1), false},
		{"an unknown field beside", join(lenField(99, 1), yes), true},
		{"a trace context beside", join(lenField(26, lenField(1, 1)...), yes), true},
		{"a trace context that cannot be read", join(lenField(26, 0xff), yes), false},
		{"a known field of another wire type", join(appendUint(nil, 18, 1), yes), true},
		{"a first message that cannot be read", join(lenField(6, 0xff), yes), false},
		{"a first message that means nothing", join(lenField(6), yes), true},
		{"field 0", join([]byte{2, 0}, yes), false},
		{"wire type 6", join([]byte{99<<3&0x7f | 6, 6}, yes), false},
		{"a group", join([]byte{0x93 + 8, 1, 0x0b, 0x0c, 0x9c + 8, 1}, yes), true},
		{"a group with another end", join([]byte{0x9b, 1, 0x0c}, yes), true},
		{"a group without an end", join(yes, []byte{0x9b, 1}), false},
		{"the end of no group", join(yes, []byte{0x0c}), false},
		{"fixed fields", join([]byte{0x99, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0x9d, 6, 1, 2, 3, 4}, yes), true},
		{"half a fixed field", join(yes, []byte{0x99, 6, 1, 2}), false},
		{"a tag of six bytes", join(yes, []byte{0x92, 0x81, 0x80, 0x80, 0x80, 0x00, 0}), false},
		{"a tag of five bytes", join(yes, []byte{0x92, 0x81, 0x80, 0x80, 0x00, 0}), true},
		{"a bool of ten bytes", lenField(18, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), true},
		{"a bool of eleven", lenField(18, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0), false},
		{"a bool too large", lenField(18, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2), false},
		{"a length beyond the end", []byte{0x92, 1, 3, 8, 1}, false},
		{"peers without limits", lenField(10), true},
		{"peers with the largest limit", lenField(10, 8, 0xff, 0xff, 0xff, 0xff, 0x0f), true},
		{"peers with a limit of 33 bits", lenField(10, 8, 0xff, 0xff, 0xff, 0xff, 0x1f), false},
		{"handshake", frame, true},
		{"handshake without a target", lenField(4, bytes.Replace(fields, lenField(4, lenField(1, []byte(keyB.PublicKey())...)...), nil, 1)...), false},
		{"handshake with a port of 17 bits", lenField(4, appendUint(fields, 5, 1<<16)...), false},
		{"handshake with another chain info", chain(genesis), true},
		{"handshake with a chain info of nothing", chain(nil), false},
		{"handshake of a chain that is not UTF-8", chain(bytes.Replace(genesis, []byte{'t'}, []byte{0xff}, 1)), false},
		{"handshake with packed shards", chain(join(genesis, lenField(3, 1, 0x80, 1))), true},
		{"handshake with half a packed shard", chain(join(genesis, lenField(3, 1, 0x80))), false},
		{"handshake with an owned account of nothing", lenField(4, join(fields, lenField(8))...), false},
		{"failure of version", failure(1), true},
		{"failure of genesis without it", failure(2), false},
		{"failure of target", failure(3), true},
		{"failure of no reason", failure(0), false},
		{"failure of a new reason", failure(4), false},
		{"failure of a reason of 33 bits", failure(1 << 32), false},
		{"edge", lenField(6, lenField(1, lenField(1, edge...)...)...), true},
		{"edge and a byte", lenField(6, lenField(1, lenField(1, join(edge, []byte{0})...)...)...), false},
		{"edge, half", lenField(6, lenField(1, lenField(1, edge[:40]...)...)...), false},
		{"nonce response", lenField(9, lenField(1, lenField(1, edge...)...)...), true},
		{"a hash of 31 bytes", lenField(14, lenField(1, lenField(1, make([]byte, 31)...)...)...), false},
		{"a hash", lenField(14, lenField(1, lenField(1, make([]byte, 32)...)...)...), true},
		{"challenge", lenField(19), true},
		{"routed", routedOf(ping.tagged...), true},
		{"routed and a byte", routedOf(join(ping.tagged, []byte{0})...), false},
		{"routed body that was deleted", routedOf(4), false},
		{"routed body of a protocol of later", routedOf(33), false},
		{"routed at the last second there is", stamp(maxSeconds, 999_999_999), true},
		{"routed a nanosecond later", stamp(maxSeconds, 1_000_000_000), false},
		{"routed at the first", stamp(uint64(minSeconds&math.MaxUint64), 0), true},
		{"routed a nanosecond before", stamp(uint64(minSeconds&math.MaxUint64), math.MaxUint64), false},
		{"optimistic block without a signature", lenField(36, lenField(3, lenField(1, make([]byte, 32)...)...)...), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Decode(tt.frame)
			if (err == nil) != tt.ok {
				t.Errorf("decoded %v, %v; want accepted: %v", m, err, tt.ok)
			}
			if err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("got error %v, want ErrInvalid", err)
			}
		})
	}
}

// TestLastOfRepeatedFieldCounts: the last message of a frame counts, and the last of a repeated
// field.
func TestLastOfRepeatedFieldCounts(t *testing.T) {
	t.Parallel()
	m, err := Decode(join(yes, lenField(34), lenField(18, 8, 1, 8, 0)))
	if d, ok := m.(*Disconnect); err != nil || !ok || d.RemoveFromStore {
		t.Errorf("%#v, %v, want Disconnect{false}", m, err)
	}
}

// TestUnrecordedMessagesRoundTrip encodes and decodes messages that the recordings lack.
func TestUnrecordedMessagesRoundTrip(t *testing.T) {
	t.Parallel()
	max, zero := uint32(math.MaxUint32), uint32(0)
	tx := primitives.Transaction{SignerID: "alice.near", ReceiverID: "bob.near", PublicKey: keyA.PublicKey()}
	v4, v6 := netip.MustParseAddrPort("1.2.3.4:5"), netip.MustParseAddrPort("[::ffff:1.2.3.4]:5")
	sync := primitives.Hash{7}
	genesis := GenesisID{"chain", sync}
	me := PeerInfo{keyC.PublicKey(), v6, "me.near"}
	owner := &OwnedAccount{PeerID: keyA.PublicKey(), Timestamp: Timestamp{-5, 999_999_999}}
	owner.Sign(keyB)
	hello := sampleHandshake()
	hello.Tier, hello.OwnedAccount, hello.ListenPort = T3, owner, 0
	data := &AccountData{PeerID: keyA.PublicKey(), Proxies: []PeerAddr{{v4, keyB.PublicKey()}, {v6, keyC.PublicKey()}}, Version: 1 << 63}
	if err := data.Sign(keyB); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Message{
		hello,
		&HandshakeFailure{Peer: me, Reason: VersionMismatch, Version: 86, Oldest: 83},
		&HandshakeFailure{Peer: PeerInfo{ID: keyA.PublicKey(), Addr: v4}, Reason: GenesisMismatch, Genesis: genesis},
		&HandshakeFailure{Peer: PeerInfo{ID: keyA.PublicKey()}, Reason: InvalidTarget},
		&LastEdge{NewEdge(keyB.PublicKey(), keyA.PublicKey(), 5, keyB.Sign(nil), keyA.Sign(nil))},
		&NonceRequest{SignEdge(keyA, keyB.PublicKey(), 9)},
		&PeersRequest{&zero, &max},
		&PeersRequest{},
		&Transaction{primitives.NewSignedTransaction(tx, keyA.Sign(nil))},
		&Challenge{[]byte{1, 2}},
		&StateHeaderRequest{0, sync},
		&StatePartRequest{5, sync, 0},
		&StateResponse{primitives.StateResponse{ShardID: 3, SyncHash: sync}},
		&EpochSyncRequest{},
		&SnapshotHosts{},
		&AccountsData{RequestingFullSync: true},
		&AccountsData{Data: []*AccountData{data}, Incremental: true},
	} {
		frame := Append(nil, m)
		back, err := Decode(frame)
		if err != nil {
			t.Errorf("%T: %v", m, err)
		} else if again := Append(nil, back); !bytes.Equal(again, frame) {
			t.Errorf("%T becomes %x, was %x", m, again, frame)
		}
	}
	seconds := int64(-1)
	for _, body := range []Body{&Ping{1, keyB.PublicKey()}, &Pong{2, keyC.PublicKey()}, &TxStatusRequest{"a.near", sync},
		&ForwardTx{*primitives.NewSignedTransaction(tx, keyA.Sign(nil))}, &WitnessAck{primitives.WitnessAck{ChunkHash: sync}},
		&RoutedStatePartRequest{primitives.StatePartRequest{ShardID: 1, SyncHash: sync, Part: 2, Addr: v4}},
		&RoutedStateHeaderRequest{primitives.StateHeaderRequest{ShardID: 1, SyncHash: sync, Addr: v6}},
		&StateRequestAck{primitives.StateRequestAck{ShardID: 1, SyncHash: sync, Header: true, Body: primitives.StateBusy}},
		&StateRequestAck{primitives.StateRequestAck{ShardID: 1, SyncHash: sync, Part: 9, Body: primitives.StateError}},
		&TxStatusResponse{sampleOutcome()}} {
		for _, to := range []Target{ToPeer(keyC.PublicKey()), RouteBack(sync)} {
			m := NewRouted(keyA, to, body, seconds)
			for _, frame := range [][]byte{Append(nil, m), m.AppendV3(nil)} {
				back, err := Decode(frame)
				if err != nil {
					t.Errorf("%v: %v", body.BodyKind(), err)
				} else if r := back.(*Routed); !r.Verify() || !bytes.Equal(Append(nil, r), Append(nil, m)) || r.Hash() != m.Hash() {
					t.Errorf("%v becomes %+v", body.BodyKind(), r)
				}
			}
		}
	}
}

// TestEdgeNeedsSignaturesOfItsEnds: an edge verifies only with the signatures of its ends.
func TestEdgeNeedsSignaturesOfItsEnds(t *testing.T) {
	t.Parallel()
	a, b := keyA.PublicKey(), keyB.PublicKey()
	make := func(nonce uint64) *Edge {
		return NewEdge(a, b, nonce, SignEdge(keyA, b, nonce).Signature, SignEdge(keyB, a, nonce).Signature)
	}
	e := make(7)
	flipped, swapped, removal := *e, *e, *e
	flipped.Nonce = 9
	swapped.Low, swapped.High, swapped.LowSig, swapped.HighSig = e.High, e.Low, e.HighSig, e.LowSig
	removal.RemovalSig = keyA.Sign(nil)
	byB := e.Remove(keyB)
	wrongSide, unsigned := *byB, *byB
	wrongSide.RemovedByLow = !byB.RemovedByLow
	unsigned.RemovalSig = ""
	loop := NewEdge(a, a, 3, SignEdge(keyA, a, 3).Signature, SignEdge(keyA, a, 3).Signature)
	zero := make(7)
	zero.Nonce = 0
	for _, tt := range []struct {
		name string
		edge *Edge
		want bool
	}{{"active", e, true}, {"another nonce", &flipped, false}, {"swapped ends", &swapped, false}, {"active with removal", &removal, false},
		{"removed by a", e.Remove(keyA), true}, {"removed by b", byB, true}, {"removed by the other", &wrongSide, false},
		{"removed unsigned", &unsigned, false}, {"loop", loop, true}, {"nonce 0", zero, false}} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.edge.Verify(); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	if NextNonce(7) != 9 || NextNonce(8) != 9 || FreshNonce(8) != 9 || FreshNonce(9) != 9 {
		t.Error("nonces")
	}
}

// TestMessageMakes99Hops: a message makes 99 hops, and its signed part does not change.
func TestMessageMakes99Hops(t *testing.T) {
	t.Parallel()
	m := NewRouted(keyA, ToPeer(keyB.PublicKey()), &Ping{}, 0)
	hops := 0
	for next := m.Hop(); next != nil; next = next.Hop() {
		hops++
		if uint32(next.TTL)+next.Hops != StartTTL || !next.Verify() {
			t.Fatalf("after %d hops: ttl %d, hops %d", hops, next.TTL, next.Hops)
		}
	}
	if hops != StartTTL-1 || m.TTL != StartTTL {
		t.Errorf("%d hops", hops)
	}
	if m.Hops = 1<<32 - 1; m.Hop().Hops != m.Hops {
		t.Errorf("%d hops and one more are %d", m.Hops, m.Hop().Hops)
	}
	unsigned := *m
	unsigned.Signature = ""
	if unsigned.Verify() {
		t.Error("a message without a signature verifies")
	}
}

// TestOverlongAccountDataIsNotSigned: a payload of MaxAccountData is signed, and a longer one is
// not.
func TestOverlongAccountDataIsNotSigned(t *testing.T) {
	t.Parallel()
	d := &AccountData{PeerID: keyA.PublicKey()}
	for d.Sign(keyB) == nil {
		d.Proxies = append(d.Proxies, PeerAddr{netip.MustParseAddrPort("1.2.3.4:5"), keyA.PublicKey()})
	}
	d.Proxies = d.Proxies[:len(d.Proxies)-1]
	for d.Version = 1; d.Sign(keyB) == nil && len(d.Payload) < MaxAccountData && d.Version < 1<<57; d.Version <<= 7 {
	}
	if len(d.Payload) > MaxAccountData || len(d.Payload) < MaxAccountData-64 {
		t.Errorf("the longest payload has %d bytes", len(d.Payload))
	}
	old := *d
	d.Version++
	if !d.IsNewer(&old) || old.IsNewer(d) || d.IsNewer(d) {
		t.Error("versions")
	}
	d.Version, d.Timestamp.Nanos = old.Version, 1
	if !d.IsNewer(&old) || old.IsNewer(d) {
		t.Error("timestamps")
	}
}

// allocated returns the bytes that do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestFrameMemoryIsProportionalToLength: a frame that claims much, or repeats little many times,
// takes memory in proportion to its length.
func TestFrameMemoryIsProportionalToLength(t *testing.T) {
	const size = 1 << 20
	many := func(field []byte) []byte { return bytes.Repeat(field, size/len(field)) }
	claim := binary.LittleEndian.AppendUint32(nil, math.MaxUint32)
	v1 := func(tag byte, body []byte) []byte {
		head := keyA.Sign(nil).AppendBorsh(keyA.PublicKey().AppendBorsh((&Target{Back: primitives.Hash{}}).AppendBorsh(nil)))
		return lenField(17, lenField(1, join(head, []byte{100, tag}, body)...)...)
	}
	header := func(approvals []byte) []byte { // a header with these approvals that ends there
		b := append([]byte{5}, make([]byte, 32+8+4*32+8+64+5*32+4+4+32+64+16+1)...)
		return lenField(13, lenField(1, lenField(1, append(b, approvals...)...)...)...)
	}
	none := join(binary.LittleEndian.AppendUint32(nil, size), make([]byte, size))
	for _, tt := range []struct {
		name  string
		frame []byte
	}{
		{"hashes of nothing", lenField(12, many(lenField(1))...)},
		{"edges of nothing", lenField(7, many(lenField(1))...)},
		{"headers of nothing", lenField(13, many(lenField(1))...)},
		{"hosts of nothing", lenField(32, many(lenField(1))...)},
		{"accounts of nothing", lenField(25, many(lenField(1))...)},
		{"shards", lenField(32, lenField(1, many([]byte{4 << 3, 0})...)...)},
		{"messages one after the other", many(yes)},
		{"unknown fields", many(lenField(99))},
		{"groups in groups", bytes.Repeat([]byte{0x0b}, size)},
		{"chunk parts that are only claimed", v1(byte(BodyChunkResponse), join(make([]byte, 32), claim))},
		{"ords that are only claimed", v1(byte(BodyChunkRequest), join(make([]byte, 32), claim))},
		{"part that is only claimed", v1(byte(BodyPartialWitness), join(make([]byte, 56), claim))},
		{"approvals that are none", header(none)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			n := allocated(func() { _, err = Decode(tt.frame) })
			if limit := uint64(96*len(tt.frame) + 1<<16); n > limit {
				t.Errorf("%d bytes for a frame of %d, %v", n, len(tt.frame), err)
			}
		})
	}
	big := header(join(binary.LittleEndian.AppendUint32(nil, 6*size), make([]byte, 6*size)))
	if _, err := Decode(big); !errors.Is(err, borsh.ErrTooMuch) {
		t.Errorf("%d approvals that are none: %v, want ErrTooMuch", 6*size, err)
	}
}
