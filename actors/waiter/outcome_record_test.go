package waiter

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/troupe-chain/troupe/actors/txtracker"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestWaitersShareOutcomeRecord: the outcomes of a transaction with 1,300 receipts are kept once
// and read once for all waiters. After the last waiter has ended, nothing is left.
func TestWaitersShareOutcomeRecord(t *testing.T) {
	const receipts, waiters = 1300, 200
	var names []string
	var ran []messages.Executed
	for i := range receipts {
		names = append(names, fmt.Sprint("c", i))
		ran = append(ran, executed(names[i], 3))
	}
	first := executed("tx", 2, names...)
	looks, records := 0, NewRecords(1<<19)
	ledger := countingLedger{memLedger{}, &looks}
	begin := func() (all []*testWaiter) {
		for range waiters {
			all = append(all, newSharing(records, messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal}, ledger))
		}
		return all
	}
	told := func(all []*testWaiter, m messages.Progress) {
		for _, s := range all {
			s.Handle(m)
		}
	}
	before := heapBytes()
	early := begin()
	told(early, messages.Progress{Watched: true, At: position(1, 0)})
	if looks != 1 {
		t.Errorf("%d reads of unknown outcomes, want 1", looks)
	}
	ledger.memLedger.put(first)
	ledger.memLedger.put(ran[:receipts/2]...)
	told(early, messages.Progress{At: position(2, 0), Executed: []messages.Executed{first}})
	told(early, messages.Progress{At: position(3, 1), Executed: ran[:receipts/2]})
	late := begin()
	told(late, messages.Progress{Watched: true, At: position(3, 1)})
	told(late, messages.Progress{Watched: true, At: position(3, 1)}) // that the blocks are not final
	if looks != 1+receipts/2 {
		t.Errorf("%d reads, want %d more: known outcomes are not read, others once", looks, receipts/2)
	}
	if each := (heapBytes() - before) / (2 * waiters); each > 4<<10 {
		t.Errorf("%d bytes for a wait", each)
	}
	if s := records.Stats(); s.Transactions != 1 || s.Outcomes != 1+receipts/2 || s.Lookups != uint64(looks) {
		t.Errorf("%+v", s)
	}
	rest := ran[receipts/2:]
	for i := range rest {
		rest[i].Height, rest[i].Block = 4, primitives.Hash{4}
	}
	all := append(early, late...)
	told(all, messages.Progress{At: position(4, 2), Executed: rest})
	told(all, messages.Progress{At: position(6, 4)})
	for i, s := range all {
		if len(s.answers) != 1 || s.answers[0] != (messages.Awaited{Level: view.LevelFinal, At: position(6, 4)}) {
			t.Fatalf("wait %d: %+v", i, s.answers)
		}
	}
	if s := records.Stats(); s.Transactions != 0 || s.Outcomes != 0 {
		t.Errorf("after the last waiter: %+v, want nothing", s)
	}
	runtime.KeepAlive(all)
}

// TestReplyIgnoresLaterSharedRecords: the answer of a waiter that has not seen the newest blocks is
// right for the last block that it has seen, even if other waiters have shared records of later
// blocks.
func TestReplyIgnoresLaterSharedRecords(t *testing.T) {
	want := map[view.ExecutionLevel]messages.Awaited{
		view.LevelIncluded:           {Level: view.LevelIncluded, At: position(1, 0)},
		view.LevelExecutedOptimistic: {Level: view.LevelExecutedOptimistic, At: position(2, 0)},
		view.LevelIncludedFinal:      {Level: view.LevelExecuted, At: position(3, 1)},
		view.LevelExecuted:           {Level: view.LevelExecuted, At: position(3, 1)},
		view.LevelFinal:              {Level: view.LevelFinal, At: position(5, 3)},
	}
	script := append([]messages.Progress{{Watched: true}}, story...)
	rng := primitives.NewChaCha8Rng([32]byte{7})
	for range 300 {
		b, records := memLedger{}, NewRecords(1<<19)
		for i := range story {
			b.put(story[i].Executed...)
		}
		var all []*testWaiter
		for level := view.LevelIncluded; level <= view.LevelFinal; level++ {
			for range 2 {
				all = append(all, newSharing(records, messages.AwaitTransaction{Hash: id("tx"), Until: level}, b))
			}
		}
		next := make([]int, len(all))
		for left := len(all) * len(script); left > 0; {
			i := int(rng.Uint32()) % len(all)
			if next[i] < len(script) {
				all[i].Handle(script[next[i]])
				next[i]++
				left--
			}
		}
		for _, s := range all {
			if len(s.answers) != 1 || s.answers[0] != want[s.o.Wait.Until] {
				t.Fatalf("wait for %v: %+v, want %+v", s.o.Wait.Until, s.answers, want[s.o.Wait.Until])
			}
		}
		if s := records.Stats(); s.Transactions != 0 || s.Outcomes != 0 {
			t.Fatalf("after the last waiter: %+v, want nothing", s)
		}
	}
}

// TestInvalidatedRecordsAreNotUsed: a wait whose earlier answer was invalidated by an unreported
// reorganisation does not use the outcomes that earlier waits have recorded.
func TestInvalidatedRecordsAreNotUsed(t *testing.T) {
	records, b := NewRecords(1<<19), memLedger{}
	b.put(executed("tx", 1, "a"), executed("a", 2))
	m := messages.AwaitTransaction{Hash: id("tx"), Until: view.LevelFinal}
	first := newSharing(records, m, b)
	first.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	m.Until = view.LevelExecutedOptimistic
	if second := newSharing(records, m, b); true {
		second.Handle(messages.Progress{Watched: true, At: position(2, 0)})
		second.Handle(messages.Progress{Watched: true, At: position(2, 0)})
		if len(second.answers) != 1 {
			t.Fatalf("%+v", second.answers)
		}
	}
	clear(b) // another branch is the chain
	m.Again = 1
	again := newSharing(records, m, b)
	again.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	again.Handle(messages.Progress{Watched: true, At: position(2, 0)})
	if len(again.answers) != 0 {
		t.Errorf("%+v of what no block has", again.answers)
	}
}

// world is a chain with a tracker and waiters that make progress in any order.
type world struct {
	rng     interface{ Uint32() uint32 }
	records *Records
	ledger  memLedger
	told    *txtracker.Actor
	inbox   []any // of txtracker
	all     map[messages.Address]*member
	order   []*member // as they came
	at      messages.Position
	truth   map[messages.Position]view.ExecutionLevel // of the canonical branch
}

// member is a waiter and its mailbox.
type member struct {
	*testWaiter
	inbox []any
	sent  int  // of its watches
	asks  bool // it submits, and the mempool has not answered
}

func (w *world) begin() {
	w.told = txtracker.New(w.at, w)
}

// Progress implements txtracker.Out.
func (w *world) Progress(to messages.Address, m messages.Progress) {
	if x := w.all[to]; x != nil {
		x.inbox = append(x.inbox, m)
	}
}

// Again implements txtracker.Out.
func (w *world) Again(messages.WatchAgain) {}

func (w *world) join(until view.ExecutionLevel) {
	m := messages.AwaitTransaction{Waiter: messages.Address{Session: 1, Waiter: messages.WaiterID(len(w.order) + 1)},
		Hash: id("tx"), Until: until}
	if w.rng.Uint32()%3 == 0 { // sent once more
		m.Tx, m.Submit = signedTx(), true
	}
	x := &member{testWaiter: newSharing(w.records, m, w.ledger), asks: m.Submit}
	w.all[m.Waiter] = x
	w.order = append(w.order, x)
	w.send(x)
}

// send passes on the requests that a waiter has made since the last call.
func (w *world) send(x *member) {
	for ; x.sent < len(x.watches); x.sent++ {
		w.inbox = append(w.inbox, x.watches[x.sent])
	}
	if a := x.o.Wait.Waiter; x.gone > 0 && w.all[a] != nil {
		w.inbox = append(w.inbox, messages.Unwatch{Waiter: a})
		delete(w.all, a)
	}
}

// step lets the tracker or a waiter handle a message, and returns false if there is none.
func (w *world) step() bool {
	var busy []*member
	for _, x := range w.order {
		if len(x.inbox) > 0 {
			busy = append(busy, x)
		}
	}
	n := len(busy)
	if len(w.inbox) > 0 {
		n++
	}
	if n == 0 {
		return false
	}
	if i := int(w.rng.Uint32()) % n; i < len(busy) {
		x := busy[i]
		m := x.inbox[0]
		x.inbox = x.inbox[1:]
		x.Handle(m)
		w.send(x)
	} else {
		m := w.inbox[0]
		w.inbox = w.inbox[1:]
		w.told.Handle(m)
	}
	return true
}

// block adds outcomes to the chain and informs the tracker.
func (w *world) block(height, final primitives.Height, reorganised bool, ran ...messages.Executed) {
	w.ledger.put(ran...)
	header := &primitives.BlockHeader{}
	header.Height = height
	m := messages.BlockAccepted{Block: &primitives.Block{Header: header}, Hash: primitives.Hash{byte(height)},
		IsHead: true, Final: final, Reorganised: reorganised, Shards: make([]messages.ShardAccepted, 1)}
	for _, e := range ran {
		m.Shards[0].Outcomes = append(m.Shards[0].Outcomes, *e.Outcome)
		if e.Refund != (primitives.Hash{}) {
			m.Shards[0].Outgoing = append(m.Shards[0].Outgoing, &primitives.Receipt{ID: e.Refund,
				PredecessorID: primitives.SystemAccount})
		}
	}
	w.at = position(height, final)
	w.inbox = append(w.inbox, m)
	w.note()
}

// pooled makes the mempool check and answer some waiters.
func (w *world) pooled(now func() bool) {
	for _, x := range w.order {
		if x.asks && now() {
			x.asks = false
			_, used := w.ledger[id("tx")]
			x.inbox = append(x.inbox, messages.Submitted{Pooled: true, MaybeIncluded: used})
		}
	}
}

func (w *world) note() {
	w.truth[w.at] = txstatus.Reached(id("tx"), func(x primitives.Hash) (out txstatus.Executed) {
		if e, ok := w.ledger[x]; ok && e.Height <= w.at.Head {
			out = txstatus.Executed{Known: true, Status: e.Outcome.Status.Kind, Sends: e.Outcome.ReceiptIDs,
				Final: e.Height <= w.at.Final, Refund: e.Refund}
		}
		return out
	})
}

// TestConcurrentWaitersAnswerTheirBlock: many waiters of one transaction begin and give up at any
// time, and make progress in any order with the tracker. Each answer is right for the block that it
// names. If the tracker fails or the chain reorganises, no answer has level FINAL for a transaction
// that is not on the chain.
func TestConcurrentWaitersAnswerTheirBlock(t *testing.T) {
	for seed := range 400 {
		turmoil := seed % 2
		w := &world{rng: primitives.NewChaCha8Rng([32]byte{byte(seed), byte(seed >> 8), 1}), records: NewRecords(1 << 19),
			ledger: memLedger{}, all: map[messages.Address]*member{}, truth: map[messages.Position]view.ExecutionLevel{}}
		w.note()
		w.begin()
		chance := func(n uint32) bool { return w.rng.Uint32()%n == 0 }
		some := func() {
			for chance(2) {
				w.join(view.LevelIncluded + view.ExecutionLevel(w.rng.Uint32()%5))
			}
			for range w.rng.Uint32() % 40 {
				w.step()
			}
			w.pooled(func() bool { return chance(4) })
			if len(w.order) > 0 && chance(4) { // a client hangs up
				if x := w.order[int(w.rng.Uint32())%len(w.order)]; x.gone == 0 && len(x.answers) == 0 {
					x.end()
					x.answered, x.inbox = true, nil
					w.send(x)
				}
			}
			if turmoil == 1 && chance(8) { // the tracker fails and loses the message in work
				if len(w.inbox) > 0 {
					w.inbox = w.inbox[1:]
				}
				w.begin()
				for _, x := range w.order {
					if w.all[x.o.Wait.Waiter] != nil {
						x.inbox = append(x.inbox, messages.WatchAgain{})
					}
				}
			}
		}
		some()
		w.block(1, 0, false, executed("tx", 1, "a", "b"))
		some()
		w.block(2, 0, false, executed("a", 2, "c", "refund"))
		some()
		h := primitives.Height(3)
		if turmoil == 1 && chance(2) { // from block 1 on another branch with different outcomes
			delete(w.ledger, id("a"))
			clear(w.truth)
			w.block(3, 1, true)
			some()
			h = 4
			w.block(h, 2, false, executed("a", h, "c", "refund"))
			some()
			h++
		}
		w.block(h, h-2, false, executed("b", h, "d"), executed("c", h))
		some()
		w.block(h+1, h-1, false, executed("d", h+1), executed("refund", h+1))
		some()
		w.block(h+2, h, false)
		some()
		w.block(h+3, h+1, false)
		w.pooled(func() bool { return true })
		for n := 0; w.step(); n++ {
			if n > 1_000_000 {
				t.Fatalf("seed %d: it does not end", seed)
			}
		}
		for i, x := range w.order {
			if x.answered && len(x.answers) == 0 {
				continue // hung up
			}
			if len(x.answers) != 1 || x.answers[0].Err != nil {
				t.Fatalf("seed %d: wait %d for %v: %+v", seed, i, x.o.Wait.Until, x.answers)
			}
			a := x.answers[0]
			if !txstatus.Meets(a.Level, x.o.Wait.Until) || turmoil == 0 && a.Level != w.truth[a.At] ||
				a.Level == view.LevelFinal && w.truth[a.At] != view.LevelFinal {
				t.Fatalf("seed %d: wait %d for %v: %+v, and as of that it is %v", seed, i, x.o.Wait.Until, a, w.truth[a.At])
			}
		}
		if s := w.records.Stats(); s.Transactions != 0 || s.Outcomes != 0 {
			t.Fatalf("seed %d: %+v remain, want nothing", seed, s)
		}
		if waiters, things := w.told.Len(); waiters+things != 0 {
			t.Fatalf("seed %d: the tracker has %d waiters and %d watched items, want none", seed, waiters, things)
		}
	}
}
