package txscript

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// TestNearSDKContractsRun: contracts built with near-sdk are deployed, called, viewed, and pay by a
// promise with a callback.
func TestNearSDKContractsRun(t *testing.T) {
	for _, test := range []struct {
		sdk     string
		release primitives.ProtocolVersion // 0: the newest
	}{{"5.29.1", 86}, {"5.29.1", 0}, {"5.30.0", 0}} {
		t.Run(fmt.Sprintf("sdk %s at %d", test.sdk, test.release), func(t *testing.T) {
			guestbook(t, test.sdk, test.release)
		})
	}
}

func guestbook(t *testing.T, sdk string, release primitives.ProtocolVersion) {
	path := testutil.Data("contracts/guestbook-sdk" + sdk + ".wasm")
	testutil.Need(t, path, "a contract built with near-sdk")
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Options{Accounts: []primitives.AccountID{"alice", "bob", "book"}, Shards: 1, VM: testVM(t), Release: release})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	run := func(from, to primitives.AccountID, actions ...primitives.Action) primitives.Hash {
		t.Helper()
		tx := w.Sign(from, to, actions...)
		if err := w.Run(tx); err != nil {
			t.Fatal(err)
		}
		return tx.Hash()
	}
	// value is what a transaction's only receipt returned, or the one that it went on as.
	value := func(tx primitives.Hash) []byte {
		t.Helper()
		o := w.outcomes[w.outcomes[tx].ReceiptIDs[0]]
		for o.Status.Kind == primitives.StatusSuccessReceiptID {
			o = w.outcomes[o.Status.ReceiptID]
		}
		if o.Status.Kind != primitives.StatusSuccessValue {
			t.Fatalf("status %s\ntree:\n%s", status(&o.Status), w.Tree(tx))
		}
		return o.Status.Value
	}
	call := func(method, args string, deposit primitives.Balance) primitives.Action {
		return &primitives.FunctionCall{Method: method, Args: []byte(args), Gas: 100 * tera, Deposit: deposit}
	}
	value(run("book", "book", &primitives.DeployContract{Code: code}, call("new", `{"owner":"alice","opens_ms":0}`, primitives.Balance{})))
	if got := value(run("bob", "book", call("sign", `{"text":"hello"}`, primitives.NEAR(1)))); string(got) != "1" {
		t.Errorf("sign returned %s", got)
	}
	owner := lab{w, t} // alice
	before := owner.balance()
	if got := value(run("bob", "book", call("payout", `{}`, primitives.Balance{}))); string(got) != `"paid"` {
		t.Errorf("payout returned %s", got)
	}
	if want, ok := before.Add(primitives.MustParseBalance("5000000000000000000000")); !ok || owner.balance() != want {
		t.Errorf("the owner has %v, want %v", owner.balance(), want)
	}
	at, err := w.Engine.StateAt(w.Engine.Head().Hash)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Release()
	out, found, err := w.Engine.CallView(at, &action.View{Account: "book", Method: "messages", Args: []byte(`{}`), Gas: 100 * tera})
	if err != nil || !found || out.Err != nil || !bytes.Contains(out.Return.Value, []byte(`"sender":"bob","text":"hello"`)) ||
		!bytes.Contains(out.Return.Value, []byte(`"premium":true`)) {
		t.Errorf("messages: %s, %v, found %v, %v", out.Return.Value, out.Err, found, err)
	}
}
