package near

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// chunkForms are the bodies about chunks in the form of protocol version 86, and in that of 87 with
// the chunk's anchor.
func chunkForms() (list []wire.Body) {
	sig := primitives.ZeroED25519Signature
	key := primitives.ChunkKey{ShardID: 4, EpochID: primitives.Hash{3}, HeightCreated: 5}
	header := primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{Version: primitives.ChunkInnerV5, HeightCreated: 5,
		ShardID: 4}, Signature: sig}
	for _, at := range []*primitives.ChunkAnchor{nil, {PrevBlock: primitives.Hash{1}, PrevPrevBlock: primitives.Hash{2}}} {
		part := primitives.PartialWitness{EpochID: primitives.Hash{3}, ShardID: 4, HeightCreated: 5, Anchor: at, Part: []byte("part"),
			EncodedLength: 4, Signature: sig}
		chunk := primitives.PartialChunk{Header: header}
		if at == nil {
			list = append(list, &wire.PartialWitness{PartialWitness: part}, &wire.PartialWitnessForward{PartialWitness: part})
		} else {
			v := primitives.VersionedPartialWitness{PartialWitness: part}
			list = append(list, &wire.VersionedWitness{VersionedPartialWitness: v}, &wire.VersionedWitnessForward{VersionedPartialWitness: v})
			chunk.Anchor = &primitives.PartialChunkAnchor{PrevPrevBlock: at.PrevPrevBlock, EpochID: primitives.Hash{3}}
		}
		list = append(list, &wire.PartialChunk{PartialChunk: chunk},
			&wire.ContractAccesses{ContractAccesses: primitives.ContractAccesses{Key: key, Anchor: at, Signature: sig}},
			&wire.ContractDeploys{PartialContractDeploys: primitives.PartialContractDeploys{Key: key, Part: []byte("part"), Anchor: at,
				Signature: sig}})
	}
	return list
}

// TestBothChunkMessageFormsTakeSameRoute: over T2 through a node that only relays, and to the
// account itself, each form has the copies, the priority and the bytes that it must have. What may
// use T1 does so once there is such a connection. No peer is banned for relaying a form of either
// version.
func TestBothChunkMessageFormsTakeSameRoute(t *testing.T) {
	f := newTestNetwork(t, 1)
	vk := keyFor("validator")
	a, b, c := f.add("a", withoutDialling), f.add("b", withoutDialling), f.add("c", withoutDialling)
	head := headAt(1)
	head.T1 = map[primitives.AccountID][]primitives.PublicKey{"val.near": {vk.PublicKey()}, "c.near": {keyFor("cv").PublicKey()}}
	f.dial(a, b, wire.T2)
	f.dial(b, c, wire.T2)
	f.run(5 * time.Second)
	for _, m := range []*testNode{a, b, c} {
		f.step(m, head)
	}
	f.step(a, Validator{AccountID: "val.near", Key: vk, Proxies: []wire.PeerAddr{{Addr: a.ListenAddr, PeerID: a.me}}})
	f.step(c, Validator{AccountID: "c.near", Key: keyFor("cv")})
	f.run(time.Second)
	send := func(body wire.Body, from string, tier wire.Tier, copies int) {
		t.Helper()
		f.log, a.delivered, b.delivered = nil, nil, nil
		f.step(c, RouteToAccount{"val.near", body})
		f.run(time.Second)
		what := fmt.Sprintf("%v over %v", body.BodyKind(), tier)
		if n := strings.Count(f.wrote("c", from), "routed"); n != copies {
			t.Errorf("%s is sent %d times, want %d", what, n, copies)
		}
		if len(b.delivered) != 0 || strings.Contains(strings.Join(f.log, " "), "closes") {
			t.Errorf("%s: the relay got %d, %v", what, len(b.delivered), f.log)
		}
		if len(a.delivered) != 1 || a.delivered[0].Tier != tier {
			t.Errorf("%s is delivered %d times", what, len(a.delivered))
			return
		}
		m := a.delivered[0].Msg.(*wire.Routed)
		if m.Author != c.me || m.Body.BodyKind() != body.BodyKind() || !bytes.Equal(m.Body.AppendBorsh(nil), body.AppendBorsh(nil)) {
			t.Errorf("%s arrives as %+v", what, m.Body)
		}
	}
	for _, body := range chunkForms() {
		kind := body.BodyKind()
		copies := 1
		if kind == wire.BodyPartialChunk {
			copies = 3
		}
		send(body, "b", wire.T2, copies)
		want := Gossip
		if kind.IsT1() {
			want = Consensus
		}
		if got := PriorityOf(&wire.Routed{Body: body}); got != want {
			t.Errorf("%v has priority %d, want %d", kind, got, want)
		}
		a.delivered = nil
		f.step(a, RouteToAccount{"val.near", body}) // to itself
		isPart := strings.Contains(kind.String(), "StateWitness")
		if (len(a.delivered) == 1) != isPart {
			t.Errorf("%v to itself is delivered %d times", kind, len(a.delivered))
		}
	}
	f.run(61 * time.Second) // c dials a proxy of val.near
	if len(c.Info().T1) != 1 {
		t.Fatalf("no T1 connection: %v", f.log)
	}
	for _, body := range chunkForms() {
		if body.BodyKind().IsT1() {
			send(body, "a", wire.T1, 1)
		} else {
			send(body, "b", wire.T2, 1)
		}
	}
	for _, m := range []*testNode{a, b, c} {
		for _, other := range []*testNode{a, b, c} {
			if m.known.isBanned(other.me) {
				t.Errorf("%s bans %s", m.name, other.name)
			}
		}
	}
}

// TestForgedWitnessPartBansItsRelay: as for every routed message, the peer that brings a body of 40
// or 41 with another node's name and a wrong signature is banned.
func TestForgedWitnessPartBansItsRelay(t *testing.T) {
	for _, body := range chunkForms() {
		f := newTestNetwork(t, 1)
		a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
		f.dial(b, a, wire.T2)
		f.run(3 * time.Second)
		m := wire.NewRouted(keyFor("x"), wire.ToPeer(a.me), body, 7)
		m.Signature = keyFor("y").Sign(nil)
		effects := a.Step(f.now, Received{Conn: a.ready[wire.T2][b.me].id, Msg: m})
		if !hasBan(effects, InvalidSignature) || !a.known.isBanned(b.me) {
			t.Errorf("%v: %v", body.BodyKind(), effects)
		}
	}
}
