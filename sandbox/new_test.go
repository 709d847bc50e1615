package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// supply are the arguments of a token's method new.
var supply = map[string]any{"owner_id": "token.near", "total_supply": "1000000",
	"metadata": map[string]any{"spec": "ft-1.0.0", "name": "Suite", "symbol": "S", "decimals": 0}}

// withToken has the accounts token.near, with a token, and alice.near, which is registered with it.
func withToken(t testing.TB, o Options) (s *Sandbox, token, alice *Account) {
	t.Helper()
	o.Accounts = map[primitives.AccountID]primitives.Balance{"token.near": primitives.NEAR(100), "alice.near": primitives.NEAR(10)}
	s = New(t, o)
	token, alice = Named("token.near"), Named("alice.near")
	if _, err := s.Deploy(t.Context(), token, contracts.C("ft"), "new", supply); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), alice, "token.near", "storage_deposit", map[string]any{}, primitives.NEAR(1)); err != nil {
		t.Fatal(err)
	}
	return s, token, alice
}

func transfer(amount int) map[string]any {
	return map[string]any{"receiver_id": "alice.near", "amount": fmt.Sprint(amount)}
}

func tokensOf(t testing.TB, w *World, of string) (amount string) {
	t.Helper()
	if err := w.View("token.near", "ft_balance_of", map[string]any{"account_id": of}, &amount); err != nil {
		t.Fatal(err)
	}
	return amount
}

// TestParallelSubtestsHaveOwnWorlds: 50 parallel subtests each have a world of their parent's
// sandbox, although the parent has returned when they run.
func TestParallelSubtestsHaveOwnWorlds(t *testing.T) {
	s, token, _ := withToken(t, Options{})
	for i := range 50 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := s.ForTest(t)
			if _, err := w.Call(t.Context(), token, "token.near", "ft_transfer", transfer(i+1), primitives.Yocto(1)); err != nil {
				t.Fatal(err)
			}
			if got := tokensOf(t, w, "alice.near"); got != fmt.Sprint(i+1) {
				t.Errorf("alice has %s tokens", got)
			}
		})
	}
}

func TestParallelSandboxesAreIndependent(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s, token, _ := withToken(t, Options{Shards: 1 + i%3})
			if _, err := s.Call(t.Context(), token, "token.near", "ft_transfer", transfer(i+1), primitives.Yocto(1)); err != nil {
				t.Fatal(err)
			}
			if got := tokensOf(t, s.World, "alice.near"); got != fmt.Sprint(i+1) {
				t.Errorf("alice has %s tokens", got)
			}
		})
	}
}

// TestOptionsShapeTheChain: shards, length of epochs, accounts.
func TestOptionsShapeTheChain(t *testing.T) {
	s := New(t, Options{Shards: 4, EpochLength: 10, Accounts: map[primitives.AccountID]primitives.Balance{"alice.near": primitives.NEAR(7)}})
	if b, err := s.Balance("alice.near"); err != nil || b != primitives.NEAR(7) {
		t.Errorf("alice has %v, %v", b, err)
	}
	_, block, err := s.chain.Backend().Block(t.Context(), view.BlockRef{})
	if err != nil || len(block.Body.Chunks) != 4 {
		t.Fatalf("a block of %d chunks, %v", len(block.Body.Chunks), err)
	}
	from := s.Head().Height
	at, err := s.NextEpoch(t.Context())
	if err != nil || at.Height > from+30 {
		t.Errorf("the next epoch begins at %d, asked at %d: %v", at.Height, from, err)
	}
	for i, o := range []Options{{Shards: -1}, {Shards: 1000}, {Fork: "ftp://x"}, {Fork: "http://x", Shards: 2},
		{Fork: "http://x", EpochLength: 2}, {ForkCache: "x"},
		{Accounts: map[primitives.AccountID]primitives.Balance{"Alice": {}}}, {Dir: "/dev/null/x"}} {
		if s, err := Start(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "sandbox: ") {
			t.Errorf("options %d: %v, %v", i, s, err)
		}
	}
	dir := t.TempDir()
	first, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Dir: dir, Shards: 2}); err == nil || !strings.Contains(err.Error(), "has a chain already") {
		t.Errorf("shards for an old chain: %v", err)
	}
}

// TestCreateKeepsContractAndNonce: Create changes only balance and key of an existing account.
func TestCreateKeepsContractAndNonce(t *testing.T) {
	s, token, alice := withToken(t, Options{})
	before, err := s.Account("token.near")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), "token.near", primitives.NEAR(3)); err != nil {
		t.Fatal(err)
	}
	after, err := s.Account("token.near")
	if before.Amount = primitives.NEAR(3); err != nil || after != before {
		t.Errorf("%+v, %v, want %+v", after, err, before)
	}
	if _, err := s.Call(t.Context(), token, "token.near", "ft_transfer", transfer(5), primitives.Yocto(1)); err != nil {
		t.Errorf("the contract or the key's nonce is lost: %v", err)
	}
	other := &Account{"alice.near", primitives.SecretKeyFromSeed(primitives.ED25519, "other")}
	key := other.Key.PublicKey()
	if _, err := s.Send(t.Context(), alice, "alice.near", &primitives.AddKey{PublicKey: key},
		&primitives.DeleteKey{PublicKey: alice.Key.PublicKey()}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Transfer(t.Context(), alice, "near", primitives.Yocto(1)); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key that was deleted: %v", err)
	}
	if _, err := s.AddKey(t.Context(), "alice.near"); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Account{alice, other} {
		if _, err := s.Transfer(t.Context(), a, "near", primitives.Yocto(1)); err != nil {
			t.Error(err)
		}
	}
	a, err := s.Account("alice.near")
	if err != nil || a.StorageUsage != primitives.AccountStorage+2*primitives.FullAccessKeyStorage {
		t.Errorf("storage usage %d, %v", a.StorageUsage, err)
	}
	if _, err := s.AddKey(t.Context(), "nobody.near"); !errors.Is(err, ErrNoAccount) {
		t.Errorf("a key for an account that does not exist: %v", err)
	}
}

func TestKeyFileIsReadByTools(t *testing.T) {
	k, err := primitives.ParseKeyFile(Named("alice.near").KeyFile())
	if err != nil || k.AccountID != "alice.near" || k.SecretKey != Named("alice.near").Key {
		t.Errorf("got %v, error %v", k, err)
	}
}

// TestPastHeightIsViewed: views and balances at a height.
func TestPastHeightIsViewed(t *testing.T) {
	s, token, _ := withToken(t, Options{})
	var heights []primitives.Height
	for i := range 3 {
		if _, err := s.Call(t.Context(), token, "token.near", "ft_transfer", transfer(10*(i+1)), primitives.Yocto(1)); err != nil {
			t.Fatal(err)
		}
		heights = append(heights, s.Head().Height)
	}
	for i, want := range []string{"10", "30", "60"} {
		var got string
		if err := s.ViewAt(heights[i], "token.near", "ft_balance_of", map[string]any{"account_id": "alice.near"},
			&got); err != nil || got != want {
			t.Errorf("at %d: %s, %v, want %s", heights[i], got, err, want)
		}
	}
	early, err := s.BalanceAt(heights[0], "token.near")
	late, err2 := s.BalanceAt(heights[2], "token.near")
	if now, err3 := s.Balance("token.near"); errors.Join(err, err2, err3) != nil || early.Cmp(late) <= 0 || late != now {
		t.Errorf("%v, %v, %v: error %v, err2 %v, err3 %v", early, late, now, err, err2, err3)
	}
	var gone *view.LookupError
	if err := s.ViewAt(heights[2]+1000, "token.near", "ft_balance_of", nil, nil); !errors.As(err, &gone) ||
		gone.Kind != view.ErrUnknownHeight {
		t.Errorf("a height above the head: %v", err)
	}
	if _, err := s.BalanceAt(s.Head().Height, "nobody.near"); !errors.Is(err, ErrNoAccount) {
		t.Errorf("unknown account: %v", err)
	}
	var raw []byte
	if err := s.View("token.near", "ft_balance_of", map[string]any{"account_id": "alice.near"}, &raw); err != nil || string(raw) != `"60"` {
		t.Errorf("raw: %s, %v", raw, err)
	}
}

// TestFailedCallHasTypedError: errors of calls that fail on the chain have a type and contain the
// contract's message.
func TestFailedCallHasTypedError(t *testing.T) {
	s, token, alice := withToken(t, Options{})
	ctx := t.Context()
	var failed *CallError
	out, err := s.Call(ctx, token, "token.near", "ft_transfer",
		map[string]any{"receiver_id": "nobody.near", "amount": "1"}, primitives.Yocto(1))
	if !errors.As(err, &failed) || out == nil || !errors.Is(err, primitives.CallExecution) || failed.Message == "" ||
		!strings.HasSuffix(err.Error(), failed.Message) {
		t.Errorf("a panic: %v", err)
	}
	if _, err := s.Call(ctx, alice, "token.near", "none", nil, primitives.Balance{}); !errors.Is(err, primitives.CallMethodResolve) {
		t.Errorf("no such method: %v", err)
	}
	if _, err := s.Call(ctx, alice, "nobody.near", "none", nil, primitives.Balance{}); !errors.Is(err, primitives.ActionAccountDoesNotExist) {
		t.Errorf("no such contract: %v", err)
	}
	if err := s.View("token.near", "none", nil, nil); !errors.Is(err, primitives.CallMethodResolve) || !errors.As(err, &failed) {
		t.Errorf("no such view: %v", err)
	}
	if err := s.View("nobody.near", "none", nil, nil); !errors.Is(err, ErrNoAccount) {
		t.Errorf("a view of an unknown account: %v", err)
	}
	if _, err := s.Call(ctx, Named("nobody.near"), "token.near", "none", nil, primitives.Balance{}); !errors.Is(err, ErrNoAccount) {
		t.Errorf("a call by an unknown account: %v", err)
	}
	if _, err := s.Call(ctx, alice, "token.near", "x", func() {}, primitives.Balance{}); err == nil ||
		!strings.Contains(err.Error(), "arguments of x") {
		t.Errorf("arguments without JSON: %v", err)
	}
	var invalid *primitives.InvalidTxError
	if _, err := s.Transfer(ctx, alice, "near", primitives.NEAR(1000)); !errors.As(err, &invalid) {
		t.Errorf("more than alice has: %v", err)
	}
	if _, err := s.CallGas(ctx, token, "token.near", "ft_transfer", transfer(1), primitives.Yocto(1),
		1_000_000_000); !errors.Is(err, primitives.CallExecution) {
		t.Errorf("one gigagas: %v", err)
	}
}

// TestEventsComeFromSuccessfulReceipts: events of receipts that succeeded, with their data.
func TestEventsComeFromSuccessfulReceipts(t *testing.T) {
	s, token, _ := withToken(t, Options{})
	out, err := s.Call(t.Context(), token, "token.near", "ft_transfer", transfer(5), primitives.Yocto(1))
	if err != nil {
		t.Fatal(err)
	}
	var data []struct {
		From   string `json:"old_owner_id"`
		To     string `json:"new_owner_id"`
		Amount string
	}
	e := out.Events()
	if len(e) != 1 || e[0].Standard != "nep141" || e[0].Event != "ft_transfer" || e[0].Contract != "token.near" ||
		json.Unmarshal(e[0].Data, &data) != nil ||
		len(data) != 1 || data[0].From != "token.near" || data[0].To != "alice.near" || data[0].Amount != "5" {
		t.Errorf("events %+v of logs %q", e, out.Logs)
	}
	proof := func(kind primitives.StatusKind, logs ...string) view.OutcomeProof {
		return view.OutcomeProof{OutcomeWithID: primitives.OutcomeWithID{Outcome: primitives.Outcome{ExecutorID: "a.near", Logs: logs, Status: primitives.ExecutionStatus{Kind: kind}}}}
	}
	valid := `EVENT_JSON:{"standard":"x","version":"1","event":"y"}`
	whole := &view.FinalOutcome{Outcome: proof(primitives.StatusSuccessReceiptID), Outcomes: []view.OutcomeProof{
		proof(primitives.StatusFailure, valid), proof(primitives.StatusSuccessValue, "EVENT_JSON:{", "EVENT_JSON:[]",
			"x"+valid, `EVENT_JSON:{"event":"y"}`, " "+valid+"\n")}}
	if e := (&Outcome{Whole: whole}).Events(); len(e) != 1 || e[0].Contract != "a.near" || e[0].Version != "1" || e[0].Data != nil {
		t.Errorf("got %+v", e)
	}
}

// TestTraceAndProfileAddUpToBurntGas: a simulation has the results that the transaction then has,
// and the gas in its trace and in its profile adds up to that of the transaction.
func TestTraceAndProfileAddUpToBurntGas(t *testing.T) {
	s, token, _ := withToken(t, Options{})
	w := s.ForTest(t)
	ctx := t.Context()
	call, err := Function("ft_transfer", transfer(5), 30_000_000_000_000, primitives.Yocto(1))
	if err != nil {
		t.Fatal(err)
	}
	head := w.Head()
	would, err := w.Simulate(ctx, &Account{ID: "token.near"}, "token.near", call)
	if err != nil {
		t.Fatal(err)
	}
	if w.Head() != head || tokensOf(t, w, "alice.near") != "0" {
		t.Error("a simulation has changed the chain")
	}
	did, err := w.Send(ctx, token, "token.near", call)
	if err != nil {
		t.Fatal(err)
	}
	if did.Gas == 0 || would.Gas != did.Gas || would.Tokens != did.Tokens || did.Tokens.IsZero() ||
		fmt.Sprint(would.Events()) != fmt.Sprint(did.Events()) {
		t.Errorf("simulated %d gas for %v, events %v; executed %d, %v, %v", would.Gas, would.Tokens, would.Events(),
			did.Gas, did.Tokens, did.Events())
	}
	tr, err := w.Trace(ctx, did.Hash)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, o := range tr.Outcomes {
		calls += len(o.Calls)
	}
	if tr.Gas != uint64(did.Gas) || tr.Transaction != did.Hash.String() || calls != 1 || len(tr.Profile) == 0 {
		t.Errorf("trace: %d gas, %d calls, %d bytes of profile", tr.Gas, calls, len(tr.Profile))
	}
	p, err := w.Profile(ctx, did.Hash)
	if err != nil || p.Gas != uint64(did.Gas) || p.Transactions != 1 || len(p.Host) == 0 || len(p.Functions) == 0 {
		t.Errorf("profile: %+v, %v", p, err)
	}
	if tags, err := w.chain.Backend().Tags(); err != nil || len(tags) != 0 {
		t.Errorf("left of profiles: %v, %v", tags, err)
	}
	var failed *CallError
	call.Args = []byte(`{"receiver_id":"nobody.near","amount":"1"}`)
	if out, err := w.Simulate(ctx, token, "token.near", call); !errors.As(err, &failed) || out == nil || out.Gas == 0 {
		t.Errorf("a simulation that fails: %v", err)
	}
	if _, err := w.Trace(ctx, primitives.Hash{1}); !errors.Is(err, view.ErrUnknownTx) {
		t.Errorf("a trace of nothing: %v", err)
	}
}

// TestImpersonationStaysInItsWorlds: an account acts without its key in this world and in worlds
// created from it afterwards, and nowhere else.
func TestImpersonationStaysInItsWorlds(t *testing.T) {
	s, _, _ := withToken(t, Options{})
	ctx := t.Context()
	if _, err := s.Call(ctx, &Account{ID: "token.near"}, "token.near", "ft_transfer", transfer(1), primitives.Yocto(1)); err == nil {
		t.Error("an unsigned transaction is accepted")
	}
	w := s.ForTest(t)
	token, err := w.Impersonate("token.near")
	if err != nil {
		t.Fatal(err)
	}
	alice, err := w.Impersonate("alice.near")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*World{w, w.ForTest(t)} {
		if _, err := x.Call(ctx, token, "token.near", "ft_transfer", transfer(1), primitives.Yocto(1)); err != nil {
			t.Error(err)
		}
		if _, err := x.Transfer(ctx, alice, "near", primitives.Yocto(1)); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Call(ctx, token, "token.near", "ft_transfer", transfer(1), primitives.Yocto(1)); err == nil {
		t.Error("the parent accepts an unsigned transaction")
	}
	if _, err := w.Impersonate("nobody.near"); !errors.Is(err, ErrNoAccount) {
		t.Errorf("unknown account: %v", err)
	}
	if _, err := w.Send(ctx, alice, "alice.near", &primitives.DeleteKey{PublicKey: Named("alice.near").Key.PublicKey()}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Impersonate("alice.near"); !errors.Is(err, ErrNoKey) {
		t.Errorf("an account without keys: %v", err)
	}
	if _, err := w.AddKey(ctx, "alice.near"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Transfer(ctx, alice, "near", primitives.Yocto(1)); err != nil {
		t.Error(err)
	}
}

// TestReorganisedTransactionIsIncludedAgain: blocks leave the chain with their transactions, which
// return to the pool, and a later block includes them.
func TestReorganisedTransactionIsIncludedAgain(t *testing.T) {
	w := New(t).ForTest(t)
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "another")
	before := w.Head()
	if _, err := w.Send(t.Context(), Near(), "near", &primitives.AddKey{PublicKey: key.PublicKey()}); err != nil {
		t.Fatal(err)
	}
	removed := w.Head().Height - before.Height
	r, err := w.Reorganise(t.Context(), uint64(removed))
	if err != nil || len(r.Gone) != int(removed) {
		t.Fatalf("reorganise %d blocks: %d removed, %v", removed, len(r.Gone), err)
	}
	s, err := w.state(view.BlockRef{Kind: view.RefHash, Hash: r.Hash}, "near")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	var k primitives.AccessKey
	if found, err := s.AccessKey("near", key.PublicKey().Handle(), &k); found || err != nil {
		t.Errorf("the key that a removed block added: found %v, %v", found, err)
	}
	err = ErrNoKey
	for blocks := 0; errors.Is(err, ErrNoKey) && blocks < 50; blocks++ { // the pool gets it after the branch is the head
		if _, err := w.Mine(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		_, err = w.Transfer(t.Context(), &Account{"near", key}, "test.near", primitives.Yocto(1))
	}
	if err != nil {
		t.Errorf("transfer with the key after its transaction was included again: %v", err)
	}
	var refused *view.SandboxError
	if _, err := w.Reorganise(t.Context(), 10_000); !errors.As(err, &refused) {
		t.Errorf("reorganise all blocks: %v", err)
	}
}

func TestTransactionWaitsForMissedChunk(t *testing.T) {
	s := New(t, Options{Shards: 2})
	if err := s.MissChunks(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := s.Mine(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		_, block, err := s.chain.Backend().Block(t.Context(), view.BlockRef{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range block.Body.Chunks {
			if isNew := c.HeightIncluded == block.Header.Height; isNew != (i == 2) {
				t.Errorf("block %d, shard %d: new is %v", i, c.ShardID, isNew)
			}
		}
	}
}

// TestServedWorldIsReachable: a world is reachable with its own state and console while it runs.
func TestServedWorldIsReachable(t *testing.T) {
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Create(t.Context(), "alice.near", primitives.NEAR(5)); err != nil {
		t.Fatal(err)
	}
	root, err := s.Serve("")
	if err != nil {
		t.Fatal(err)
	}
	after, err := before.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	get := func(url string) (int, string) {
		r, err := http.Get(url)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = r.Body.Close() }()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(b)
	}
	for _, c := range []struct {
		of    *World
		alice bool
	}{{s.World, false}, {before, true}, {after, true}} {
		url, err := c.of.Serve("")
		if err != nil || !strings.HasPrefix(url, root) {
			t.Fatalf("url %s, error %v", url, err)
		}
		if code, body := get(url + "/console/"); code != http.StatusOK || !strings.Contains(body, "<html") {
			t.Errorf("%s/console/: %d %.80s", url, code, body)
		}
		r, err := http.Post(url, "application/json",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"request_type":"view_account","finality":"optimistic","account_id":"alice.near"}}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if strings.Contains(string(body), `"amount":"5000000000000000000000000"`) != c.alice {
			t.Errorf("%s: reply %s", url, body)
		}
	}
	if _, err := s.Serve("256.0.0.1:1"); err != nil {
		t.Errorf("the address counts only at first: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code, body := get(root + "/status"); code != 0 {
		t.Errorf("after Close: %d %s", code, body)
	}
	if _, err := s.Serve(""); !errors.Is(err, ErrEnded) {
		t.Errorf("Serve after Close: %v", err)
	}
	other := New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := other.Serve(l.Addr().String()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("a port in use: %v", err)
	}
	if _, err := other.Serve(""); err != nil {
		t.Error(err)
	}
}

// TestEndedWorldReturnsErrEnded: everything of a world that has ended, and of a closed sandbox, is
// ErrEnded.
func TestEndedWorldReturnsErrEnded(t *testing.T) {
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if err := w.End(); err != nil {
		t.Errorf("ended twice: %v", err)
	}
	all := func(what string, w *World) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i, f := range []func() error{
			func() error { _, err := w.New(ctx); return err },
			func() error { _, err := w.Create(ctx, "alice.near", primitives.NEAR(1)); return err },
			func() error { _, err := w.Balance("near"); return err },
			func() error { _, err := w.Transfer(ctx, Near(), "test.near", primitives.NEAR(1)); return err },
			func() error { return w.View("near", "x", nil, nil) },
			func() error { _, err := w.Mine(ctx, 1); return err },
			func() error { _, err := w.Now(ctx); return err },
			func() error { return w.Snapshot(ctx, "x") },
			func() error { _, err := w.Impersonate("near"); return err },
			func() error { _, err := w.Trace(ctx, primitives.Hash{}); return err },
			func() error { _, err := w.Profile(ctx, primitives.Hash{}); return err },
			func() error { _, err := w.Simulate(ctx, Near(), "test.near"); return err },
			func() error { _, err := w.Reorganise(ctx, 1); return err },
			func() error { return w.MissChunks(ctx, 1) },
			func() error { _, err := w.Serve(""); return err },
		} {
			if err := f(); !errors.Is(err, ErrEnded) {
				t.Errorf("%s, call %d: %v", what, i, err)
			}
		}
	}
	all("a world", w)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all("the chain", s.World)
}

// asTest makes this program run tests that end badly; see TestEndedProcessLeavesNoFiles.
const asTest = "TROUPE_SANDBOX_ENDS"

// TestEndsBadly ends this process while sandboxes run.
func TestEndsBadly(t *testing.T) {
	how := os.Getenv(asTest)
	if how == "" {
		t.Skip("TestEndedProcessLeavesNoFiles runs it in a process of its own")
	}
	s, token, _ := withToken(t, Options{})
	w := s.ForTest(t)
	if _, err := w.Call(t.Context(), token, "token.near", "ft_transfer", transfer(1), primitives.Yocto(1)); err != nil {
		t.Fatal(err)
	}
	if how == "exit" {
		os.Exit(3)
	}
	panic("in the middle of a test")
}

// TestEndedProcessLeavesNoFiles: a process that ends in the middle of a test, by a panic or by
// os.Exit, leaves no file in the temporary folder, and neither does one that closes its sandboxes.
func TestEndedProcessLeavesNoFiles(t *testing.T) {
	for _, how := range []string{"exit", "panic"} {
		temp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestEndsBadly$", "-test.v")
		cmd.Env = append(os.Environ(), asTest+"="+how, "TMPDIR="+temp)
		out, err := cmd.CombinedOutput()
		want := map[string]string{"exit": "exit status 3", "panic": "exit status 2"}[how]
		if err == nil || err.Error() != want || how == "panic" && !strings.Contains(string(out), "in the middle of a test") {
			t.Errorf("%s: ends with %v, want %s\n%s", how, err, want, out)
		}
		if left, err := filepath.Glob(temp + "/*"); err != nil || len(left) > 0 {
			t.Errorf("%s: left: %v, %v", how, left, err)
		}
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(temp + "/*"); err != nil || len(left) > 0 {
		t.Errorf("while it runs: %v, %v", left, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// recorder is a TB that records what New does with it.
type recorder struct {
	testing.TB
	cleanups []func()
	fatal    string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	panic(r)
}

// TestNewFailsTheTestWithReason: New ends a test whose sandbox does not start, and says why.
func TestNewFailsTheTestWithReason(t *testing.T) {
	for want, options := range map[string][]Options{"Options.Shards is -1": {{Shards: -1}}, "2 Options": {{}, {}}} {
		r := &recorder{TB: t}
		func() {
			defer func() {
				if x := recover(); x != any(r) {
					t.Errorf("%s: got %v", want, x)
				}
			}()
			New(r, options...)
		}()
		if !strings.Contains(r.fatal, want) || len(r.cleanups) != 0 {
			t.Errorf("%q, %d cleanups, want %q", r.fatal, len(r.cleanups), want)
		}
	}
}
