package subscriptions

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// openTxs contains a subscription's transactions that are not final as of block at.
type openTxs struct {
	at    view.At
	open  []*openTx // transactions that are not final, in the order of inclusion
	await []primitives.Hash
	news  []milestone // levels that transactions have reached with the block at
}

// openTx is one transaction that is not final.
type openTx struct {
	hash    primitives.Hash
	machine *waiter.Machine
	told    [view.LevelFinal + 1]bool
}

// milestone is a level that a transaction reached.
type milestone struct {
	hash   primitives.Hash
	level  view.ExecutionLevel
	status view.FinalStatus
	at     view.Cursor
}

// milestones are the reported levels, in order. Each is reported once for a transaction, even if
// one block reaches several levels.
var milestones = [...]view.ExecutionLevel{
	view.LevelIncluded, view.LevelExecutedOptimistic, view.LevelIncludedFinal, view.LevelExecuted, view.LevelFinal,
}

// finished returns whether all transactions that the client named by hash are final.
func (t *openTxs) finished() bool { return len(t.open) == 0 && len(t.await) == 0 }

// advance applies the next block, and collects in news the levels that transactions reach with the
// block. Error: errTracked.
func (t *openTxs) advance(q *view.Subscription, d *stream.Digest) error {
	t.at, t.news = d.At(), nil
	if q.Hashes == nil {
		for _, hash := range executed(d, q.Account) {
			t.open = append(t.open, &openTx{hash: hash, machine: waiter.NewMachine(hash, view.LevelFinal)})
		}
	} else {
		t.await = slices.DeleteFunc(t.await, func(hash primitives.Hash) bool {
			_, ok := d.Executed(hash)
			if ok {
				t.open = append(t.open, &openTx{hash: hash, machine: waiter.NewMachine(hash, view.LevelFinal)})
			}
			return ok
		})
	}
	if len(t.open) > maxTracked {
		return errTracked
	}
	t.open = slices.DeleteFunc(t.open, func(x *openTx) bool { return t.step(x, d) })
	return nil
}

// executed returns the hashes of an account's transactions that a block executed. A chunk may also
// include transactions that are no longer valid. Such transactions have no outcome, and executed
// leaves them out.
func executed(d *stream.Digest, account primitives.AccountID) (hashes []primitives.Hash) {
	for _, tx := range d.Transactions(account) {
		if _, ok := d.Executed(tx.Hash()); ok {
			hashes = append(hashes, tx.Hash())
		}
	}
	return hashes
}

// step applies a block to a transaction, and returns whether the transaction is final.
func (t *openTxs) step(x *openTx, d *stream.Digest) bool {
	m := messages.Progress{}
	m.At.Head, m.At.Final = position(d)
	stack := x.machine.Open()
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		e, ok := d.Executed(id)
		if !ok {
			continue
		}
		m.Executed = append(m.Executed, messages.Executed{Outcome: e.Outcome, Block: d.Hash, Height: m.At.Head,
			Refund: e.Refund})
		stack = append(stack, e.Outcome.Outcome.ReceiptIDs...)
	}
	x.machine.Step(&m)
	level := x.machine.Level()
	for _, wanted := range milestones {
		if x.told[wanted] || !txstatus.Meets(level, wanted) {
			continue
		}
		x.told[wanted] = true
		t.news = append(t.news, milestone{
			hash: x.hash, level: wanted, status: txstatus.Status(txstatus.Outcomes(x.hash, x.machine)),
			at: view.Cursor{At: t.at, Index: len(t.news)},
		})
	}
	return x.told[view.LevelFinal]
}

// notice returns the notice about news[i].
func (t *openTxs) notice(i int) *view.Notice {
	m := &t.news[i]
	b := view.AppendCursor([]byte(`"cursor":`), &m.at)
	b = append(append(append(b, `,"transaction":{"final_execution_status":"`...), m.level.String()...), '"')
	b = view.AppendFinalStatus(append(b, `,"status":`...), &m.status)
	b = view.AppendHash(append(b, `,"tx_hash":`...), &m.hash)
	return &view.Notice{Cursor: m.at, Body: append(b, '}')}
}

// resume sets t to its state after block d: the transactions that were not final after d, and, for
// each of them, the level that the reader had reported up to d.
func (t *openTxs) resume(q *view.Subscription, chain Chain, ledger waiter.Ledger, d *stream.Digest) error {
	t.at = d.At()
	var hashes []primitives.Hash
	if q.Hashes != nil {
		hashes = q.Hashes
	} else {
		at := d
		for range resumeReach {
			of := executed(at, q.Account)
			slices.Reverse(of)
			hashes = append(hashes, of...)
			h := at.Block.Block.Header
			before, err := chain.Digest(view.At{Height: h.PrevHeight, Hash: h.PrevHash})
			if absent(err) {
				break // the chain begins here, or the previous block is not stored
			}
			if err != nil {
				return err
			}
			at = before
		}
		slices.Reverse(hashes)
	}
	var p messages.Progress
	p.At.Head, p.At.Final = position(d)
	for _, hash := range hashes {
		x := &openTx{hash: hash, machine: waiter.NewMachine(hash, view.LevelFinal)}
		x.machine.Step(&p)
		if _, _, err := x.machine.Read(ledger); err != nil {
			return err
		}
		level := x.machine.Level()
		for _, wanted := range milestones {
			x.told[wanted] = txstatus.Meets(level, wanted)
		}
		switch {
		case x.told[view.LevelFinal]:
		case x.machine.Included():
			t.open = append(t.open, x)
		case q.Hashes != nil:
			t.await = append(t.await, hash)
		}
	}
	// Sort by inclusion: levels reached with the same block are numbered in this order.
	slices.SortStableFunc(t.open, func(a, b *openTx) int { return cmp.Compare(a.machine.Since(), b.machine.Since()) })
	return nil
}
