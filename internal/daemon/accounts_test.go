package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
)

// done posts a request and expects the result {}.
func done(t *testing.T, h *Daemon, method, params string) {
	t.Helper()
	must(t, h, method, params)
}

// TestSetAccountsTakesEffectBeforeReply: when the reply arrives, balance, code, keys and values of
// accounts are those that were set, or removed with null and "remove". Invalid values are refused
// with the reason.
func TestSetAccountsTakesEffectBeforeReply(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	view := func(request string) (got struct {
		Amount, CodeHash string
		Code             string `json:"code_base64"`
		Values           []struct{ Key, Value string }
		Keys             []struct {
			PublicKey string                 `json:"public_key"`
			AccessKey struct{ Nonce uint64 } `json:"access_key"`
		}
		fault string
	}) {
		t.Helper()
		got.fault = rpcOf(t, h, "query", `{"finality":"optimistic","account_id":"new.near",`+request+`}`, &got)
		return got
	}
	done(t, h, "sandbox_set_balance", `{"account_id":"new.near","amount":"5000000000000000000000000"}`)
	if got := view(`"request_type":"view_account"`); got.Amount != "5000000000000000000000000" {
		t.Errorf("got %+v", got)
	}
	const key = "ed25519:5BGSaf6YjVm7565VzWQHNxoyEjwr3jUpRJSGjREvU9dB"
	done(t, h, "sandbox_set_key", `["new.near","`+key+`",7]`)
	if got := view(`"request_type":"view_access_key_list"`); len(got.Keys) != 1 || got.Keys[0].PublicKey != key || got.Keys[0].AccessKey.Nonce != 7 {
		t.Errorf("got %+v", got)
	}
	done(t, h, "sandbox_set_key", `{"account_id":"new.near","public_key":"`+key+`","remove":true}`)
	if got := view(`"request_type":"view_access_key_list"`); len(got.Keys) != 0 {
		t.Errorf("got %+v", got)
	}
	done(t, h, "sandbox_set_code", `["new.near","bm8gd2FzbQ=="]`)
	if got := view(`"request_type":"view_code"`); got.Code != "bm8gd2FzbQ==" {
		t.Errorf("got %+v", got)
	}
	done(t, h, "sandbox_set_storage", `["new.near","aw==","dg=="]`)
	if got := view(`"request_type":"view_state","prefix_base64":""`); len(got.Values) != 1 || got.Values[0].Key != "aw==" || got.Values[0].Value != "dg==" {
		t.Errorf("got %+v", got)
	}
	done(t, h, "sandbox_set_storage", `{"account_id":"new.near","key_base64":"aw==","value_base64":null}`)
	done(t, h, "sandbox_set_code", `{"account_id":"new.near","code_base64":null}`)
	if got := view(`"request_type":"view_state","prefix_base64":""`); len(got.Values) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := view(`"request_type":"view_code"`); !strings.HasPrefix(got.fault, "NO_CONTRACT_CODE") {
		t.Errorf("got %+v", got)
	}
	done(t, h, "sandbox_set_balance", `{"account_id":"test.near","amount":"1"}`)
	var none struct{}
	for params, want := range map[string]string{
		`{"account_id":"nobody.near","code_base64":""}`: "SANDBOX_REFUSED: the records cannot be written into the state: record 0 of account nobody.near: the account does not exist",
		`{"account_id":"new.near"}`:                     "missing field `code_base64`",
	} {
		if f := rpcOf(t, h, "sandbox_set_code", params, &none); !strings.Contains(f, want) {
			t.Errorf("%s: error %s", params, f)
		}
	}
}

// TestLoadStateRestoresDumpedAccounts: sandbox_load_state restores the accounts that
// sandbox_dump_state returned, whatever was changed in between. A dump can be of all accounts, and
// of an earlier height.
func TestLoadStateRestoresDumpedAccounts(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	done(t, h, "sandbox_patch_state", strings.Replace(dumpPatch, `,
	{"ReceivedData":{"account_id":"new.near","data_id":"4reLvkAWfqk5fsqio1KLudk46cqRz9erQdaHkWZKMJDZ","data":"AQI="}}`, "", 1))
	dump := func(params string) (records string, height uint64) {
		t.Helper()
		var got struct {
			Records json.RawMessage
			Height  uint64
		}
		if f := rpcOf(t, h, "sandbox_dump_state", params, &got); f != "" {
			t.Fatal(f)
		}
		return string(got.Records), got.Height
	}
	before, height := dump(`{"account_ids":["new.near"]}`)
	if strings.Count(before, `"account_id":"new.near"`) != 4 || strings.Contains(before, `"test.near"`) {
		t.Fatal(before)
	}
	done(t, h, "sandbox_set_storage", `["new.near","b3RoZXI=","dg=="]`)
	done(t, h, "sandbox_set_key", `["new.near","ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr"]`)
	done(t, h, "sandbox_set_balance", `["new.near","1"]`)
	done(t, h, "sandbox_set_code", `["new.near",null]`)
	if now, _ := dump(`[["new.near"]]`); now == before {
		t.Error("nothing has changed")
	}
	done(t, h, "sandbox_load_state", `{"records":`+before+`}`)
	if now, _ := dump(`[["new.near"]]`); now != before {
		t.Errorf("loaded state\n%s\nwant\n%s", now, before)
	}
	if then, _ := dump(fmt.Sprintf(`{"account_ids":["new.near"],"height":%d}`, height)); then != before {
		t.Errorf("at height %d\n%s\nwant\n%s", height, then, before)
	}
	if all, _ := dump(`null`); strings.Count(all, `{"Account":`) != 4 {
		t.Errorf("the whole dump is\n%s", all)
	}
	var none struct{}
	if f := rpcOf(t, h, "sandbox_dump_state", `{"height":123456789}`, &none); !strings.HasPrefix(f, "SANDBOX_REFUSED: there is no block at height 123456789") {
		t.Error(f)
	}
}

// TestOnlyImpersonatedAccountsNeedNoSignature: an unsigned transaction is accepted from the named
// accounts only, and not before or after.
func TestOnlyImpersonatedAccountsNeedNoSignature(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	key := h.home.ValidatorKey
	send := func(nonce primitives.Nonce) string {
		t.Helper()
		unsigned, _ := encode(draft(h, key, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), nil)
		var status txStatus
		return ask(t, h, "send_tx", map[string]any{"signed_tx_base64": unsigned, "wait_until": "EXECUTED_OPTIMISTIC"}, &status)
	}
	if got := send(1); !strings.Contains(got, "INVALID_TRANSACTION") {
		t.Errorf("before: %q", got)
	}
	done(t, h, "sandbox_impersonate", `{"account_ids":["near"]}`)
	if got := send(1); !strings.Contains(got, "INVALID_TRANSACTION") {
		t.Errorf("of another: %q", got)
	}
	done(t, h, "sandbox_impersonate", `[["near","test.near"]]`)
	if got := send(1); got != "" {
		t.Errorf("of test.near: %q", got)
	}
	base := must(t, h, "sandbox_snapshot", `null`)
	done(t, h, "sandbox_impersonate", `{"all":true}`)
	if got := send(2); got != "" {
		t.Errorf("of all: %q", got)
	}
	done(t, h, "sandbox_impersonate", `{}`)
	if got := send(3); !strings.Contains(got, "INVALID_TRANSACTION") {
		t.Errorf("after: %q", got)
	}
	must(t, h, "sandbox_revert", fmt.Sprintf("[%q]", base.ID))
	if got := send(2); !strings.Contains(got, "INVALID_TRANSACTION") { // the same as was taken of all
		t.Errorf("after, the same: %q", got)
	}
}

// TestDealtBalanceIsThatOfTheToken: ft_balance_of returns the dealt balance, also for an account
// that the token did not know. A contract that is not a token is refused.
func TestDealtBalanceIsThatOfTheToken(t *testing.T) {
	h := mustStart(t, made(t))
	defer stop(t, h)
	done(t, h, "sandbox_set_balance", `["token.near","50000000000000000000000000"]`)
	var none struct{}
	if f := rpcOf(t, h, "sandbox_deal", `["token.near","alice.near","5"]`, &none); !strings.HasPrefix(f, "SANDBOX_REFUSED: the token balance cannot be set: calling ft_balance_of of token.near failed: ") || strings.Contains(f, "nil") {
		t.Errorf("no token: %s", f)
	}
	if f := rpcOf(t, h, "sandbox_deal", `["nobody.near","alice.near","5"]`, &none); !strings.HasPrefix(f, "SANDBOX_REFUSED: the token balance cannot be set: the token's account nobody.near does not exist") {
		t.Errorf("unknown account: %s", f)
	}
	done(t, h, "sandbox_set_code", fmt.Sprintf(`["token.near",%q]`, base64.StdEncoding.EncodeToString(contracts.C("ft"))))
	for _, amount := range []string{"123456789012345678901234567890", "7", "0"} {
		done(t, h, "sandbox_deal", fmt.Sprintf(`{"token_id":"token.near","account_id":"alice.near","amount":%q}`, amount))
		var got struct{ Result []byte }
		var raw struct{ Result []int }
		if f := rpcOf(t, h, "query", `{"request_type":"call_function","finality":"optimistic","account_id":"token.near","method_name":"ft_balance_of","args_base64":"`+
			base64.StdEncoding.EncodeToString([]byte(`{"account_id":"alice.near"}`))+`"}`, &raw); f != "" {
			t.Fatal(f)
		}
		for _, c := range raw.Result {
			got.Result = append(got.Result, byte(c))
		}
		if string(got.Result) != `"`+amount+`"` {
			t.Errorf("ft_balance_of returned %s, want %s", got.Result, amount)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (sandboxControl{&h.Instance}).Deal(gone, "token.near", "alice.near", primitives.Yocto(9)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the client has disconnected: %v", err)
	}
	done(t, h, "sandbox_set_code", fmt.Sprintf(`["token.near",%q]`, base64.StdEncoding.EncodeToString(readsMany())))
	if f := rpcOf(t, h, "sandbox_deal", `["token.near","alice.near","5"]`, &none); !strings.HasPrefix(f, "SANDBOX_REFUSED: the token balance cannot be set: ft_balance_of of token.near reads more than 64 storage values") {
		t.Errorf("a token that reads many values: %s", f)
	}
}

// readsMany is a token with an ft_balance_of that reads seventy values and returns 0.
func readsMany() []byte {
	m := &wasmasm.Module{}
	i64s := func(n int) []wasmasm.ValType { return slices.Repeat([]wasmasm.ValType{wasmasm.I64}, n) }
	read := m.Import("env", "storage_read", i64s(3), i64s(1))
	value := m.Import("env", "value_return", i64s(2), nil)
	m.Memory(1, -1)
	m.Data(new(wasmasm.Code).I32(1000), []byte(`"0"`))
	f := m.Func(nil, nil)
	for n := range int64(70) {
		f.I64(n + 1).I64(0).I64(0).Call(read).Op(wasmasm.Drop)
	}
	f.I64(3).I64(1000).Call(value)
	m.ExportFunc("ft_balance_of", f)
	return m.Encode()
}
