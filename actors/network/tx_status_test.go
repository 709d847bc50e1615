package network

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestOldestStatusQuestionIsRemovedAtLimit: at the limit of questions the oldest one is removed.
// Answers to no open question are dropped.
func TestOldestStatusQuestionIsRemovedAtLimit(t *testing.T) {
	s := NewTxStatuses(nil, new(Status), "", 0)
	peer := func(n byte) wire.PeerID {
		return primitives.SecretKeyFromSeed(primitives.ED25519, "peer"+string('a'+rune(n))).PublicKey()
	}
	s.addAnswer(peer(0), []byte("nobody was asked"))
	if s.front.dropped.Load() != 1 {
		t.Error("an answer to no open question is not dropped")
	}
	now := time.Now()
	of := func(n int) question { return question{hash: primitives.Hash{byte(n), byte(n >> 8), 1}} }
	put := func(n int, ago time.Duration) {
		s.makeRoom(now)
		s.asked[of(n)] = &openQuestion{sent: now.Add(-ago), news: make(chan struct{})}
	}
	for n := range maxStatuses {
		put(n, time.Duration(n)*time.Millisecond)
	}
	put(maxStatuses, 0)
	if len(s.asked) != maxStatuses || s.asked[of(maxStatuses-1)] != nil {
		t.Errorf("%d questions are kept, want %d without the oldest", len(s.asked), maxStatuses)
	}
	for n := range 10 {
		s.asked[of(n)].sent = now.Add(-time.Minute)
	}
	put(maxStatuses+1, 0)
	if len(s.asked) != maxStatuses-9 {
		t.Errorf("%d questions are kept, want %d: those of the last minute", len(s.asked), maxStatuses-9)
	}
	s.verify([]byte("no outcome"))
	if s.front.dropped.Load() != 2 {
		t.Error("an invalid answer is not counted")
	}
	s.verifying = true // so that answers stay in the queue
	for n := range byte(40) {
		for range 1000 {
			s.addAnswer(peer(n), make([]byte, 100))
		}
		if s.bytes[peer(n)] > maxStatus || s.all > maxPendingBytes {
			t.Fatalf("%d bytes of one, %d of all", s.bytes[peer(n)], s.all)
		}
		if n < 6 && s.bytes[peer(n)] == 0 {
			t.Errorf("%d flooding peers leave no room for another peer", n)
		}
	}
	few := s.waiting.Len()
	s.addAnswer(peer(0), make([]byte, maxStatus+1))
	if few > 600 || s.waiting.Len() != few {
		t.Errorf("%d answers wait", s.waiting.Len())
	}
	s.verifying = false
	s.verifyAll()
	if s.all != 0 || len(s.bytes) != 0 || s.verifying {
		t.Errorf("%d bytes of %d peers still wait, want none", s.all, len(s.bytes))
	}
}

// TestStatusIsAskedSeparatelyPerSigner: questions about one transaction with different signers are
// separate, and the answer is stored for both.
func TestStatusIsAskedSeparatelyPerSigner(t *testing.T) {
	s := NewTxStatuses(nil, new(Status), "", 0)
	hash := primitives.Hash{1}
	_, first := s.Ask("", hash, "a")
	_, second := s.Ask("", hash, "b")
	if _, again := s.Ask("", hash, "a"); again != first || len(s.asking(hash)) != 2 {
		t.Fatal("one takes the other's place")
	}
	for _, a := range s.asking(hash) {
		s.keep(a, &view.FinalOutcome{Level: view.LevelFinal}, 1, time.Now())
	}
	for _, news := range []<-chan struct{}{first, second} {
		select {
		case <-news:
		default:
			t.Error("one of the two clients got no answer")
		}
	}
	if out, _ := s.Ask("", hash, "b"); out == nil || out.Level != view.LevelFinal {
		t.Errorf("got %+v, want FINAL", out)
	}
}

// TestStatusRequestRateIsBounded: the rate of requests to peers is bounded however many
// transactions clients ask about, and one client leaves a share for the next.
func TestStatusRequestRateIsBounded(t *testing.T) {
	s := NewTxStatuses(nil, new(Status), "", 0)
	now, sent := time.Unix(1_800_000_000, 0), map[messages.Client]int{}
	for ms := range 3000 {
		for _, client := range []messages.Client{"a", "a", "a", "a", "a", "a", "a", "b", "b", "c"} {
			if s.mayAsk(now.Add(time.Duration(ms)*time.Millisecond), client) {
				sent[client]++
			}
		}
	}
	// The client that asks most gets half, the next one half of the rest, and so on.
	if all := sent["a"] + sent["b"] + sent["c"]; all > 3*maxStatuses || sent["a"] < 3*maxStatuses/3 ||
		sent["a"] > 3*maxStatuses/2 || sent["c"] < 3*maxStatuses/10 {
		t.Errorf("requests in 3 s: %v", sent)
	}
}
