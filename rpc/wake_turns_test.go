package rpc

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestFewRepliesAreMadeAtATime: of the requests that waited for the same block a few at a time make
// their replies, and all of them in the end. No turn is leaked, and a wait that ends without an
// answer has none.
func TestFewRepliesAreMadeAtATime(t *testing.T) {
	var now, peak, fail, count atomic.Int64
	n := &fakeNode{sendTx: func(ctx context.Context, q *view.SendTx) (*view.FinalOutcome, error) {
		if fail.Load() > 0 {
			return nil, &view.LookupError{Kind: view.ErrTimeout}
		}
		messages.TakeTurn(ctx)
		x := now.Add(1)
		defer now.Add(-1)
		for old := peak.Load(); x > old && !peak.CompareAndSwap(old, x); old = peak.Load() {
		}
		time.Sleep(time.Millisecond)
		if count.Add(1)%5 == 0 {
			panic("what makes the reply fails")
		}
		return &view.FinalOutcome{Level: q.WaitUntil}, nil
	}}
	s := newServer(t, n, Options{})
	ask := func(many int) {
		var all sync.WaitGroup
		for range many {
			all.Go(func() { callMethod(s, "send_tx", `["`+signedText()+`"]`) })
		}
		all.Wait()
	}
	ask(100)
	if p := peak.Load(); p > int64(cap(s.turns)) || len(s.turns) != 0 {
		t.Errorf("%d replies at a time, want at most %d; %d places leaked", p, cap(s.turns), len(s.turns))
	}
	fail.Store(1)
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	ask(3) // would wait forever
}
