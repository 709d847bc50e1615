package rpc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestTransactionBeyondLimitIsRefused: a transaction beyond a limit is refused with 503 and the
// limit's name, by each method that submits. A dropped one is unknown to tx, with the reason after
// nearcore's text.
func TestTransactionBeyondLimitIsRefused(t *testing.T) {
	full := &view.LookupError{Kind: view.ErrNoRoom, Reason: "transaction_pool_size_limit"}
	n := &fakeNode{err: full, asyncErr: full}
	s := newServer(t, n, Options{})
	for _, method := range []string{"send_tx", "broadcast_tx_commit", "broadcast_tx_async"} {
		status, reply := callMethod(s, method, `["`+signedText()+`"]`)
		const want = `"The node reached its limits. Try again later. More details: there is no room for the transaction: transaction_pool_size_limit"`
		if status != 503 || !strings.Contains(reply, want) || !strings.Contains(reply, `"INTERNAL_ERROR"`) {
			t.Errorf("%s: status %d, reply %s", method, status, reply)
		}
	}
	if status, reply := callMethod(s, "send_tx", `{"signed_tx_base64":"`+signedText()+`","wait_until":"NONE"}`); status != 503 {
		t.Errorf("send_tx until NONE: %d %s", status, reply)
	}
	hash := primitives.HashBytes([]byte("x"))
	n.err = view.UnknownTx(hash, full)
	status, reply := callMethod(s, "tx", `["`+hash.String()+`","a.near"]`)
	want := fmt.Sprintf(`"cause":{"info":{"requested_transaction_hash":"%v"},"name":"UNKNOWN_TRANSACTION"}`, hash)
	text := fmt.Sprintf(`"Transaction %v doesn't exist: the node has dropped it: there is no room for the transaction: transaction_pool_size_limit"`, hash)
	if !strings.Contains(reply, want) || !strings.Contains(reply, text) {
		t.Errorf("tx: %d %s", status, reply)
	}
}
