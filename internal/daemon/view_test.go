package daemon

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// withProbe starts a node with the probe as its validator's contract. set are members of
// config.json.
func withProbe(t testing.TB, set map[string]any) (*Daemon, *primitives.KeyFile) {
	t.Helper()
	dir := made(t)
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	config := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	for k, v := range set {
		config[k] = v
	}
	if err == nil {
		text, err = json.Marshal(config)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	h := mustStart(t, dir)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	act(t, h, key, 1, &primitives.DeployContract{Code: contracts.Probe()})
	return h, key
}

// callResult is the reply of query call_function.
type callResult struct {
	Height uint64 `json:"block_height"`
	Hash   string `json:"block_hash"`
	Result []byteNumber
	Logs   []string
	Error  string
}

type byteNumber uint16

func (c *callResult) bytes() (out []byte) {
	for _, b := range c.Result {
		out = append(out, byte(b))
	}
	return out
}

func look(t testing.TB, h *Daemon, account primitives.AccountID, method string, program *contracts.Program) callResult {
	t.Helper()
	var args []byte
	if program != nil {
		args = program.Bytes()
	}
	var c callResult
	if cause := ask(t, h, "query", map[string]any{"request_type": "call_function", "finality": "optimistic", "account_id": account,
		"method_name": method, "args_base64": base64.StdEncoding.EncodeToString(args)}, &c); cause != "" {
		t.Errorf("%s: error %s", method, cause)
	}
	return c
}

// loop burns more than a short call may, and ends well.
func loop() *contracts.Program {
	var p contracts.Program
	p.Call("log_utf8", "before")
	p.Loop(10_000_000)
	p.Call("value_return", "after")
	return &p
}

// TestEndlessViewCallsEnd: calls that end in neard have the same result here, and calls that do not
// end in neard end here as well.
func TestEndlessViewCallsEnd(t *testing.T) {
	h, key := withProbe(t, nil)
	me := key.AccountID
	defer stop(t, h)
	if c := look(t, h, me, "spin", nil); c.Error != "wasm execution failed with error: HostError(GasLimitExceeded)" {
		t.Errorf("a loop without end: %+v", c)
	}
	if c := look(t, h, me, "deep", nil); c.Error != "wasm execution failed with error: HostError(MemoryAccessViolation)" {
		t.Errorf("a recursion without end: %+v", c)
	}
	long := h.views.Stats().Long
	if c := look(t, h, me, "run", loop()); c.Error != "" || string(c.bytes()) != "after" || len(c.Logs) != 1 || c.Logs[0] != "before" {
		t.Errorf("a long call: %+v", c)
	}
	if s := h.views.Stats(); s.Long != long+1 {
		t.Errorf("%d calls were long, want one more than %d", s.Long, long)
	}
	if c := look(t, h, me, "noop", nil); c.Error != "" || c.Result == nil || len(c.Result)+len(c.Logs) != 0 {
		t.Errorf("a call that does nothing: %+v", c)
	}
	if s := h.views.Stats(); s.Long != long+1 || s.Running != 0 || s.Waiting != 0 || s.Panicked != 0 {
		t.Errorf("got %+v", s)
	}
	var p contracts.Program
	p.Call("log_utf8", "seen")
	p.Call("predecessor_account_id", 0)
	if c := look(t, h, me, "run", &p); c.Error != `wasm execution failed with error: HostError(ProhibitedInView { method_name: "predecessor_account_id" })` ||
		len(c.Logs) != 1 {
		t.Errorf("a function that views must not call: %+v", c)
	}
}

// TestFirstViewOfCodeIsALongCall: a call that waits for a compilation is a long one, later calls
// are not.
func TestFirstViewOfCodeIsALongCall(t *testing.T) {
	h, key := withProbe(t, nil)
	paths := h.home.Paths
	stop(t, h)
	if err := os.RemoveAll(paths.Contracts); err != nil {
		t.Fatal(err)
	}
	h = mustStart(t, paths.Dir)
	defer stop(t, h)
	for i := range 3 {
		if c := look(t, h, key.AccountID, "noop", nil); c.Error != "" {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	if s := h.views.Stats(); s.Long != 1 {
		t.Errorf("%d calls were long, want 1", s.Long)
	}
}

// TestViewSeesBlockOfItsState: a view sees the block of the state that it runs on. Its seed derives
// from no action and from the state's root.
func TestViewSeesBlockOfItsState(t *testing.T) {
	h, key := withProbe(t, nil)
	me := key.AccountID
	defer stop(t, h)
	block := func(c callResult) *engine.State {
		hash, err := primitives.ParseHash(c.Hash)
		if err != nil {
			t.Fatal(err)
		}
		at, err := h.Engine.StateAt(hash)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	var p contracts.Program
	for _, name := range []string{"block_index", "block_timestamp", "epoch_height", "storage_usage"} {
		p.Call(name)
	}
	p.GiveResults()
	c := look(t, h, me, "run", &p)
	at := block(c)
	defer at.Release()
	var account struct {
		Usage uint64 `json:"storage_usage"`
	}
	if cause := ask(t, h, "query", map[string]any{"request_type": "view_account", "block_id": c.Hash, "account_id": me}, &account); cause != "" {
		t.Fatal(cause)
	}
	var want []byte
	for _, n := range []uint64{c.Height, at.Header().Timestamp, 1, account.Usage} {
		want = binary.LittleEndian.AppendUint64(want, n)
	}
	if got := c.bytes(); !bytes.Equal(got, want) {
		t.Errorf("block_index, block_timestamp, epoch_height, storage_usage = %x, want %x", got, want)
	}
	for name, want := range map[string]func(at *engine.State) string{
		"current_account_id": func(*engine.State) string { return string(me) },
		"chain_id":           func(*engine.State) string { return h.Engine.Chain().ID },
		"random_seed": func(at *engine.State) string {
			i, err := at.Layout.Index(at.Layout.ShardOf(me))
			if err != nil {
				t.Fatal(err)
			}
			seed := primitives.RandomSeed(primitives.Hash{}, at.Trie(i).Root())
			return string(seed[:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p contracts.Program
			p.Call(name, 0)
			p.Call("value_return", ^uint64(0), 0)
			c := look(t, h, me, "run", &p)
			at := block(c)
			if got, want := string(c.bytes()), want(at); got != want {
				t.Errorf("%s = %q, want %q (%s)", name, got, want, c.Error)
			}
			at.Release()
		})
	}
}

// TestViewStopsAtMaxGasBurntView: the node's own gas limit, below and above the bound of short
// calls.
func TestViewStopsAtMaxGasBurntView(t *testing.T) {
	for _, limit := range []uint64{1_000_000_000_000, 20_000_000_000_000} {
		h, key := withProbe(t, map[string]any{"max_gas_burnt_view": limit})
		me := key.AccountID
		if c := look(t, h, me, "run", loop()); c.Error != "wasm execution failed with error: HostError(GasLimitExceeded)" || len(c.Logs) != 1 {
			t.Errorf("limit %d: %+v", limit, c)
		}
		stop(t, h)
	}
}

// TestInterruptedViewIsNoFault: a view calls the interrupt function before each host function. If
// that returns an error, the view fails with it and it is not logged as a fault.
func TestInterruptedViewIsNoFault(t *testing.T) {
	h, key := withProbe(t, nil)
	me := key.AccountID
	defer stop(t, h)
	at, err := h.Engine.StateAt(h.Engine.Head().Hash)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Release()
	stopped, asked := errors.New("stopped"), 0
	var p contracts.Program
	for range 10 {
		p.Call("block_index")
	}
	_, found, err := h.Engine.CallView(at, &action.View{Account: me, Method: "run", Args: p.Bytes(), Interrupt: func() error {
		if asked++; asked == 5 {
			return stopped
		}
		return nil
	}})
	if !errors.Is(err, stopped) || !found || asked != 5 {
		t.Errorf("CallView = found %v, %v after %d questions; want %v after 5", found, err, asked, stopped)
	}
	if alarms := h.vm.Stats().Alarms; alarms != 0 {
		t.Errorf("%d alarms", alarms)
	}
}

// TestViewsShareNoMemory: views run in memory that earlier views have used. Results, logs and
// errors of a view do not change later, and no view sees registers or reads of another.
func TestViewsShareNoMemory(t *testing.T) {
	h, key := withProbe(t, nil)
	me := key.AccountID
	defer stop(t, h)
	at, err := h.Engine.StateAt(h.Engine.Head().Hash)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Release()
	type seen struct {
		out  action.CallOutcome
		want string
	}
	var all [4][]seen
	var threads sync.WaitGroup
	for i := range all {
		threads.Go(func() {
			for n := range 200 {
				want := fmt.Sprintf("view %d of thread %d", n, i)
				var p contracts.Program
				p.Call("register_len", 7) // a register of another view: not set
				p.Call("write_register", 7, want)
				p.Call("log_utf8", want)
				for k := range n % 100 { // keys that are looked for, more of them than memory is kept for
					p.Call("storage_has_key", fmt.Sprintf("key %d of %s", k, want))
				}
				switch n % 3 {
				case 0:
					p.Call("value_return", ^uint64(0), 7)
				case 1:
					p.Call("panic_utf8", want)
				default:
					p.GiveResults()
				}
				out, found, err := h.Engine.CallView(at, &action.View{Account: me, Method: "run", Args: p.Bytes(), Short: n%2 == 0})
				if err != nil || !found {
					t.Errorf("%s: found %v, %v", want, found, err)
					return
				}
				all[i] = append(all[i], seen{out, want})
			}
		})
	}
	threads.Wait()
	for i := range all {
		for n, s := range all[i] {
			if len(s.out.Logs) != 1 || s.out.Logs[0] != s.want {
				t.Fatalf("%s: logs are %q", s.want, s.out.Logs)
			}
			switch value := s.out.Return.Value; n % 3 {
			case 0:
				if string(value) != s.want {
					t.Fatalf("%s: returned %q", s.want, value)
				}
			case 1:
				if s.out.Err == nil || !strings.Contains(string(s.out.Err.AppendJSON(nil)), s.want) {
					t.Fatalf("%s: out %+v", s.want, s.out)
				}
			default:
				if len(value) < 8 || binary.LittleEndian.Uint64(value) != ^uint64(0) || bytes.Count(value[8:], []byte{0}) != len(value[8:]) {
					t.Fatalf("%s: the register had %x bytes, and the keys were there: %x", s.want, value[:min(len(value), 8)], value)
				}
			}
		}
	}
}

// TestOldStateIsServedUnchanged: the state of an old block is unchanged, also when it is no longer
// in memory.
func TestOldStateIsServedUnchanged(t *testing.T) {
	h, key := withProbe(t, nil)
	me := key.AccountID
	defer stop(t, h)
	nonce := primitives.Nonce(1)
	write := func(value string) (block string) {
		var p contracts.Program
		p.Call("storage_write", "k", value, 0)
		nonce++
		act(t, h, key, nonce, &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 100_000_000_000_000})
		return h.Engine.Head().Hash.String()
	}
	var past []string // values, and blocks after which they stood
	for n := range 20 {
		value := fmt.Sprintf("value %d", n)
		past = append(past, value, write(value))
	}
	var p contracts.Program
	p.Call("storage_read", "k", 0)
	p.Call("value_return", ^uint64(0), 0)
	args := base64.StdEncoding.EncodeToString(p.Bytes())
	old := 0
	for len(past) > 0 {
		value, block := past[0], past[1]
		past = past[2:]
		hash, err := primitives.ParseHash(block)
		if err != nil {
			t.Fatal(err)
		}
		if h.Engine.BlockNode(hash) == nil {
			old++
		}
		var c callResult
		if cause := ask(t, h, "query", map[string]any{"request_type": "call_function", "block_id": block, "account_id": me,
			"method_name": "run", "args_base64": args}, &c); cause != "" || string(c.bytes()) != value || c.Hash != block {
			t.Errorf("after block %s: %s %+v, want %q", block, cause, c, value)
		}
	}
	if old == 0 {
		t.Error("all blocks are in memory still")
	}
}

// BenchmarkBalanceOf measures ft_balance_of from the request's body to the reply's, with 32 clients
// per core.
func BenchmarkBalanceOf(b *testing.B) {
	dir := made(b)
	h := mustStart(b, dir)
	defer stop(b, h)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		b.Fatal(err)
	}
	act(b, h, key, 1, &primitives.DeployContract{Code: contracts.C("ft")}, &primitives.FunctionCall{
		Method: "new", Gas: 100_000_000_000_000, Args: fmt.Appendf(nil, `{"owner_id":%q,"total_supply":"1000","metadata":{"spec":"ft-1.0.0","name":"n","symbol":"s","decimals":0}}`, key.AccountID)})
	args := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"account_id":%q}`, key.AccountID))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"request_type":"call_function","finality":"optimistic","account_id":%q,"method_name":"ft_balance_of","args_base64":%q}}`, key.AccountID, args)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var ctx fasthttp.RequestCtx
		for pb.Next() {
			ctx.Request.Reset()
			ctx.Response.Reset()
			ctx.Request.Header.SetMethod("POST")
			ctx.Request.SetRequestURI("/")
			ctx.Request.SetBodyString(body)
			h.server.Handle(&ctx)
			if !bytes.Contains(ctx.Response.Body(), []byte(`"result":[34,49,48,48,48,34]`)) { // "1000"
				b.Fatalf("body %s", ctx.Response.Body())
			}
		}
	})
	b.ReportMetric(float64(h.views.Stats().Long), "long")
}

// processorTime returns the processor time that the process has used.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkQuery measures reads and calls from the request's body to the reply's, with one client
// and with 32 per core.
func BenchmarkQuery(b *testing.B) {
	dir := made(b)
	h := mustStart(b, dir)
	defer stop(b, h)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		b.Fatal(err)
	}
	act(b, h, key, 1, &primitives.DeployContract{Code: contracts.Plain()})
	call := `"call_function","finality":"final","args_base64":"","account_id":%q,"method_name":`
	for _, c := range []struct{ name, request string }{
		{"view_account", `"view_account","finality":"final","account_id":%q`}, {"call_empty", call + `"empty"`}, {"call_read", call + `"read"`},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"dontcare","method":"query","params":{"request_type":`+c.request+`}}`, key.AccountID)
		one := func(ctx *fasthttp.RequestCtx) bool {
			ctx.Request.Reset()
			ctx.Response.Reset()
			ctx.Request.Header.SetMethod("POST")
			ctx.Request.SetRequestURI("/")
			ctx.Request.SetBodyString(body)
			h.server.Handle(ctx)
			return bytes.Contains(ctx.Response.Body(), []byte(`"block_hash"`)) && !bytes.Contains(ctx.Response.Body(), []byte(`rror"`))
		}
		b.Run("method="+c.name+"/clients=1", func(b *testing.B) {
			b.ReportAllocs()
			var ctx fasthttp.RequestCtx
			for b.Loop() {
				if !one(&ctx) {
					b.Fatalf("body %s", ctx.Response.Body())
				}
			}
		})
		b.Run("method="+c.name+"/clients=64", func(b *testing.B) {
			b.SetParallelism(32)
			before := processorTime(b)
			defer func() { b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "processor-ns/op") }()
			b.RunParallel(func(pb *testing.PB) {
				var ctx fasthttp.RequestCtx
				for pb.Next() {
					if !one(&ctx) {
						b.Errorf("body %s", ctx.Response.Body())
						return
					}
				}
			})
		})
	}
}
