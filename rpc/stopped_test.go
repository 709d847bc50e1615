package rpc

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestStoppedWorkSaysWhereAndWhatToDo: the error of a trace, simulation or dump that took too long
// contains what it was, its time limit, where it was and the setting, whichever of the two timeouts
// ended it. Clients still find the word Timeout first.
func TestStoppedWorkSaysWhereAndWhatToDo(t *testing.T) {
	const where = "when 2 of 5 chunks were applied again"
	tx, tried := `{"tx_hash":"`+testHash.String()+`"}`, `{"signed_tx_base64":"`+signedText()+`"}`
	for _, why := range []error{context.DeadlineExceeded, &view.LookupError{Kind: view.ErrTimeout}} {
		for method, params := range map[string]string{
			"EXPERIMENTAL_trace_tx": tx, "EXPERIMENTAL_simulate_tx": tried, "sandbox_dump_transaction": tx, "sandbox_dump_state": "{}",
		} {
			n := &fakeNode{err: fmt.Errorf("engine: %w", &view.StoppedError{Where: where, Err: why})}
			status, reply := callMethod(newServer(t, n, Options{PollingTimeout: 7 * time.Second}), method, params)
			want := `"cause":{"name":"TIMEOUT_ERROR"},"code":-32000,"message":"Server error","data":"Timeout: ` + method + ` was stopped after 7s, ` + where +
				`; rpc.polling_config.polling_timeout in the node's config.json is how long it may take"`
			if status != 408 || !strings.Contains(reply, want) {
				t.Errorf("%s, %v: %d %s\nwant %s", method, why, status, reply, want)
			}
		}
	}
}
