package daemon

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/primitives"
)

// TestForkDumpReplaysOnPlainSandbox: the dump of a fork's transaction includes the state it touches
// of the remote chain, so that it replays on a plain sandbox: a call over two contracts, and the
// removal of an account with unread keys and data.
func TestForkDumpReplaysOnPlainSandbox(t *testing.T) {
	u := newUpstream(t)
	h := startFork(t, newFork(t, fmt.Sprintf("%s@tx:%v", u.url(), u.hash), fork.Options{}), nil)
	defer stop(t, h)
	fresh := mustStart(t, made(t))
	defer stop(t, fresh)
	run := func(signed string, hash primitives.Hash) (file json.RawMessage, c caseFile) {
		t.Helper()
		var sent string
		if cause := ask(t, h, "broadcast_tx_async", []string{signed}, &sent); cause != "" {
			t.Fatal(cause)
		}
		done(t, h, "sandbox_mine", fmt.Sprintf(`{"until":"%v"}`, hash))
		if f := rpcOf(t, h, "sandbox_dump_transaction", fmt.Sprintf(`[%q]`, hash), &file); f != "" {
			t.Fatal(f)
		}
		if err := json.Unmarshal(file, &c); err != nil {
			t.Fatal(err)
		}
		if !c.Same {
			t.Errorf("on a plain sandbox the replay differs: %s", c.Differs)
		}
		for range 2 {
			var r replayed
			if f := rpcOf(t, fresh, "sandbox_replay_transaction", `{"replace":true,`+string(file[1:]), &r); f != "" {
				t.Fatal(f)
			}
			if !r.Same {
				t.Errorf("on another sandbox: %s", r.Differs)
			}
		}
		return file, c
	}
	file, c := run(u.tx, u.hash)
	if len(c.Outcomes) < 4 || len(c.Records) < 8 || len(c.Records) > 20 {
		t.Errorf("%d outcomes, %d records", len(c.Outcomes), len(c.Records))
	}
	// key under which the token stores a balance
	of := func(who string) string { return base64.StdEncoding.EncodeToString([]byte("a" + who)) }
	for part, want := range map[string]bool{of("test.near"): true, of(defi): true, `"account_id":"near"`: false} {
		if strings.Contains(string(file), part) != want {
			t.Errorf("the dump contains %s: %v", part, !want)
		}
	}
	var key struct{ Nonce primitives.Nonce }
	if cause := ask(t, h, "query", map[string]any{"request_type": "view_access_key", "finality": "optimistic", "account_id": token, "public_key": u.key.PublicKey().String()}, &key); cause != "" {
		t.Fatal(cause)
	}
	tx := draft(h, u.key, key.Nonce+1, token, &primitives.AddKey{PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, "another").PublicKey()},
		&primitives.DeleteAccount{Beneficiary: "test.near"})
	tx.SignerID = token
	file, c = run(encode(tx, u.key))
	if n := strings.Count(string(file), `"AccessKey"`); n != 1 {
		t.Errorf("%d keys of an account, want 1", n)
	}
	if len(c.Outcomes) != 2 || !strings.Contains(string(file), of(defi)) {
		t.Errorf("the removal: %d outcomes, %s", len(c.Outcomes), file)
	}
}

// TestWorldOfForkKeepsItsRemoteView: a world of a fork shows its parent's view of the remote chain,
// also state not read before. Later changes to the fork's accounts in the parent never show in it.
func TestWorldOfForkKeepsItsRemoteView(t *testing.T) {
	u := newUpstream(t)
	h := startFork(t, newFork(t, u.url(), fork.Options{}), nil)
	defer stop(t, h)
	top := siteOf(t, h)
	in := top.in(top.world(`{}`))
	balanceIn := func(s chainClient) string {
		t.Helper()
		args := base64.StdEncoding.EncodeToString([]byte(`{"account_id":"` + defi + `"}`))
		var out struct{ Result []int }
		if f := s.call("query", `{"request_type":"call_function","finality":"optimistic","account_id":"`+token+`","method_name":"ft_balance_of","args_base64":"`+args+`"}`, &out); f != "" {
			return f
		}
		var text []byte
		for _, c := range out.Result {
			text = append(text, byte(c))
		}
		return strings.Trim(string(text), `"`)
	}
	if got := balanceIn(in); got != "100" {
		t.Errorf("%s has %s in the world", defi, got)
	}
	var none struct{}
	if f := in.call("sandbox_deal", `["`+token+`","`+defi+`","9"]`, &none); f != "" {
		t.Fatal(f)
	}
	if here, there := balanceIn(in), balance(t, h, defi); here != "9" || there != "100" {
		t.Errorf("%s has %s in the world and %s in its parent", defi, here, there)
	}
	for _, what := range []string{"reset", "cut", "live"} {
		f := in.call("sandbox_fork", `{"`+what+`":["`+token+`"]}`, &none)
		if !strings.HasPrefix(f, "SANDBOX_REFUSED") || !strings.Contains(f, "from its parent") {
			t.Errorf("%s in a world: %q", what, f)
		}
	}
	if balanceIn(in) != "9" {
		t.Error("a refused request had an effect")
	}
	u.send(t, token, call("ft_transfer", `{"receiver_id":"`+defi+`","amount":"5"}`, primitives.Yocto(1)))
	forkStatusOf(t, h, map[string]any{"live": []string{token}})
	if here, there := balanceIn(in), balance(t, h, defi); here != "9" || there != "105" {
		t.Errorf("live at the parent: %s in the world and %s in its parent", here, there)
	}
	var s struct {
		Height uint64 `json:"block_height"`
		Live   []string
	}
	if f := in.call("sandbox_fork", `null`, &s); f != "" || s.Height != forkStatusOf(t, h, nil).Height || len(s.Live) != 0 {
		t.Errorf("the fork as a world reports it: %+v, %s", s, f)
	}
	later := top.in(top.world(`{}`))
	forkStatusOf(t, h, map[string]any{"cut": []string{token}})
	if got := balance(t, h, defi); got == "105" {
		t.Errorf("balance after the account was cut off: %s", got)
	}
	if got := balanceIn(later); got != "105" {
		t.Errorf("a world of before has %s", got)
	}
}
