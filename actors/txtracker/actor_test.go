package txtracker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

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

func block(h, final primitives.Height, outgoing []*primitives.Receipt,
	outcomes ...primitives.OutcomeWithID) messages.BlockAccepted {
	header := &primitives.BlockHeader{}
	header.Height = h
	return messages.BlockAccepted{Block: &primitives.Block{Header: header}, Hash: primitives.Hash{byte(h)},
		IsHead: true, Final: final,
		Shards: []messages.ShardAccepted{{Outcomes: outcomes, Outgoing: outgoing}}}
}

func key(name string) string {
	return string(primitives.AppendAccessKeyKey(nil, primitives.AccountID(name), primitives.ZeroED25519Key.Handle()))
}

// nonce returns a block that sets the nonce of a key. A value of -1 deletes the key.
func nonce(h primitives.Height, name string, value int64) messages.BlockAccepted {
	b := block(h, 0, nil)
	change := primitives.StateChange{}
	if value >= 0 {
		change.Value = append(binary.LittleEndian.AppendUint64(nil, uint64(value)), 1)
	}
	b.Shards[0].Changes = []primitives.KeyChanges{{Key: []byte(key(name)), Changes: []primitives.StateChange{change}}}
	return b
}

// progressFunc implements Out, and ignores WatchAgain.
type progressFunc func(messages.Address, messages.Progress)

func (f progressFunc) Progress(to messages.Address, m messages.Progress) { f(to, m) }
func (f progressFunc) Again(messages.WatchAgain)                         {}

// world is the actor without a mailbox, and a record of what it sends.
type world struct {
	*Actor
	news map[messages.WaiterID][]messages.Progress
	told int
}

func newWorld() *world {
	w := &world{news: map[messages.WaiterID][]messages.Progress{}}
	w.Actor = New(messages.Position{}, progressFunc(func(to messages.Address, m messages.Progress) {
		w.news[to.Waiter] = append(w.news[to.Waiter], m)
		w.told++
	}))
	return w
}

func at(w messages.WaiterID) messages.Address { return messages.Address{Session: 1, Waiter: w} }

func (w *world) watch(waiter messages.WaiterID, names ...string) {
	m := messages.Watch{Waiter: at(waiter)}
	for _, n := range names {
		m.IDs = append(m.IDs, id(n))
	}
	m.Hash = m.IDs[0]
	w.Handle(m)
}

func TestWaiterGetsOnlyItsOutcomes(t *testing.T) {
	w := newWorld()
	w.watch(1, "tx1")
	w.watch(2, "tx2")
	w.watch(3, "tx1")
	for i := range messages.WaiterID(3) {
		if got := w.news[i+1]; len(got) != 1 || !got[0].Watched {
			t.Fatalf("waiter %d: %+v, want a confirmation", i+1, got)
		}
	}
	refund := &primitives.Receipt{ID: id("r"), PredecessorID: primitives.SystemAccount}
	w.Handle(block(1, 0, nil, outcome("tx1", "a"), outcome("other", "x")))
	w.Handle(block(2, 0, []*primitives.Receipt{refund}, outcome("a", "r"), outcome("x")))
	w.Handle(block(3, 1, nil, outcome("r")))
	for _, i := range []messages.WaiterID{1, 3} {
		got := w.news[i][1:]
		if len(got) != 3 || got[0].Executed[0].Outcome.ID != id("tx1") || got[1].Executed[0].Refund != id("r") ||
			got[2].Executed[0].Height != 3 || got[2].At != (messages.Position{Head: 3, Final: 1}) {
			t.Errorf("waiter %d: %+v", i, got)
		}
	}
	if len(w.news[2]) != 1 {
		t.Errorf("waiter 2 got progress of other transactions: %+v", w.news[2][1:])
	}
	w.Handle(block(4, 2, nil))
	if got := w.news[1]; len(got) != 5 || got[4].At.Final != 2 {
		t.Errorf("the final head moved: %+v", got)
	}
	w.Handle(block(5, 2, nil)) // concerns no waiter
	if got := w.news[1]; len(got) != 5 {
		t.Errorf("got progress for a block that changes nothing: %+v", got[5:])
	}
	w.Handle(messages.TransactionsDropped{List: []messages.DroppedTransaction{{Hash: id("tx2"), Err: errDropped}}})
	if got := w.news[2]; len(got) != 2 || got[1].Dropped != errDropped {
		t.Errorf("dropped: %+v", got)
	}
	side := block(9, 2, nil, outcome("tx2"))
	side.IsHead = false
	w.Handle(side)
	if len(w.news[2]) != 2 {
		t.Error("a block of a branch counts")
	}
	again := block(10, 2, nil)
	again.Reorganised = true
	w.Handle(again)
	if got := w.news[2]; len(got) != 3 || !got[2].Reorganised {
		t.Errorf("reorganised: %+v", got)
	}
	w.Handle(messages.Watch{Waiter: at(2), Use: messages.Use{Key: key("a"), Nonce: 4, Expires: 90},
		Executed: []primitives.Height{8}})
	for i := range messages.WaiterID(3) {
		w.Handle(messages.Unwatch{Waiter: at(i + 1)})
	}
	if waiters, things := w.Len(); waiters != 0 || things != 0 {
		t.Errorf("%d waiters and %d watched items remain, want none", waiters, things)
	}
}

// TestUnpooledTransactionsWaiterGetsDoubt: the waiter of a transaction that is in no pool gets one
// Progress with Doubt when its nonce is used, its key is deleted, or it expires. It gets none for
// other changes.
func TestUnpooledTransactionsWaiterGetsDoubt(t *testing.T) {
	w := newWorld()
	for i, u := range []messages.Use{{Nonce: 7, Expires: 100}, {Nonce: 9, Expires: 100}, {Nonce: 50, Expires: 8},
		{Nonce: 60, Expires: 100}} {
		u.Key = key("a")
		w.Handle(messages.Watch{Waiter: at(messages.WaiterID(i + 1)), Hash: primitives.Hash{byte(i)},
			IDs: []primitives.Hash{{byte(i)}}, Use: u})
	}
	doubts := func(want ...int) {
		t.Helper()
		var got []int
		for i := range messages.WaiterID(4) {
			n := 0
			for _, p := range w.news[i+1] {
				if p.Doubt {
					n++
				}
			}
			got = append(got, n)
		}
		if !slices.Equal(got, want) {
			t.Errorf("doubts %v, want %v", got, want)
		}
	}
	w.Handle(nonce(1, "b", 1000))
	w.Handle(nonce(2, "a", 6))
	doubts(0, 0, 0, 0)
	w.Handle(nonce(3, "a", 7))
	doubts(1, 0, 0, 0)
	w.Handle(nonce(4, "a", 20))
	w.Handle(nonce(5, "a", 21))
	doubts(1, 1, 0, 0)
	w.Handle(block(8, 0, nil))
	w.Handle(block(9, 0, nil))
	doubts(1, 1, 1, 0)
	w.Handle(nonce(10, "a", -1))
	doubts(1, 1, 1, 1)
	w.Handle(messages.Watch{Waiter: at(1), Use: messages.Use{Key: key("a"), Nonce: 7, Expires: 100}})
	w.Handle(nonce(11, "a", 7))
	doubts(2, 1, 1, 1)
	if _, things := w.Len(); things != 4 { // the watched ids remain
		t.Errorf("%d things are watched, want 4 ids", things)
	}
}

// TestDoubtFollowsUninitializedAccountsNonce: the nonce of such an account is in its own row.
// Payments to it change nothing. A waiter is in doubt when the nonce is used, and when the account
// has its state or is deleted.
func TestDoubtFollowsUninitializedAccountsNonce(t *testing.T) {
	row := primitives.AppendAccountKey(nil, "0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g")
	bare := func(amount uint64, nonce primitives.Nonce) []byte {
		a := primitives.NewUninitializedAccount(primitives.Yocto(amount), 100, nonce)
		return a.AppendBorsh(nil)
	}
	whole := (&primitives.Account{Version: primitives.AccountV1}).AppendBorsh(nil)
	for name, c := range map[string]struct {
		value []byte
		doubt bool
	}{
		"paid": {bare(9, 6), false}, "nonce used": {bare(5, 7), true}, "nonce passed": {bare(5, 8), true},
		"initialized": {whole, true}, "deleted": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), IDs: []primitives.Hash{id("tx")},
				Use: messages.Use{Key: string(row), Nonce: 7, Expires: 100}})
			b := block(1, 0, nil)
			b.Shards[0].Changes = []primitives.KeyChanges{{Key: row, Changes: []primitives.StateChange{{Value: c.value}}}}
			w.Handle(b)
			news := w.news[1]
			if got := news[len(news)-1].Doubt; got != c.doubt {
				t.Errorf("doubt %v, want %v", got, c.doubt)
			}
		})
	}
}

// TestRestartedTrackerAsksToWatchAgain: an actor that starts sends WatchAgain, and Watched gives
// the position from which on it reports.
func TestRestartedTrackerAsksToWatchAgain(t *testing.T) {
	var got []messages.Progress
	a := New(messages.Position{Head: 7, Final: 5}, progressFunc(func(_ messages.Address,
		m messages.Progress) {
		got = append(got, m)
	}))
	a.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), IDs: []primitives.Hash{id("tx")},
		Executed: []primitives.Height{5, 6}})
	for _, old := range []primitives.Height{6, 7} { // they were in the mailbox
		a.Handle(block(old, old-2, nil, outcome("tx")))
		a.Handle(messages.Watch{Waiter: at(2), Hash: id("other"), IDs: []primitives.Hash{id("other")}})
		if p := got[len(got)-1]; p.At != (messages.Position{Head: 7, Final: 5}) {
			t.Errorf("after block %d its position is %+v, which is too low", old, p.At)
		}
	}
	got = got[:1]
	a.Handle(block(8, 6, nil))
	if len(got) != 2 || !got[0].Watched || got[0].At.Head != 7 || got[1].At != (messages.Position{Head: 8, Final: 6}) {
		t.Errorf("got %+v, want the confirmation at 7, and that 6 is final", got)
	}
}

// TestWaitersShareListOfOutcomes: each of many waiters of a transaction with 1,300 receipts needs a
// few words of memory, and all get the same list of outcomes.
func TestWaitersShareListOfOutcomes(t *testing.T) {
	const receipts, waiters = 1300, 200
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var names []string
	var ran []primitives.OutcomeWithID
	for i := range receipts {
		names = append(names, fmt.Sprint("r", i))
		ran = append(ran, outcome(names[i]))
	}
	blocks := []messages.BlockAccepted{block(1, 0, nil, outcome("tx", names...)), block(2, 0, nil, ran[:receipts/2]...)}
	var last []*messages.Executed
	a := New(messages.Position{}, progressFunc(func(_ messages.Address, m messages.Progress) {
		if len(m.Executed) == receipts/2 {
			last = append(last, &m.Executed[0])
		}
	}))
	before := heap()
	for i := range waiters {
		a.Handle(messages.Watch{Waiter: at(messages.WaiterID(i + 1)), Hash: id("tx"), IDs: []primitives.Hash{id("tx")}})
	}
	for i := range blocks {
		a.Handle(blocks[i])
	}
	if each := (heap() - before) / waiters; each > 3<<10 {
		t.Errorf("%d bytes for a waiter", each)
	}
	if last = slices.Compact(last); len(last) != 1 {
		t.Errorf("%d lists for %d waiters", len(last), waiters)
	}
	if w, things := a.Len(); w != waiters || things != 1+receipts+2 { // two blocks that are to become final
		t.Errorf("%d waiters, %d things", w, things)
	}
	runtime.KeepAlive(blocks)
}

// TestReceiptsFoundByOneWaiterReachAll: a waiter finds receipts in the store and watches them. All
// waiters of the transaction then get their outcomes, and a Watched, so that each of them reads
// older outcomes from the store.
func TestReceiptsFoundByOneWaiterReachAll(t *testing.T) {
	w := newWorld()
	w.watch(1, "tx")
	w.watch(2, "tx")
	w.watch(3, "other")
	w.Handle(block(1, 0, nil, outcome("r")))
	w.Handle(messages.Watch{Waiter: at(1), Hash: id("tx"), IDs: []primitives.Hash{id("r")}})
	for i, want := range []int{2, 2, 1} {
		if got := w.news[messages.WaiterID(i+1)]; len(got) != want || !got[want-1].Watched {
			t.Errorf("waiter %d: %+v", i+1, got)
		}
	}
	w.Handle(messages.Watch{Waiter: at(2), Hash: id("tx"), IDs: []primitives.Hash{id("r")}}) // watched already
	w.Handle(block(2, 0, nil, outcome("r")))
	for i, want := range []int{3, 4, 1} {
		if got := w.news[messages.WaiterID(i+1)]; len(got) != want || want > 1 && len(got[want-1].Executed) != 1 {
			t.Errorf("waiter %d: %+v", i+1, got)
		}
	}
	w.watch(4, "r") // a receipt id, as if it were a transaction
	w.Handle(messages.Unwatch{Waiter: at(1)})
	w.Handle(messages.Unwatch{Waiter: at(2)})
	w.Handle(block(3, 0, nil, outcome("r")))
	if got := w.news[4]; len(got) != 2 || len(got[1].Executed) != 1 {
		t.Errorf("the waiter of the receipt got %+v", got)
	}
}

// TestTimeOfManyWaitersGrowsLinearly: the time for many waiters of one transaction grows linearly
// with their number.
func TestTimeOfManyWaitersGrowsLinearly(t *testing.T) {
	run := func(n int) (took time.Duration) {
		begin, w := time.Now(), newWorld()
		for i := range n {
			w.watch(messages.WaiterID(i+1), "tx")
		}
		w.Handle(block(1, 0, nil, outcome("tx", "receipt")))
		if _, things := w.Len(); things != 3 { // two ids, and the block that is to become final
			t.Fatalf("%d things are watched, want 3", things)
		}
		for i := range n {
			w.Handle(messages.Unwatch{Waiter: at(messages.WaiterID(i + 1))})
		}
		return time.Since(begin)
	}
	few, many := run(1000), run(64_000)
	for range 4 {
		few = max(few, run(1000)) // the slowest run, because other processes use the machine
	}
	// 64 times as many waiters take about a hundred times as long. Quadratic growth would make it
	// 4000 times.
	if many > 1000*few {
		t.Errorf("1000 waiters took %v, 64,000 %v", few, many)
	}
}

// BenchmarkBlock measures a block with 1000 transfers while other waits are open: for transactions
// of other keys, of the same keys, and for finality.
func BenchmarkBlock(b *testing.B) {
	for _, n := range []int{0, 4_000, 10_000} {
		b.Run(fmt.Sprintf("waits=%d", n), func(b *testing.B) {
			w := newWorld()
			for i := range n {
				m := messages.Watch{Waiter: at(messages.WaiterID(i + 1)), Hash: id(fmt.Sprint("wait", i)),
					IDs: []primitives.Hash{id(fmt.Sprint("wait", i))}}
				switch i % 3 {
				case 0:
					m.Use = messages.Use{Key: key(fmt.Sprint("other", i)), Nonce: 1, Expires: 1 << 40}
				case 1:
					m.Use = messages.Use{Key: key(fmt.Sprint("signer", i%1000)), Nonce: 1 << 40, Expires: 1 << 40}
				case 2:
					m.Executed = []primitives.Height{1 << 40}
				}
				w.Handle(m)
			}
			blk := block(1, 0, nil)
			for i := range 1000 {
				blk.Shards[0].Outcomes = append(blk.Shards[0].Outcomes, outcome(fmt.Sprint("tx", i), fmt.Sprint("r", i)),
					outcome(fmt.Sprint("q", i)))
				blk.Shards[0].Changes = append(blk.Shards[0].Changes, nonce(0, fmt.Sprint("signer", i), 5).Shards[0].Changes...)
			}
			told := w.told
			for b.Loop() {
				blk.Block.Header.Height++
				blk.Final++
				w.Handle(blk)
			}
			if w.told != told {
				b.Errorf("%d waiters got progress that does not concern them", w.told-told)
			}
		})
	}
}

var errDropped = errors.New("dropped")

// TestDropIsReportedAfterPendingBlocks: a drop that is reported while blocks are on their way to
// disk is passed on after those blocks, because one of them may include another copy. A rollback
// discards it.
func TestDropIsReportedAfterPendingBlocks(t *testing.T) {
	w := newWorld()
	w.watch(1, "tx1")
	w.watch(2, "tx2")
	head := w.at.Head
	before := [3]int{0, len(w.news[1]), len(w.news[2])}
	w.Handle(messages.TransactionsDropped{Tip: head + 2, List: []messages.DroppedTransaction{{Hash: id("tx1"),
		Err: errDropped}, {Hash: id("tx2"), Err: errDropped}}})
	w.Handle(block(head+1, 0, nil))
	if len(w.news[1]) != before[1] || len(w.news[2]) != before[2] {
		t.Fatalf("got progress before the tip: %+v, %+v", w.news[1], w.news[2])
	}
	w.Handle(block(head+2, 0, nil, outcome("tx1")))
	one, two := w.news[1][before[1]:], w.news[2][before[2]:]
	if len(one) != 2 || len(one[0].Executed) != 1 || one[1].Dropped != errDropped || len(two) != 1 ||
		two[0].Dropped != errDropped || two[0].At.Head != head+2 {
		t.Errorf("got %+v and %+v, want the block before the drop", one, two)
	}
	w.Handle(messages.TransactionsDropped{Tip: head + 9, List: []messages.DroppedTransaction{{Hash: id("tx2"),
		Err: errDropped}}})
	w.Handle(messages.RolledBack{At: messages.Position{Head: head}})
	if n := len(w.dropped); n != 0 {
		t.Errorf("%d drops are pending after the rollback, want none", n)
	}
}
