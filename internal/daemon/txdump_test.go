package daemon

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// actors are accounts of a sandbox that share a key.
type actors struct {
	t     *testing.T
	h     *Daemon
	key   *primitives.KeyFile
	nonce primitives.Nonce
}

// newActors creates accounts with the validator's key. code deploys contracts to some of them.
func newActors(t *testing.T, h *Daemon, names []primitives.AccountID, code map[primitives.AccountID][]byte) *actors {
	t.Helper()
	a := &actors{t: t, h: h, key: h.home.ValidatorKey}
	for _, name := range names {
		done(t, h, "sandbox_set_balance", fmt.Sprintf(`[%q,"100000000000000000000000000"]`, name))
		done(t, h, "sandbox_set_key", fmt.Sprintf(`[%q,%q]`, name, a.key.SecretKey.PublicKey()))
		if code[name] != nil {
			done(t, h, "sandbox_set_code", fmt.Sprintf(`[%q,%q]`, name, base64.StdEncoding.EncodeToString(code[name])))
		}
	}
	return a
}

// send sends actions of an account and returns the result.
func (a *actors) send(from, to primitives.AccountID, actions ...primitives.Action) (primitives.Hash, txStatus) {
	a.t.Helper()
	a.nonce++
	tx := draft(a.h, a.key, a.nonce, to, actions...)
	tx.SignerID = from
	signed, hash := encode(tx, a.key)
	var got txStatus
	if cause := ask(a.t, a.h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &got); cause != "" {
		a.t.Fatalf("%s to %s: %s", from, to, cause)
	}
	return hash, got
}

// calls is send of a call that succeeds.
func (a *actors) calls(from, to primitives.AccountID, method, args string, deposit primitives.Balance) (primitives.Hash, txStatus) {
	a.t.Helper()
	hash, got := a.send(from, to, &primitives.FunctionCall{Method: method, Args: []byte(args), Gas: 200e12, Deposit: deposit})
	if !strings.HasPrefix(string(got.Status), `{"SuccessValue"`) {
		a.t.Fatalf("%s of %s: %s", method, to, got.Status)
	}
	return hash, got
}

const newToken = `{"owner_id":"alice.near","total_supply":"1000","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`

// tokenWorld creates a token with holders, and a contract that receives it.
func tokenWorld(t *testing.T, h *Daemon) *actors {
	t.Helper()
	a := newActors(t, h, []primitives.AccountID{"alice.near", "bob.near", "token.near", "defi.near"},
		map[primitives.AccountID][]byte{"token.near": contracts.C("ft"), "defi.near": contracts.C("defi")})
	a.calls("alice.near", "token.near", "new", newToken, primitives.Balance{})
	for _, who := range []string{"bob.near", "defi.near"} {
		a.calls("alice.near", "token.near", "storage_deposit", fmt.Sprintf(`{"account_id":%q}`, who), primitives.MustParseBalance("10000000000000000000000"))
	}
	a.calls("alice.near", "token.near", "ft_transfer", `{"receiver_id":"bob.near","amount":"7"}`, primitives.Yocto(1))
	return a
}

// caseFile is the reply of sandbox_dump_transaction.
type caseFile struct {
	Records  []map[string]struct{ AccountID, DataKey string }
	Absent   []string
	Outcomes []struct {
		Executor string `json:"executor_id"`
		Gas      uint64 `json:"gas_burnt"`
		Nodes    uint64 `json:"gas_trie_nodes"`
		Status   json.RawMessage
	}
	Mocked  []string `json:"mocked_verification"`
	Same    bool
	Differs string
	Height  uint64
}

type replayed struct {
	Hash    string `json:"tx_hash"`
	Same    bool
	Differs string
}

// shapeOf returns the parts of a transaction's status that are the same on every chain.
func shapeOf(s *txStatus) (out []string) {
	out = append(out, string(s.Status))
	for _, r := range s.Receipts {
		status := string(r.Outcome.Status)
		if strings.Contains(status, "SuccessReceiptId") {
			status = "receipt"
		}
		out = append(out, status)
	}
	return out
}

// TestDumpedTransactionReplaysTheSame: the dump of a call over three contracts with promises
// contains exactly the entries that it touches, with their values before the block, although later
// blocks changed them. On a fresh sandbox of any production mode the replay has the same result
// each time. With another state the reply says what differs. The same holds for transactions that
// create an account, call global code, or fail.
func TestDumpedTransactionReplaysTheSame(t *testing.T) {
	a := mustStart(t, made(t))
	defer stop(t, a)
	world := tokenWorld(t, a)
	hash, was := world.calls("alice.near", "token.near", "ft_transfer_call", `{"receiver_id":"defi.near","amount":"100","msg":"promise:30"}`, primitives.Yocto(1))
	if len(was.Receipts) < 4 {
		t.Fatalf("%d receipts", len(was.Receipts))
	}
	made1, _ := world.send("alice.near", "sub.alice.near", &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(1)})
	world.send("alice.near", "alice.near", &primitives.DeployGlobalContract{Code: contracts.C("ft"), Mode: primitives.GlobalByCodeHash})
	must(t, a, "sandbox_mine", `[5]`)
	world.send("bob.near", "bob.near", &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: primitives.HashBytes(contracts.C("ft"))}})
	global, _ := world.calls("alice.near", "bob.near", "new", newToken, primitives.Balance{})
	failed, _ := world.send("alice.near", "bob.near", &primitives.FunctionCall{Method: "new", Args: []byte(newToken), Gas: 100e12})
	world.calls("alice.near", "token.near", "ft_transfer", `{"receiver_id":"bob.near","amount":"500"}`, primitives.Yocto(1))
	dump := func(hash primitives.Hash) (file json.RawMessage, c caseFile) {
		t.Helper()
		if f := rpcOf(t, a, "sandbox_dump_transaction", fmt.Sprintf(`{"tx_hash":%q}`, hash), &file); f != "" {
			t.Fatal(f)
		}
		if err := json.Unmarshal(file, &c); err != nil {
			t.Fatal(err)
		}
		if !c.Same {
			t.Errorf("on a plain sandbox the replay differs: %s", c.Differs)
		}
		return file, c
	}
	file, c := dump(hash)
	text := string(file)
	for part, want := range map[string]bool{
		`"account_id":"alice.near"`: true, `"account_id":"token.near"`: true, `"account_id":"defi.near"`: true, `"account_id":"near"`: false,
		`"account_id":"bob.near"`: false, base64.StdEncoding.EncodeToString([]byte("abob.near")): false,
		base64.StdEncoding.EncodeToString([]byte("aalice.near")): true,
	} {
		if strings.Contains(text, part) != want {
			t.Errorf("the dump contains %s: %v", part, !want)
		}
	}
	if n := len(c.Records); n < 8 || n > 20 {
		t.Errorf("%d records", n)
	}
	fresh := mustStart(t, made(t))
	defer stop(t, fresh)
	byHand := manual(t, made(t))
	defer stop(t, byHand)
	replay := func(h *Daemon, file json.RawMessage) (r replayed) {
		t.Helper()
		file = append(json.RawMessage(`{"replace":true,`), file[1:]...)
		if f := rpcOf(t, h, "sandbox_replay_transaction", string(file), &r); f != "" {
			t.Fatal(f)
		}
		return r
	}
	var hashes []string
	for i, h := range []*Daemon{fresh, fresh, byHand} {
		r := replay(h, file)
		if !r.Same || slices.Contains(hashes, r.Hash) {
			t.Errorf("%d: got %+v", i, r)
		}
		hashes = append(hashes, r.Hash)
		if h == byHand {
			must(t, h, "sandbox_mine", `[5]`)
		}
		var now txStatus
		if cause := ask(t, h, "tx", map[string]any{"tx_hash": r.Hash, "sender_account_id": "alice.near", "wait_until": "FINAL"}, &now); cause != "" {
			t.Fatal(cause)
		}
		if got, want := shapeOf(&now), shapeOf(&was); !slices.Equal(got, want) {
			t.Errorf("step %d: got actions\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for name, hash := range map[string]primitives.Hash{"made an account": made1, "global code": global, "failed": failed} {
		t.Run(name, func(t *testing.T) {
			file, c := dump(hash)
			if name == "made an account" && !slices.Equal(c.Absent, []string{"sub.alice.near"}) {
				t.Errorf("%v were not there", c.Absent)
			}
			for range 2 {
				if r := replay(fresh, file); !r.Same {
					t.Errorf("differs %s", r.Differs)
				}
			}
		})
	}
	// Alice has 993 tokens then and keeps 893; with 50 the call fails.
	poor := strings.Replace(text, base64.StdEncoding.EncodeToString(primitives.Yocto(993).AppendBorsh(nil)), base64.StdEncoding.EncodeToString(primitives.Yocto(50).AppendBorsh(nil)), 1)
	if poor == text {
		t.Fatal("her balance is not there")
	}
	if r := replay(fresh, json.RawMessage(poor)); r.Same || !strings.Contains(r.Differs, "outcome 1, of token.near: it is ") {
		t.Errorf("with another state: %+v", r)
	}
	// Entries that the dump does not contain stay, unless replace is set.
	var none struct{}
	other := primitives.SecretKeyFromSeed(primitives.ED25519, "other").PublicKey().String()
	must(t, fresh, "sandbox_set_key", fmt.Sprintf(`["alice.near",%q]`, other))
	must(t, fresh, "sandbox_set_storage", `["alice.near","b3RoZXI","b3RoZXI"]`)
	keys := func() (list struct {
		Keys []struct {
			PublicKey string `json:"public_key"`
		}
	}) {
		if cause := ask(t, fresh, "query", map[string]any{"request_type": "view_access_key_list", "finality": "optimistic", "account_id": "alice.near"}, &list); cause != "" {
			t.Fatal(cause)
		}
		return list
	}
	patched, _, err := fresh.Engine.LastPatched()
	if err != nil {
		t.Fatal(err)
	}
	had := len(keys().Keys)
	f := rpcOf(t, fresh, "sandbox_replay_transaction", text, &none)
	if !strings.HasPrefix(f, "SANDBOX_REFUSED: state that is missing in the dump would be removed: ") || !strings.Contains(f, "alice.near would lose ") ||
		!strings.Contains(f, "keys") || !strings.Contains(f, "values") || !strings.Contains(f, "sandbox_new_world") {
		t.Errorf("a request that would lose changes: %s", f)
	}
	// The chain produces blocks of its own meanwhile.
	if now, _, err := fresh.Engine.LastPatched(); err != nil || now != patched || len(keys().Keys) != had {
		t.Errorf("a refused replay patched block %v (before: %v, %v), or left %d of %d keys", now, patched, err, len(keys().Keys), had)
	}
	if r := replay(fresh, file); !r.Same {
		t.Errorf("with replace: %s", r.Differs)
	}
	if now := len(keys().Keys); now != 1 {
		t.Errorf("with replace %d keys are left", now)
	}
	if f := rpcOf(t, a, "sandbox_dump_transaction", `["11111111111111111111111111111111"]`, &none); !strings.HasPrefix(f, "UNKNOWN_TRANSACTION") {
		t.Errorf("of an unknown transaction: %s", f)
	}
}
