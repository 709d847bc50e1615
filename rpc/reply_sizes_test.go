package rpc

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestLargeReplyReservesMemoryFirst: if a reply was large before, memory is reserved before it is
// made again, so only as many such replies are made at once as fit. Replies in a batch are counted
// as they grow.
func TestLargeReplyReservesMemoryFirst(t *testing.T) {
	tx := primitives.NewSignedTransaction(primitives.Transaction{
		SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.PublicKey(make([]byte, 33)),
		Actions: []primitives.Action{&primitives.FunctionCall{Method: "m", Args: make([]byte, 300_000)}},
	}, primitives.Signature(make([]byte, 65)))
	var now, most atomic.Int64
	n := &fakeNode{sendTx: func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		if err := messages.TakeLarge(ctx); err != nil {
			return nil, err
		}
		for k := now.Add(1); k > most.Load(); {
			most.Store(k)
		}
		defer now.Add(-1)
		time.Sleep(100 * time.Millisecond)
		return &view.FinalOutcome{Level: view.LevelFinal, Transaction: tx, Status: view.FinalStatus{Kind: view.FinalSuccessValue}}, nil
	}}
	const inFlight = 4 << 20
	s, addr := serve(t, n, Options{Limits: limited(func(l *limits.Limits) { l.InFlight = inFlight })})
	body := rpcText("send_tx", `["`+signedText()+`"]`)
	r, text, err := ask(dialFrom(t, "127.0.0.1", addr), body)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("error %v, text %.300s", err, text)
	}
	size := (&view.FinalOutcome{Transaction: tx}).Size(false)
	if size < len(text)-200 || size > len(text)*5/4 {
		t.Errorf("%d bytes were expected of %d", size, len(text))
	}
	most.Store(0)
	var all sync.WaitGroup
	for range 40 {
		c := dialFrom(t, "127.0.0.1", addr)
		all.Go(func() {
			if _, text, err := ask(c, body); err != nil || !strings.Contains(text, `"FINAL"`) && !strings.Contains(text, "troupe.rpc.max_bytes_in_flight") {
				t.Errorf("error %v, text %.300s", err, text)
			}
		})
	}
	all.Wait()
	if got, want := most.Load(), int64(inFlight/size); got > want || got == 0 {
		t.Errorf("%d replies of %d bytes at once in memory for %d", got, size, inFlight)
	}
	eventually(t, "all is given back", func() bool { return s.limiter.inFlight.Load() == 0 })
	for _, c := range s.limiter.clients {
		if c.inFlight.Load() != 0 {
			t.Errorf("%d bytes of %v are in flight", c.inFlight.Load(), c.addr)
		}
	}
}

func rpcText(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}
