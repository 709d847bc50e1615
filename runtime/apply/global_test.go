package apply

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// echoVM is a VM in which each call returns the code of the contract.
type echoVM struct{}

func (echoVM) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	out := c.Unchanged()
	out.Return = action.Return{Kind: action.ReturnValue, Value: c.Code}
	return out, nil
}

// distribution returns the receipt that distributes global code to a shard.
func distribution(id primitives.GlobalContractID, code string, nonce uint64) *primitives.Receipt {
	return &primitives.Receipt{
		PredecessorID: alice, ReceiverID: primitives.SystemAccount, ID: primitives.HashBytes([]byte("distribution of " + code)),
		Body: &primitives.GlobalContractDistribution{ID: id, Code: []byte(code), V2: true, Nonce: nonce},
	}
}

// TestGlobalCodeRunsInChunkThatDistributesIt checks that a call runs the global code that an
// earlier receipt of the same chunk distributed. nearcore compiles that code into the cache in
// which calls look first (global_contracts.rs:216, wasmtime_runner/mod.rs
// with_compiled_and_loaded). A distribution of an older version has no effect.
func TestGlobalCodeRunsInChunkThatDistributesIt(t *testing.T) {
	t.Parallel()
	byAlice := primitives.GlobalContractID{Account: alice}
	byHash := primitives.GlobalContractID{Hash: primitives.HashBytes([]byte("hashed"))}
	call := &primitives.FunctionCall{Method: "m", Gas: 1_000_000_000_000}
	n := newPair(t)
	n.vm = echoVM{}
	n.give(n.selfReceipt(bob, 0, &primitives.UseGlobalContract{ID: byAlice}), distribution(byAlice, "v1", 1))
	n.step()
	steps := []struct {
		receipt *primitives.Receipt
		want    string
	}{
		{n.selfReceipt(bob, 1, &primitives.UseGlobalContract{ID: byHash}), "GlobalContractDoesNotExist"},
		{n.selfReceipt(bob, 2, call), "CodeDoesNotExist"},
		{n.selfReceipt(bob, 3, &primitives.UseGlobalContract{ID: byAlice}, call), "v1"},
		{distribution(byAlice, "v2", 2), ""},
		{n.selfReceipt(bob, 4, call), "v2"},
		{distribution(byAlice, "stale", 1), ""},
		{n.selfReceipt(bob, 5, call), "v2"},
		{distribution(byAlice, "v3", 3), ""},
		{n.selfReceipt(bob, 6, call), "v3"},
		{distribution(byHash, "hashed", 1), ""},
		{n.selfReceipt(bob, 7, &primitives.UseGlobalContract{ID: byHash}, call), "hashed"},
		{n.selfReceipt(bob, 8, &primitives.DeployContract{Code: []byte("local")}, call), "local"},
		{n.selfReceipt(bob, 9, &primitives.UseGlobalContract{ID: byAlice}, call), "v3"},
	}
	for _, s := range steps {
		n.give(s.receipt)
	}
	results := n.step()
	for _, s := range steps {
		if s.want == "" {
			continue
		}
		o := findOutcome(t, results, s.receipt.ID)
		if got := statusText(&o.Status); !strings.Contains(got, s.want) {
			t.Errorf("%s, want %s", got, s.want)
		}
	}
}
