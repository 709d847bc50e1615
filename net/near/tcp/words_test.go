package tcp

import (
	"testing"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestWords: who is not proven by the connection has his first messages checked, then one in so many, and all again behind a bad one; others' messages are checked
// always, and so is what is to be handed on.
func TestWords(t *testing.T) {
	keys := primitives.NewVerifier(4)
	a, b := primitives.SecretKeyFromSeed(primitives.ED25519, "a"), primitives.SecretKeyFromSeed(primitives.ED25519, "b")
	me := primitives.SecretKeyFromSeed(primitives.ED25519, "me").PublicKey()
	nonce := uint64(0)
	send := func(w *words, from primitives.SecretKey, good bool) (passes bool) {
		nonce++
		m := wire.NewRouted(from, wire.Target{PeerID: me}, &wire.Pong{Nonce: nonce, Source: me}, 0)
		if !good {
			m.Signature = from.Sign([]byte("something else"))
		}
		w.prove(m, keys)
		passes = m.VerifyFor()
		if m.Verify() != good {
			t.Fatal("what is handed on is taken for good unseen")
		}
		return passes
	}
	w := &words{me: me}
	w.of(a.PublicKey())
	for i := range earned {
		if !send(w, a, true) || i%7 == 0 && send(&words{me: me, peer: a.PublicKey(), good: i}, a, false) {
			t.Fatalf("message %d", i)
		}
	}
	for range 3 {
		for i := range each - 1 {
			if !send(w, a, false) {
				t.Fatalf("message %d behind one that was checked is checked", i)
			}
		}
		if !send(w, a, true) || w.passed != 0 {
			t.Fatal("it is not checked in its turn")
		}
	}
	for range each - 1 {
		send(w, a, true)
	}
	if send(w, a, false) {
		t.Error("a bad one is not found in its turn")
	}
	if send(w, a, false) {
		t.Error("nor the one behind it")
	}
	for range 2 * each {
		if send(w, b, false) || !send(w, b, true) {
			t.Fatal("another's message is not checked")
		}
	}
	w.of(b.PublicKey())
	if send(w, b, false) || send(w, a, false) {
		t.Error("another peer of the same connection is believed at once")
	}
	way := &words{me: me, peer: a.PublicKey(), proven: true}
	if !send(way, a, false) || send(way, b, false) {
		t.Error("of who is proven by the connection all is believed, and of nobody else")
	}
	me = b.PublicKey() // whom it is for, that is
	if send(way, a, false) || !send(way, a, true) {
		t.Error("what is to be handed on is not checked before")
	}
}
