package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestHungUpClientEndsItsWait: a client that hangs up ends its wait and its session, long before
// the wait's timeout. A client that stays is not affected.
func TestHungUpClientEndsItsWait(t *testing.T) {
	ended := make(chan error, 2)
	var lasts atomic.Int64 // a wait
	lasts.Store(int64(3 * pollInterval))
	n := &fakeNode{sendTx: func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		case <-time.After(time.Duration(lasts.Load())):
			ended <- nil
			return nil, &view.LookupError{Kind: view.ErrTimeout}
		}
	}}
	s := newServer(t, n, Options{PollingTimeout: time.Minute})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	body := `{"jsonrpc":"2.0","id":1,"method":"send_tx","params":["` + signedText() + `"]}`
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	send := func(c net.Conn) {
		if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(what string, want int64, have func() int64) {
		t.Helper()
		for end := time.Now().Add(time.Minute); have() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d, want %d", what, have(), want)
			}
		}
	}

	stays := dial()
	replies := bufio.NewReader(stays)
	for range 2 { // two waits of one connection: one session
		send(stays)
		reply, err := http.ReadResponse(replies, nil)
		if err != nil || reply.StatusCode != http.StatusRequestTimeout {
			t.Fatalf("reply %v, error %v", reply, err)
		}
		reply.Body.Close()
		if err := <-ended; err != nil {
			t.Fatalf("the wait of a client that stays ended with %v", err)
		}
	}
	eventually("sessions", 1, n.sessions.Load)
	stays.Close()
	eventually("sessions", 0, n.sessions.Load)

	lasts.Store(int64(time.Minute))          // longer than the test takes
	for _, more := range []string{"", "P"} { // with unread data that it sent before
		goes := dial()
		send(goes)
		eventually("sessions", 1, n.sessions.Load)
		if _, err := goes.Write([]byte(more)); err != nil {
			t.Fatal(err)
		}
		goes.Close()
		if err := <-ended; !errors.Is(err, errGone) {
			t.Fatalf("the wait of a client that sent %q more ended with %v", more, err)
		}
		eventually("sessions", 0, n.sessions.Load)
	}
	eventually("sessions", 0, n.sessions.Load)
	eventually("waits", 0, func() int64 { return int64(s.Waiting()) })

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}
