package rpc

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestFullSocketHoldsNoHeavyTurn: a large request on a WebSocket with max_websocket_waits waits
// holds no turn of the heavy limit while it waits, so large requests of other clients are answered.
func TestFullSocketHoldsNoHeavyTurn(t *testing.T) {
	wait := make(chan struct{})
	n := &fakeNode{tx: func(_ context.Context, _ *view.GetTx) (*view.FinalOutcome, error) {
		<-wait
		return &view.FinalOutcome{Level: view.LevelFinal}, nil
	}}
	s, url := served(t, n, Options{PollingTimeout: time.Hour, Limits: limited(func(l *limits.Limits) { l.SocketWaits = 1 })})
	s.limiter.heavy.free = 1
	full := dial(t, url, nil)
	sendText(t, full, `{"method":"tx","params":["`+zeroHash+`","a.near"],"id":1}`)
	large := strings.Repeat(" ", 2*smallReply)
	sendText(t, full, `{"method":"tx","params":["`+zeroHash+`","a.near"],"id":2`+large+`}`)
	eventually(t, "the second request waits for the first", func() bool {
		return s.limiter.refused[limits.MaxSocketWaits].Load() == 1
	})
	answered := make(chan int)
	go func() {
		status, _ := post(s, "/", `{"method":"health","id":3`+large+`}`)
		answered <- status
	}()
	select {
	case status := <-answered:
		if status != 200 {
			t.Errorf("another client's large request: %d", status)
		}
	case <-time.After(time.Minute):
		t.Error("another client's large request waits for the WebSocket")
	}
	close(wait)
	for range 2 {
		receiveText(t, full)
	}
}
