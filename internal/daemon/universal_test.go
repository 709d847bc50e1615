package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// universalOf returns the state init of a universal account with one key, and a file of that key.
func universalOf(t *testing.T, seed string, data ...primitives.StateEntry) (primitives.RawStateInit, *primitives.KeyFile) {
	t.Helper()
	key := primitives.SecretKeyFromSeed(primitives.ED25519, seed)
	s := primitives.UniversalStateInitV1{AccessKeys: []primitives.PublicKeyHandle{key.PublicKey().Handle()}, Data: data}
	return s.Encode(), &primitives.KeyFile{AccountID: s.DerivedAccount(), SecretKey: key}
}

// uninitializedAccount is the reply of view_account for an uninitialized account.
type uninitializedAccount struct {
	Amount, State string
	Nonce         *primitives.Nonce `json:"bootstrap_nonce"`
}

func viewUninitialized(t *testing.T, h *Daemon, id primitives.AccountID) (b uninitializedAccount) {
	t.Helper()
	if f := rpcOf(t, h, "query", fmt.Sprintf(`{"request_type":"view_account","finality":"optimistic","account_id":%q}`, id), &b); f != "" {
		t.Fatal(f)
	}
	return b
}

// TestUniversalAccountIsServedByRPC runs the first transaction of a universal account through the
// methods that read, simulate, trace, dump and replay it, before and after a restart and a revert.
func TestUniversalAccountIsServedByRPC(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	defer func() { stop(t, h) }()
	a := newActors(t, h, []primitives.AccountID{"alice.near"}, nil)
	raw, key := universalOf(t, "u")
	id := key.AccountID
	a.send("alice.near", id, &primitives.Transfer{Deposit: primitives.NEAR(5)})
	b := viewUninitialized(t, h, id)
	if b.State != "uninitialized" || b.Nonce == nil {
		t.Fatalf("got %+v", b)
	}
	var reply json.RawMessage
	for _, q := range []struct{ kind, want, alone string }{
		{"view_access_key_list", `"keys":[]`, `"keys":[]`}, {"view_state", `"values":[]`, `"values":[]`},
		{"view_code", "NO_CONTRACT_CODE", "NO_CONTRACT_CODE"}, {"view_account", `"state":"uninitialized"`, `"state":"uninitialized"`},
		{"call_function", "CodeDoesNotExist", "CONTRACT_EXECUTION_ERROR"}, {"view_access_key", "does not exist", "UNKNOWN_ACCESS_KEY"},
		{"view_gas_key_nonces", "UNKNOWN_GAS_KEY", "UNKNOWN_GAS_KEY"},
	} {
		t.Run(q.kind, func(t *testing.T) {
			for _, at := range []string{`"finality":"optimistic"`, fmt.Sprintf(`"block_id":%d`, h.Engine.Head().Height())} {
				rest := fmt.Sprintf(`%s,"account_id":%q,"prefix_base64":"","method_name":"x","args_base64":"","public_key":%q}`, at, id, key.SecretKey.PublicKey())
				fault := rpcOf(t, h, "query", fmt.Sprintf(`{"request_type":%q,"include_proof":true,`, q.kind)+rest, &reply)
				if got := fault + string(reply); !strings.Contains(got, q.want) {
					t.Errorf("%s, %s: got %s", q.kind, at, got)
				}
				fault = rpcOf(t, h, "EXPERIMENTAL_"+q.kind, "{"+rest, &reply)
				if got := fault + string(reply); !strings.Contains(got, q.alone) {
					t.Errorf("EXPERIMENTAL_%s, %s: %s", q.kind, at, got)
				}
			}
		})
	}
	for method, params := range map[string]string{
		"sandbox_set_key": fmt.Sprintf(`[%q,%q]`, id, a.key.SecretKey.PublicKey()), "sandbox_set_code": fmt.Sprintf(`[%q,"AA=="]`, id),
		"sandbox_set_storage": fmt.Sprintf(`[%q,"aw==","dg=="]`, id), "sandbox_deal": fmt.Sprintf(`[%q,"alice.near","5"]`, id),
	} {
		if f := rpcOf(t, h, method, params, &reply); f == "" {
			t.Errorf("%s of an uninitialized account is done: %s", method, reply)
		}
	}
	done(t, h, "sandbox_set_balance", fmt.Sprintf(`[%q,"6000000000000000000000000"]`, id))
	if got := viewUninitialized(t, h, id); got.State != "uninitialized" || got.Amount != "6000000000000000000000000" || *got.Nonce != *b.Nonce {
		t.Errorf("after sandbox_set_balance: %+v, before %+v", got, b)
	}
	must(t, h, "sandbox_snapshot", `{"name":"bare"}`)
	first := draft(h, key, *b.Nonce+1, id, &primitives.UniversalStateInit{Init: raw, Deposit: primitives.NEAR(1)})
	signed, hash := encode(first, key)
	nonceKey := func(want []byte) {
		t.Helper()
		if got := h.Engine.NonceKey(primitives.NewSignedTransaction(first, primitives.ZeroED25519Signature)); !bytes.Equal(got, want) {
			t.Errorf("its nonce is in row %x, want %x", got, want)
		}
	}
	nonceKey(primitives.AppendAccountKey(nil, id))
	for _, nonce := range []primitives.Nonce{0, *b.Nonce, *b.Nonce + 2, ^primitives.Nonce(0)} {
		wrong, _ := encode(draft(h, key, nonce, id, &primitives.UniversalStateInit{Init: raw}), key)
		if e := askError(t, h, "send_tx", map[string]any{"signed_tx_base64": wrong, "wait_until": "FINAL"}); !strings.Contains(e, "InvalidNonce") {
			t.Errorf("nonce %d: %s", nonce, e)
		}
	}
	var status txStatus
	if cause := ask(t, h, "EXPERIMENTAL_simulate_tx", map[string]any{"signed_tx_base64": signed}, &status); cause != "" {
		t.Errorf("simulate: %s", cause)
	}
	if f := rpcOf(t, h, "EXPERIMENTAL_trace_tx", fmt.Sprintf(`{"signed_tx_base64":%q}`, signed), &reply); f != "" {
		t.Errorf("trace of a simulation: %s", f)
	}
	send := func(what string) {
		t.Helper()
		if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &status); cause != "" || !strings.HasPrefix(string(status.Status), `{"SuccessValue"`) {
			t.Errorf("%s: error %s, status %s", what, cause, status.Status)
		}
	}
	send("first")
	if got := viewUninitialized(t, h, id); got.State != "" || got.Nonce != nil {
		t.Errorf("initialized: %+v", got)
	}
	nonceKey(primitives.AppendAccessKeyKey(nil, id, key.SecretKey.PublicKey().Handle()))
	send("the same bytes again")
	var file json.RawMessage
	var c caseFile
	dump := func() {
		t.Helper()
		if f := rpcOf(t, h, "sandbox_dump_transaction", fmt.Sprintf(`[%q]`, hash), &file); f != "" {
			t.Errorf("dump: %s", f)
		} else if err := json.Unmarshal(file, &c); err != nil || !c.Same {
			t.Errorf("dump: %v, %s", err, c.Differs)
		}
	}
	dump()
	for _, p := range [][2]string{
		{"EXPERIMENTAL_trace_tx", fmt.Sprintf(`["%v",%q]`, hash, id)}, {"EXPERIMENTAL_tx_status", fmt.Sprintf(`["%v",%q]`, hash, id)},
		{"EXPERIMENTAL_receipt_to_tx", fmt.Sprintf(`{"receipt_id":%q}`, status.Receipts[0].ID)},
		{"EXPERIMENTAL_receipt", fmt.Sprintf(`{"receipt_id":%q}`, status.Receipts[0].ID)},
		{"EXPERIMENTAL_changes", fmt.Sprintf(`{"changes_type":"account_changes","account_ids":[%q],"block_id":%d}`, id, h.Engine.Head().Height())},
	} {
		if f := rpcOf(t, h, p[0], p[1], &reply); f != "" {
			t.Errorf("%s: error %s", p[0], f)
		}
	}
	fresh := mustStart(t, made(t))
	defer stop(t, fresh)
	for range 2 {
		var r replayed
		if f := rpcOf(t, fresh, "sandbox_replay_transaction", `{"replace":true,`+string(file[1:]), &r); f != "" || !r.Same {
			t.Errorf("replay: %s, %+v", f, r)
		}
	}
	must(t, h, "sandbox_revert", `{"id":"bare"}`)
	if got := viewUninitialized(t, h, id); got.State != "uninitialized" {
		t.Errorf("after a revert: %+v", got)
	}
	send("after a revert")
	stop(t, h)
	h = mustStart(t, dir)
	send("after a restart")
	dump()
	if got := viewUninitialized(t, h, id); got.State != "" {
		t.Errorf("after a restart: %+v", got)
	}
}
