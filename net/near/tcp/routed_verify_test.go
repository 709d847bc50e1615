package tcp

import (
	"testing"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestPeersFirstMessagesAreVerified: for a peer that the connection does not authenticate, the
// first messages are verified, then one in sampleEvery, and all again after an invalid one.
// Messages of other authors, and messages to relay, are always verified.
func TestPeersFirstMessagesAreVerified(t *testing.T) {
	keys := primitives.NewVerifier(4)
	a, b := primitives.SecretKeyFromSeed(primitives.ED25519, "a"), primitives.SecretKeyFromSeed(primitives.ED25519, "b")
	me := primitives.SecretKeyFromSeed(primitives.ED25519, "me").PublicKey()
	nonce := uint64(0)
	drawn := 0
	lot := func(n int) int { drawn++; return drawn % n }
	by := func(peer primitives.SecretKey) *routedVerifier {
		w := &routedVerifier{me: me, draw: lot}
		w.setPeer(peer.PublicKey(), true)
		return w
	}
	to := wire.ToPeer(me)
	send := func(w *routedVerifier, from primitives.SecretKey, good bool) (passes bool) {
		nonce++
		m := wire.NewRouted(from, to, &wire.Pong{Nonce: nonce, Source: me}, 0)
		if !good {
			m.Signature = from.Sign([]byte("something else"))
		}
		w.verify(m, keys)
		passes = m.VerifyFor()
		if m.Verify() != good {
			t.Fatal("Verify returns the wrong result for a message to relay")
		}
		return passes
	}
	w := by(a)
	for i := range probation {
		early := by(a)
		early.good = i
		if !send(w, a, true) || i%7 == 0 && send(early, a, false) {
			t.Fatalf("message %d", i)
		}
	}
	for range 3 {
		for i := range sampleEvery - 1 {
			if !send(w, a, false) {
				t.Fatalf("message %d after a verified one is verified again", i)
			}
		}
		if !send(w, a, true) || drawn%sampleEvery != 0 {
			t.Fatal("the sampled message is not verified")
		}
	}
	for _, other := range []wire.Target{wire.ToPeer(b.PublicKey()), wire.RouteBack(primitives.Hash{1})} {
		fake := by(a)
		fake.good = probation
		to = other
		for range 2 * sampleEvery {
			if send(fake, a, false) {
				t.Fatal("an invalid message to relay passes the sampling")
			}
			fake.good = probation
		}
	}
	to = wire.ToPeer(me)
	for range sampleEvery - 1 {
		send(w, a, true)
	}
	if send(w, a, false) {
		t.Error("the invalid sampled message is accepted")
	}
	if send(w, a, false) {
		t.Error("the message after it is not verified")
	}
	for range 2 * sampleEvery {
		if send(w, b, false) || !send(w, b, true) {
			t.Fatal("a message of another author is not verified")
		}
	}
	w.setPeer(b.PublicKey(), true)
	if send(w, b, false) || send(w, a, false) {
		t.Error("a second peer of the same connection is not verified")
	}
	way := &routedVerifier{me: me, peer: a.PublicKey(), proven: true}
	if !send(way, a, false) || send(way, b, false) {
		t.Error("messages of an authenticated peer are verified, or those of others are not")
	}
	to = wire.ToPeer(b.PublicKey())
	if send(way, a, false) || !send(way, a, true) {
		t.Error("a message to relay is not verified before")
	}
}

// TestReplayedHandshakeForgesNoMessages: a peer that replays another node's old handshake, or
// repeats messages of it, gets no unsigned message of that node accepted.
func TestReplayedHandshakeForgesNoMessages(t *testing.T) {
	keys := primitives.NewVerifier(4)
	a, b := primitives.SecretKeyFromSeed(primitives.ED25519, "a"), primitives.SecretKeyFromSeed(primitives.ED25519, "b")
	me := primitives.SecretKeyFromSeed(primitives.ED25519, "me").PublicKey()
	word := func(i int) *wire.Routed {
		return wire.NewRouted(a, wire.ToPeer(me), &wire.Ping{Nonce: uint64(i), Source: me}, 0)
	}
	for _, c := range []struct {
		name  string
		fresh bool
		heard int // number of a's messages that are repeated
	}{{"one word", true, 1}, {"all but one", true, probation - 1}, {"an old handshake, and enough words", false, 3 * probation}} {
		t.Run(c.name, func(t *testing.T) {
			h := &Server{me: me}
			w := h.newRoutedVerifier("")
			w.setPeer(a.PublicKey(), c.fresh)
			for i := range 20 * probation {
				m := word(i % c.heard)
				if w.verify(m, keys); !m.VerifyFor() {
					t.Fatal("a message of a is refused")
				}
				if i%sampleEvery == sampleEvery-1 { // it was the turn of a verified one
					continue
				}
				m = word(i)
				m.Signature = b.Sign([]byte("by b"))
				good, heard := w.good, w.verified
				if w.verify(m, keys); m.VerifyFor() {
					t.Fatalf("after %d messages of a, a message signed by b is accepted", i)
				}
				w.good, w.verified = good, heard // the PeerManager would have closed it
			}
		})
	}
}
