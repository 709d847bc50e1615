package mempool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

func tx(signer primitives.AccountID, nonce primitives.Nonce) *primitives.SignedTransaction {
	return primitives.NewSignedTransaction(primitives.Transaction{SignerID: signer, PublicKey: primitives.ZeroED25519Key,
		ReceiverID: "r.near", Nonce: primitives.TransactionNonce{Nonce: nonce}}, primitives.ZeroED25519Signature)
}

// world is an actor without a mailbox, and a record of what it sends.
type world struct {
	*Actor
	front     *Status
	fresh     *Wakeup
	tally     Tally
	rings     int
	dropped   []primitives.Hash
	why       map[primitives.Hash]error // of dropped
	lostAll   []primitives.Hash         // drops reported because the actor failed
	homeless  bool                      // Forward returns false: other shards have no pools
	submitted map[messages.WaiterID][]messages.Submitted
	done      map[messages.SessionID]int
	forwarded map[primitives.ShardID][]any
	offered   []messages.Candidates
	verdicts  map[primitives.Hash]Verdict
	ahead     func(*primitives.SignedTransaction) bool
	nonces    map[primitives.AccountID]primitives.Nonce   // current nonce of each signer's key
	away      map[primitives.AccountID]primitives.ShardID // shards of signers that do not belong to shard 0
	looked    [][]*primitives.SignedTransaction           // batches that Check was called with
	waiting   []func()                                    // functions passed to runAside while hold is set
	hold      bool
	drops     []messages.TransactionsDropped // reports of drops
	settled   map[bool]int                   // number of calls of Settled, by pooled

	unknownBase bool                 // Base finds no block
	panics      primitives.AccountID // Home panics for this account; "": for none
}

// Home implements Chain.
func (w *world) Home(a primitives.AccountID) primitives.ShardID {
	if a == w.panics && a != "" {
		panic("an account that breaks the actor")
	}
	return w.away[a]
}

// Base implements Chain.
func (w *world) Base(primitives.Hash) (primitives.Height, bool) { return 0, !w.unknownBase }

// NonceUsed implements Chain.
func (w *world) NonceUsed(x *primitives.SignedTransaction) (primitives.Nonce, bool) {
	n := w.nonces[x.SignerID]
	return n, x.Nonce.Nonce <= n
}

// IsAhead implements Chain.
func (w *world) IsAhead(x *primitives.SignedTransaction) bool { return w.ahead != nil && w.ahead(x) }

func (w *world) Candidates(m messages.Candidates) { w.offered = append(w.offered, m) }

func (w *world) Dropped(m messages.TransactionsDropped) {
	for _, x := range m.List {
		w.dropped, w.why[x.Hash] = append(w.dropped, x.Hash), x.Err
	}
	w.drops = append(w.drops, m)
}

func (w *world) Lost(m messages.TransactionsDropped) {
	for _, x := range m.List {
		w.lostAll = append(w.lostAll, x.Hash)
	}
}

func (w *world) Settled(_ primitives.Hash, pooled bool) { w.settled[pooled]++ }

func (w *world) Submitted(to messages.Address, m messages.Submitted) {
	w.submitted[to.Waiter] = append(w.submitted[to.Waiter], m)
}

func (w *world) Done(s messages.SessionID, count int) { w.done[s] += count }

func (w *world) Forward(to primitives.ShardID, m any) bool {
	w.forwarded[to] = append(w.forwarded[to], m)
	return !w.homeless
}

func (w *world) Again(messages.SubmitAgain) {}

func newWorld(change func(*Options)) *world {
	w := &world{fresh: new(Wakeup), submitted: map[messages.WaiterID][]messages.Submitted{},
		done: map[messages.SessionID]int{}, settled: map[bool]int{},
		forwarded: map[primitives.ShardID][]any{}, verdicts: map[primitives.Hash]Verdict{}, away: map[primitives.AccountID]primitives.ShardID{}, why: map[primitives.Hash]error{}}
	w.fresh.Notify = func(messages.TransactionsWaiting) { w.rings++ }
	w.front = NewStatus(w.fresh)
	w.fresh.SetPools([]*Status{w.front})
	o := Options{
		Shard: 0, Pool: txpool.New(txpool.Limits{}, 10, primitives.Hash{1}), Status: w.front, Tally: &w.tally, Checkers: 1,
		Check: func(txs []*primitives.SignedTransaction) (out []Verdict) {
			w.looked = append(w.looked, txs)
			for _, x := range txs {
				if x.SignerID == "panic.near" {
					panic("a transaction that breaks the check")
				}
				out = append(out, w.verdicts[x.Hash()])
			}
			return out
		},
		Chain: w,
		Out:   Out{ActorSender: w, ClientSender: w, DropRecorder: w},
	}
	if change != nil {
		change(&o)
	}
	w.Actor = New(o)
	w.runAside = func(f func()) {
		if w.hold {
			w.waiting = append(w.waiting, f)
		} else {
			f()
		}
	}
	return w
}

// add submits a batch and returns its answers, or nil if it is not fully answered yet.
func (w *world) add(txs ...*primitives.SignedTransaction) []messages.Submitted {
	r := NewRequest("", txs)
	w.Handle(r)
	select {
	case <-r.Done():
		return r.Answers()
	default:
		return nil
	}
}

// choose simulates a chunk that takes at most limit offered transactions and drops those for which
// drop returns true.
func (w *world) choose(limit int, drop func(*primitives.SignedTransaction) bool) (out apply.Prepared) {
	w.Handle(messages.ProduceChunk{})
	c := NewChoice(&w.offered[len(w.offered)-1], func(p Page) { w.Handle(p) }, time.Second)
	for g := c.NextGroup(); g != nil; g = c.NextGroup() {
		if len(out.Transactions) == limit {
			out.Limit = apply.LimitGas
			break
		}
		for x := g.Peek(); x != nil; x = g.Peek() {
			g.Pop()
			if drop == nil || !drop(x) {
				out.Transactions = append(out.Transactions, x)
				break
			}
			out.Dropped = append(out.Dropped, apply.Dropped{SignedTransaction: x})
		}
	}
	if m, news := c.Done(&out); news {
		w.Handle(m)
	}
	return out
}

func (w *world) block(hash, prev byte, height primitives.Height, change func(*messages.BlockAccepted),
	txs ...*primitives.SignedTransaction) {
	h := &primitives.BlockHeader{PrevHash: primitives.Hash{prev}}
	h.Height = height
	m := messages.BlockAccepted{Block: &primitives.Block{Header: h}, Hash: primitives.Hash{hash}, IsHead: true,
		Shards: []messages.ShardAccepted{{ID: 7}, {ID: 0,
			Chunk: &primitives.Chunk{ChunkBody: primitives.ChunkBody{Transactions: txs}}}}}
	if change != nil {
		change(&m)
	}
	w.Handle(messages.BlockImported{BlockAccepted: &m})
}

func (w *world) has(x *primitives.SignedTransaction) bool { return w.pool.Find(x.Hash()) != nil }

// TestTransactionAfterIdleRaisesOffer: an empty pool is idle. A transaction that arrives after Idle
// was called raises an offer again.
func TestTransactionAfterIdleRaisesOffer(t *testing.T) {
	w := newWorld(nil)
	if !w.front.Idle() {
		t.Error("an empty pool is not idle")
	}
	a := tx("a.near", 1)
	w.add(a)
	if w.front.Idle() || !w.front.offers.Load() {
		t.Error("a pool with a transaction is idle, or offers none")
	}
	w.block(1, 0, 1, nil, a) // another node's block includes it
	if !w.front.offers.Load() {
		t.Fatal("no offer is left: the test needs one")
	}
	if !w.front.Idle() || w.front.offers.Load() {
		t.Error("a pool that is empty again is not idle, or still offers something")
	}
}

// TestPoolIsIdleWhileNextBlockTakesItsTransactions: a pool is idle if a chunk has taken all its
// transactions, whether they fit in a page or not. A transaction that the chunk did not take, that
// arrived later, or that the block did not include, ends that, even if other transactions have left
// the pool meanwhile.
func TestPoolIsIdleWhileNextBlockTakesItsTransactions(t *testing.T) {
	for _, count := range []int{2, firstPageSize, firstPageSize + 1} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			idle := func(w *world, want bool, what string) {
				t.Helper()
				if got := w.front.Idle(); got != want {
					t.Errorf("%s: idle %v, want %v", what, got, want)
				}
				if !want && !w.fresh.HasOffers() {
					t.Errorf("%s: the pool offers nothing", what)
				}
			}
			var all []*primitives.SignedTransaction
			for i := range count {
				all = append(all, tx(primitives.AccountID(fmt.Sprintf("a%d.near", i)), 1))
			}
			w := newWorld(nil)
			w.add(all...)
			w.choose(1<<20, nil)
			idle(w, true, "all are taken")
			w.add(tx("late.near", 1))
			idle(w, false, "one arrived later")
			w.block(1, 0, 1, nil, all...)
			idle(w, false, "the block took all but one")
			w.block(2, 1, 2, nil, tx("late.near", 1))
			idle(w, true, "empty")

			w = newWorld(nil)
			w.add(all...)
			w.choose(1<<20, nil)
			w.block(1, 0, 1, nil, all[1:]...)
			idle(w, false, "the block did not include one")

			w = newWorld(nil)
			w.add(all...)
			w.choose(1, nil)
			idle(w, false, "the chunk took one")

			w = newWorld(nil)
			w.add(all...)
			w.Handle(messages.ProduceChunk{})
			c := NewChoice(&w.offered[len(w.offered)-1], func(p Page) { w.Handle(p) }, time.Second)
			w.block(1, 0, 1, nil, all[:1]...) // of another node, during the choice
			var out apply.Prepared
			for g := c.NextGroup(); g != nil; g = c.NextGroup() {
				out.Transactions = append(out.Transactions, g.Peek())
				g.Pop()
			}
			w.add(tx("late.near", 1))
			if m, news := c.Done(&out); news {
				w.Handle(m)
			}
			idle(w, false, "one arrived later, and one has left the pool")
		})
	}
}

// TestProducerIsNotifiedOnceUntilItAsks: the producer gets one TransactionsWaiting until it calls
// HasOffers again. It also gets one for transactions that a walk left, even if it called HasOffers
// during that walk.
func TestProducerIsNotifiedOnceUntilItAsks(t *testing.T) {
	w := newWorld(nil)
	a, b, c := tx("a.near", 1), tx("b.near", 1), tx("c.near", 1)
	w.add(a, b, a)
	if w.rings != 1 || !w.fresh.HasOffers() {
		t.Errorf("%d rings, want 1, and something on offer", w.rings)
	}
	if out := w.choose(1, nil); len(out.Transactions) != 1 || w.rings != 2 || !w.fresh.HasOffers() {
		t.Errorf("chose %d, %d rings, want 1, and a second ring for the other", len(out.Transactions), w.rings)
	}
	if out := w.choose(9, nil); len(out.Transactions) != 2 || w.fresh.HasOffers() {
		t.Errorf("chose %d, want 2, and nothing on offer", len(out.Transactions))
	}
	if w.add(c); w.rings != 3 {
		t.Errorf("%d rings after a new one, want 3", w.rings)
	}
	w.block(1, 0, 1, nil, a, b, c)
	if w.front.Len() != 0 || w.front.Bytes() != 0 || len(w.choose(9, nil).Transactions) != 0 || w.fresh.HasOffers() {
		t.Errorf("%d transactions are in the pool or on offer, want none", w.front.Len())
	}
}

// TestTransactionMissingFromBlockIsOfferedAgain: transactions that were chosen for a chunk are
// offered again if the block does not include them.
func TestTransactionMissingFromBlockIsOfferedAgain(t *testing.T) {
	w := newWorld(nil)
	a, b := tx("a.near", 1), tx("b.near", 1)
	w.add(a, b)
	if out := w.choose(9, nil); len(out.Transactions) != 2 || w.fresh.HasOffers() {
		t.Fatalf("chose %d", len(out.Transactions))
	}
	w.block(1, 0, 1, nil, a)
	if !w.fresh.HasOffers() || w.front.Len() != 1 {
		t.Errorf("the transaction that no block included is not on offer; %d in the pool, want 1", w.front.Len())
	}
}

func TestDroppedOrExpiredTransactionLeavesPool(t *testing.T) {
	w := newWorld(nil)
	a, b := tx("a.near", 1), tx("a.near", 2)
	w.add(a, b)
	out := w.choose(9, func(x *primitives.SignedTransaction) bool { return x == a })
	if len(out.Transactions) != 1 || !slices.Equal(w.dropped, []primitives.Hash{a.Hash()}) || w.front.Len() != 1 {
		t.Errorf("chose %d, dropped %v, %d in the pool; want one chosen, one dropped, one in the pool", len(out.Transactions), w.dropped, w.front.Len())
	}
	w.block(1, 0, 10, nil)
	w.block(2, 1, 11, nil)
	if !slices.Equal(w.dropped[1:], []primitives.Hash{b.Hash()}) || w.front.Len() != 0 {
		t.Errorf("expired %v, %d in the pool; want the second transaction, none", w.dropped[1:], w.front.Len())
	}
}

// TestReorganisationReturnsTransactions: transactions of a side branch stay in the pool until that
// branch becomes canonical. Then transactions of the replaced branch return, if their signers
// belong to this shard.
func TestReorganisationReturnsTransactions(t *testing.T) {
	w := newWorld(nil)
	a, b, c, other := tx("a.near", 1), tx("b.near", 1), tx("c.near", 1), tx("elsewhere.near", 1)
	w.away["elsewhere.near"] = 3
	w.add(a, b, c)
	w.block(1, 0, 1, nil, a)
	side := func(m *messages.BlockAccepted) { m.IsHead = false }
	w.block(11, 0, 1, side, b)
	w.block(99, 98, 1, side, c) // of a third branch, which never becomes canonical
	if w.front.Len() != 2 {
		t.Errorf("%d in the pool, want 2: a branch counts only once it wins", w.front.Len())
	}
	w.block(12, 11, 2, func(m *messages.BlockAccepted) {
		m.Reorganised, m.Returned = true, []*primitives.SignedTransaction{a, other}
	})
	if !w.has(a) || w.has(b) || !w.has(c) || w.front.Len() != 2 {
		t.Errorf("after the reorganisation: a %v, b %v, c %v, %d in all, want a and c", w.has(a), w.has(b), w.has(c),
			w.front.Len())
	}
	if len(w.side) != 1 {
		t.Errorf("%d side blocks are remembered, want the one that did not win", len(w.side))
	}
	w.block(13, 12, 3, func(m *messages.BlockAccepted) { m.Final = 1 })
	if len(w.side) != 0 {
		t.Errorf("%d side blocks are remembered below the final one", len(w.side))
	}
}

// TestPagingKeepsOrderOfTransactions: a chunk gets the same transactions in the same order whether
// they come in several pages or in one. Blocks that arrive between two pages do not disturb the
// walk.
func TestPagingKeepsOrderOfTransactions(t *testing.T) {
	w := newWorld(nil)
	var all []*primitives.SignedTransaction
	for s := range 300 {
		for n := range 5 {
			all = append(all, tx(primitives.AccountID(fmt.Sprintf("s%d.near", s)), primitives.Nonce(n+1)))
		}
	}
	w.add(all...)
	want := txpool.New(txpool.Limits{}, 10, primitives.Hash{1})
	for _, x := range all {
		if _, err := want.Add(x, 0); err != nil {
			t.Fatal(err)
		}
	}
	out := w.choose(1<<20, nil)
	r := want.Round()
	for i := 0; r.Next(); i++ {
		x := r.Peek()
		r.Keep(x)
		if i >= len(out.Transactions) || out.Transactions[i] != x {
			t.Fatalf("transaction %d is another than the pool's walk has", i)
		}
	}
	if len(out.Transactions) != len(all) {
		t.Errorf("chose %d of %d", len(out.Transactions), len(all))
	}
	if w.front.Len() != len(all) {
		t.Errorf("%d in the pool, want all %d until a block has them", w.front.Len(), len(all))
	}
	w.Handle(messages.ProduceChunk{}) // another walk, during which a block arrives
	c := NewChoice(&w.offered[len(w.offered)-1], func(p Page) { w.Handle(p) }, time.Second)
	w.block(1, 0, 1, nil, all...)
	for g := c.NextGroup(); g != nil; g = c.NextGroup() {
		g.Pop()
	}
	m, _ := c.Done(new(apply.Prepared))
	w.Handle(m)
	if w.front.Len() != 0 || w.fresh.HasOffers() {
		t.Errorf("%d transactions are in the pool or on offer, want none", w.front.Len())
	}
}

// TestFinishedWalkGetsEmptyPage: a request for a page of a finished walk gets an empty page. A page
// request that is never answered ends the choice after its time limit.
func TestFinishedWalkGetsEmptyPage(t *testing.T) {
	w := newWorld(nil)
	p := Page{Walk: 9, answer: make(chan messages.Candidates, 1)}
	w.Handle(p)
	if m := <-p.Answer(); len(m.Page) != 0 || m.More {
		t.Errorf("a page of no walk: %+v", m)
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewChoice(&messages.Candidates{Walk: 1, Page: []messages.Candidate{{Tx: tx("a.near", 1)}}, More: true},
			func(Page) {}, time.Second)
		n := 0
		for g := c.NextGroup(); g != nil; g = c.NextGroup() {
			g.Pop()
			n++
		}
		if n != 1 {
			t.Errorf("%d candidates, want 1", n)
		}
	})
}

// TestGroupEndsAtTransactionLeftByChunk: if the chunk leaves the first transaction of a group (for
// example a strict nonce with a gap), no later transaction of that group is offered to it.
func TestGroupEndsAtTransactionLeftByChunk(t *testing.T) {
	w := newWorld(nil)
	w.add(tx("a.near", 1), tx("a.near", 2), tx("b.near", 1), tx("b.near", 2))
	w.Handle(messages.ProduceChunk{})
	c := NewChoice(&w.offered[0], func(p Page) { w.Handle(p) }, time.Second)
	var got []string
	for g := c.NextGroup(); g != nil; g = c.NextGroup() {
		x := g.Peek()
		got = append(got, fmt.Sprint(x.SignerID, x.Nonce.Nonce))
		if x.SignerID == "b.near" {
			g.Pop()
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"a.near1", "b.near1", "b.near2"}) {
		t.Errorf("offered %v, want no second one of a.near", got)
	}
}

// TestEverySubmissionResultIsReported: every possible result of a submission is reported, whether
// the sender is a waiter, a session or a batch.
func TestEverySubmissionResultIsReported(t *testing.T) {
	w := newWorld(func(o *Options) {
		o.Pool = txpool.New(txpool.Limits{Transactions: 3}, 10, primitives.Hash{1})
	})
	good, bad, fault, full, gone := tx("a.near", 1), tx("bad.near", 1), tx("fault.near", 1), tx("full.near",
		1), tx("gone.near", 1)
	twin := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near",
		PublicKey: primitives.ZeroED25519Key, ReceiverID: "other.near",
		Nonce: primitives.TransactionNonce{Nonce: 1}}, primitives.ZeroED25519Signature)
	refusal, broken := &primitives.InvalidTxError{Tag: primitives.TxExpired}, errors.New("broken")
	w.verdicts[bad.Hash()], w.verdicts[fault.Hash()] = Verdict{Invalid: refusal}, Verdict{Err: broken}
	w.away["gone.near"] = 5
	got := w.add(good, bad, fault, twin)
	var taken *primitives.InvalidTxError
	if len(got) != 4 || !got[0].Pooled || got[1].Err != refusal || got[2].Err != broken ||
		!errors.As(got[3].Err, &taken) || taken.Tag != primitives.TxInvalidNonce {
		t.Errorf("answers %+v", got)
	}
	w.add(tx("b.near", 1), tx("c.near", 1))
	if got := w.add(full); len(got) != 1 || got[0].Pooled || got[0].Err == nil ||
		got[0].Err.Error() != "there is no room for the transaction: troupe.mempool.max_transactions" {
		t.Errorf("a full pool answers %+v, want its limit", got)
	}
	if got := w.add(gone); got != nil || len(w.forwarded[5]) != 1 {
		t.Errorf("another shard's: %+v, forwarded %v", got, w.forwarded)
	}
	for i, x := range []*primitives.SignedTransaction{good, bad} {
		w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 1, Waiter: messages.WaiterID(i + 1)},
			Transactions: []*primitives.SignedTransaction{x}})
		w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 2},
			Transactions: []*primitives.SignedTransaction{x}})
	}
	if a, b := w.submitted[1], w.submitted[2]; len(a) != 1 || !a[0].Pooled || len(b) != 1 || b[0].Err != refusal ||
		w.done[2] != 2 || len(w.done) != 1 {
		t.Errorf("waiters got %+v and %+v, sessions %v", a, b, w.done)
	}
	if s, r := w.tally.Submitted.Load(), w.tally.Refused.Load(); s != 12 || r != 5 {
		t.Errorf("%d submitted, %d refused, want 12 and 5", s, r)
	}
}

// TestPanickingCheckFailsOneTransaction: a transaction whose check panics fails alone; other
// transactions of its batch are checked.
func TestPanickingCheckFailsOneTransaction(t *testing.T) {
	w := newWorld(nil)
	got := w.add(tx("a.near", 1), tx("panic.near", 1), tx("b.near", 1))
	if len(got) != 3 || !got[0].Pooled || got[1].Err == nil || !got[2].Pooled {
		t.Errorf("answers %+v, want the second alone to fail", got)
	}
}

// TestFloodingClientDelaysOnlyItself: if one client floods the queue, its own submissions are
// evicted and delayed. Another client's submission is checked within the first batches.
func TestFloodingClientDelaysOnlyItself(t *testing.T) {
	w := newWorld(func(o *Options) { o.Queue.Items = 1000 })
	w.hold = true
	send := func(session messages.SessionID, client messages.Client, x *primitives.SignedTransaction) {
		w.Handle(messages.SubmitTransactions{From: messages.Address{Session: session}, Client: client,
			Transactions: []*primitives.SignedTransaction{x}})
	}
	for i := range 3000 { // one client with 50 connections
		send(messages.SessionID(10+i%50), "10.0.0.1", tx("flood.near", primitives.Nonce(i+1)))
	}
	honest := tx("honest.near", 1)
	send(1, "10.0.0.2", honest)
	if got := w.tally.Overrun.Load(); got != 3001-1000-1 { // the first submission is being checked
		t.Errorf("%d submissions evicted, want those of the flood beyond 1000", got)
	}
	w.hold = false
	for _, f := range w.waiting {
		f()
	}
	at := 0
	for _, batch := range w.looked {
		if i := slices.Index(batch, honest); i >= 0 {
			at += i
			break
		}
		at += len(batch)
	}
	if !w.has(honest) || at > 2 {
		t.Errorf("the honest client's submission was checked after %d others", at)
	}
	if w.done[1] != 1 {
		t.Errorf("done: %v", w.done)
	}
	n := 0
	for id, k := range w.done {
		if id != 1 {
			n += k
		}
	}
	if n != 3000 {
		t.Errorf("%d of the flood are done with, want all 3000", n)
	}
}

// names counts the code names that nextName has returned.
var names atomic.Uint64

func nextName() primitives.Hash {
	return primitives.HashBytes(strconv.AppendUint(nil, names.Add(1), 10))
}

// compiles returns a Verdict with pending code whose compilation ends when done is closed. A nil
// done never closes. Each verdict has its own code name.
func compiles(done chan struct{}) Verdict {
	return Verdict{CodeName: nextName(), Code: func(end <-chan struct{}) {
		select {
		case <-done:
		case <-end:
		}
	}}
}

// runConcurrently makes runAside start goroutines. settle waits until they block and handles the
// messages that they sent; call it in a synctest bubble.
func (w *world) runConcurrently() (settle func()) {
	w.runAside = func(f func()) { go f() }
	mailbox := make(chan any, 1000)
	w.self = func(m any) { mailbox <- m }
	return func() {
		synctest.Wait()
		for len(mailbox) > 0 {
			w.Handle(<-mailbox)
			synctest.Wait()
		}
	}
}

// TestDeployIsHeldUntilCodeIsCompiled: a deploying transaction is held until its code is compiled.
// Later transactions of its key wait with it; other transactions do not.
func TestDeployIsHeldUntilCodeIsCompiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		settle := w.runConcurrently()
		chosen := func() (out []string) {
			for _, x := range w.choose(999, nil).Transactions {
				out = append(out, fmt.Sprint(x.SignerID, x.Nonce.Nonce))
			}
			slices.Sort(out)
			return out
		}
		done := make(chan struct{})
		slow, never, known := tx("a.near", 5), tx("b.near", 1), tx("c.near", 1)
		ready := make(chan struct{})
		close(ready)
		w.verdicts[slow.Hash()], w.verdicts[never.Hash()], w.verdicts[known.Hash()] = compiles(done), compiles(nil), compiles(ready)
		batch := NewRequest("", []*primitives.SignedTransaction{slow})
		w.Handle(batch)
		w.add(known, never)
		settle()
		answered := func() bool {
			select {
			case <-batch.Done():
				return true
			default:
				return false
			}
		}
		if answered() {
			t.Error("the batch got an answer while its transaction is held")
		}
		w.add(tx("a.near", 6), tx("d.near", 1)) // a.near's transaction calls the contract that is being deployed
		settle()
		if got := chosen(); !slices.Equal(got, []string{"c.near1", "d.near1"}) {
			t.Errorf("chosen %v while code is compiled", got)
		}
		w.add(tx("a.near", 4)) // a nonce below the held transaction's
		settle()
		if got := chosen(); !slices.Equal(got, []string{"a.near4", "c.near1", "d.near1"}) {
			t.Errorf("chosen %v, want the nonce before the deployment too", got)
		}
		w.fresh.HasOffers()
		rings := w.rings
		close(done)
		settle()
		if !answered() {
			t.Error("the batch got no answer although its code is compiled")
		}
		if w.rings != rings+1 {
			t.Error("the producer is not notified that the code is compiled")
		}
		if got := chosen(); !slices.Equal(got, []string{"a.near4", "a.near5", "a.near6", "c.near1", "d.near1"}) {
			t.Errorf("chosen %v once the code is compiled", got)
		}
		// A chunk reports the held transaction as invalid.
		w.Handle(messages.ChunkChosen{Dropped: []messages.DroppedTransaction{{Hash: never.Hash(), Err: tooOld}}})
		if w.held != 0 || len(w.holds) != 0 || w.compiling != 1 {
			t.Errorf("%d are held still, %d counted, %d with the compiler, which has not ended", len(w.holds), w.held,
				w.compiling)
		}
		w.closeEnded()
		settle()
		if w.compiling != 0 {
			t.Errorf("%d transactions wait for the compiler, want none", w.compiling)
		}
		w.ended = make(chan struct{})

		// many.near has 100 deployments that wait, one.near adds one later. Turns by signer let
		// one.near's code be among the first.
		var begun []string
		var done2 []chan struct{}
		deploy := func(signer primitives.AccountID, nonce primitives.Nonce) {
			x, done := tx(signer, nonce), make(chan struct{})
			w.verdicts[x.Hash()] = Verdict{CodeName: nextName(), Code: func(<-chan struct{}) {
				begun, done2 = append(begun, string(signer)), append(done2, done)
				<-done
			}}
			w.add(x)
			settle()
		}
		for i := range primitives.Nonce(100) {
			deploy("many.near", i+1)
		}
		deploy("one.near", 1)
		for i := range 3 {
			if len(begun) != Compiling+i || w.compiling != Compiling {
				t.Fatalf("%v are with the compiler after %d, counted %d; want %d more", begun, i, w.compiling, Compiling)
			}
			if got := len(chosen()); got != 5+i {
				t.Errorf("%d are chosen after %d", got, i)
			}
			close(done2[i])
			settle()
		}
		if !slices.Contains(begun[:Compiling+2], "one.near") {
			t.Errorf("the order is %v: one waits for all of another's", begun)
		}
		for i := 3; i < 101; i++ {
			close(done2[i])
			settle()
		}
		if len(w.holds) != 0 || w.compiling != 0 || w.front.Held() != 0 || w.front.HeldBytes() != 0 ||
			len(chosen()) != 5+101 {
			t.Errorf("%d are held still, %d and %d counted, %d chosen", len(w.holds), w.compiling, w.front.Held(), len(chosen()))
		}
	})
}

// TestLayoutChangeForwardsTransactions: after a layout change, pooled and unchecked transactions
// are forwarded to the shards of their signers.
func TestLayoutChangeForwardsTransactions(t *testing.T) {
	from, to := newWorld(nil), newWorld(func(o *Options) { o.Shard = 5 })
	to.away["b.near"] = 5
	a, b, queued := tx("a.near", 1), tx("b.near", 1), tx("b.near", 2)
	from.add(a, b)
	from.hold = true
	r := NewRequest("", []*primitives.SignedTransaction{queued})
	from.Handle(r)
	from.away["b.near"] = 5
	from.Handle(system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{}))
	for _, f := range from.waiting {
		f()
	}
	for _, m := range from.forwarded[5] {
		to.Handle(m)
	}
	if !from.has(a) || from.has(b) || !to.has(b) || !to.has(queued) || from.front.Len() != 1 || to.front.Len() != 2 ||
		!to.fresh.HasOffers() {
		t.Errorf("old pool: %d, new pool: %d", from.front.Len(), to.front.Len())
	}
	select {
	case <-r.Done():
		if !r.Answers()[0].Pooled {
			t.Errorf("answer %+v", r.Answers()[0])
		}
	default:
		t.Error("the forwarded submission has no answer")
	}
}

// TestFailedMempoolAnswersBatchesAndSessions: a failed actor answers batches and sessions. It does
// not answer waiters, which submit again.
func TestFailedMempoolAnswersBatchesAndSessions(t *testing.T) {
	w := newWorld(nil)
	w.hold = true
	r := NewRequest("", []*primitives.SignedTransaction{tx("a.near", 1), tx("b.near", 1)})
	w.Handle(r)
	w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 4},
		Transactions: []*primitives.SignedTransaction{tx("c.near", 1)}})
	w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 4, Waiter: 1},
		Transactions: []*primitives.SignedTransaction{tx("d.near", 1)}})
	w.Receive(messageOnly{m: &actor.Restarting{}})
	select {
	case <-r.Done():
		if got := r.Answers()[1].Err; !errors.Is(got, ErrRestarted) {
			t.Errorf("answer %v, want %v", got, ErrRestarted)
		}
	default:
		t.Error("a batch has no answer")
	}
	if w.done[4] != 1 || len(w.submitted) != 0 {
		t.Errorf("done %v, submitted %v", w.done, w.submitted)
	}
	next := newWorld(nil)
	w.self = next.Handle
	for _, f := range w.waiting { // the next actor gets the check results of the failed one
		f()
	}
	if w.front.Len() != 0 || next.front.Len() != 0 || len(next.submitted) != 0 {
		t.Error("a transaction checked by a failed actor entered the pool after all were answered")
	}
}

// TestPanicStillAnswersEachSubmissionOnce: the actor panics while it handles one of several
// submissions of a message or of a checked batch. Each submission is still answered exactly once.
func TestPanicStillAnswersEachSubmissionOnce(t *testing.T) {
	broken := func(w *world, f func()) {
		defer func() {
			if recover() == nil {
				t.Error("nothing broke")
			}
			w.Receive(messageOnly{m: &actor.Restarting{}})
		}()
		f()
	}
	w := newWorld(func(o *Options) { o.Checkers = 2 })
	w.panics = "bad.near"
	w.hold = true
	var txs []*primitives.SignedTransaction
	for n := range primitives.Nonce(maxBatch + 10) {
		txs = append(txs, tx("a.near", n+1))
	}
	txs[5] = tx("bad.near", 1)
	r := NewRequest("", txs)
	w.Handle(r) // two batches
	for n := range primitives.Nonce(3) {
		w.Handle(messages.SubmitTransactions{From: messages.Address{Session: 4}, Transactions: txs[n : n+1]})
	}
	w.self = func(m any) { broken(w, func() { w.Handle(m) }) }
	w.waiting[0]()
	if left := r.left.Load(); left != 0 {
		t.Errorf("%d of %d submissions have no answer (below 0: two answers)", left, len(txs))
	}
	for i, got := range r.Answers() {
		if pooled := i < 5; got.Hash != txs[i].Hash() || got.Pooled != pooled || pooled == errors.Is(got.Err, ErrRestarted) {
			t.Errorf("submission %d: %+v", i, got)
		}
	}
	if w.done[4] != 3 {
		t.Errorf("a session has %d answered submissions, want 3", w.done[4])
	}
	// The panic comes while the submissions are being queued.
	w = newWorld(nil)
	r = NewRequest("", txs[:3])
	w.hold = true
	w.incoming = append(w.incoming, item{tx: txs[0], batch: r.answers, index: 0},
		item{tx: txs[1], batch: r.answers, index: 1}, item{tx: txs[2], batch: r.answers, index: 2})
	w.queue = nil
	broken(w, func() {
		defer func() { w.queue = txpool.NewQueue[item](txpool.QueueLimits{}) }()
		w.enqueueIncoming()
	})
	if left := r.left.Load(); left != 0 {
		t.Errorf("%d submissions have no answer", left)
	}
}

// messageOnly is an actor.Context of which only Message works.
type messageOnly struct {
	actor.Context
	m any
}

func (c messageOnly) Message() any { return c.m }

// TestDropsOfWalkBeforeRestoreAreIgnored: if a walk began before RestorePool, the transactions that
// it drops stay in the pool. Those that a later walk drops leave it.
func TestDropsOfWalkBeforeRestoreAreIgnored(t *testing.T) {
	w := newWorld(nil)
	a := tx("a.near", 1)
	w.add(a)
	then := w.capture()
	w.Handle(messages.ProduceChunk{})
	walk := w.offered[len(w.offered)-1].Walk
	w.restore(&messages.RestorePool{PoolCaptured: then})
	w.Handle(messages.ChunkChosen{Walk: walk, Dropped: []messages.DroppedTransaction{{Hash: a.Hash(), Err: tooOld}}})
	if !w.has(a) || len(w.dropped) != 0 {
		t.Errorf("in the pool: %v; dropped %v", w.has(a), w.dropped)
	}
	w.Handle(messages.ProduceChunk{})
	w.Handle(messages.ChunkChosen{Walk: w.offered[len(w.offered)-1].Walk,
		Dropped: []messages.DroppedTransaction{{Hash: a.Hash(), Err: tooOld}}})
	if w.has(a) || len(w.dropped) != 1 {
		t.Errorf("a later choice: in the pool: %v; dropped %v", w.has(a), w.dropped)
	}
}

// TestClientsTransactionsEnterPoolInOrder: transactions of one client enter the pool in the order
// in which they were sent, whichever batch is checked first. Idle checkers take further batches
// meanwhile, up to a limit.
func TestClientsTransactionsEnterPoolInOrder(t *testing.T) {
	var pooled []primitives.Nonce
	w := newWorld(func(o *Options) {
		o.Checkers = 3
		o.Out.Pooled = func(m messages.TransactionPooled) { pooled = append(pooled, m.Tx.Nonce.Nonce) }
	})
	w.hold = true
	next := func(i int) {
		f := w.waiting[i]
		w.waiting = slices.Delete(w.waiting, i, i+1)
		f()
	}
	for n := range primitives.Nonce(9) {
		w.add(tx("a.near", n+1))
		if len(w.waiting) == 3 { // the first batch stays unchecked, the third one is done
			next(2)
		}
	}
	if len(pooled) > 0 {
		t.Errorf("nonces %v are in the pool before the first one", pooled)
	}
	if len(w.checking) != 6 || len(w.waiting) != 2 || w.queue.Len() != 3 {
		t.Errorf("%d batches are being checked, %d are checked, and %d transactions wait, want 6, 2 and 3",
			len(w.checking), len(w.waiting), w.queue.Len())
	}
	for len(w.waiting) > 0 {
		next(len(w.waiting) - 1)
	}
	if !slices.Equal(pooled, []primitives.Nonce{1, 2, 3, 4, 5, 6, 7, 8, 9}) || len(w.checking) > 0 ||
		w.checksRunning != 0 {
		t.Errorf("the pool got %v, %d batches are being checked", pooled, len(w.checking))
	}
}

// TestTransactionWithUsedNonceIsDropped: a block uses the nonce of a pooled transaction for another
// one. The pooled transaction is dropped, and one that was checked before the block is refused.
// Both stay if the block did not execute that other transaction.
func TestTransactionWithUsedNonceIsDropped(t *testing.T) {
	w := newWorld(nil)
	w.nonces = map[primitives.AccountID]primitives.Nonce{}
	old, late, next, other := tx("a.near", 1), tx("a.near", 2), tx("a.near", 4), tx("b.near", 1)
	w.add(old, next, other)
	w.hold = true
	answer := NewRequest("", []*primitives.SignedTransaction{late})
	w.Handle(answer)
	w.block(1, 0, 1, nil, tx("b.near", 2)) // in the chunk but not executed: its signer cannot pay
	w.nonces["a.near"] = 3
	w.block(2, 1, 2, nil, tx("a.near", 3))
	if w.has(old) || !w.has(next) || !w.has(other) || !slices.Equal(w.dropped, []primitives.Hash{old.Hash()}) ||
		w.front.Len() != 2 {
		t.Errorf("nonce 1 waits %v, 4 %v, of another %v; dropped %v", w.has(old), w.has(next), w.has(other), w.dropped)
	}
	w.waiting[0]()
	<-answer.Done()
	var why *primitives.InvalidTxError
	if err := answer.Answers()[0].Err; w.has(late) || !errors.As(err, &why) || why.Tag != primitives.TxInvalidNonce ||
		why.TxNonce != 2 || why.KeyNonce != 3 {
		t.Errorf("nonce 2, looked at before the block: waits %v, %v", w.has(late), err)
	}
}

var tooOld = &primitives.InvalidTxError{Tag: primitives.TxExpired}
