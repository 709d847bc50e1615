package rpc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestLargeViewCallsAtOnceAreServed: eight concurrent contract calls, each with 4 MB of arguments
// and of result, are all answered on a machine of 8 GiB, also for one address whose share counts.
// All bodies are in memory before the first call returns.
func TestLargeViewCallsAtOnceAreServed(t *testing.T) {
	const calls, size = 8, 4_000_000
	for _, counted := range []bool{false, true} {
		t.Run(fmt.Sprintf("counted by address %v", counted), func(t *testing.T) {
			var arrived atomic.Int64
			var once sync.Once
			together := make(chan struct{})
			goOn := func() { once.Do(func() { close(together) }) }
			n := &fakeNode{call: func(c *view.Call) (*view.CallResult, error) {
				if arrived.Add(1) == calls {
					goOn()
				}
				<-together
				return &view.CallResult{Result: c.Args}, nil
			}}
			l := limits.Default()
			l.FitMemory(8<<30, &limits.Named{})
			l.AddressInFlight.Loopback = counted
			s, addr := serve(t, n, Options{Limits: l})
			args := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{200}, size))
			body := rpcText("query", `{"request_type":"call_function","finality":"optimistic","account_id":"a.near","method_name":"m","args_base64":"`+args+`"}`)
			var all sync.WaitGroup
			for range calls {
				c := dialFrom(t, "127.0.0.1", addr)
				all.Go(func() {
					r, text, err := ask(c, body)
					if err != nil || r.StatusCode != 200 || strings.Count(text, "200,") != size-1 {
						goOn() // the others do not wait for a refused one
						t.Errorf("%v, %d bytes: %.300s", err, len(text), text)
					}
				})
			}
			all.Wait()
			eventually(t, "all is given back", func() bool { return s.limiter.inFlight.Load() == 0 })
		})
	}
}
