package stream

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

func (o odd) contract() primitives.AccountContract {
	return []primitives.AccountContract{{}, {Kind: primitives.ContractLocal, Hash: o.hash()}, {Kind: primitives.ContractGlobalHash, Hash: o.hash()},
		{Kind: primitives.ContractGlobalAccount, Account: "c.near"}}[o.IntN(4)]
}

// change is a random change of any kind.
func (o odd) change() *view.Change {
	c := &view.Change{Kind: view.ChangeKind(o.IntN(5)), AccountID: "b.near", Handle: o.key().Handle(), AccessKey: o.accessKey(), Index: uint16(o.Uint32()),
		Nonce: primitives.Nonce(o.number()), Key: o.bytes(), Value: o.bytes(), Cause: primitives.StateChangeCause{Kind: primitives.CauseKind(o.IntN(12)), Hash: o.hash()},
		Account: primitives.Account{Amount: o.tokens(), Locked: o.tokens(), StorageUsage: o.number(), Contract: o.contract()}}
	if o.IntN(4) == 0 {
		c.Account = primitives.NewUninitializedAccount(o.tokens(), o.number(), primitives.Nonce(o.number()))
	}
	c.Deletion = o.IntN(4) == 0 && c.Kind != view.GasKeyNonceChange
	return c
}

// TestBothOrdersHaveTheSameMembers: the encoder of messages writes package view's sorted text in the
// order of a slow reference, and sorted again its text is that of package view.
func TestBothOrdersHaveTheSameMembers(t *testing.T) {
	kinds := map[string]int{}
	e := view.NewEncoder(view.StructOrder)
	for seed := range uint64(3000) {
		o := odd{rand.New(rand.NewPCG(seed, 13))}
		r, c := o.receipt(), o.change()
		x := o.outcome(o.hash())
		x.Metadata.Contracts = []primitives.AccountContract{o.contract(), o.contract()}
		if o.IntN(4) == 0 {
			x.Metadata = primitives.ExecutionMetadata{Version: uint32(o.IntN(5))}
		}
		proven := &view.OutcomeProof{OutcomeWithID: x, BlockHash: o.hash()}
		for range o.IntN(4) {
			proven.Proof = append(proven.Proof, primitives.MerklePathItem{Hash: o.hash(), Direction: primitives.Direction(o.IntN(2))})
		}
		same := func(name string, structs, sorted []byte) {
			t.Helper()
			if want := "before" + string(slowly(t, name, sorted)); string(structs) != want {
				t.Fatalf("seed %d, %s:\n got %s\nwant %s", seed, name, structs, want)
			}
			if got := view.AppendSorted(nil, structs[len("before"):]); string(got) != string(sorted) {
				t.Fatalf("seed %d, %s, sorted:\n got %s\nwant %s", seed, name, got, sorted)
			}
		}
		same("#outcome", e.OutcomeProof([]byte("before"), proven), view.AppendOutcomeProof(nil, proven))
		same("#receipt", e.Receipt([]byte("before"), r), view.AppendReceipt(nil, r))
		same("#change", e.Change([]byte("before"), c), view.AppendChange(nil, c))
		if kinds[c.Kind.String()]++; seed < 100 {
			tx := o.transaction()
			same("#transaction", e.Transaction([]byte("before"), tx), view.AppendSignedTransaction(nil, tx))
		}
	}
	if len(kinds) != 5 {
		t.Errorf("changes of %d kinds, want 5: %v", len(kinds), kinds)
	}
}

// TestFailuresAreInNearcoresOrder: recorded failures of every form are written in nearcore's order.
func TestFailuresAreInNearcoresOrder(t *testing.T) {
	file, err := os.ReadFile("../primitives/testdata/failures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	e, n, moved := view.NewEncoder(view.StructOrder), 0, 0
	for line := range bytes.Lines(file) {
		o := &view.OutcomeProof{}
		o.Outcome.Status = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: view.AppendSorted(nil, line)}
		want := slowly(t, "#outcome", view.AppendOutcomeProof(nil, o))
		if got := e.OutcomeProof(nil, o); !bytes.Equal(got, want) {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if n++; !bytes.Contains(want, o.Outcome.Status.Failure) {
			moved++
		}
	}
	if n < 50 || moved < 10 {
		t.Errorf("%d failures, %d of them in another order than sorted", n, moved)
	}
}
