package load

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// busyNode refuses the first copies of each transaction as refusals lists, but has accepted some of
// them nevertheless.
type busyNode struct {
	fakeNode
	mu     sync.Mutex
	copies map[primitives.Hash]int
	nonces map[string]primitives.Hash // of the account and nonce that were signed
	twice  []string
	asked  int // by tx
}

const (
	limitReply   = `{"name":"INTERNAL_ERROR","cause":{"info":{"error_message":"too many requests"},"name":"INTERNAL_ERROR"},"code":-32000,"message":"Server error","data":"The node reached its limits. Try again later. More details: too many requests"}`
	timeoutReply = `{"name":"HANDLER_ERROR","cause":{"name":"TIMEOUT_ERROR"},"code":-32000,"message":"Server error","data":"Timeout"}`
	nonceReply   = `{"name":"HANDLER_ERROR","cause":{"name":"INVALID_TRANSACTION","info":{}},"code":-32000,"message":"Server error","data":{"TxExecutionError":{"InvalidTxError":{"InvalidNonce":{"tx_nonce":1,"ak_nonce":1}}}}}`
)

func (n *busyNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Method string
		Params json.RawMessage
	}
	var body strings.Builder
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	fail := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","error":%s,"id":"bench"}`, text)
	}
	switch q.Method {
	case "tx":
		n.mu.Lock()
		n.asked++
		n.mu.Unlock()
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","result":{"status":{"SuccessValue":""}},"id":"bench"}`))
		return
	case "send_tx":
		var p struct {
			Raw string `json:"signed_tx_base64"`
		}
		_ = json.Unmarshal(q.Params, &p)
		b, _ := base64.StdEncoding.DecodeString(p.Raw)
		tx := new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(b, tx); err != nil {
			fail(400, nonceReply)
			return
		}
		hash, name := tx.Hash(), fmt.Sprint(tx.SignerID, " ", tx.Nonce.Nonce)
		n.mu.Lock()
		if was, ok := n.nonces[name]; ok && was != hash {
			n.twice = append(n.twice, name)
		}
		n.nonces[name] = hash
		k := n.copies[hash]
		n.copies[hash]++
		n.mu.Unlock()
		switch {
		case k == 0: // not taken
			fail(http.StatusServiceUnavailable, limitReply)
			return
		case k == 1: // accepted, but the reply times out
			fail(http.StatusRequestTimeout, timeoutReply)
			return
		default: // as neard does for a transaction in a block
			fail(http.StatusOK, nonceReply)
			return
		}
	}
	_ = json.NewEncoder(&body).Encode(q)
	r2, _ := http.NewRequest(http.MethodPost, "/", strings.NewReader(body.String()))
	n.fakeNode.ServeHTTP(w, r2)
}

// TestOverloadedNodeGetsSameTransactionAgain: a client of an overloaded node sends the same
// transaction again later. It never signs another one with that nonce.
func TestOverloadedNodeGetsSameTransactionAgain(t *testing.T) {
	n := &busyNode{fakeNode: fakeNode{keys: map[string]primitives.Nonce{"funder": 5}, amount: primitives.NEAR(1000).String()}, copies: map[primitives.Hash]int{},
		nonces: map[string]primitives.Hash{}}
	s := httptest.NewServer(n)
	defer s.Close()
	c, err := OpenChain(t.Context(), chainOptions(t, s.URL, "native"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := Run(t.Context(), c, Plan{Rate: 40, Arrival: Fixed, For: time.Second, Grace: 30 * time.Second})
	if err != nil || p.Failed > 0 || p.Done != p.Offered || p.Done < 30 {
		t.Fatalf("%d of %d done, %v, %v", p.Done, p.Offered, p.Errors, err)
	}
	if p.Again != 2*p.Offered || n.asked != p.Offered || len(n.twice) > 0 {
		t.Errorf("%d sent again and %d queried, of %d; signed twice with one nonce: %v", p.Again, n.asked, p.Offered, n.twice)
	}
	if p.Latency.P50 < 0.5 || !strings.Contains(p.words(), "requests sent again") {
		t.Errorf("the wait is not part of the measurement: %s", p.words())
	}
}

// TestUsedNonceIsNotSignedAgain: a nonce of a transaction that may be in a pool is not used again,
// whatever nonce the chain reports.
func TestUsedNonceIsNotSignedAgain(t *testing.T) {
	n := &fakeNode{keys: map[string]primitives.Nonce{"a": 5}}
	s := httptest.NewServer(n)
	defer s.Close()
	c, err := NewClient(s.URL, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{id: "a", key: primitives.SecretKeyFromSeed(primitives.ED25519, "a"), nonce: 7}
	if err := m.refresh(t.Context(), c); err != nil || !m.known || m.nonce != 7 {
		t.Errorf("nonce %d, %v, %v: 6 and 7 were signed", m.nonce, m.known, err)
	}
	n.keys["a"] = 9
	if err := m.refresh(t.Context(), c); err != nil || m.nonce != 9 {
		t.Errorf("nonce %d, %v, want the chain's", m.nonce, err)
	}
}
