package mempool

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// maxBatch is how many transactions are looked at in one go: that is how long those of others may wait for a turn.
const maxBatch = 64

// ErrRestarted says that the mempool has failed and begun anew with an empty pool.
var ErrRestarted = errors.New("mempool: begun anew")

// Verdict is what looking at a transaction by the head's state gave.
type Verdict struct {
	Invalid *primitives.InvalidTxError // why it is refused
	Err     error                      // the node's own fault
	Base    primitives.Height          // of the block that it refers to
	Ahead   bool                       // its nonce is ahead of its key's next
	// Code has the code compiled that it deploys or calls, beside the mailbox, and returns when that is done or end is closed; nil: it
	// is compiled, or nobody waits for that.
	Code func(end <-chan struct{})
	// CodeName is the same for all that wait for the same code, CodeBytes how much of it the transaction brings.
	CodeName  primitives.Hash
	CodeBytes int
}

// Tally counts since the node began.
type Tally struct {
	Submitted, Refused atomic.Uint64
	Overrun            atomic.Uint64 // lost unseen, because too many came
	Drops              atomic.Uint64 // told of as dropped
	HoldsDropped             atomic.Uint64 // lost while they waited for their code, or behind such, because too many did
}

// Request is a batch of submissions whose sender is no actor, with the place for the answers.
type Request struct {
	Client       messages.Client
	Transactions []*primitives.SignedTransaction
	*answers
}

type answers struct {
	list []messages.Submitted
	left atomic.Int64
	done chan struct{}
	lost chan struct{}
	once sync.Once
}

// NewRequest returns a request.
func NewRequest(c messages.Client, txs []*primitives.SignedTransaction) Request {
	r := Request{Client: c, Transactions: txs, answers: &answers{list: make([]messages.Submitted, len(txs)), done: make(chan struct{}), lost: make(chan struct{})}}
	if r.left.Store(int64(len(txs))); len(txs) == 0 {
		close(r.done)
	}
	return r
}

// Done is closed when all are answered.
func (r Request) Done() <-chan struct{} { return r.done }

// Lost is closed when the actor has failed on the request itself, or has ended before it came.
func (r Request) Lost() <-chan struct{} { return r.lost }

// Failed says so: link.Answerable.
func (r Request) Failed(error) { r.once.Do(func() { close(r.lost) }) }

// Answers are those of the transactions, once Done.
func (r Request) Answers() []messages.Submitted { return r.list }

// pending is a submission, and who is to be told.
type item struct {
	tx     *primitives.SignedTransaction
	client messages.Client
	from   messages.Address
	batch  *answers // nil: from is an actor
	index  int      // in batch
}

// forwarded: mempool -> mempool of another shard: submissions whose signers are there now.
type forwarded struct{ items []item }

// receiveMoved: mempool -> mempool of another shard: what the pool held whose signers are there now.
type moved struct{ txs []based }

type based struct {
	tx   *primitives.SignedTransaction
	base primitives.Height
	hold hold // where it waits for its code
}

// checked is a note to self: a batch has been looked at.
type checked struct {
	by       *Actor // one that has failed since hears of nothing
	batch    *batch
	verdicts []Verdict
}

// batch is what is looked at in one go.
type batch struct {
	items    []item
	heads    uint64    // as it was taken
	reorgs    uint64    // as it was taken
	verdicts []Verdict // once it is done
	done     bool
}

func (a *Actor) submit(m *messages.SubmitTransactions) {
	client := clientOf(m.Client, m.From.Session)
	for _, tx := range m.Transactions {
		a.incoming = append(a.incoming, item{tx: tx, client: client, from: m.From})
	}
	a.enqueueIncoming()
}

func (a *Actor) request(r Request) {
	client := clientOf(r.Client, 0)
	for i, tx := range r.Transactions {
		a.incoming = append(a.incoming, item{tx: tx, client: client, batch: r.answers, index: i})
	}
	a.enqueueIncoming()
}

// enqueueIncoming queues the submissions that a message has brought. Until one is queued it is among those that have come, so that it is answered
// for wherever this fails.
func (a *Actor) enqueueIncoming() {
	for i := range a.incoming {
		a.put(a.incoming[i])
		a.incoming[i] = item{}
	}
	a.incoming = a.incoming[:0]
	a.startChecks()
}

// clientOf is whose turn it is: a session without a name is a client of its own.
func clientOf(c messages.Client, session messages.SessionID) messages.Client {
	if c != "" {
		return c
	}
	return messages.Client(strconv.AppendUint([]byte("session "), uint64(session), 10))
}

// put queues a submission. What is lost by that has come when too many had.
func (a *Actor) put(x item) {
	a.o.Tally.Submitted.Add(1)
	a.putQueue(x)
	a.reportDone()
}

// putQueue puts a submission into the queue.
func (a *Actor) putQueue(x item) {
	for _, lost := range a.queue.Put(string(x.client), x.tx.Size(), x) {
		a.o.Tally.Overrun.Add(1)
		a.answer(lost, messages.Submitted{Err: noRoom(limitQueue)})
	}
}

// startChecks has submissions looked at, aside from the mailbox, by as many goroutines as Options say. They come into the pool in the order in which they
// were taken, however long each takes: of one client's transactions with one key a later one would else be in a block first, and those before it
// never. Whoever is done early waits for the others, and as many more as are being looked at may.
func (a *Actor) startChecks() {
	for a.checksRunning < a.o.Checkers && len(a.checking) < 2*a.o.Checkers && a.queue.Len() > 0 {
		b := &batch{heads: a.heads, reorgs: a.reorgs}
		for len(b.items) < maxBatch {
			x, ok := a.queue.Take()
			if !ok {
				break
			}
			b.items = append(b.items, x)
		}
		a.checking = append(a.checking, b)
		a.checksRunning++
		txs := make([]*primitives.SignedTransaction, len(b.items))
		for i := range txs {
			txs[i] = b.items[i].tx
		}
		a.runAside(func() { a.self(checked{by: a, batch: b, verdicts: check(a.o.Check, txs)}) })
	}
	a.o.Status.queued.Store(int64(a.queue.Len()))
}

// check asks for verdicts. A failure is that of the transaction at which it happened, so they are looked at one by one then.
func check(f func([]*primitives.SignedTransaction) []Verdict, txs []*primitives.SignedTransaction) (out []Verdict) {
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case len(txs) == 1:
			out = []Verdict{{Err: fmt.Errorf("mempool: transaction %v cannot be looked at: %v\n%s", txs[0].Hash(), p, debug.Stack())}}
		default:
			out = nil
			for i := range txs {
				out = append(out, check(f, txs[i:i+1])...)
			}
		}
	}()
	return f(txs)
}

func (a *Actor) batchChecked(m *checked) {
	if m.by != a {
		return
	}
	a.checksRunning--
	m.batch.verdicts, m.batch.done = m.verdicts, true
	for len(a.checking) > 0 && a.checking[0].done {
		b := a.checking[0]
		for i, x := range b.items {
			if b.reorgs == a.reorgs {
				a.admit(x, &b.verdicts[i], b.heads != a.heads)
			} else {
				a.putQueue(x) // the verdict is by a state that is gone
			}
			b.items[i] = item{} // is done with, if a later one fails
		}
		a.checking = slices.Delete(a.checking, 0, 1)
	}
	a.reportDone()
	a.startChecks()
}

// admit puts a good transaction into the pool and answers. late: a block has come since it was looked at.
func (a *Actor) admit(x item, v *Verdict, late bool) {
	switch {
	case v.Err != nil:
		a.answer(x, messages.Submitted{Err: a.routeUntracked(x, v.Err)})
		return
	case v.Invalid != nil && v.Invalid.Tag != primitives.TxInvalidSignature && a.pool.Find(x.tx.Hash()) != nil:
		a.answer(x, messages.Submitted{Pooled: true}) // the copy in the pool may run yet, and what becomes of it will be told
		return
	case v.Invalid != nil:
		a.refuse(x, v.Invalid)
		return
	}
	if home := a.o.Home(x.tx.SignerID); home != a.o.Shard {
		a.forward(home, []item{x})
		return
	}
	if late && a.pool.Find(x.tx.Hash()) == nil {
		if at, used := a.o.NonceUsed(x.tx); used {
			a.refuse(x, usedNonce(x.tx, at))
			return
		}
	}
	if !a.hasRoom(x.tx) && a.pool.Find(x.tx.Hash()) == nil {
		a.o.Tally.HoldsDropped.Add(1)
		a.answer(x, messages.Submitted{Err: noRoom(limitAfterHeld)})
		return
	}
	switch added, err := a.pool.Add(x.tx, v.Base); {
	case err != nil:
		a.refuse(x, refusal(x.tx, err))
	case !added:
		a.answer(x, messages.Submitted{Pooled: true})
	default:
		a.markPooled(x.tx)
		a.publishCounts() // before it is offered
		if a.holdOrOffer(x, v) && a.o.Out.Pooled != nil {
			a.o.Out.Pooled(messages.TransactionPooled{Tx: x.tx})
		}
	}
}

// forward passes submissions on to the mempool of their shard.
func (a *Actor) forward(home primitives.ShardID, items []item) {
	if a.o.Out.Forward(home, forwarded{items}) {
		return
	}
	for _, x := range items {
		a.answer(x, messages.Submitted{Err: ErrShardGone})
	}
}

// routeUntracked has a transaction of a client, which can't be checked here for want of its signer's shard, sent to those who make that one's chunks, as neard does
// (rpc_handler.rs process_tx_internal). What other nodes pass on goes no further.
func (a *Actor) routeUntracked(x item, err error) error {
	var e *view.LookupError
	if !a.o.Route || a.o.Out.Pooled == nil || x.client.OfPeer() || !errors.As(err, &e) || e.Kind != view.ErrShardNotTracked {
		return err
	}
	a.o.Out.Pooled(messages.TransactionPooled{Tx: x.tx, Routed: true})
	return &view.LookupError{Kind: view.ErrRouted, Hash: x.tx.Hash()}
}

func (a *Actor) refuse(x item, why error) {
	a.o.Tally.Refused.Add(1)
	a.answer(x, messages.Submitted{Err: why})
}

// answer tells who has sent a submission. A session is told how many are done with, for many at once.
func (a *Actor) answer(x item, m messages.Submitted) {
	if m.Err != nil {
		defer a.reportSettled(x.tx, false)
	}
	m.Drops = a.o.Tally.Drops.Load()
	switch {
	case x.batch != nil:
		m.Hash = x.tx.Hash()
		x.batch.list[x.index] = m
		if x.batch.left.Add(-1) == 0 {
			close(x.batch.done)
		}
	case x.from.Waiter != 0:
		m.Hash = x.tx.Hash()
		a.o.Out.Submitted(x.from, m)
	default:
		if m.Err != nil {
			a.dropUnanswered(x, m.Err)
		}
		a.finished[x.from.Session]++
	}
}

func (a *Actor) reportDone() {
	for id, n := range a.finished { // each is told on its own, so the order does not matter
		a.o.Out.Done(messages.SubmissionsDone{Session: id, Count: n})
		delete(a.finished, id)
	}
}

// handOver sends on what nobody has looked at: the shard is gone.
func (a *Actor) handOver() {
	away := map[primitives.ShardID][]item{}
	add := func(x item) {
		if home := a.o.Home(x.tx.SignerID); home != a.o.Shard {
			away[home] = append(away[home], x)
		}
	}
	for _, b := range a.checking {
		for _, x := range b.items {
			add(x)
		}
	}
	for x, ok := a.queue.Take(); ok; x, ok = a.queue.Take() {
		add(x)
	}
	for home, items := range away {
		a.forward(home, items)
	}
	a.reportDone()
}

// abandon answers for all that has not been looked at, and has what the pool had recorded as lost: the actor has failed. Waiters and the
// producer hear of it from the next one.
func (a *Actor) abandon() {
	if list := a.poolContents(); len(list) > 0 && a.o.Out.Lost != nil {
		a.o.Out.Lost(messages.TransactionsDropped{List: list})
	}
	lose := func(x item) {
		if x.tx != nil && (x.from.Waiter == 0 || x.batch != nil) {
			a.answer(x, messages.Submitted{Err: ErrRestarted})
		}
	}
	for _, x := range a.incoming {
		lose(x)
	}
	for _, b := range a.checking {
		for _, x := range b.items {
			lose(x)
		}
	}
	for x, ok := a.queue.Take(); ok; x, ok = a.queue.Take() {
		lose(x)
	}
	for _, h := range a.holds {
		if h.pending != nil {
			lose(*h.pending)
		}
	}
	a.reportDone()
}
