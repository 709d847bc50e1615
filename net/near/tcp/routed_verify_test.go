package tcp

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// never is an argument of routedVerifier.verify: no ForwardTx is dropped.
func never() bool { return false }

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
		w := &routedVerifier{me: me, draw: lot, prove: wire.Prove}
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
		w.verify(m, keys, never)
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
	way := &routedVerifier{me: me, peer: a.PublicKey(), proven: true, prove: wire.Prove}
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
	}{
		{"one word", true, 1}, {"all but one", true, probation - 1},
		{"an old handshake, and enough words", false, 3 * probation},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &Server{me: me}
			w := h.newRoutedVerifier("")
			w.setPeer(a.PublicKey(), c.fresh)
			for i := range 20 * probation {
				m := word(i % c.heard)
				if w.verify(m, keys, never); !m.VerifyFor() {
					t.Fatal("a message of a is refused")
				}
				if i%sampleEvery == sampleEvery-1 { // it was the turn of a verified one
					continue
				}
				m = word(i)
				m.Signature = b.Sign([]byte("by b"))
				good, heard := w.good, w.verified
				if w.verify(m, keys, never); m.VerifyFor() {
					t.Fatalf("after %d messages of a, a message signed by b is accepted", i)
				}
				w.good, w.verified = good, heard // the PeerManager would have closed it
			}
		})
	}
}

// TestMessagesAboveLimitAreNotVerified: the reader neither verifies nor posts a message above a limit
// of Config.Rates, and counts it.
func TestDroppedMessagesAreNotVerified(t *testing.T) {
	const limit, sent = 3, 20
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	for _, x := range []struct {
		name  string
		rates map[string]near.Rate
		want  int // number of messages that are verified and posted
	}{
		{"no limit", nil, sent},
		{"a limit of other messages", map[string]near.Rate{"Block": {}}, sent},
		{"a limit", map[string]near.Rate{"ForwardTx": {Maximum: limit, Initial: limit}}, limit},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := newStoppedServer(t, nil)
			c := h.node.Config
			c.Rates = x.rates
			h.node = near.New(c, time.Now())
			shown := 0
			words := h.newRoutedVerifier("")
			words.prove = func(m wire.Message, keys *primitives.Verifier) {
				shown++
				wire.Prove(m, keys)
			}
			ours, theirs := net.Pipe()
			l := newLink(1, ours)
			l.handshakeDone.Store(true)
			l.running.Store(1)
			h.group.Add(1)
			go l.readWith(h, &words)
			for i := range sent {
				m := wire.NewRouted(key, wire.ToPeer(h.me), transfer(i), 0)
				if i >= limit {
					m.Signature = key.Sign(fmt.Append(nil, i))
				}
				_, _ = theirs.Write(frame(wire.Append(nil, m)))
			}
			_ = theirs.Close()
			h.group.Wait()
			posted := 0
			for len(h.events) > 0 {
				if _, ok := (<-h.events).Event.(near.Received); ok {
					posted++
				}
			}
			if posted != x.want || shown != x.want {
				t.Errorf("%d messages posted, %d verified, want %d", posted, shown, x.want)
			}
			if got := h.node.Info().RateLimited["ForwardTx"]; got != uint64(sent-x.want) {
				t.Errorf("%d are counted as limited, want %d", got, sent-x.want)
			}
		})
	}
}

// transfer returns a ForwardTx.
func transfer(i int) wire.Body {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	tx := primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: key.PublicKey()}
	tx.BlockHash[0] = byte(i)
	return &wire.ForwardTx{SignedTransaction: *primitives.NewSignedTransaction(tx, key.Sign(nil))}
}

// TestTransactionsAreNotVerifiedWhileDropped: while the PeerManager drops all ForwardTx, none is
// verified. Its signature is then as good as unknown. Other messages are verified.
func TestTransactionsAreNotVerifiedWhileDropped(t *testing.T) {
	keys := primitives.NewVerifier(4)
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	me := primitives.SecretKeyFromSeed(primitives.ED25519, "me").PublicKey()
	for _, x := range []struct {
		name string
		body wire.Body
		full bool
		want int
	}{
		{"transaction", transfer(1), false, 1}, {"transaction while full", transfer(1), true, 0},
		{"another message while full", &wire.Ping{Nonce: 1, Source: me}, true, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			shown := 0
			w := (&Server{me: me}).newRoutedVerifier("")
			w.prove = func(m wire.Message, keys *primitives.Verifier) {
				shown++
				wire.Prove(m, keys)
			}
			w.setPeer(key.PublicKey(), true)
			good, bad := wire.NewRouted(key, wire.ToPeer(me), x.body, 0), wire.NewRouted(key, wire.ToPeer(me), x.body, 0)
			bad.Signature = key.Sign([]byte("something else"))
			full := func() bool { return x.full }
			w.verify(good, keys, full)
			if shown != x.want || !good.VerifyFor() {
				t.Errorf("%d verifications, want %d", shown, x.want)
			}
			if w.verify(bad, keys, full); bad.VerifyFor() {
				t.Error("an invalid message is accepted")
			}
		})
	}
}
