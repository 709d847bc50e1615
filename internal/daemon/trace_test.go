package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/primitives"
)

// TestTraceShowsExecutedAndUnsignedCalls deploys a token on a node and traces its first call over
// HTTP: by hash once it is executed, and an unsigned call.
func TestTraceShowsExecutedAndUnsignedCalls(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	defer stop(t, h)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, args string) primitives.Action {
		return &primitives.FunctionCall{Method: method, Args: []byte(args), Gas: 100e12}
	}
	signed, hash := encode(draft(h, key, 1, key.AccountID, &primitives.DeployContract{Code: contracts.C("ft")},
		call("new", `{"owner_id":"`+string(key.AccountID)+`","total_supply":"10","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`)), key)
	var sent json.RawMessage
	if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &sent); cause != "" {
		t.Fatal(cause)
	}
	var got trace.Report
	if cause := ask(t, h, "EXPERIMENTAL_trace_tx", map[string]any{"tx_hash": hash.String(), "profile": true}, &got); cause != "" {
		t.Fatal(cause)
	}
	writes := 0
	for _, o := range got.Outcomes {
		for _, c := range o.Calls {
			for _, h := range c.Host {
				if h.Name == "storage_write" {
					writes++
				}
			}
		}
	}
	if writes != 4 || !got.Complete || got.Simulated || len(got.Profile) < 200 {
		t.Errorf("%d writes, complete %v, simulated %v, profile %d bytes; the call wrote 4 entries", writes, got.Complete, got.Simulated, len(got.Profile))
	}
	again, _ := encode(draft(h, key, 2, key.AccountID, call("new", `{}`)), nil)
	var tried trace.Report
	if cause := ask(t, h, "EXPERIMENTAL_trace_tx", map[string]any{"signed_tx_base64": again, "skip_signature_check": true}, &tried); cause != "" {
		t.Fatal(cause)
	}
	last := tried.Outcomes[len(tried.Outcomes)-2] // the last is a refund
	if !tried.Simulated || len(last.Calls) != 1 || last.Calls[0].Error == nil || tried.Profile != nil {
		t.Errorf("a second init: simulated %v, %+v", tried.Simulated, last)
	}
	if cause := ask(t, h, "EXPERIMENTAL_trace_tx", []string{"11111111111111111111111111111111", "a.near"}, &tried); cause != "UNKNOWN_TRANSACTION" {
		t.Errorf("of an unknown transaction: %q", cause)
	}
}

// TestTraceStopsWhenItsClientHangsUp: after the client has disconnected, the worker is free long
// before the whole transaction has been traced.
func TestTraceStopsWhenItsClientHangsUp(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	defer stop(t, h)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	act(t, h, key, 1, &primitives.DeployContract{Code: contracts.C("burner")})
	var calls []primitives.Action
	for range 14 {
		calls = append(calls, &primitives.FunctionCall{Method: "fib", Args: []byte(`{"n":24}`), Gas: 20e12})
	}
	tried, _ := encode(draft(h, key, 2, key.AccountID, calls...), nil)
	idle := func() viewpool.Stats {
		t.Helper()
		for range 6000 {
			if s := h.views.Stats(); s.Running == 0 {
				return s
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal("the worker is still busy after a minute")
		panic("not reached")
	}
	params := map[string]any{"signed_tx_base64": tried, "skip_signature_check": true}
	before := idle().Busy
	if cause := ask(t, h, "EXPERIMENTAL_trace_tx", params, new(any)); cause != "" {
		t.Fatal(cause)
	}
	whole := idle().Busy - before

	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "EXPERIMENTAL_trace_tx", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	// The worker's time is the clock's, so one attempt may be slowed by other programs. If the trace
	// continued, each attempt would take the whole time.
	var cuts []time.Duration
	for range 5 {
		start := idle().Busy
		hangUpWhileTracing(t, h, body)
		cut := idle().Busy - start
		if cut <= whole/2 {
			return
		}
		cuts = append(cuts, cut)
	}
	t.Errorf("the worker was busy for %v after its client hung up, and %v for a client that waited", cuts, whole)
}

// hangUpWhileTracing posts a request and disconnects as soon as the worker runs.
func hangUpWhileTracing(t *testing.T, h *Daemon, body []byte) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.Addr.String(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		reply, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = reply.Body.Close()
		}
		done <- err
	}()
	for h.views.Stats().Running == 0 {
		select {
		case err := <-done:
			t.Fatalf("the trace ended before it was seen to run: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	hangUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
