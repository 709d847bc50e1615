package load

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
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

// fakeNode answers the requests of a load as a node does. Submitted transactions create accounts at
// once.
type fakeNode struct {
	mu     sync.Mutex
	keys   map[string]primitives.Nonce // by account
	amount string
	legacy bool // says of keys that are not there what old nodes say
	sent   int
	fail   string
}

const funderSeed = "funder"

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Method string
		Params json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	result := func(text string) { _, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","result":%s,"id":"bench"}`, text) }
	cause := func(name string) {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"name":%q,"info":{}},"code":-32000,"message":"Server error","data":"x"},"id":"bench"}`, name)
	}
	take := func(raw, reply string) {
		b, _ := base64.StdEncoding.DecodeString(raw)
		tx := new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(b, tx); err != nil {
			cause("PARSE_ERROR")
			return
		}
		n.sent++
		if nonce, ok := n.keys[string(tx.SignerID)]; !ok || tx.Nonce.Nonce <= nonce || n.fail != "" {
			cause("INVALID_TRANSACTION" + n.fail)
			return
		}
		n.keys[string(tx.SignerID)] = tx.Nonce.Nonce
		if _, ok := tx.Actions[0].(*primitives.CreateAccount); ok {
			n.keys[string(tx.ReceiverID)] = 0
		}
		result(reply)
	}
	switch q.Method {
	case "block":
		result(`{"header":{"height":5,"hash":"11111111111111111111111111111111"}}`)
	case "status":
		result(`{"chain_id":"fake","protocol_version":85,"version":{"version":"1"},"sync_info":{"latest_block_height":7,"latest_block_hash":"11111111111111111111111111111111"}}`)
	case "query":
		var p struct {
			Type    string `json:"request_type"`
			Account string `json:"account_id"`
		}
		_ = json.Unmarshal(q.Params, &p)
		nonce, ok := n.keys[p.Account]
		switch {
		case p.Type == "view_account" && !ok:
			cause("UNKNOWN_ACCOUNT")
		case p.Type == "view_account":
			result(`{"amount":"` + n.amount + `"}`)
		case !ok && n.legacy:
			result(`{"error":"access key does not exist while viewing","logs":[]}`)
		case !ok:
			cause("UNKNOWN_ACCESS_KEY")
		default:
			result(fmt.Sprintf(`{"nonce":%d,"permission":"FullAccess"}`, nonce))
		}
	case "broadcast_tx_async":
		var p []string
		_ = json.Unmarshal(q.Params, &p)
		take(p[0], `"11111111111111111111111111111111"`)
	case "send_tx":
		var p struct {
			Raw string `json:"signed_tx_base64"`
		}
		_ = json.Unmarshal(q.Params, &p)
		take(p.Raw, `{"final_execution_status":"EXECUTED_OPTIMISTIC","status":{"SuccessValue":""}}`)
	default:
		cause("METHOD_NOT_FOUND")
	}
}

func chainOptions(t *testing.T, url, workload string) ChainOptions {
	t.Helper()
	w, err := WorkloadOf(workload)
	if err != nil {
		t.Fatal(err)
	}
	return ChainOptions{URL: url, Funder: &primitives.KeyFile{AccountID: "funder", SecretKey: primitives.SecretKeyFromSeed(primitives.ED25519, funderSeed)}, Workload: w,
		Accounts: 40, Fund: primitives.NEAR(1), Connections: 16, Until: "EXECUTED_OPTIMISTIC", Timeout: 5 * time.Second}
}

// TestChainAccountsAreFoundAgain: accounts are created once, with names and keys that a later run
// finds again. Transactions use nonces in order. A refused transaction is counted by its cause and
// does not end the run.
func TestChainAccountsAreFoundAgain(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		n := &fakeNode{keys: map[string]primitives.Nonce{"funder": 5}, amount: primitives.NEAR(1000).String(), legacy: legacy}
		s := httptest.NewServer(n)
		defer s.Close()
		for again := range 2 {
			c, err := OpenChain(t.Context(), chainOptions(t, s.URL, "native"))
			if err != nil {
				t.Fatal(err)
			}
			if made := len(n.keys) - 1; made != 40 || n.keys["funder"] != 45 || c.Status.ChainID != "fake" {
				t.Errorf("again %d: %d accounts, nonce %d", again, made, n.keys["funder"])
			}
			p, err := Run(t.Context(), c, Plan{Rate: 500, Arrival: Poisson, For: time.Second, Grace: 30 * time.Second, Seed: 1})
			if err != nil || p.Failed > 0 || p.Done != p.Offered || p.Done < 300 {
				t.Errorf("%d of %d done, %v, %v", p.Done, p.Offered, p.Errors, err)
			}
			n.mu.Lock()
			n.fail = "X"
			n.mu.Unlock()
			if p, err = Run(t.Context(), c, Plan{Rate: 100, Arrival: Fixed, For: time.Second, Grace: 30 * time.Second}); err != nil || p.Failed != p.Offered || p.Errors[`INVALID_TRANSACTIONX "x"`] != p.Offered {
				t.Errorf("refused: %d of %d failed, %v, %v", p.Failed, p.Offered, p.Errors, err)
			}
			n.mu.Lock()
			n.fail = ""
			n.mu.Unlock()
			if p, err = Run(t.Context(), c, Plan{Rate: 100, Arrival: Fixed, For: time.Second, Grace: 30 * time.Second}); err != nil || p.Failed > 0 {
				t.Errorf("taken again: %d of %d failed, %v, %v", p.Failed, p.Offered, p.Errors, err)
			}
			c.Close()
		}
	}
}

// TestUnusableChainIsRefused: an invalid URL, one at which no node answers, an unknown key, and an
// account without the needed balance are refused.
func TestUnusableChainIsRefused(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) }))
	defer page.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the method status does not exist"}}`))
	}))
	defer other.Close()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","result":{},"id":1}`))
	}))
	defer empty.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct{ url, want string }{
		{page.URL, `HTTP 200: "<html>hello`}, {other.URL, "the method status does not exist"}, {empty.URL, "no chain_id"}, {gone.URL, "connection refused"},
	} {
		if _, err := OpenChain(t.Context(), chainOptions(t, c.url, "native")); !errors.Is(err, ErrNotNode) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.url) {
			t.Errorf("%s: %v, want %s", c.url, err, c.want)
		}
	}
	for _, url := range []string{"", "localhost:3030", "ftp://x", "http://", "%"} {
		if _, err := OpenChain(t.Context(), chainOptions(t, url, "native")); err == nil || !strings.Contains(err.Error(), "must be http://host:port") {
			t.Errorf("%q: error %v", url, err)
		}
	}
	for want, n := range map[string]*fakeNode{"does not have the key": {keys: map[string]primitives.Nonce{}}, "has 500 yoctoNEAR, and 40 transactions that create 40 accounts need 41000000000000000000000000": {keys: map[string]primitives.Nonce{"funder": 5}, amount: "500"}} {
		s := httptest.NewServer(n)
		_, err := OpenChain(t.Context(), chainOptions(t, s.URL, "native"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, "yocto") != errors.Is(err, ErrPoor) || n.sent != 0 {
			t.Errorf("%v, want %s; %d were sent", err, want, n.sent)
		}
		s.Close()
	}
	o := chainOptions(t, page.URL, "native")
	if o.Funder = nil; true {
		if _, err := OpenChain(t.Context(), o); err == nil || !strings.Contains(err.Error(), "only reads can be measured") {
			t.Errorf("without a key: %v", err)
		}
	}
}

// TestStoppedNodeEndsRunWithinSeconds: a node that stops in the middle of a run ends the run within
// seconds, with the measurements so far.
func TestStoppedNodeEndsRunWithinSeconds(t *testing.T) {
	n := &fakeNode{keys: map[string]primitives.Nonce{"funder": 5}, amount: primitives.NEAR(1000).String()}
	s := httptest.NewServer(n)
	c, err := OpenChain(t.Context(), chainOptions(t, s.URL, "native"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.AfterFunc(time.Second, func() { s.CloseClientConnections(); s.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	p, err := Run(ctx, c, Plan{Rate: 200, Arrival: Fixed, For: 50 * time.Second, Grace: 5 * time.Second})
	if took := time.Since(begin); !errors.Is(err, ErrStopped) || took > 40*time.Second || p.Done == 0 {
		t.Errorf("after %v: %v; %d done", took, err, p.Done)
	}
}

// TestCrossShardTransfersLeaveTheirShard: accounts are in the shards of the protocol's layout, and
// cross-shard transfers go to another shard.
func TestCrossShardTransfersLeaveTheirShard(t *testing.T) {
	s := &sends{all: []member{{id: "aurora"}, {id: "a"}, {id: "aurora-0"}, {id: "kkuuue2akv_1630967379.near"}, {id: "z"}}}
	if err := s.settle([]string{"aurora", "aurora-0", "kkuuue2akv_1630967379.near"}); err != nil {
		t.Fatal(err)
	}
	far, err := WorkloadOf("cross-shard")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0, 2, 3, 3} {
		if s.all[i].shard != want {
			t.Errorf("%s is in shard %d, want %d", s.all[i].id, s.all[i].shard, want)
		}
		for n := range uint64(50) {
			to, _ := s.make(&far, i, n)
			for k := range s.all {
				if s.all[k].id == to && s.all[k].shard == want {
					t.Errorf("%s sends to %s in its own shard", s.all[i].id, to)
				}
			}
		}
	}
	if err := (&sends{all: []member{{id: "a"}, {id: "b"}}}).settle([]string{"m"}); err == nil {
		t.Error("all in one shard: there is nothing across")
	}
}

func TestMixedWorkloadHasDocumentedShares(t *testing.T) {
	w, err := WorkloadOf("mixed")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[kind]int{}
	for i := range uint64(10_000) {
		counts[w.pick(i)]++
	}
	if n := counts[transfer]; n < 6700 || n > 7300 || counts[callFT] < 1800 || counts[callFT] > 2200 || counts[callHog] < 800 {
		t.Errorf("counts %v", counts)
	}
	if _, err := WorkloadOf("everything"); err == nil || !strings.Contains(err.Error(), "storage-heavy") {
		t.Error(err)
	}
}
