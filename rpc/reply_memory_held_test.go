package rpc

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestLargeReplyDoesNotBlockFreeMemory: if a client wants more memory than is free, other clients
// still get the free memory.
func TestLargeReplyDoesNotBlockFreeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		d, err := newConnLimiter(&Options{Limits: limited(func(l *limits.Limits) { l.InFlight = 10 * mib })}, nil)
		if err != nil {
			t.Fatal(err)
		}
		holder, one, two := &client{}, &client{addr: netip.MustParseAddr("10.0.0.1")}, &client{addr: netip.MustParseAddr("10.0.0.2")}
		held := &conn{limiter: d, transfer: new(transfer)}
		held.book(holder, 4*mib)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		huge := make(chan limits.ID, 1)
		go func() {
			huge <- d.awaitMemory(ctx, &conn{limiter: d, transfer: new(transfer)}, one, 8*mib, new(view.Shown))
		}()
		synctest.Wait()
		begin := time.Now()
		for range 20 {
			c := &conn{limiter: d, transfer: new(transfer)}
			if full := d.awaitMemory(ctx, c, two, 2*mib, new(view.Shown)); full != limits.Count {
				t.Fatalf("refused by %v after %v", full, time.Since(begin))
			}
			c.drop()
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("elapsed time %v is out of bounds", took)
		}
		held.drop()
		if full := <-huge; full != limits.Count {
			t.Errorf("the large reply is refused by %v although memory is free", full)
		}
	})
}

// large is an outcome whose reply takes some 400 KB.
func large(level view.ExecutionLevel) *view.FinalOutcome {
	tx := primitives.NewSignedTransaction(primitives.Transaction{
		SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.PublicKey(make([]byte, 33)),
		Actions: []primitives.Action{&primitives.FunctionCall{Method: "m", Args: make([]byte, 300_000)}},
	}, primitives.Signature(make([]byte, 65)))
	return &view.FinalOutcome{Level: level, Transaction: tx, Status: view.FinalStatus{Kind: view.FinalSuccessValue}}
}

func txText(hash primitives.Hash, level string) string {
	return rpcText("tx", fmt.Sprintf(`{"tx_hash":"%v","sender_account_id":"a.near","wait_until":"%s"}`, hash, level))
}

// TestWaitingRequestHoldsNoReplyMemory: a request that waits for the chain holds no memory for its
// reply, even if the reply is known to be large. When all waits end, there is no room for all
// replies at once, and all are sent in time.
func TestWaitingRequestHoldsNoReplyMemory(t *testing.T) {
	const many = 40
	var waiting atomic.Int64
	release := make(chan struct{})
	n := &fakeNode{tx: func(ctx context.Context, q *view.GetTx) (*view.FinalOutcome, error) {
		if q.WaitUntil == view.LevelFinal { // is to come: nothing is to be seen before
			messages.LeaveTurn(ctx)
			waiting.Add(1)
			<-release
			messages.TakeTurn(ctx)
		}
		if err := messages.TakeLarge(ctx); err != nil {
			return nil, err
		}
		return large(q.WaitUntil), nil
	}}
	s, addr := serve(t, n, Options{Limits: limited(func(l *limits.Limits) { l.InFlight = 1 << 20 })})
	if _, text, err := ask(dialFrom(t, "127.0.0.1", addr), txText(testHash, "EXECUTED")); err != nil || !strings.Contains(text, `"EXECUTED"`) {
		t.Fatalf("error %v, text %.300s", err, text)
	}
	var all sync.WaitGroup
	var served atomic.Int64
	for range many {
		c := dialFrom(t, "127.0.0.1", addr)
		all.Go(func() {
			if _, text, err := ask(c, txText(testHash, "FINAL")); err == nil && strings.Contains(text, `"FINAL"`) {
				served.Add(1)
			} else {
				t.Errorf("error %v, text %.300s", err, text)
			}
		})
	}
	eventually(t, "all wait", func() bool { return waiting.Load() == many })
	if held := s.limiter.inFlight.Load(); held != 0 {
		t.Errorf("%d bytes are held while all wait", held)
	}
	close(release)
	all.Wait()
	if served.Load() != many {
		t.Errorf("%d of %d requests were answered", served.Load(), many)
	}
	eventually(t, "all is given back", func() bool { return s.limiter.inFlight.Load() == 0 })
	if waiting, bytes := s.limiter.replies.waiting(); waiting != 0 || bytes != 0 {
		t.Errorf("left: %d, %d bytes", waiting, bytes)
	}
}

// TestHungUpClientLeavesMemoryQueue: a client that hangs up while its reply waits for memory gives
// up its place. Without that it would wait for an hour.
func TestHungUpClientLeavesMemoryQueue(t *testing.T) {
	n := &fakeNode{tx: func(_ context.Context, q *view.GetTx) (*view.FinalOutcome, error) {
		o := large(q.WaitUntil)
		o.Shown = new(view.Shown)
		return o, nil
	}}
	s, addr := serve(t, n, Options{PollingTimeout: time.Hour, Limits: limited(func(l *limits.Limits) { l.InFlight = 1 << 20 })})
	s.limiter.inFlight.Add(1 << 20)
	c := dialFrom(t, "127.0.0.1", addr)
	released := make(chan struct{})
	go func() {
		defer close(released)
		_, _, _ = ask(c, txText(testHash, "FINAL"))
	}()
	waits := func() int { n, _ := s.limiter.replies.waiting(); return n }
	eventually(t, "it waits", func() bool { return waits() == 1 })
	_ = c.Close()
	<-released
	eventually(t, "its place is free", func() bool { return waits() == 0 })
	s.limiter.inFlight.Add(-1 << 20)
}

// TestWaitingBatchGivesWayForMemory: a batch that waits for the chain with a large reply in memory
// gives way to a request that needs the memory. Otherwise both would wait for an hour.
func TestWaitingBatchGivesWayForMemory(t *testing.T) {
	waiting := make(chan struct{}, 1)
	n := &fakeNode{tx: func(ctx context.Context, q *view.GetTx) (*view.FinalOutcome, error) {
		if q.WaitUntil == view.LevelFinal {
			waiting <- struct{}{}
			<-ctx.Done()
			return nil, &view.LookupError{Kind: view.ErrTimeout}
		}
		return large(q.WaitUntil), nil
	}}
	s, addr := serve(t, n, Options{PollingTimeout: time.Hour, Limits: limited(func(l *limits.Limits) {
		l.InFlight, l.Reply, l.BatchTimeout = 1<<20, 2<<20, time.Hour
	})})
	s.limiter.inFlight.Add(300_000) // held by others: there is room for one of them
	one := dialFrom(t, "127.0.0.1", addr)
	go func() {
		_, _, _ = ask(one, "["+txText(testHash, "EXECUTED")+`,{"id":1,"method":"health"},`+txText(primitives.Hash{1}, "FINAL")+"]")
	}()
	<-waiting
	_, text, err := ask(dialFrom(t, "127.0.0.1", addr), txText(testHash, "EXECUTED"))
	if err != nil || !strings.Contains(text, `"EXECUTED"`) {
		t.Errorf("error %v, text %.300s", err, text)
	}
	s.limiter.inFlight.Add(-300_000)
}
