package sandbox

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestListOfManyFailures: the pages of a list of failed transactions have all of a block, each page
// at most its limit, although receipts of more transactions fail in one block than a page holds.
func TestListOfManyFailures(t *testing.T) {
	s := New(t, Options{Accounts: map[primitives.AccountID]primitives.Balance{"alice.near": primitives.NEAR(1000),
		"bob.near": primitives.NEAR(10)}})
	back := s.chain.Backend()
	const txs = 300
	for i := range txs {
		tx, _, err := s.transaction(Named("alice.near"), "bob.near", []primitives.Action{&primitives.FunctionCall{Method: "x", Gas: 1e12}})
		if err != nil {
			t.Fatal(err)
		}
		send := view.SendTx{Tx: tx, WaitUntil: view.LevelNone}
		if i == txs-1 {
			send.WaitUntil = view.LevelExecutedOptimistic
		}
		if _, err := back.SendTx(t.Context(), &send); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 20, view.MaxListed} {
		got := map[primitives.Hash]struct{}{}
		q := view.ListQuery{Failed: true, Limit: limit}
		for pages := 0; pages == 0 || q.Before != nil; pages++ {
			l, err := back.Transactions(t.Context(), &q)
			if err != nil || len(l.Transactions) > limit || pages > txs+1 {
				t.Fatalf("limit %d: page %d has %d transactions, %v", limit, pages, len(l.Transactions), err)
			}
			for i := range l.Transactions {
				got[l.Transactions[i].Transaction.Hash()] = struct{}{}
			}
			q.Before = l.Next
		}
		if len(got) != txs {
			t.Errorf("limit %d: %d of %d transactions", limit, len(got), txs)
		}
	}
}
