package rpc

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestRequestsAreRefusedIfNodeLags: requests that a node cannot keep up with are refused like those
// beyond a limit, with neard's words, and counted.
func TestRequestsAreRefusedIfNodeLags(t *testing.T) {
	s := newServer(t, &fakeNode{err: &view.LookupError{Kind: view.ErrBehind}}, Options{})
	for method, params := range map[string]string{"send_tx": `["` + signedText() + `"]`, "broadcast_tx_commit": `["` + signedText() + `"]`, "tx": goodParams["tx"]} {
		status, reply := callMethod(s, method, params)
		if status != 503 || !strings.Contains(reply, `"name":"INTERNAL_ERROR"`) || !strings.Contains(reply, "The node reached its limits. Try again later. More details: ") ||
			!strings.Contains(reply, "troupe.rpc.max_wait_delay") {
			t.Errorf("%s: status %d, reply %s", method, status, reply)
		}
	}
	text := string(s.AppendMetrics(nil))
	for _, want := range []string{`troupe_rpc_limit_refusals_total{limit="max_wait_delay"} 3`, `troupe_rpc_limit{limit="max_wait_delay"} 2`, "troupe_rpc_refused_waits_total 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
