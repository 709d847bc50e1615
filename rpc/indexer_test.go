package rpc

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestIndexerBlockIsOffByDefault: without Options.IndexerRequests the method does not exist.
func TestIndexerBlockIsOffByDefault(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	status, got := callMethod(s, "EXPERIMENTAL_indexer_block", fmt.Sprintf(`{"block_hash":%q}`, testHash))
	if status != 400 || !strings.Contains(got, `"cause":{"name":"METHOD_NOT_FOUND","info":{"method_name":"EXPERIMENTAL_indexer_block"}}`) {
		t.Errorf("status %d, got %s", status, got)
	}
}

// TestIndexerBlockAcceptsOnlyBlockHash: only block_hash is accepted, in serde's order of
// complaints.
func TestIndexerBlockAcceptsOnlyBlockHash(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{IndexerRequests: 1})
	good := fmt.Sprintf("%q", testHash)
	for _, c := range []struct{ params, want string }{
		{`{"block_hash":` + good + `}`, ""},
		{`[` + good + `]`, ""},
		{`{"finality":"optimistic"}`, "unknown field `finality`, expected `block_hash`"},
		{`{"block_id":1}`, "unknown field `block_id`, expected `block_hash`"},
		{`{"block_hash":` + good + `,"finality":"final"}`, "unknown field `finality`, expected `block_hash`"},
		{`{"block_hash":` + good + `,"extra":true}`, "unknown field `extra`, expected `block_hash`"},
		{`{"block_hash":` + good + `,"aa":true,"zz":1}`, "unknown field `aa`, expected `block_hash`"},
		{`{"block_hash":"invalid","aa":1}`, "unknown field `aa`, expected `block_hash`"},
		{`{"block_hash":"1","zz":1}`, "invalid length 1, expected base58-encoded 256-bit hash"},
		{`{"block_hash":null}`, "invalid type: null, expected base58-encoded 256-bit hash"},
		{`{}`, "missing field `block_hash`"},
		{`[]`, "invalid length 0, expected struct RpcIndexerBlockRequest with 1 element"},
		{`[` + good + `,1]`, "invalid length 2, expected fewer elements in array"},
		{`null`, "invalid type: null, expected struct RpcIndexerBlockRequest"},
		{`"x"`, "invalid type: string \"x\", expected struct RpcIndexerBlockRequest"},
	} {
		status, got := callMethod(s, "EXPERIMENTAL_indexer_block", c.params)
		if c.want == "" {
			if want := `{"jsonrpc":"2.0","result":{"block":` + good + `},"id":1}`; status != 200 || got != want {
				t.Errorf("%s: status %d, got %s", c.params, status, got)
			}
			continue
		}
		want := string(appendJSONString(nil, []byte("Failed parsing args: "+c.want)))
		if status != 400 || !strings.Contains(got, `"cause":{"name":"PARSE_ERROR","info":{"error_message":`+want+`}}`) {
			t.Errorf("%s: %d %s, want %s", c.params, status, got, want)
		}
	}
}

// TestIndexerBlockErrorsAreNearcores: the JSON of RpcIndexerBlockError, which is also the error's
// data.
func TestIndexerBlockErrorsAreNearcores(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{IndexerRequests: 1})
	for _, c := range []struct {
		err    error
		status int
		name   string
		cause  string
	}{
		{view.UnknownBlock(primitives.Hash{}), 200, "HANDLER_ERROR", `{"info":{"error_message":"Block either has never been observed on the node or has been ` +
			`garbage collected: DB Not Found Error: BLOCK: 11111111111111111111111111111111 \n Cause: Unknown"},"name":"DATA_UNAVAILABLE"}`},
		{&view.LookupError{Kind: view.ErrIncompleteData, Reason: "no receipt"}, 200, "HANDLER_ERROR", `{"info":{"error_message":"no receipt"},"name":"INCOMPLETE_DATA"}`},
		{&view.LookupError{Kind: view.ErrMessageLarge}, 200, "HANDLER_ERROR", `{"name":"LIMIT_EXCEEDED"}`},
		{fmt.Errorf("backend: disk"), 500, "INTERNAL_ERROR", `{"info":{"error_message":"disk"},"name":"INTERNAL_ERROR"}`},
	} {
		n.err = c.err
		status, got := callMethod(s, "EXPERIMENTAL_indexer_block", fmt.Sprintf(`{"block_hash":%q}`, testHash))
		want := `{"jsonrpc":"2.0","error":{"name":"` + c.name + `","cause":` + c.cause + `,"code":-32000,"message":"Server error","data":` + c.cause + `},"id":1}`
		if status != c.status || got != want {
			t.Errorf("%v: %d %s\nwant %s", c.err, status, got, want)
		}
	}
}

// TestIndexerBlockBeyondLimitIsBusy: calls beyond indexer_max_concurrent_requests are answered with
// BUSY at once, and the node is told how long a message may be.
func TestIndexerBlockBeyondLimitIsBusy(t *testing.T) {
	n := &fakeNode{}
	in, out := make(chan int), make(chan bool)
	n.indexed = func(most int) ([]byte, error) {
		in <- most
		<-out
		return []byte("{}"), nil
	}
	s := newServer(t, n, Options{IndexerRequests: 1, Limits: limited(func(l *limits.Limits) { l.Reply = 1 << 20 })})
	s.limiter.heavy.free = 2 // so that the second call gets a turn on any machine
	params := fmt.Sprintf(`{"block_hash":%q}`, testHash)
	var first sync.WaitGroup
	first.Go(func() {
		if status, got := callMethod(s, "EXPERIMENTAL_indexer_block", params); status != 200 || !strings.Contains(got, `"result":{}`) {
			t.Errorf("the first: %d %s", status, got)
		}
	})
	if most := <-in; most > 1<<20 || most < 1<<19 {
		t.Errorf("a message may have %d bytes, with max_reply_bytes %d", most, 1<<20)
	}
	status, got := callMethod(s, "EXPERIMENTAL_indexer_block", params)
	if want := `"cause":{"name":"BUSY"},"code":-32000,"message":"Server error","data":{"name":"BUSY"}}`; status != 200 || !strings.Contains(got, want) {
		t.Errorf("the second: %d %s", status, got)
	}
	close(out)
	first.Wait()
	n.indexed = nil
	if status, got := callMethod(s, "EXPERIMENTAL_indexer_block", params); status != 200 || strings.Contains(got, "BUSY") {
		t.Errorf("after the first: %d %s", status, got)
	}
}
