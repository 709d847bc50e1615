package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// deeds is what a chain did, read block by block from the genesis on.
type deeds struct {
	txs     []primitives.Hash // executed, in order
	height  map[primitives.Hash]primitives.Height
	tx      map[primitives.Hash]*primitives.SignedTransaction
	of      map[primitives.Hash]primitives.Hash // the transaction of each outcome
	failed  map[primitives.Hash]bool            // by transaction: it, or a receipt of it
	touched map[primitives.Hash]map[primitives.AccountID]bool
	counts  map[primitives.Height]int
}

func readHistory(t *testing.T, b *Backend) *deeds {
	t.Helper()
	h := &deeds{height: map[primitives.Hash]primitives.Height{},
		tx: map[primitives.Hash]*primitives.SignedTransaction{}, of: map[primitives.Hash]primitives.Hash{},
		failed: map[primitives.Hash]bool{}, touched: map[primitives.Hash]map[primitives.AccountID]bool{}, counts: map[primitives.Height]int{}}
	head, err := b.find(view.BlockRef{Kind: view.RefOptimistic})
	if err != nil {
		t.Fatal(err)
	}
	var chain []*block
	for k := head; k != nil; {
		chain = append(chain, k)
		if k, err = b.parentOf(k); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range slices.Backward(chain) {
		m, err := b.streamed(k)
		if err != nil {
			continue // the genesis
		}
		for i := range m.Shards {
			if c := m.Shards[i].Chunk; c != nil {
				h.counts[k.ref.Height] += len(c.Transactions)
				for _, tx := range c.Transactions {
					if _, done := h.tx[tx.Hash()]; !done {
						h.tx[tx.Hash()] = tx
					}
				}
			}
			for j := range m.Shards[i].Outcomes {
				o := &m.Shards[i].Outcomes[j]
				tx, isReceipt := h.of[o.ID]
				if !isReceipt {
					if h.tx[o.ID] == nil { // a receipt whose origin has no outcome that names it
						continue
					}
					tx = o.ID
					h.txs, h.height[tx] = append(h.txs, tx), k.ref.Height
					h.touched[tx] = map[primitives.AccountID]bool{h.tx[tx].SignerID: true, h.tx[tx].ReceiverID: true}
				}
				h.touched[tx][o.Outcome.ExecutorID] = true
				if o.Outcome.Status.Kind == primitives.StatusFailure {
					h.failed[tx] = true
				}
				for _, id := range o.Outcome.ReceiptIDs {
					h.of[id] = tx
				}
			}
		}
	}
	return h
}

func (h *deeds) selected(q *view.ListQuery) (out []primitives.Hash) {
	for _, tx := range slices.Backward(h.txs) {
		calls := slices.ContainsFunc(h.tx[tx].Actions, func(a primitives.Action) bool {
			c, ok := a.(*primitives.FunctionCall)
			return ok && strings.HasPrefix(c.Method, q.Method)
		})
		if (q.Method == "" || calls) && (q.Account == "" || h.touched[tx][q.Account]) && (!q.Failed || h.failed[tx]) && h.height[tx] > q.After {
			out = append(out, tx)
		}
	}
	return out
}

// TestTransactionListMatchesBlocks: lists of a random chain with reorganisations and resharding
// have what its blocks have, whatever the filter, the page size and the bounds of a request, and
// say of each transaction what its status says. Following next comes to the end.
func TestTransactionListMatchesBlocks(t *testing.T) {
	o, course := workload.RandomSplits(4, 60)
	course.PerStep = 12
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	script := workload.NewScript(c, course)
	for range course.Blocks {
		if _, err := script.Step(); err != nil {
			t.Fatal(err)
		}
	}
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	h := readHistory(t, b)
	if len(h.txs) < 200 || len(h.failed) < 10 {
		t.Fatalf("%d transactions, %d failed", len(h.txs), len(h.failed))
	}
	queries := []view.ListQuery{{}, {Failed: true}, {After: h.height[h.txs[len(h.txs)/2]]}, {Method: "ft_"},
		{Method: "ft_transfer", Failed: true}}
	most := map[primitives.AccountID]int{}
	for _, accounts := range h.touched {
		for a := range accounts {
			most[a]++
		}
	}
	accounts := slices.Collect(func(yield func(primitives.AccountID) bool) {
		for a := range most {
			if !yield(a) {
				return
			}
		}
	})
	slices.SortFunc(accounts, func(a, b primitives.AccountID) int { return most[b] - most[a] })
	for _, a := range append(accounts[:min(4, len(accounts))], accounts[len(accounts)-1]) {
		queries = append(queries, view.ListQuery{Account: a}, view.ListQuery{Account: a, Failed: true}, view.ListQuery{Account: a, Method: "ft_"})
	}
	found := 0
	for i := range queries {
		for _, within := range [][3]int{{view.MaxListed, listBlocks, listOutcomes}, {7, listBlocks, listOutcomes},
			{50, 3, listOutcomes}, {50, listBlocks, 40}, {1, 2, 9}} {
			q := queries[i]
			q.Limit = within[0]
			t.Run(fmt.Sprintf("%+v within %v", q, within), func(t *testing.T) {
				got := follow(t, b, h, &q, within[1], within[2])
				want := h.selected(&q)
				// an account may be named by events alone, which the history does not read
				for _, tx := range want {
					if !slices.Contains(got, tx) {
						t.Errorf("%v of block %d is missing", tx, h.height[tx])
					}
				}
				if len(got) != len(want) && q.Account == "" {
					t.Errorf("%d transactions, want %d", len(got), len(want))
				}
				for _, tx := range got {
					if !slices.Contains(want, tx) && !named(t, b, tx, q.Account) {
						t.Errorf("%v is listed", tx)
					}
				}
				found += len(got)
			})
		}
	}
	if found < 1000 {
		t.Errorf("%d transactions are listed", found)
	}
}

// follow reads a list to its end.
func follow(t *testing.T, b *Backend, h *deeds, q *view.ListQuery, blocks, outcomes int) (got []primitives.Hash) {
	t.Helper()
	at := *q
	for range 5000 {
		l, err := b.transactionsWithin(t.Context(), &at, blocks, outcomes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.Transactions {
			x := &l.Transactions[i]
			hash := x.Transaction.Hash()
			if x.Block.Height != h.height[hash] {
				t.Errorf("%v is listed at %d, was executed at %d", hash, x.Block.Height, h.height[hash])
			}
			if slices.Contains(got, hash) {
				continue // a reply that continues one may repeat its last ones
			}
			got = append(got, hash)
			agrees(t, b, x)
		}
		if l.Next == nil {
			return got
		}
		if at.Before != nil && (l.Next.Height > at.Before.Height || l.Next.Height == at.Before.Height && l.Next.Index >= at.Before.Index) {
			t.Fatalf("next %+v after %+v", l.Next, at.Before)
		}
		at.Before = l.Next
	}
	t.Fatal("no end")
	return nil
}

// agrees compares a row with the transaction's status.
func agrees(t *testing.T, b *Backend, x *view.ListedTransaction) {
	t.Helper()
	s, err := b.Engine.Transactions().Status(x.Transaction.Hash())
	if err != nil {
		t.Error(err)
		return
	}
	want := view.ListedPending
	switch s.Status.Kind {
	case view.FinalFailure:
		want = view.ListedFailed
	case view.FinalSuccessValue:
		want = view.ListedSucceeded
	}
	if x.Status != want || (x.Failure != "") != (want == view.ListedFailed) {
		t.Errorf("%v: %s (%q), want %s", x.Transaction.Hash(), x.Status, x.Failure, want)
	}
}

// named returns whether the events of a transaction name an account.
func named(t *testing.T, b *Backend, tx primitives.Hash, account primitives.AccountID) bool {
	t.Helper()
	s, err := b.Engine.Transactions().Status(tx)
	if err != nil || account == "" {
		return false
	}
	for i := range s.Outcomes {
		for _, log := range s.Outcomes[i].Outcome.Logs {
			if strings.Contains(log, `"`+string(account)+`"`) && strings.Contains(log, "EVENT_JSON:") {
				return true
			}
		}
	}
	return false
}

// TestTransactionListDescribesNewestBlocks: the newest blocks are described, whether transactions
// are listed or not, and the reply is JSON.
func TestTransactionListDescribesNewestBlocks(t *testing.T) {
	o, course := workload.RandomSplits(4, 30)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	script := workload.NewScript(c, course)
	for range course.Blocks {
		if _, err := script.Step(); err != nil {
			t.Fatal(err)
		}
	}
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	h := readHistory(t, b)
	for _, limit := range []int{0, 2, 100} {
		l, err := b.Transactions(t.Context(), &view.ListQuery{Limit: limit, Blocks: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Blocks) != 10 || l.Blocks[0].Height != l.Head || len(l.Transactions) > limit || limit < 100 && l.Next == nil {
			t.Errorf("limit %d: %d blocks, head %d, %d transactions, next %v", limit, len(l.Blocks), l.Head, len(l.Transactions), l.Next)
		}
		for i := range l.Blocks {
			x := &l.Blocks[i]
			if x.Transactions != h.counts[x.Height] || x.Author == "" || x.Timestamp == 0 || x.Shards == 0 {
				t.Errorf("%+v, want %d transactions", x, h.counts[x.Height])
			}
		}
		var out struct {
			Blocks       []struct{ Author string }
			Transactions []struct {
				Hash string `json:"transaction_hash"`
			}
		}
		if err := json.Unmarshal(view.AppendTransactionList(nil, l), &out); err != nil || len(out.Blocks) != 10 ||
			len(out.Transactions) != len(l.Transactions) {
			t.Errorf("%v: append transaction list %s", err, view.AppendTransactionList(nil, l))
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l, err := b.Transactions(ended, &view.ListQuery{Limit: 10})
	if err != nil || len(l.Transactions) > 0 || l.Next == nil || l.Next.Height != l.Head {
		t.Errorf("after the request has ended: %v, %+v", err, l)
	}
}
