package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
	"github.com/valyala/fasthttp"
)

const zeroHash = "11111111111111111111111111111111"

// goodParams has parameters for each method of the table.
var goodParams = map[string]string{
	"block": `[7]`, "chunk": `[[7,0]]`, "gas_price": `[null]`, "query": `{"request_type":"view_account","finality":"final","account_id":"a.near"}`,
	"EXPERIMENTAL_view_account":             `{"finality":"final","account_id":"a.near"}`,
	"EXPERIMENTAL_view_code":                `{"finality":"final","account_id":"a.near"}`,
	"EXPERIMENTAL_view_state":               `{"finality":"final","account_id":"a.near","prefix_base64":""}`,
	"EXPERIMENTAL_view_access_key":          `{"finality":"final","account_id":"a.near","public_key":"` + testKey.String() + `"}`,
	"EXPERIMENTAL_view_access_key_list":     `{"finality":"final","account_id":"a.near"}`,
	"EXPERIMENTAL_view_gas_key_nonces":      `{"finality":"final","account_id":"a.near","public_key":"` + testKey.String() + `"}`,
	"EXPERIMENTAL_call_function":            `{"finality":"final","account_id":"a.near","method_name":"m","args_base64":""}`,
	"changes":                               `{"changes_type":"account_changes","account_ids":["a.near"],"finality":"final"}`,
	"block_effects":                         `{"finality":"final"}`,
	"EXPERIMENTAL_changes_in_block":         `{"finality":"final"}`,
	"troupe_streamer_message":               `{"finality":"final"}`,
	"troupe_block_document":                 `{"height":7}`,
	"troupe_transactions":                   `{"limit":3}`,
	"troupe_accounts":                       `{"prefix":"a"}`,
	"EXPERIMENTAL_indexer_block":            `{"block_hash":"` + zeroHash + `"}`,
	"tx":                                    `["` + zeroHash + `","a.near"]`,
	"EXPERIMENTAL_tx_status":                `["` + zeroHash + `","a.near"]`,
	"tx_status":                             `["` + zeroHash + `","a.near"]`,
	"EXPERIMENTAL_receipt":                  `["` + zeroHash + `"]`,
	"light_client_proof":                    `{"type":"receipt","receipt_id":"` + zeroHash + `","receiver_id":"a.near","light_client_head":"` + zeroHash + `"}`,
	"EXPERIMENTAL_light_client_block_proof": `["` + zeroHash + `","` + zeroHash + `"]`,
	"next_light_client_block":               `["` + zeroHash + `"]`,
	"status":                                `[]`, "health": `[]`, "network_info": `[]`, "validators": `[null]`, "genesis_config": `[]`,
	"EXPERIMENTAL_protocol_config":    `{"finality":"final"}`,
	"EXPERIMENTAL_congestion_level":   `{"block_id":1,"shard_id":0}`,
	"EXPERIMENTAL_receipt_to_tx":      `{"receipt_id":"` + zeroHash + `"}`,
	"EXPERIMENTAL_validators_ordered": `[null]`,
	"maintenance_windows":             `["a.near"]`,
	"client_config":                   `[]`, "EXPERIMENTAL_split_storage_info": `[]`,
	"sandbox_mine":             `{"blocks":3}`,
	"sandbox_patch_state":      `{"records":[]}`,
	"sandbox_fast_forward":     `{"delta_height":3}`,
	"sandbox_next_epoch":       `[]`,
	"sandbox_snapshot":         `{"name":"a"}`,
	"sandbox_revert":           `{"id":"a"}`,
	"sandbox_drop_snapshot":    `{"id":"a"}`,
	"sandbox_snapshots":        `[]`,
	"sandbox_new_world":        `{"quiet":true}`,
	"sandbox_drop_world":       `{"id":"7"}`,
	"sandbox_worlds":           `[]`,
	"sandbox_set_clock":        `{"advance_nanosec":1}`,
	"sandbox_set_production":   `{"mode":"manual"}`,
	"sandbox_dump_state":       `{"account_ids":["a.near"]}`,
	"sandbox_load_state":       `{"records":[]}`,
	"sandbox_set_balance":      `["a.near","1"]`,
	"sandbox_set_code":         `["a.near",""]`,
	"sandbox_set_key":          `["a.near","` + testKey.String() + `"]`,
	"sandbox_set_storage":      `["a.near","",""]`,
	"sandbox_deal":             `["a.near","b.near","1"]`,
	"sandbox_fork":             `{"live":["a.near"]}`,
	"sandbox_impersonate":      `{"all":true}`,
	"sandbox_dump_transaction": `["` + zeroHash + `"]`, "sandbox_replay_transaction": `{"records":[],"signed_tx_base64":"` + signedText() + `"}`,
	"sandbox_miss_chunks": `[]`, "sandbox_reorg": `[2]`, "sandbox_mock_verification": `[true]`,
	"sandbox_tag": `["a"]`, "sandbox_tags": `[]`, "sandbox_drop_tag": `["a"]`, "sandbox_profile": `["a"]`,
	"subscribe":                `{"topic":"blocks"}`,
	"unsubscribe":              `["1"]`,
	"EXPERIMENTAL_simulate_tx": `{"signed_tx_base64":"` + signedText() + `","skip_signature_check":true,"finality":"final"}`,
	"EXPERIMENTAL_trace_tx":    `{"tx_hash":"` + zeroHash + `","sender_account_id":"a.near","profile":true}`,
}

// TestMethodsReturnOnlyDeclaredErrors: whatever error the node returns, a method answers with a
// fault that it declares, or with INTERNAL_ERROR and 500, or 503 if a limit refuses.
func TestMethodsReturnOnlyDeclaredErrors(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{IndexerRequests: 1})
	for i := range methods {
		r := &methods[i]
		params, ok := goodParams[r.name]
		if !ok {
			if !strings.Contains(r.name, "send") && !strings.Contains(r.name, "broadcast") {
				t.Errorf("no parameters to test %s with", r.name)
			}
			continue
		}
		if r.name == subscribe.Name || r.name == unsubscribe.Name { // only by WebSocket: TestInvalidSubscriptionIsRefused
			continue
		}
		for kind := range view.ErrMessageLarge + 1 {
			n.err = &view.LookupError{Kind: kind, Height: 7, Hash: testHash, ShardID: 3}
			status, reply := callMethod(s, r.name, params)
			switch {
			case slices.Contains([]string{"genesis_config", "network_info", "client_config", "maintenance_windows", "EXPERIMENTAL_split_storage_info",
				"EXPERIMENTAL_receipt_to_tx"}, r.name): // they have no such errors
				if status != 500 {
					t.Errorf("%s of %v: %d %s", r.name, kind, status, reply)
				}
			case strings.Contains(reply, "is no fault of"):
				t.Errorf("%s of %v: undeclared: %s", r.name, kind, reply)
			case strings.Contains(reply, `"INTERNAL_ERROR"`) != (status == 500 || status == 503 && (kind == view.ErrBehind || kind == view.ErrNoRoom) || status == 200 && r.specStatus && strings.Contains(reply, `"name":"INTERNAL_ERROR"`)):
				t.Errorf("%s of %v: %d %s", r.name, kind, status, reply)
			}
			if !strings.HasSuffix(reply, `,"id":1}`) {
				t.Errorf("%s of %v: no id in %s", r.name, kind, reply)
			}
		}
		n.err = errors.New("disk on fire")
		if status, reply := callMethod(s, r.name, params); !strings.Contains(reply, `"error_message":"disk on fire"`) || status != 500 && !r.specStatus {
			t.Errorf("%s: status %d, reply %s", r.name, status, reply)
		}
	}
}

func TestAliasesAnswerLikeTheirMethods(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	for _, name := range []string{"EXPERIMENTAL_genesis_config", "EXPERIMENTAL_changes", "EXPERIMENTAL_light_client_proof"} {
		r := byName[name]
		if r == nil {
			t.Fatalf("no %s", name)
		}
		got, _ := callMethod(s, name, goodParams[r.name])
		want, _ := callMethod(s, r.name, goodParams[r.name])
		if got != want {
			t.Errorf("%s: got %d, name %s, want %d", name, got, r.name, want)
		}
	}
}

func TestBatchAnswersEachRequest(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) { l.Batch = 3 })})
	status, got := post(s, "/", `[{"method":"health","id":1},{"method":"nope","id":"x"},5]`)
	want := `[{"jsonrpc":"2.0","result":null,"id":1},{"jsonrpc":"2.0","error":{"name":"REQUEST_VALIDATION_ERROR","cause":{"name":"METHOD_NOT_FOUND",` +
		`"info":{"method_name":"nope"}},"code":-32601,"message":"Method not found","data":"nope"},"id":"x"},{"jsonrpc":"2.0","error":{"name":` +
		`"REQUEST_VALIDATION_ERROR","cause":{"name":"PARSE_ERROR","info":{"error_message":"JSON RPC Request format was expected"}},"code":-32700,` +
		`"message":"Parse error","data":"JSON RPC Request format was expected"},"id":null}]`
	if status != 200 || got != want {
		t.Errorf("batch: %d %s\nwant %s", status, got, want)
	}
	if _, got := post(s, "/", `[1,2,3,4]`); !strings.Contains(got, "a batch may hold at most 3 requests") {
		t.Errorf("a large batch: %s", got)
	}
}

func TestMethodCanBeInThePath(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/health", "", 200, `{"jsonrpc":"2.0","result":null,"id":"dontcare"}`},
		{"/health", "{}", 200, `{"jsonrpc":"2.0","result":null,"id":"dontcare"}`},
		{"/gas_price", "[null]", 200, `{"jsonrpc":"2.0","result":{"gas_price":"5"},"id":"dontcare"}`},
		{"/gas_price", `{"block_id":1}`, 200, `{"jsonrpc":"2.0","result":{"gas_price":"5"},"id":"dontcare"}`},
		{"/gas_price", `{"jsonrpc":"2.0","id":5,"method":"gas_price","params":[null]}`, 200, `{"jsonrpc":"2.0","result":{"gas_price":"5"},"id":5}`},
		{"/gas_price", `{"id":5,"params":[null]}`, 200, `{"jsonrpc":"2.0","result":{"gas_price":"5"},"id":5}`},
		{"/gas_price", `{"method":"health"}`, 400, "the body's method is health, the path's gas_price"},
		{"/gas_price", `{"jsonrpc":"1.0","params":[null]}`, 400, notRequest},
		{"/gas_price", `{"params":[]}`, 400, "invalid length 0"},
		{"/gas_price", `[`, 400, "EOF while parsing a list"},
		{"/tx_status", `{"tx_hash":"bad"}`, 400, "untagged enum TransactionInfo"},
		{"/EXPERIMENTAL_tx_status", `{"tx_hash":"bad"}`, 200, "untagged enum TransactionInfo"},
		{"/nope", `{}`, 404, ""},
		{"/", `{"method":"health"} junk`, 200, `{"jsonrpc":"2.0","result":null,"id":"dontcare"}`},
	} {
		status, got := post(s, c.path, c.body)
		if status != c.status || !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("POST %s %s: %d %s, want %d %s", c.path, c.body, status, got, c.status, c.want)
		}
	}
}

func TestPanicIsAnInternalError(t *testing.T) {
	s := newServer(t, &fakeNode{sendTx: func(context.Context, *view.SendTx) (*view.FinalOutcome, error) { panic("boom") }}, Options{})
	status, reply := callMethod(s, "broadcast_tx_commit", `["`+signedText()+`"]`)
	if status != 500 || !strings.Contains(reply, "the request ended in a panic") {
		t.Errorf("status %d, reply %s", status, reply)
	}
	if s.Waiting() != 0 {
		t.Errorf("%d requests wait after a panic", s.Waiting())
	}
}

// signedTx is a transaction with a zero signature.
func signedTx() *primitives.SignedTransaction {
	return primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.ZeroED25519Key},
		primitives.ZeroED25519Signature)
}

func signedText() string {
	return strings.Trim(string(view.AppendBase64(nil, signedTx().AppendBorsh(nil))), `"`)
}

func TestParkedRequestsAreLimitedAndTimeOut(t *testing.T) {
	entered, looked := make(chan struct{}), make(chan struct{})
	n := &fakeNode{sendTx: func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		close(entered)
		<-looked // the first one still waits, however late this runs
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	s := newServer(t, n, Options{Limits: limited(func(l *limits.Limits) { l.Parked = 1 }), PollingTimeout: 50 * time.Millisecond})
	params := `["` + signedText() + `"]`
	first := make(chan string)
	go func() {
		status, reply := callMethod(s, "send_tx", params)
		first <- fmt.Sprint(status, reply)
	}()
	<-entered
	if s.Waiting() != 1 {
		t.Errorf("%d wait", s.Waiting())
	}
	if status, reply := callMethod(s, "send_tx", params); status != 503 || !strings.Contains(reply, "troupe.rpc.max_parked_requests") {
		t.Errorf("over the limit: %d %s", status, reply)
	}
	close(looked)
	want := `408{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":{"cause":"ERROR","debug_info":"the node timed out before returning a ` +
		`transaction status"},"name":"TIMEOUT_ERROR"},"code":-32000,"message":"Server error","data":"Timeout"},"id":1}`
	if got := <-first; got != want {
		t.Errorf("waited: %s\nwant %s", got, want)
	}
	if status, reply := callMethod(s, "send_tx", `{"signed_tx_base64":"`+signedText()+`","wait_until":"NONE"}`); status != 200 || n.async != 1 {
		t.Errorf("NONE: %d %s, %d passed on", status, reply, n.async)
	}
}

// TestTimeoutErrorHasTransactionStatus: the info of TIMEOUT_ERROR is nearcore's TimeoutErrorCause.
// A status for which there is no memory is replaced by its level.
func TestTimeoutErrorHasTransactionStatus(t *testing.T) {
	tx := signedTx()
	status := &view.FinalOutcome{Level: view.LevelExecutedOptimistic, Transaction: tx, Status: view.FinalStatus{Kind: view.FinalStarted}}
	status.Outcome.Outcome.Metadata.Version = 1
	large := *status
	large.Status = view.FinalStatus{Kind: view.FinalSuccessValue, Value: make([]byte, 1<<20)}
	for _, c := range []struct {
		name       string
		e          view.LookupError
		info, data string
	}{
		{"no status", view.LookupError{}, `{"cause":"ERROR","debug_info":"the node timed out before returning a transaction status"}`, "Timeout"},
		{"not observed", view.LookupError{Cause: view.TimeoutNotObserved}, `{"cause":"NOT_OBSERVED"}`, "Timeout"},
		{"not tracked", view.LookupError{Cause: view.TimeoutUntracked, ShardID: 3}, `{"cause":"DOES_NOT_TRACK_SHARD","shard_id":3}`, "Timeout"},
		{"included", view.LookupError{Level: view.LevelIncluded}, `{"cause":"PENDING","status":{"final_execution_status":"INCLUDED"}}`, "Timeout"},
		{"executed", view.LookupError{Level: view.LevelExecutedOptimistic, Status: status},
			`{"cause":"PENDING","status":` + string(view.AppendFinalOutcome(nil, status, false)) + `}`, "Timeout"},
		{"too large", view.LookupError{Level: view.LevelExecutedOptimistic, Status: &large},
			`{"cause":"PENDING","status":{"final_execution_status":"EXECUTED_OPTIMISTIC"}}`, "Timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.Kind = view.ErrTimeout
			s := newServer(t, &fakeNode{err: &c.e}, Options{Limits: limited(func(l *limits.Limits) { l.Reply = 1 << 20 })})
			for _, method := range []string{"tx", "send_tx", "broadcast_tx_commit"} {
				params := goodParams["tx"]
				if method != "tx" {
					params = `["` + signedText() + `"]`
				}
				status, got := callMethod(s, method, params)
				want := `{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":` + c.info + `,"name":"TIMEOUT_ERROR"},"code":-32000,` +
					`"message":"Server error","data":"` + c.data + `"},"id":1}`
				if status != 408 || got != want {
					t.Errorf("%s, %s: %d %.600s\nwant %.600s", c.name, method, status, got, want)
				}
			}
		})
	}
}

func TestInvalidTransactionErrorIsNeards(t *testing.T) {
	n := &fakeNode{err: &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce, TxNonce: 1, KeyNonce: 2}}
	status, reply := callMethod(newServer(t, n, Options{}), "send_tx", `["`+signedText()+`"]`)
	want := `{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":{},"name":"INVALID_TRANSACTION"},"code":-32000,"message":"Server error",` +
		`"data":{"TxExecutionError":{"InvalidTxError":{"InvalidNonce":{"ak_nonce":2,"tx_nonce":1}}}}},"id":1}`
	if status != 200 || reply != want {
		t.Errorf("%d %s\nwant %s", status, reply, want)
	}
}

func TestUnknownHeightIsStatus422(t *testing.T) {
	n := &fakeNode{err: view.UnknownHeight(7)}
	s := newServer(t, n, Options{})
	for params, want := range map[string]int{`{"block_id":7}`: 422, `{"block_id":99}`: 422, `{"block_id":100}`: 200, `[7]`: 200,
		`{"block_id":"` + zeroHash + `"}`: 200, `{"finality":"final"}`: 200} {
		if got, reply := callMethod(s, "block", params); got != want {
			t.Errorf("block %s: %d %s, want %d", params, got, reply, want)
		}
	}
}

func TestViewStatePagesHaveLastKey(t *testing.T) {
	n := &fakeNode{}
	n.state.account = &primitives.Account{StorageUsage: 100_000}
	for i := range 6 {
		n.state.items = append(n.state.items, view.StateItem{Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, 20_000)})
	}
	s := newServer(t, n, Options{ViewStateLimit: 50_000})
	page := func(more string) string {
		_, reply := callMethod(s, "query", `{"request_type":"view_state","finality":"final","account_id":"a.near","prefix_base64":""`+more+`}`)
		return reply
	}
	if got := page(""); !strings.Contains(got, "TOO_LARGE_CONTRACT_STATE") {
		t.Errorf("whole state: %.300s", got)
	}
	// A page ends with the item that exceeds 50,000 bytes, or at the limit; last_key is only set if
	// more follows.
	for more, want := range map[string]struct {
		items int
		last  string
	}{`,"limit":100`: {3, "k2"}, `,"limit":2`: {2, "k1"}, `,"after_key_base64":"azM="`: {2, ""}, `,"limit":1,"after_key_base64":"azQ="`: {1, ""}} {
		got := page(more)
		last := ""
		if want.last != "" {
			last = `"last_key":` + string(view.AppendBase64(nil, []byte(want.last)))
		}
		if n := strings.Count(got, `{"key":`); n != want.items || strings.Contains(got, "last_key") != (last != "") || !strings.Contains(got, last) {
			t.Errorf("page %s: %d items, %.120s; want %d and %s", more, n, got, want.items, last)
		}
	}
	if n.state.released.Load() == 0 {
		t.Error("the state was not released")
	}
}

// TestCallReplyHasLogsAndError: the result of a call, its logs also if it fails, and why it could
// not be run.
func TestCallReplyHasLogsAndError(t *testing.T) {
	execution := &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: `Smart contract panicked: a "b"`}
	compile := &primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: &primitives.CompilationError{
		Tag: primitives.CompilationWasm, Message: "m"}}
	for _, c := range []struct {
		result             *view.CallResult
		err                error
		legacy, experiment string
	}{
		{&view.CallResult{Result: []byte{109, 1}, Logs: []string{"log"}}, nil, `"logs":["log"],"result":[109,1]`, `"logs":["log"],"result":[109,1]`},
		{&view.CallResult{Err: execution, Logs: []string{"log"}, Debug: `HostError(GuestPanic { panic_msg: "a \"b\"" })`}, nil,
			`"error":"wasm execution failed with error: HostError(GuestPanic { panic_msg: \"a \\\"b\\\"\" })","logs":["log"]`,
			`"vm_error":{"ExecutionError":"Smart contract panicked: a \"b\""}},"name":"CONTRACT_EXECUTION_ERROR"},"code":-32000,"message":"Server error","data":"Function call returned an error: ExecutionError(\"Smart contract panicked: a \\\"b\\\"\")"`},
		{&view.CallResult{Err: compile}, nil, `"error":"wasm execution failed with error: CompilationError(WasmtimeCompileError { msg: \"m\" })","logs":[]`,
			`"vm_error":{"CompilationError":{"WasmerCompileError":{"msg":"m"}}}`},
		{nil, &view.LookupError{Kind: view.ErrTooManyRequests}, `The node reached its limits. Try again later. More details: too many waiting requests`,
			`The node reached its limits. Try again later. More details: too many waiting requests`},
		{nil, nil, `account a.near is gone`, `account a.near is gone`},
	} {
		n := &fakeNode{call: func(x *view.Call) (*view.CallResult, error) {
			if x.Account != "a.near" || x.Method != "m" || string(x.Args) != "\x01" {
				t.Errorf("call of %+v", x)
			}
			return c.result, c.err
		}}
		n.state.account = &primitives.Account{}
		s := newServer(t, n, Options{})
		const params = `"finality":"final","account_id":"a.near","method_name":"m","args_base64":"AQ=="}`
		if _, reply := callMethod(s, "query", `{"request_type":"call_function",`+params); !strings.Contains(reply, c.legacy) {
			t.Errorf("query: %s\nwant %s", reply, c.legacy)
		}
		if _, reply := callMethod(s, "EXPERIMENTAL_call_function", `{`+params); !strings.Contains(reply, c.experiment) {
			t.Errorf("EXPERIMENTAL_call_function: %s\nwant %s", reply, c.experiment)
		}
	}
}

func TestOnlyConfiguredOriginsAreAllowed(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{CORSOrigins: []string{"https://a.example"}})
	for _, c := range []struct{ method, origin, allow, methods string }{
		{"POST", "https://a.example", "https://a.example", ""}, {"POST", "https://b.example", "", ""},
		{"OPTIONS", "https://a.example", "https://a.example", "GET,POST"}, {"OPTIONS", "https://b.example", "", ""},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod(c.method)
		ctx.Request.Header.Set("Origin", c.origin)
		ctx.Request.SetRequestURI("/")
		ctx.Request.SetBodyString(`{"method":"health"}`)
		s.Handle(&ctx)
		h := &ctx.Response.Header
		if got := string(h.Peek("Access-Control-Allow-Origin")); got != c.allow {
			t.Errorf("%s from %s: allowed origin %q, want %q", c.method, c.origin, got, c.allow)
		}
		if got := string(h.Peek("Access-Control-Allow-Methods")); got != c.methods {
			t.Errorf("%s from %s: allowed methods %q, want %q", c.method, c.origin, got, c.methods)
		}
	}
}

func TestUnhealthyNodeAnswers503(t *testing.T) {
	s := newServer(t, &fakeNode{err: &view.LookupError{Kind: view.ErrNoNewBlocks, Elapsed: 7_000_000_001}}, Options{})
	for _, path := range []string{"/status", "/health", "/network_info"} {
		var ctx fasthttp.RequestCtx
		ctx.Request.SetRequestURI(path)
		s.Handle(&ctx)
		if ctx.Response.StatusCode() != 503 || len(ctx.Response.Body()) != 0 {
			t.Errorf("GET %s: %d %s", path, ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
	_, reply := callMethod(s, "health", "[]")
	if !strings.Contains(reply, `"cause":{"info":{"elapsed":[7,1]},"name":"NO_NEW_BLOCKS"},"code":-32000,"message":"Server error","data":{"info":{"elapsed":[7,1]},"name":"NO_NEW_BLOCKS"}}`) {
		t.Error(reply)
	}
}

func TestMetricsCountRequestsByMethod(t *testing.T) {
	n := &fakeNode{}
	n.state.account = &primitives.Account{}
	s := newServer(t, n, Options{Metrics: func(b []byte) []byte { return append(b, "mine 1\n"...) }})
	callMethod(s, "query", goodParams["query"])
	callMethod(s, "nope", "[]")
	callMethod(s, "block", "[]")
	callMethod(s, "EXPERIMENTAL_changes", goodParams["changes"])
	callMethod(s, "tx", goodParams["tx"])
	got := string(s.AppendMetrics(nil))
	for _, want := range []string{
		`near_rpc_total_count{method="query_view_account"} 1`, `near_rpc_total_count{method="UNSUPPORTED_METHOD"} 1`,
		`near_rpc_total_count{method="EXPERIMENTAL_changes"} 1`, `near_rpc_error_count{err_code="-32700",method="block"} 1`,
		`near_rpc_error_count{err_code="-32601",method="UNSUPPORTED_METHOD"} 1`, `near_rpc_wait_until_count{method="tx",wait_until="EXECUTED_OPTIMISTIC"} 1`,
		`near_rpc_processing_time_bucket{method="query_view_account",le="0.001"} 1`, `near_rpc_processing_time_bucket{method="query_view_account",le="32.768"} 1`,
		`near_rpc_processing_time_count{method="tx"} 1`, "# TYPE near_rpc_processing_time histogram", "near_http_prometheus_requests_total 1", "mine 1",
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestLargeBodyIsRefusedUnread: a body over the limit is answered with 413 without being read, a
// connection serves many requests, and Shutdown answers what waits.
func TestLargeBodyIsRefusedUnread(t *testing.T) {
	started := make(chan struct{})
	n := &fakeNode{sendTx: func(ctx context.Context, _ *view.SendTx) (*view.FinalOutcome, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	s := newServer(t, n, Options{Addr: "127.0.0.1:0", MaxBody: 1000})
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	url := "http://" + l.Addr().String()
	send := func(body string) (int, string) {
		reply, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		return reply.StatusCode, string(text)
	}
	for range 3 {
		if status, reply := send(`{"method":"health","id":7}`); status != 200 || reply != `{"jsonrpc":"2.0","result":null,"id":7}` {
			t.Errorf("status %d, reply %s", status, reply)
		}
	}
	if status, reply := send(strings.Repeat(" ", 1001)); status != 413 || reply != "length limit exceeded" {
		t.Errorf("a large body: %d %s", status, reply)
	}
	waited := make(chan string)
	go func() {
		status, reply := send(`{"method":"send_tx","params":["` + signedText() + `"]}`)
		waited <- fmt.Sprint(status, " ", reply)
	}()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if got := <-waited; !strings.HasPrefix(got, "500") || !strings.Contains(got, "the node is stopping") {
		t.Errorf("the waiting request got %s", got)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening")
	}
}

func TestInvalidHTTPIsRefused(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{Addr: "127.0.0.1:0"})
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer l.Close()
	for request, want := range map[string]int{
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("y", 9000) + "\r\n\r\n": 431,
		"NONSENSE\r\n\r\n": 400,
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(request)); err != nil {
			t.Error(err)
		}
		reply, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || reply.StatusCode != want {
			t.Errorf("%.20q: %v %v, want %d", request, reply, err, want)
		}
		c.Close()
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	if _, err := New(&fakeNode{}, Options{HTTPStatus: "sometimes"}); err == nil || !strings.Contains(err.Error(), "rpc.http_status") {
		t.Errorf("err = %v", err)
	}
}

// TestCacheKeepsRecentEntriesInBound: the cache keeps recently used entries and stays within its
// bound.
func TestCacheKeepsRecentEntriesInBound(t *testing.T) {
	var c encodedCache
	big := make([]byte, cacheBytes/8)
	encoded := 0
	get := func(i int) {
		c.append(nil, primitives.HashBytes([]byte{byte(i)}), func(b []byte) []byte {
			encoded++
			return append(b, big...)
		})
	}
	for i := range 20 {
		get(i)
		get(i)
	}
	if encoded != 20 {
		t.Errorf("%d encodings of 20 blocks", encoded)
	}
	total := 0
	for _, m := range []map[primitives.Hash][]byte{c.young, c.old} {
		for _, text := range m {
			total += len(text)
		}
	}
	if total > cacheBytes {
		t.Errorf("the cache holds %d bytes", total)
	}
}

// neardNames are the methods of neard (nearcore 2.14 chain/jsonrpc/src/lib.rs) but those of Spice.
const neardNames = `block chunk gas_price query changes EXPERIMENTAL_changes block_effects EXPERIMENTAL_changes_in_block tx tx_status EXPERIMENTAL_tx_status
	send_tx broadcast_tx_commit broadcast_tx_async status health network_info client_config genesis_config EXPERIMENTAL_genesis_config
	EXPERIMENTAL_protocol_config validators EXPERIMENTAL_validators_ordered light_client_proof EXPERIMENTAL_light_client_proof
	EXPERIMENTAL_light_client_block_proof next_light_client_block maintenance_windows EXPERIMENTAL_maintenance_windows EXPERIMENTAL_receipt
	EXPERIMENTAL_receipt_to_tx EXPERIMENTAL_congestion_level EXPERIMENTAL_split_storage_info EXPERIMENTAL_view_account EXPERIMENTAL_view_code
	EXPERIMENTAL_view_state EXPERIMENTAL_view_access_key EXPERIMENTAL_view_access_key_list EXPERIMENTAL_view_gas_key_nonces
	EXPERIMENTAL_call_function EXPERIMENTAL_indexer_block sandbox_patch_state sandbox_fast_forward`

// TestEveryNeardMethodExists: every method of neard exists and has a description.
func TestEveryNeardMethodExists(t *testing.T) {
	names := strings.Fields(neardNames)
	if len(names) != 43 {
		t.Errorf("%d names of neard", len(names))
	}
	for _, name := range names {
		if byName[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	for i := range methods {
		if r := &methods[i]; r.doc == "" || !strings.HasSuffix(r.doc, ".") {
			t.Errorf("%s has no description", r.name)
		}
	}
}
