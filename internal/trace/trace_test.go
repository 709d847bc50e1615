package trace

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/flame"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// chain is a chain with a token, whose accounts lie in four shards.
type chain struct {
	*workload.Chain
	t     *testing.T
	gen   *workload.Generator
	nonce primitives.Nonce
}

func newChain(t *testing.T, v *vm.VM) *chain {
	o := workload.ChainOptions{VM: v, Options: workload.Options{
		Seed: 1, Accounts: 2, Shards: 4, Names: []primitives.AccountID{"token", "alice", "mark", "zoe"},
	}}
	o.EpochLength, o.Validity = 1000, 1000
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &chain{c, t, workload.NewGenerator(o.Options), 0}
}

func (c *chain) sign(from, to primitives.AccountID, actions ...primitives.Action) *primitives.SignedTransaction {
	c.nonce++
	key := c.gen.Key(from)
	tx := primitives.Transaction{SignerID: from, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: c.nonce},
		ReceiverID: to, BlockHash: c.Engine.Head().Hash, Actions: actions}
	hash := tx.Hash()
	return primitives.NewSignedTransaction(tx, key.Sign(hash[:]))
}

// send makes blocks until a transaction is executed.
func (c *chain) send(tx *primitives.SignedTransaction) {
	c.t.Helper()
	txs := []*primitives.SignedTransaction{tx}
	for range 12 {
		if _, err := c.Next(txs); err != nil {
			c.t.Fatal(err)
		}
		txs = nil
	}
	s, err := c.Engine.Transactions().FullStatus(tx.Hash())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, o := range s.Outcomes {
		if o.Status.Kind == primitives.StatusFailure {
			c.t.Fatalf("failure %s", o.Status.Failure)
		}
	}
}

func call(method, args string, deposit, tgas uint64) primitives.Action {
	return &primitives.FunctionCall{Method: method, Args: []byte(args), Gas: primitives.Gas(tgas * 1e12), Deposit: primitives.Yocto(deposit)}
}

// outline is the shape of a report: which contract called which, with how many host calls, and
// which entries were written.
func outline(r *Report) string {
	var b strings.Builder
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		fmt.Fprintf(&b, "%s%s -> %s %v", strings.Repeat("  ", o.Depth), o.Predecessor, o.Executor, o.Actions)
		for _, c := range o.Calls {
			fmt.Fprintf(&b, " %s:", c.Method)
			for _, h := range c.Host {
				if h.Name == "storage_write" {
					fmt.Fprintf(&b, " %q=%d", h.Entry.Key, h.Entry.Len)
				}
			}
		}
		fmt.Fprintf(&b, " logs %d\n", len(o.Logs))
	}
	return b.String()
}

// TestTracesOfTransactionAgree traces a transfer together with a call whose receiver returns part
// of it: before it is sent, after it was executed, and when its states exist only as stored values.
// All traces are the same, and the gas adds up.
func TestTracesOfTransactionAgree(t *testing.T) {
	v, err := vm.New(vm.Options{Alarm: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	c := newChain(t, v)
	c.send(c.sign("token", "token", &primitives.DeployContract{Code: contracts.C("ft")},
		call("new", `{"owner_id":"alice","total_supply":"1000","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`, 0, 50)))
	c.send(c.sign("mark", "mark", &primitives.DeployContract{Code: contracts.C("defi")}))
	deposit := call("storage_deposit", `{"account_id":"mark"}`, 0, 50).(*primitives.FunctionCall)
	deposit.Deposit = primitives.NEAR(1)
	c.send(c.sign("alice", "token", deposit))

	tx := c.sign("alice", "token", call("ft_transfer_call", `{"receiver_id":"mark","amount":"100","msg":"refund:40"}`, 1, 100))
	at, err := c.Engine.StateAt(c.Engine.Head().Hash)
	if err != nil {
		t.Fatal(err)
	}
	// One that is told to end does so, between blocks and inside a contract.
	enough := errors.New("enough")
	for most := range 3 {
		asked := 0
		_, err := Simulation(t.Context(), c.Engine, v, at, tx, engine.SimulateOptions{Signature: verify.CheckSignature}, Options{Interrupt: func() error {
			if asked++; asked > 40*most {
				return enough
			}
			return nil
		}})
		if !errors.Is(err, enough) || asked > 40*most+2 {
			t.Errorf("an interrupted simulation: %v after %d checks", err, asked)
		}
	}
	foretold, err := Simulation(t.Context(), c.Engine, v, at, tx, engine.SimulateOptions{Signature: verify.CheckSignature}, Options{})
	at.Release()
	if err != nil {
		t.Fatal(err)
	}
	c.send(tx)
	want := `alice -> alice [FunctionCall] logs 0
  alice -> token [FunctionCall] ft_transfer_call: "aalice"=16 "amark"=16 logs 1
    token -> mark [FunctionCall] ft_on_transfer: "dtoken\x00alice"=16 logs 0
      system -> alice [Transfer] logs 0
    token -> token [FunctionCall] ft_resolve_transfer: "amark"=16 "aalice"=16 logs 1
      system -> alice [Transfer] logs 0
    system -> alice [Transfer] logs 0
`
	check := func(what string, r *Report) {
		t.Helper()
		if got := outline(r); got != want {
			t.Errorf("%s:\n%swant\n%s", what, got, want)
		}
		if !r.Complete || string(r.Status) != `{"SuccessValue":"IjYwIg=="}` { // "60"
			t.Errorf("%s: complete %v, status %s", what, r.Complete, r.Status)
		}
		for i := range r.Outcomes {
			for _, call := range r.Outcomes[i].Calls {
				host := uint64(0)
				for _, h := range call.Host {
					host += h.Gas
				}
				if loading := call.Gas - call.Wasm - host; loading < 35_445_963 || call.Error != nil || call.Gas > r.Outcomes[i].Gas {
					t.Errorf("%s: %s burnt %d of %d: %d in wasm, %d in host functions; %s", what, call.Method, call.Gas, r.Outcomes[i].Gas, call.Wasm, host, call.Error)
				}
			}
		}
	}
	check("foretold", foretold)
	for _, old := range []bool{false, true} {
		if old {
			for range 40 { // the blocks leave the memory
				if _, err := c.Next(nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Engine.AdvanceFlatHead(); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Transaction(t.Context(), c.Engine, v, tx.Hash(), Options{Profile: true})
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("happened, old %v", old), r)
		if r.Gas != foretold.Gas || r.Tokens != foretold.Tokens || r.Simulated || !foretold.Simulated {
			t.Errorf("gas %d, tokens %s; simulated %d, %s", r.Gas, r.Tokens, foretold.Gas, foretold.Tokens)
		}
		profiles, err := flame.ReadSpeedscope(strings.NewReader(string(r.Profile)))
		if err != nil {
			t.Fatal(err)
		}
		if len(profiles) != 3 || profiles[0].Name != "token.ft_transfer_call" || profiles[0].Gas() != r.Outcomes[1].Calls[0].Gas {
			t.Errorf("%d profiles, the first of %s with %d gas", len(profiles), profiles[0].Name, profiles[0].Gas())
		}
	}
	if s, err := c.Engine.Transactions().FullStatus(tx.Hash()); err != nil || c.Engine.BlockNode(s.Outcome.BlockHash) != nil {
		t.Errorf("the block of the transaction is in memory still, or: %v", err)
	}
}
