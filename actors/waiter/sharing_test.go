package waiter

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// hasAskedFor returns whether the tracker was asked for an id.
func (s *testWaiter) hasAskedFor(id primitives.Hash) bool {
	return slices.ContainsFunc(s.watches, func(w messages.Watch) bool { return slices.Contains(w.IDs, id) })
}

// TestFoundReceiptIsAskedFromTracker: one waiter of a transaction finds a receipt without an
// outcome and is then answered. A second waiter, which waits for a higher level, gets the record of
// the first. One of them must have asked the tracker for the receipt, or the second would wait in
// vain.
func TestFoundReceiptIsAskedFromTracker(t *testing.T) {
	tx := signedTx()
	first := executed("a", 1)
	first.Outcome = &primitives.OutcomeWithID{ID: tx.Hash(), Outcome: first.Outcome.Outcome}
	first.Outcome.ReceiptIDs = []primitives.Hash{id("open")}
	ledger, records := memLedger{}.put(first), NewRecords(1<<19)
	// This waiter is not answered before its mempool has answered.
	sent := newSharing(records, submitted(tx, view.LevelIncluded), ledger)
	sent.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	if len(sent.answers) != 0 {
		t.Fatalf("before the mempool: %+v", sent.answers)
	}
	last := newSharing(records, unsent(tx, view.LevelFinal), ledger)
	last.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	if !sent.hasAskedFor(id("open")) && !last.hasAskedFor(id("open")) {
		t.Errorf("no waiter watches the open receipt: %+v, %+v", sent.watches, last.watches)
	}
}

// emptyStore is an empty store that never fails.
type emptyStore struct{}

func (emptyStore) Outcome(primitives.Hash, primitives.Height) (e messages.Executed, ok bool, err error) {
	return e, false, nil
}

// TestReceiptsAreReadAgainAfterStoreFailure: receipts that a waiter found before the store failed
// are read again by the next waiter, which also asks the tracker for them.
func TestReceiptsAreReadAgainAfterStoreFailure(t *testing.T) {
	records := NewRecords(1 << 19)
	bad := executed("tx", 1, "open")
	bad.Outcome.ReceiptIDs = append([]primitives.Hash{{0xbd}}, bad.Outcome.ReceiptIDs...) // the last one first
	m := messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal}
	first := newSharing(records, m, memLedger{})
	stays := newSharing(records, m, memLedger{})
	for _, s := range []*testWaiter{first, stays} {
		s.Handle(messages.Progress{Watched: true, At: position(0, 0)})
	}
	first.o.Ledger = memLedger{}.put(bad)
	first.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	if len(first.answers) != 1 || first.answers[0].Err == nil {
		t.Fatalf("%+v", first.answers)
	}
	stays.o.Ledger = emptyStore{}
	stays.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	if !stays.hasAskedFor(id("open")) {
		t.Errorf("no waiter watches the open receipt: %+v", stays.watches)
	}
}

// TestReplacedInclusionFollowsNonceAgain: the tracker does not follow the nonce of an included
// transaction. When the transaction's block is no longer canonical, the waiter asks the tracker to
// follow the nonce again. Otherwise it would not notice that another transaction uses the nonce.
func TestReplacedInclusionFollowsNonceAgain(t *testing.T) {
	tx := signedTx()
	in := executed("a", 1)
	in.Outcome = &primitives.OutcomeWithID{ID: tx.Hash(), Outcome: in.Outcome.Outcome}
	s := newSharing(NewRecords(1<<19), unsent(tx, view.LevelFinal), memLedger{})
	s.Handle(messages.Progress{Watched: true, At: position(0, 0)})
	s.Handle(messages.Progress{At: position(1, 0), Executed: []messages.Executed{in}})
	n := len(s.watches)
	s.Handle(messages.Progress{At: position(2, 0), Reorganised: true, Branch: 1})
	if len(s.watches) != n+1 || s.watches[n].Use.Key == "" {
		t.Fatalf("%+v", s.watches[n:])
	}
	s.invalid = nonceUsed
	if s.Handle(messages.Progress{At: position(2, 0), Watched: true, Branch: 1}); len(s.answers) != 1 ||
		s.answers[0].Err != error(nonceUsed) {
		t.Errorf("%+v", s.answers)
	}
}

// unwatchOut is an Out that calls a function at Unwatch.
type unwatchOut struct {
	Out
	unwatch func()
}

func (o unwatchOut) Unwatch(messages.Unwatch) { o.unwatch() }

// TestRecordIsReleasedBeforeUnwatch: a waiter that ends releases the shared record before it sends
// Unwatch to the tracker. Otherwise a new waiter could find ids in the record that the tracker has
// forgotten, and not ask for them.
func TestRecordIsReleasedBeforeUnwatch(t *testing.T) {
	records := NewRecords(1 << 19)
	s := newSharing(records, messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal},
		memLedger{}.put(executed("tx", 1, "open")))
	s.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	left := -1
	s.o.Out = unwatchOut{Out: s.o.Out, unwatch: func() { left = records.Stats().Transactions }}
	if s.end(); left != 0 {
		t.Errorf("%d records exist when the tracker gets Unwatch, want none", left)
	}
}

// TestOutcomeRecordKeepsNoLogs: the record keeps only the part of an outcome that levels depend on.
// It keeps neither logs, result and profile, which are large, nor the block's list of outcomes.
func TestOutcomeRecordKeepsNoLogs(t *testing.T) {
	const transactions, receipts = 50, 20
	var all []*testWaiter
	records := NewRecords(1 << 19)
	before := heapBytes()
	for i := range transactions {
		var names []string
		for k := range receipts {
			names = append(names, fmt.Sprint(i, "r", k))
		}
		told, read := executed(fmt.Sprint("told", i), 1, append(names, "open")...), executed(fmt.Sprint("read", i), 1,
			append(names, "open")...)
		heavy := func(e messages.Executed) messages.Executed {
			e.Outcome.Logs = []string{strings.Repeat(fmt.Sprint(i), 16<<10)}
			e.Outcome.Status.Value = make([]byte, 16<<10)
			return e
		}
		ledger := memLedger{}.put(heavy(read))
		news := []messages.Executed{heavy(told)}
		for _, name := range names {
			ledger.put(heavy(executed(name, 2)))
			news = append(news, heavy(executed(name, 2)))
		}
		s := newSharing(records, messages.AwaitTransaction{Hash: read.Outcome.ID, Until: view.LevelFinal}, ledger)
		s.Handle(messages.Progress{Watched: true, At: position(3, 1)})
		s.o.Ledger = nil
		x := newSharing(records, messages.AwaitTransaction{Hash: told.Outcome.ID, Until: view.LevelFinal}, memLedger{})
		x.Handle(messages.Progress{Watched: true, At: position(1, 0)})
		x.Handle(messages.Progress{At: position(3, 1), Executed: news})
		all = append(all, s, x)
	}
	if used := heapBytes() - before; used > 4<<20 {
		t.Errorf("%d bytes of %d outcomes", used, records.Stats().Outcomes)
	}
	for _, s := range all {
		if s.core.Level() != view.LevelIncludedFinal {
			t.Fatalf("%v", s.core.Level())
		}
	}
	runtime.KeepAlive(all)
}

// TestWaitBeyondOutcomeLimitIsRefused: while many outcomes are known, a wait that would read many
// more is refused. A wait for a small transaction is not.
func TestWaitBeyondOutcomeLimitIsRefused(t *testing.T) {
	records := NewRecords(500)
	begin := func(name string, receipts int) *testWaiter {
		ledger := memLedger{}
		var names []string
		for i := range receipts {
			names = append(names, fmt.Sprint(name, "r", i))
			ledger.put(executed(names[i], 2))
		}
		ledger.put(executed(name, 1, append(names, "open"+name)...))
		s := newSharing(records, messages.AwaitTransaction{Hash: id(name), Until: view.LevelFinal}, ledger)
		s.Handle(messages.Progress{Watched: true, At: position(3, 1)})
		return s
	}
	var full *testWaiter
	for i := 0; full == nil && i < 20; i++ {
		if s := begin(fmt.Sprint("t", i), 100); len(s.answers) > 0 {
			full = s
		}
	}
	if full == nil || !errors.Is(full.answers[0].Err, view.ErrTooManyRequests) {
		t.Fatalf("%+v", full)
	}
	if n := records.Stats().Outcomes; n > 500+fewOutcomes {
		t.Errorf("%d outcomes are known", n)
	}
	if s := begin("small", 3); len(s.answers) != 0 || s.core.Level() != view.LevelIncludedFinal {
		t.Errorf("a small one: %+v, %v", s.answers, s.core.Level())
	}
}
