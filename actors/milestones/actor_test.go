package milestones

import (
	"testing"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

func id(name string) primitives.Hash { return primitives.HashBytes([]byte(name)) }

func outcome(name string, sends ...string) primitives.OutcomeWithID {
	o := primitives.OutcomeWithID{ID: id(name)}
	for _, s := range sends {
		o.Outcome.ReceiptIDs = append(o.Outcome.ReceiptIDs, id(s))
	}
	return o
}

func block(h, final primitives.Height, outgoing []*primitives.Receipt, outcomes ...primitives.OutcomeWithID) messages.BlockAccepted {
	header := &primitives.BlockHeader{}
	header.Height = h
	return messages.BlockAccepted{Block: &primitives.Block{Header: header}, Hash: primitives.Hash{byte(h)}, IsHead: true, Final: final,
		Shards: []messages.ShardAccepted{{Outcomes: outcomes, Outgoing: outgoing}}}
}

func TestOnlyWhatConcerns(t *testing.T) {
	a := New()
	news := map[messages.WaiterID][]messages.Progress{}
	watch := func(w messages.WaiterID, names ...string) {
		m := messages.Watch{Waiter: w, Tell: func(p messages.Progress) { news[w] = append(news[w], p) }}
		for _, n := range names {
			m.IDs = append(m.IDs, id(n))
		}
		a.Handle(m)
	}
	watch(1, "tx1")
	watch(2, "tx2")
	watch(3, "tx1")
	for w := range messages.WaiterID(3) {
		if got := news[w+1]; len(got) != 1 || !got[0].Watched {
			t.Fatalf("waiter %d: %+v, want a confirmation", w+1, got)
		}
	}
	refund := &primitives.Receipt{ID: id("r"), PredecessorID: primitives.SystemAccount}
	a.Handle(block(1, 0, nil, outcome("tx1", "a"), outcome("other", "x")))
	a.Handle(block(2, 0, []*primitives.Receipt{refund}, outcome("a", "r"), outcome("x")))
	a.Handle(block(3, 1, nil, outcome("r")))
	for _, w := range []messages.WaiterID{1, 3} {
		got := news[w][1:]
		if len(got) != 3 || got[0].Executed[0].Outcome.ID != id("tx1") || got[1].Executed[0].Refund != id("r") || got[2].Executed[0].Height != 3 || got[2].Final != 1 {
			t.Errorf("waiter %d: %+v", w, got)
		}
	}
	if len(news[2]) != 1 {
		t.Errorf("waiter 2 was told of others' transactions: %+v", news[2][1:])
	}
	a.Handle(block(4, 2, nil))
	if got := news[1]; len(got) != 5 || got[4].Final != 2 {
		t.Errorf("the final head moved: %+v", got)
	}
	a.Handle(messages.TransactionsDropped{Hashes: []primitives.Hash{id("tx2")}})
	if got := news[2]; len(got) != 2 || !got[1].Dropped {
		t.Errorf("dropped: %+v", got)
	}
	side := block(9, 2, nil, outcome("tx2"))
	side.IsHead = false
	a.Handle(side)
	if len(news[2]) != 2 {
		t.Error("a block of a branch counts")
	}
	again := block(10, 2, nil)
	again.Reorganised = true
	a.Handle(again)
	if got := news[2]; len(got) != 3 || !got[2].Reorganised {
		t.Errorf("reorganised: %+v", got)
	}
	for w := range messages.WaiterID(3) {
		a.Handle(messages.Unwatch{Waiter: w + 1})
	}
	if w, ids := a.Len(); w != 0 || ids != 0 {
		t.Errorf("%d waiters and %d ids are left", w, ids)
	}
}
