package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives"
)

// Client calls a NEAR node by JSON-RPC over HTTP. The node may run any program. Safe for concurrent
// use.
type Client struct {
	url     string
	http    fasthttp.HostClient
	uri     string
	timeout time.Duration
}

// ErrNotNode means that the server at a URL is not a NEAR node.
var ErrNotNode = errors.New("no NEAR node answers there")

// RPCError is an error reply of a node.
type RPCError struct {
	Name  string
	Cause string
	Data  string
	HTTP  int // HTTP status of the reply
}

func (e *RPCError) Error() string {
	if e.Cause == "" {
		return e.Name + " " + e.Data
	}
	return e.Cause + " " + e.Data
}

// errNoAnswer means that no reply arrived within the client's time limit.
var errNoAnswer = errors.New("there was no answer in time")

// maxReply is the maximum size of a reply in bytes.
const maxReply = 64 << 20

// NewClient returns a client with at most the given number of connections. The client connects at
// its first request.
func NewClient(rawURL string, connections int, timeout time.Duration) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("load: the URL is %q, must be http://host:port or https://host", rawURL)
	}
	addr, path := u.Host, u.EscapedPath()
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return &Client{url: rawURL, uri: u.Scheme + "://" + u.Host + path, timeout: timeout, http: fasthttp.HostClient{
		Addr: addr, IsTLS: u.Scheme == "https", MaxConns: connections, NoDefaultUserAgentHeader: true, MaxResponseBodySize: maxReply,
		MaxIdleConnDuration: time.Minute, Dial: func(addr string) (net.Conn, error) { return fasthttp.DialDualStackTimeout(addr, 5*time.Second) },
		RetryIf: func(*fasthttp.Request) bool { return false },
	}}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// success is the start of a reply with a result. troupe and neard send the same start.
var success = []byte(`{"jsonrpc":"2.0","result":`)

// ask sends a request and calls f with the reply, which is valid only during the call. If the reply
// contains an error, ask returns that error.
func (c *Client) ask(ctx context.Context, body []byte, f func(reply []byte) error) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetRequestURI(c.uri)
	req.SetBodyRaw(body)
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.http.DoDeadline(req, resp, deadline); err != nil {
		if errors.Is(err, fasthttp.ErrTimeout) {
			return errNoAnswer
		}
		return &Unreachable{err}
	}
	reply := resp.Body()
	if bytes.HasPrefix(reply, success) {
		return f(reply)
	}
	return failure(resp.StatusCode(), reply, f)
}

// failure handles a reply that does not begin with success. The reply contains an error, or a
// result in a formatting other than that of success.
func failure(status int, reply []byte, f func([]byte) error) error {
	var r struct {
		Result json.RawMessage
		Error  *struct {
			Name    string
			Message string
			Data    json.RawMessage
			Cause   struct{ Name string }
		}
	}
	err := json.Unmarshal(reply, &r)
	switch {
	case err != nil || r.Error == nil && r.Result == nil:
		return fmt.Errorf("HTTP %d: %.100q", status, reply)
	case r.Error != nil:
		e := &RPCError{Name: r.Error.Name, Cause: r.Error.Cause.Name, Data: string(r.Error.Data), HTTP: status}
		if e.Name == "" {
			e.Name = r.Error.Message
		}
		return e
	}
	return f(reply)
}

// Call calls a method and decodes the result.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "bench", "method": method, "params": params})
	if err != nil {
		return err
	}
	return c.ask(ctx, body, func(reply []byte) error {
		out := struct{ Result any }{result}
		return json.Unmarshal(reply, &out)
	})
}

// Status is the reply of the method status.
type Status struct {
	ChainID  string `json:"chain_id"`
	Protocol uint64 `json:"protocol_version"`
	Version  struct {
		Version string `json:"version"`
		Build   string `json:"build"`
	} `json:"version"`
	Sync struct {
		Height  primitives.Height `json:"latest_block_height"`
		Hash    string            `json:"latest_block_hash"`
		Syncing bool              `json:"syncing"`
	} `json:"sync_info"`
}

// Status calls the method status. Status returns ErrNotNode with an excerpt of the reply if the
// server is not a NEAR node.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var s Status
	err := c.Call(ctx, "status", []any{}, &s)
	if err == nil && (s.ChainID == "" || s.Sync.Hash == "") {
		err = errors.New("its status reply has no chain_id or no block")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", c.url, ErrNotNode, err)
	}
	return &s, nil
}

// base returns the hash of a final block, for transactions. base does not return the head's hash,
// because the head might not become final.
func (c *Client) base(ctx context.Context) (primitives.Hash, error) {
	var b struct {
		Header struct{ Hash primitives.Hash }
	}
	err := c.Call(ctx, "block", map[string]string{"finality": "final"}, &b)
	return b.Header.Hash, err
}

// accessKey returns the nonce of an access key. ok is false if the key or the account does not
// exist.
func (c *Client) accessKey(ctx context.Context, id primitives.AccountID,
	key primitives.PublicKey) (nonce primitives.Nonce, full, ok bool, err error) {
	var k struct {
		Nonce      primitives.Nonce
		Permission json.RawMessage
		Error      string // nodes that are older than structured errors send this text if the key does not exist
	}
	err = c.Call(ctx, "query", map[string]string{"request_type": "view_access_key", "finality": "optimistic",
		"account_id": string(id), "public_key": key.String()}, &k)
	var e *RPCError
	if errors.As(err, &e) && (e.Cause == "UNKNOWN_ACCOUNT" || e.Cause == "UNKNOWN_ACCESS_KEY") || err == nil && k.Error != "" {
		return 0, false, false, nil
	}
	return k.Nonce, string(k.Permission) == `"FullAccess"`, err == nil, err
}

// amount returns the balance of an account. ok is false if the account does not exist.
func (c *Client) amount(ctx context.Context, id primitives.AccountID) (amount primitives.Balance, ok bool, err error) {
	var a struct{ Amount string }
	err = c.Call(ctx, "query", map[string]string{"request_type": "view_account", "finality": "optimistic", "account_id": string(id)}, &a)
	var e *RPCError
	if errors.As(err, &e) && e.Cause == "UNKNOWN_ACCOUNT" {
		return amount, false, nil
	}
	if err != nil {
		return amount, false, err
	}
	amount, err = primitives.ParseBalance(a.Amount)
	return amount, err == nil, err
}
