package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// upstream is a chain with a token, something to send it to, and a transaction that does.
type upstream struct {
	*Daemon
	key   *primitives.KeyFile
	nonce primitives.Nonce
	tx    string // as it was submitted
	hash  primitives.Hash
}

const (
	token = "token.test.near"
	defi  = "defi.test.near"
)

// newUpstream starts the node that the fork reads from.
func newUpstream(t testing.TB) *upstream {
	t.Helper()
	dir := made(t)
	u := &upstream{Daemon: mustStart(t, dir)}
	t.Cleanup(func() { stop(t, u.Daemon) })
	var err error
	if u.key, err = home.ReadKeyFile(filepath.Join(dir, "validator_key.json")); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ id, code string }{{token, "ft"}, {defi, "defi"}} {
		u.send(t, primitives.AccountID(x.id), &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(100)},
			&primitives.AddKey{PublicKey: u.key.PublicKey()}, &primitives.DeployContract{Code: contracts.C(x.code)})
	}
	u.send(t, token, call("new", `{"owner_id":"test.near","total_supply":"1000000","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`, primitives.Balance{}))
	u.send(t, token, call("storage_deposit", `{"account_id":"`+defi+`"}`, primitives.NEAR(1)))
	u.tx, u.hash = u.send(t, token, call("ft_transfer_call", `{"receiver_id":"`+defi+`","amount":"100","msg":"take"}`, primitives.Yocto(1)))
	return u
}

func call(method, args string, deposit primitives.Balance) primitives.Action {
	return &primitives.FunctionCall{Method: method, Args: []byte(args), Gas: 150e12, Deposit: deposit}
}

func (u *upstream) send(t testing.TB, to primitives.AccountID, actions ...primitives.Action) (string, primitives.Hash) {
	t.Helper()
	u.nonce++
	signed, hash := encode(draft(u.Daemon, u.key, u.nonce, to, actions...), u.key)
	var status txStatus
	if cause := ask(t, u.Daemon, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &status); cause != "" || !strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
		t.Fatalf("to %s: %s %s", to, cause, status.Status)
	}
	return signed, hash
}

func (u *upstream) url() string { return "http://" + u.Addr.String() }

// newFork returns the home folder of a fork with manual block production.
func newFork(t testing.TB, spec string, o fork.Options) string {
	t.Helper()
	s, err := fork.ParseSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "fork")
	o.URL = s.URL
	if _, err := fork.Make(t.Context(), dir, s, o); err != nil {
		t.Fatal(err)
	}
	set(t, dir, `"block_production":"manual"`)
	return dir
}

// set sets something under troupe in a config.json.
func set(t testing.TB, dir, what string) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	in, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, ours := strings.CutPrefix(string(in), `{"troupe":{`)
	if !ours {
		text = "}," + text[1:]
	} else {
		what += ","
	}
	text = `{"troupe":{` + what + text
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func startFork(t testing.TB, dir string, other http.RoundTripper) *Daemon {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", ForkTransport: other})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// inProcess reaches a node without the network.
func inProcess(t testing.TB, h *Daemon) http.RoundTripper {
	t.Helper()
	l := fasthttputil.NewInmemoryListener()
	t.Cleanup(func() { _ = l.Close() })
	go func() { _ = h.server.Serve(l) }()
	return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial() }}
}

// comparedStatus is the part of a transaction's status that is compared.
type comparedStatus struct {
	Status   json.RawMessage
	Tx       fullOutcome   `json:"transaction_outcome"`
	Receipts []fullOutcome `json:"receipts_outcome"`
}

type fullOutcome struct {
	ID      string
	Outcome struct {
		Executor string `json:"executor_id"`
		Gas      uint64 `json:"gas_burnt"`
		Tokens   string `json:"tokens_burnt"`
		Logs     []string
		IDs      []string `json:"receipt_ids"`
		Status   json.RawMessage
		Metadata json.RawMessage
	}
}

func (w *comparedStatus) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", w.Status)
	for _, o := range append([]fullOutcome{w.Tx}, w.Receipts...) {
		x := &o.Outcome
		fmt.Fprintf(&b, "%s %s %d %s %q %v %s %s\n", o.ID, x.Executor, x.Gas, x.Tokens, x.Logs, x.IDs, x.Status, x.Metadata)
	}
	return b.String()
}

func statusOf(t testing.TB, h *Daemon, hash primitives.Hash) string {
	t.Helper()
	var w comparedStatus
	if cause := ask(t, h, "EXPERIMENTAL_tx_status", map[string]any{"tx_hash": hash.String(), "sender_account_id": "test.near", "wait_until": "EXECUTED_OPTIMISTIC"}, &w); cause != "" {
		t.Fatal(cause)
	}
	return w.String()
}

func forkStatusOf(t testing.TB, h *Daemon, params any) (s struct {
	URL     string
	ChainID string `json:"chain_id"`
	Height  uint64 `json:"block_height"`
	Answers struct {
		Proven, Unproven uint64
		Memory           uint64 `json:"from_memory"`
		Disk             uint64 `json:"from_disk"`
	}
	Requests, Failures, Refused uint64
	Cut, Live                   []string
	LastError                   *string `json:"last_error"`
}) {
	t.Helper()
	if cause := ask(t, h, "sandbox_fork", params, &s); cause != "" {
		t.Fatalf("sandbox_fork %v: %s", params, cause)
	}
	return s
}

// TestTransactionDoesTheSameOnFork: a transaction that calls from contract to contract, recorded on
// one chain, does the same on a fork of the block before it: each outcome, id, log, unit of gas,
// step of the profile. So over HTTP and within a process.
func TestTransactionDoesTheSameOnFork(t *testing.T) {
	u := newUpstream(t)
	want := statusOf(t, u.Daemon, u.hash)
	if strings.Count(want, "\n") < 7 || strings.Count(want, "TOUCHING_TRIE_NODE") < 2 {
		t.Fatalf("the transaction does too little: %s", want)
	}
	for _, way := range []string{"HTTP", "in process"} {
		t.Run(way, func(t *testing.T) {
			var other http.RoundTripper
			url := u.url()
			if way != "HTTP" {
				other, url = inProcess(t, u.Daemon), "http://upstream"
			}
			dir := newFork(t, fmt.Sprintf("%s@tx:%v", url, u.hash), fork.Options{Transport: other})
			h := startFork(t, dir, other)
			defer stop(t, h)
			if got := chainID(t, h); got != "sandbox" {
				t.Errorf("chain %q", got)
			}
			// Receipt ids depend on the height, so the next block must contain the transaction, although
			// broadcast_tx_async replies before the mempool has checked it.
			var sent string
			if cause := ask(t, h, "broadcast_tx_async", []string{u.tx}, &sent); cause != "" {
				t.Fatal(cause)
			}
			done(t, h, "sandbox_mine", fmt.Sprintf(`{"until":"%v"}`, u.hash))
			done(t, h, "sandbox_mine", `[3]`) // refunds
			if got := statusOf(t, h, u.hash); got != want {
				t.Errorf("on the fork\n%swant\n%s", got, want)
			}
			s := forkStatusOf(t, h, nil)
			if s.Answers.Proven < 2 || s.Failures != 0 || s.Refused != 0 || s.LastError != nil {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func balance(t testing.TB, h *Daemon, of string) string {
	t.Helper()
	var text []byte
	args := base64.StdEncoding.EncodeToString([]byte(`{"account_id":"` + of + `"}`))
	var out struct{ Result []int }
	if cause := ask(t, h, "query", map[string]any{"request_type": "call_function", "finality": "optimistic", "account_id": token, "method_name": "ft_balance_of", "args_base64": args}, &out); cause != "" {
		return cause
	}
	for _, c := range out.Result {
		text = append(text, byte(c))
	}
	return strings.Trim(string(text), `"`)
}

// TestForkShowsStateOfOtherChain: a fork of the newest block shows the other chain's state,
// executes transactions of accounts that it has not read before, changes nothing on the other
// chain, and can be reverted. Accounts are reset, cut off, and kept live. After a restart without
// the other node it still has what it has read.
func TestForkShowsStateOfOtherChain(t *testing.T) {
	u := newUpstream(t)
	dir := newFork(t, u.url(), fork.Options{})
	h := startFork(t, dir, nil)
	if got := balance(t, h, defi); got != "100" {
		t.Fatalf("%s has %s", defi, got)
	}
	done(t, h, "sandbox_snapshot", `{"name":"clean"}`)
	done(t, h, "sandbox_impersonate", `{"account_ids":["test.near"]}`)
	tx := draft(h, u.key, u.nonce+1, token, call("ft_transfer", `{"receiver_id":"`+defi+`","amount":"11"}`, primitives.Yocto(1)))
	unsigned, hash := encode(tx, nil)
	var sent string
	if cause := ask(t, h, "broadcast_tx_async", []string{unsigned}, &sent); cause != "" {
		t.Fatal(cause)
	}
	done(t, h, "sandbox_mine", fmt.Sprintf(`{"until":"%v"}`, hash))
	if got := statusOf(t, h, hash); !strings.HasPrefix(got, `{"SuccessValue"`) {
		t.Fatal(got)
	}
	if here, there := balance(t, h, defi), balance(t, u.Daemon, defi); here != "111" || there != "100" {
		t.Errorf("%s has %s here and %s there", defi, here, there)
	}
	for _, account := range []string{token, "nobody.near", defi} {
		show := func(h *Daemon, request string, at any) string {
			q := map[string]any{"request_type": request, "account_id": account, "prefix_base64": "", "include_proof": false}
			if at == nil {
				q["finality"] = "optimistic"
			} else {
				q["block_id"] = at
			}
			var out map[string]any
			cause := ask(t, h, "query", q, &out)
			delete(out, "block_hash")
			delete(out, "block_height")
			text, _ := json.Marshal(out)
			return cause + string(text)
		}
		pinned := forkStatusOf(t, h, nil).Height
		for _, request := range []string{"view_account", "view_access_key_list", "view_code", "view_state"} {
			if account == token && (request == "view_state" || request == "view_account") {
				continue // changed in the fork
			}
			if got, want := show(h, request, nil), show(u.Daemon, request, pinned); got != want {
				t.Errorf("%s of %s: %s, want %s", request, account, got, want)
			}
		}
	}
	done(t, h, "sandbox_revert", `{"id":"clean"}`)
	if got := balance(t, h, defi); got != "100" {
		t.Errorf("balance after the revert: %s", got)
	}

	// The other chain continues.
	u.send(t, token, call("ft_transfer", `{"receiver_id":"`+defi+`","amount":"5"}`, primitives.Yocto(1)))
	if got := balance(t, h, defi); got != "100" {
		t.Errorf("a change of the parent is visible in the world: %s", got)
	}
	if s := forkStatusOf(t, h, map[string]any{"live": []string{token}}); len(s.Live) != 1 || s.Live[0] != token {
		t.Errorf("got %+v", s)
	}
	if got := balance(t, h, defi); got != "105" {
		t.Errorf("live: %s", got)
	}
	u.send(t, token, call("ft_transfer", `{"receiver_id":"`+defi+`","amount":"7"}`, primitives.Yocto(1)))
	if err := h.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := balance(t, h, defi); got != "112" {
		t.Errorf("live, and later: %s", got)
	}
	done(t, h, "sandbox_deal", `["`+token+`","`+defi+`","9"]`)
	if got := balance(t, h, defi); got != "9" {
		t.Errorf("dealt: %s", got)
	}
	if s := forkStatusOf(t, h, map[string]any{"reset": []string{token}}); len(s.Live) != 0 {
		t.Errorf("got %+v", s)
	}
	if got := balance(t, h, defi); got != "100" {
		t.Errorf("reset: %s", got)
	}
	done(t, h, "sandbox_deal", `["`+token+`","`+defi+`","9"]`)
	if s := forkStatusOf(t, h, map[string]any{"cut": []string{defi, token}}); len(s.Cut) != 2 || s.Cut[0] != defi {
		t.Errorf("got %+v", s)
	}
	if got := balance(t, h, defi); got != "UNKNOWN_ACCOUNT" {
		t.Errorf("balance of an unchanged account that was cut off: %s", got)
	}
	forkStatusOf(t, h, map[string]any{"reset": []string{defi, token}})
	if got := balance(t, h, "test.near"); got != "999900" {
		t.Errorf("got %s", got)
	}
	var none struct{}
	if f := rpcOf(t, h, "sandbox_fork", `{"reset":["`+string(fork.Validator)+`"]}`, &none); !strings.HasPrefix(f, "SANDBOX_REFUSED") {
		t.Errorf("the validator is reset: %s", f)
	}
	stop(t, h)

	// Without the other node.
	h = startFork(t, dir, deadNetwork{})
	defer stop(t, h)
	if got := balance(t, h, defi); got != "100" {
		t.Errorf("without the other node: %s", got)
	}
	var out map[string]any
	begun := time.Now()
	f := rpcOf(t, h, "query", `{"request_type":"view_account","finality":"optimistic","account_id":"unseen.near"}`, &out)
	if !strings.Contains(f, "INTERNAL_ERROR") || !strings.Contains(f, "view_account of unseen.near") || time.Since(begun) > 20*time.Second {
		t.Errorf("an unrequested block: %q, after %v", f, time.Since(begun))
	}
	tx = draft(h, u.key, u.nonce+50, "unseen.near", &primitives.Transfer{Deposit: primitives.Yocto(1)})
	signed, _ := encode(tx, u.key)
	if f := rpcOf(t, h, "send_tx", `["`+signed+`"]`, &out); !strings.Contains(f, "unseen.near") {
		t.Errorf("a transaction that needs the missing data: %q", f)
	}
}

// deadNetwork is a network that is down.
type deadNetwork struct{}

func (deadNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("the network is down")
}

// TestForkIsReadyAfterTwelveRequests: a fork needs at most twelve requests to the other node from
// nothing to the first reply of a contract. BenchmarkForkReady measures how long that takes.
func TestForkIsReadyAfterTwelveRequests(t *testing.T) {
	u := newUpstream(t)
	if n := readyFork(t, u); n > 12 {
		t.Errorf("%d requests for the first answer", n)
	}
}

// readyFork makes a fork, starts it and asks a contract. It returns the number of requests to the
// other node.
func readyFork(t testing.TB, u *upstream) (requests int) {
	t.Helper()
	h := startFork(t, newFork(t, u.url(), fork.Options{}), nil)
	defer stop(t, h)
	if got := balance(t, h, defi); got != "100" {
		t.Fatalf("got %s", got)
	}
	return int(h.fork.Counts().Requests) + 4 // and the requests that made the home folder
}

// BenchmarkForkReady measures the time from nothing to the first reply of a contract on a fork of a
// node on this machine, including the creation of home folder and store.
func BenchmarkForkReady(b *testing.B) {
	u := newUpstream(b)
	for b.Loop() {
		readyFork(b, u)
	}
}

// flakyNetwork is a network that can be down.
type flakyNetwork struct {
	http.RoundTripper
	down atomic.Bool
}

func (f *flakyNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.down.Load() {
		return deadNetwork{}.RoundTrip(r)
	}
	return f.RoundTripper.RoundTrip(r)
}

// TestForkBlockWaitsForMissingData: a block that needs data which the other node does not return
// waits for it. Meanwhile reads are served, and no data is invented. A stop does not wait for it.
func TestForkBlockWaitsForMissingData(t *testing.T) {
	u := newUpstream(t)
	dir := newFork(t, u.url(), fork.Options{})
	set(t, dir, `"fork":{"timeout":{"secs":1,"nanos":0},"tries":1}`)
	net := &flakyNetwork{RoundTripper: http.DefaultTransport}
	h := startFork(t, dir, net)
	if got := balance(t, h, defi); got != "100" {
		t.Fatalf("got %s", got)
	}
	net.down.Store(true)
	key := u.key.PublicKey().String()
	patch := `{"records":[{"AccessKey":{"account_id":"` + defi + `","public_key":"` + key + `","access_key":{"nonce":0,"permission":{"GasKeyFullAccess":{"balance":"5","num_nonces":2}}}}}]}`
	answer := make(chan string, 1)
	go func() {
		var none struct{}
		answer <- rpcOf(t, h, "sandbox_patch_state", patch, &none)
	}()
	head := h.Engine.Head().Height()
	for h.fork.Stats().LastError == "" {
		time.Sleep(time.Millisecond)
	}
	if got := balance(t, h, defi); got != "100" {
		t.Errorf("balance while the block waits: %s", got)
	}
	select {
	case f := <-answer:
		t.Fatalf("a block that waits was answered: %q", f)
	default:
	}
	if h.Engine.Head().Height() != head {
		t.Error("a block was produced without the data that it needs")
	}
	net.down.Store(false)
	if f := <-answer; f != "" {
		t.Fatal(f)
	}
	if h.Engine.Head().Height() != head+1 || h.Node.HaltedView() != nil {
		t.Errorf("head %d, halted %v", h.Engine.Head().Height(), h.Node.HaltedView())
	}
	net.down.Store(true)
	go func() {
		var none struct{}
		answer <- rpcOf(t, h, "sandbox_patch_state", strings.Replace(patch, defi, token, 1), &none)
	}()
	for failed := h.fork.Stats().Failures; h.fork.Stats().Failures == failed; {
		time.Sleep(time.Millisecond)
	}
	begun := time.Now()
	stop(t, h)
	if took := time.Since(begun); took > 20*time.Second { // the other node is away for good
		t.Errorf("a stop takes %v", took)
	}
	<-answer
}
