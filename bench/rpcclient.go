package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives"
)

// client is one keep-alive connection to the node's RPC.
type client struct {
	http     *fasthttp.HostClient
	request  *fasthttp.Request
	response *fasthttp.Response
	body     []byte // buffer for request bodies
}

func newClient(addr string) *client {
	c := &client{http: &fasthttp.HostClient{Addr: addr, MaxConns: 1, NoDefaultUserAgentHeader: true},
		request: &fasthttp.Request{}, response: &fasthttp.Response{}}
	c.request.Header.SetMethod(http.MethodPost)
	c.request.Header.SetContentType("application/json")
	c.request.SetRequestURI("http://" + addr + "/")
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// success is the start of a reply with a result.
var success = []byte(`{"jsonrpc":"2.0","result":`)

// call sends a request and checks that the reply has a result. response contains the reply until
// the next call.
func (c *client) call(body []byte) error {
	c.request.SetBodyRaw(body)
	if err := c.http.Do(c.request, c.response); err != nil {
		return err
	}
	if reply := c.response.Body(); c.response.StatusCode() != http.StatusOK || !bytes.HasPrefix(reply, success) {
		return fmt.Errorf("HTTP %d: %.300s", c.response.StatusCode(), reply)
	}
	return nil
}

// ask calls a method once and decodes the result.
func (l *rpcLoad) ask(method string, params, result any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	c := newClient(l.addr)
	defer c.close()
	if err := c.call(body); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	reply := struct{ Result any }{result}
	return json.Unmarshal(c.response.Body(), &reply)
}

func (l *rpcLoad) height() (primitives.Height, error) {
	var s struct {
		Sync struct {
			Height primitives.Height `json:"latest_block_height"`
		} `json:"sync_info"`
	}
	return s.Sync.Height, l.ask("status", []int{}, &s)
}

// included returns the number of transactions that the node has included in blocks since its start,
// according to its metrics.
func (l *rpcLoad) included() (int, error) {
	if l.node != nil {
		return int(l.node.Node.Stats().Transactions), nil
	}
	_, reply, err := fasthttp.Get(nil, "http://"+l.addr+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(reply)) {
		if v, ok := strings.CutPrefix(line, "troupe_transactions_included_total "); ok {
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return 0, errors.New("/metrics lacks troupe_transactions_included_total: is this a Troupe node?")
}

// remote prepares the measurement of a node that is already running.
func (l *rpcLoad) remote(context.Context) error {
	u, err := url.Parse(l.o.URL)
	if err != nil {
		return err
	}
	if u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("bench: the URL is %q, must be http://host:port", l.o.URL)
	}
	if l.addr = u.Host; u.Port() == "" {
		l.addr += ":80"
	}
	var s struct {
		Account primitives.AccountID `json:"validator_account_id"`
	}
	if err := l.ask("status", []int{}, &s); err != nil {
		return err
	}
	l.view = func(uint64) primitives.AccountID { return s.Account }
	k := l.o.KeyFile
	if k == nil {
		return nil
	}
	var key struct {
		Nonce primitives.Nonce
		Hash  string `json:"block_hash"`
	}
	err = l.ask("query", map[string]string{"request_type": "view_access_key", "finality": "optimistic",
		"account_id": string(k.AccountID), "public_key": k.PublicKey().String()}, &key)
	if err != nil {
		return err
	}
	base, err := primitives.ParseHash(key.Hash)
	if err != nil {
		return err
	}
	l.lanes, l.next = 1, []int{0}
	l.signed = func(_, i int) *primitives.SignedTransaction {
		t := primitives.Transaction{SignerID: k.AccountID, PublicKey: k.PublicKey(), ReceiverID: k.AccountID, BlockHash: base,
			Nonce:   primitives.TransactionNonce{Nonce: key.Nonce + primitives.Nonce(i) + 1},
			Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}}
		hash := t.Hash()
		return primitives.NewSignedTransaction(t, k.SecretKey.Sign(hash[:]))
	}
	return nil
}

func appendBase64(b, raw []byte) []byte { return base64.StdEncoding.AppendEncode(b, raw) }
