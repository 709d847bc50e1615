package txscript

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// badGas is what each module may burn: an endless loop then takes 15 ms.
const badGas = 100_000_000_000_000

// badCall calls a module's main; nothing of it asks anything of the world.
func badCall(b *contracts.Bad, view bool) *action.Call {
	code := b.Make()
	return &action.Call{
		Block:    &action.Block{Config: parameters.MustGet(parameters.June(86)), Height: 10, Timestamp: 42, EpochHeight: 1},
		CodeHash: primitives.HashBytes(code), Code: code, Method: "main", View: view,
		CurrentAccount: "alice", SignerAccount: "bob", Predecessor: "carol", RefundTo: "carol", SignerKey: primitives.ZeroED25519Key,
		PrepaidGas: badGas,
	}
}

// TestBadModulesBurnAsRecorded runs every bad module, as a call and as a view, and compares what
// they burn and how they end with a golden file. None may be a fault of the node.
func TestBadModulesBurnAsRecorded(t *testing.T) {
	v := testVM(t)
	before := v.Stats().Alarms
	w, err := New(Options{Shards: 1, VM: v})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	call := func(c *action.Call) (out action.CallOutcome, err error) {
		readErr := w.read(c.CurrentAccount, func(trie state.Trie) error {
			out, err = v.Call(c, action.NewExternal(c.Block, state.New(trie, 4_000_000), c.CurrentAccount, primitives.Hash{}))
			return nil
		})
		return out, errors.Join(err, readErr)
	}
	datadriven.RunTest(t, "testdata/bad/modules", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		last := ""
		for _, b := range contracts.BadModules() {
			start := time.Now()
			line := ""
			for _, view := range []bool{false, true} {
				got, err := call(badCall(&b, view))
				if err != nil {
					t.Errorf("%s: error %v", b.Name, err)
					continue
				}
				how := "ok"
				if got.Err != nil {
					how = string(got.Err.AppendJSON(nil))
				}
				if view {
					how = "view: " + how
				}
				if how = fmt.Sprintf("    burnt %d: %s\n", got.GasBurnt, how); !view || strings.Replace(how, "view: ", "", 1) != line {
					line += how
				}
			}
			if os.Getenv("TROUPE_TIMES") != "" && time.Since(start) > 100*time.Millisecond {
				t.Logf("%v %s", time.Since(start), b.Name)
			}
			if line = b.Name + "\n" + line; line != last { // of what is cut off there are many
				out.WriteString(line)
			}
			last = line
		}
		return out.String()
	})
	if n := v.Stats().Alarms; n != before {
		t.Errorf("%d alarms", n-before)
	}
}

// TestBadModulesOnChainHaveOutcomes deploys the modules that fit into a transaction and calls each
// in the same receipt, in blocks whose tokens are added up. Every transaction ends with an outcome.
// The account has the last module whose receipt did not fail.
func TestBadModulesOnChainHaveOutcomes(t *testing.T) {
	const most, perBlock = 1_000_000, 20
	w, err := New(Options{Accounts: []primitives.AccountID{"alice"}, Shards: 1, VM: testVM(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var all, txs []*primitives.SignedTransaction
	size := 0
	run := func() {
		if err := w.Run(txs...); err != nil {
			t.Fatal(err)
		}
		txs, size = nil, 0
	}
	for _, b := range contracts.BadModules() {
		code := b.Make()
		if len(code) > most {
			continue
		}
		if len(txs) == perBlock || size+len(code) > 2*most {
			run()
		}
		tx := w.Sign("alice", "alice", &primitives.DeployContract{Code: code}, &primitives.FunctionCall{Method: "main", Gas: badGas})
		all, txs, size = append(all, tx), append(txs, tx), size+len(code)
	}
	run()
	ended := map[string]int{}
	for _, tx := range all {
		o := w.outcomes[tx.Hash()]
		if o == nil || len(o.ReceiptIDs) != 1 || w.outcomes[o.ReceiptIDs[0]] == nil {
			t.Fatalf("transaction %v has no outcome", tx.Hash())
		}
		what := "failed"
		if r := w.outcomes[o.ReceiptIDs[0]]; r.Status.Kind != primitives.StatusFailure {
			what = "ok"
		}
		ended[what]++
	}
	if ended["ok"] < 10 || ended["failed"] < 150 {
		t.Errorf("%d ended well, %d failed, of %d", ended["ok"], ended["failed"], len(all))
	}
}
