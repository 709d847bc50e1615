package vm_test

import (
	"os"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// TestGuestbookOfSDK530RunsFrom88: a contract of near-sdk 5.30.0 is initialised, called, viewed and
// makes promises at 88. Before 88 it does not link, since the SDK's promises import a function of
// 88.
func TestGuestbookOfSDK530RunsFrom88(t *testing.T) {
	path := testutil.Data("contracts/guestbook-sdk5.30.0.wasm")
	testutil.Need(t, path, "a contract built with near-sdk")
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := vm.New(vm.Options{Alarm: func(err error) { t.Errorf("alarm: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	u := state.NewUnrecorded(emptyTrie{})
	call := func(version parameters.Version, from primitives.AccountID, method, args string, view bool) (action.CallOutcome, *action.External) {
		t.Helper()
		block := &action.Block{Config: parameters.MustGet(version), ChainID: "test", Height: 7, EpochHeight: 1, Timestamp: 1_700_000_000_000_000_000, Stakes: stakes{}}
		c := &action.Call{
			Block: block, CodeHash: primitives.HashBytes(code), Code: code, Method: method, Args: []byte(args), View: view,
			CurrentAccount: "book.near", SignerAccount: from, SignerKey: primitives.ZeroED25519Key, Predecessor: from, RefundTo: from,
			Balance: primitives.NEAR(10), StorageUsage: 200_000, PrepaidGas: 100_000_000_000_000,
			Contract: primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(code)},
		}
		x := action.NewExternal(block, u, c.CurrentAccount, primitives.Hash{1})
		out, err := m.Call(c, x)
		if err != nil {
			t.Fatal(err)
		}
		return out, x
	}
	for _, version := range []parameters.Version{parameters.June(86), parameters.Release(86), parameters.Release(87)} {
		out, _ := call(version, "alice.near", "new", `{"owner":"alice.near","opens_ms":0}`, false)
		link, ok := out.Cause.(*action.LinkError)
		if !ok || len(link.Missing) != 1 || link.Missing[0].Since != 88 || !strings.Contains(link.Missing[0].Name, "universal_state_init") {
			t.Errorf("%v: %v, cause %v", version, out.Err, out.Cause)
		}
	}
	at := parameters.Release(88)
	for _, step := range []struct {
		from         primitives.AccountID
		method, args string
		view         bool
		want         string // result
		fails        bool   // by a trap: this contract is built without texts of panics
	}{
		{from: "alice.near", method: "sign", args: `{"text":"early"}`, fails: true},
		{from: "alice.near", method: "new", args: `{"owner":"alice.near","opens_ms":0}`},
		{from: "alice.near", method: "new", args: `{"owner":"bob.near","opens_ms":0}`, fails: true},
		{from: "bob.near", method: "sign", args: `{"text":"hello"}`, want: "1"},
		{from: "carol.near", method: "sign", args: `{"text":"\u20ac"}`, want: "2"},
		{method: "len", args: "{}", view: true, want: "2"},
		{method: "messages", args: `{"from":1}`, view: true, want: `[{"sender":"carol.near","text":"€","at_ms":1700000000000,"premium":false}]`},
		{from: "bob.near", method: "done", args: "{}", fails: true},
		{from: "book.near", method: "done", args: "{}", want: `"paid"`},
	} {
		out, _ := call(at, step.from, step.method, step.args, step.view)
		switch {
		case step.fails && (out.Err == nil || !strings.Contains(string(out.Err.AppendJSON(nil)), "unreachable")):
			t.Errorf("%s %s: %v, %s, want a trap", step.method, step.args, out.Err, out.Return.Value)
		case !step.fails && (out.Err != nil || string(out.Return.Value) != step.want):
			t.Errorf("%s %s: %v, %s, want %s", step.method, step.args, out.Err, out.Return.Value, step.want)
		}
	}
	out, x := call(at, "alice.near", "payout", "{}", false)
	made, _ := x.Made()
	if out.Err != nil || out.Return.Kind != action.ReturnReceipt || len(made) != 2 {
		t.Fatalf("payout: %v, returns %v, %d promises", out.Err, out.Return, len(made))
	}
	if pay, ok := made[0].Actions[0].(*primitives.Transfer); !ok || made[0].Receiver != "alice.near" || pay.Deposit != primitives.MustParseBalance("5000000000000000000000") {
		t.Errorf("first promise %+v", made[0])
	}
	if done, ok := made[1].Actions[0].(*primitives.FunctionCall); !ok || made[1].Receiver != "book.near" || done.Method != "done" || len(made[1].Inputs) != 1 {
		t.Errorf("second promise %+v", made[1])
	}
}
