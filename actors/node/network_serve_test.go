package node

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
)

// wire is a client of a node's RPC.
type wire struct {
	url    string
	client *http.Client // with its own connections
	back   *backend.Backend
}

// haltView implements backend.Obstacles for a node whose validator's key never waits.
type haltView struct{ *Node }

func (h haltView) Halted() *view.Halted   { return h.HaltedView() }
func (h haltView) KeyWait() *view.KeyWait { return nil }

// serve starts the RPC of a node.
func serve(t *testing.T, s *sandbox) *wire { return servePolled(t, s, 5*time.Second) }

// servePolled starts the RPC of a node with the given limit of waits.
func servePolled(t *testing.T, s *sandbox, timeout time.Duration) *wire {
	t.Helper()
	back := backend.New(backend.Options{
		Engine: s.e, Genesis: &genesis.Config{ChainID: "sandbox"}, Submit: s.Node, Obstacles: haltView{s.Node}, RPCAddr: "x",
		NodeKey: s.key.PublicKey(), Now: time.Now,
	})
	server, err := rpc.New(back, rpc.Options{PollingTimeout: timeout, Metrics: s.Metrics})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Shutdown(t.Context()) })
	return (&wire{url: "http://" + l.Addr().String(), back: back}).another()
}

// another returns another client of the same node.
func (w *wire) another() *wire {
	return &wire{url: w.url, back: w.back, client: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}}
}

// reply is a JSON-RPC reply.
type reply struct {
	Result json.RawMessage
	Error  *struct {
		Name  string
		Cause struct {
			Name string
			Info json.RawMessage
		}
	}
}

// fault returns the name of the error's cause, or "" for a success.
func (r *reply) fault() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Cause.Name
}

func (w *wire) call(t *testing.T, method string, params any) *reply {
	t.Helper()
	p, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, p)
	r, err := w.client.Post(w.url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	out := new(reply)
	if err := json.NewDecoder(r.Body).Decode(out); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return out
}

// send submits a transaction and waits until it reaches a level.
func (w *wire) send(t *testing.T, tx *primitives.SignedTransaction, until view.ExecutionLevel) *reply {
	t.Helper()
	return w.call(t, "send_tx", map[string]any{
		"signed_tx_base64": base64.StdEncoding.EncodeToString(borsh.Marshal(tx)), "wait_until": until.String(),
	})
}

// reads returns whether a query of the head's state succeeds.
func (w *wire) reads(t *testing.T) bool {
	t.Helper()
	r := w.call(t, "query", map[string]any{"request_type": "view_account", "finality": "optimistic",
		"account_id": validator})
	return r.Error == nil
}

func (w *wire) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := w.client.Get(w.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}
