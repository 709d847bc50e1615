package daemon

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/internal/contracts"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/primitives"
)

// TestTraceTx deploys a token on a node and traces its first call over HTTP: by hash once it has
// happened, and a call that is not signed yet.
func TestTraceTx(t *testing.T) {
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
