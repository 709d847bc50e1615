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

// maxBatch is the maximum number of transactions in one call of Check. This bounds how long the
// next client waits for its turn.
const maxBatch = 64

// ErrRestarted means that the mempool has failed and restarted with an empty pool.
var ErrRestarted = errors.New("mempool: restarted with an empty pool; send the transaction again")

// Verdict is the result of checking a transaction against the state of the head.
type Verdict struct {
	Invalid *primitives.InvalidTxError // why the transaction is invalid; nil: the transaction is valid
	Err     error                      // failure of this node, so that the transaction was not checked
	Base    primitives.Height          // height of the transaction's base block
	Ahead   bool                       // the nonce exceeds the next nonce of its key by at most EarlyGap
	// Code compiles the code that the transaction deploys or calls. Code returns when the code is
	// compiled or end is closed. nil: the transaction need not wait for code.
	Code func(end <-chan struct{})
	// CodeName is the hash of that code. CodeBytes is the number of bytes of the code that the
	// transaction contains.
	CodeName  primitives.Hash
	CodeBytes int
}

// Tally holds counters of all pools of a node since it started.
type Tally struct {
	Submitted, Refused atomic.Uint64
	Overrun            atomic.Uint64 // number of submissions that were evicted from the full queue without a check
	Drops              atomic.Uint64 // number of reported drops; the last drop has this number
	// HoldsDropped is the number of transactions that were dropped or refused because of a limit on
	// transactions that wait for code. Transactions that follow a waiting transaction of the same
	// key count toward that limit too.
	HoldsDropped atomic.Uint64
}

// Request is a batch of submissions from a sender that is not an actor. The sender reads the
// answers from the Request.
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

// NewRequest returns a request. The Request is Done at once if txs is empty.
func NewRequest(c messages.Client, txs []*primitives.SignedTransaction) Request {
	r := Request{Client: c, Transactions: txs, answers: &answers{list: make([]messages.Submitted, len(txs)),
		done: make(chan struct{}), lost: make(chan struct{})}}
	if r.left.Store(int64(len(txs))); len(txs) == 0 {
		close(r.done)
	}
	return r
}

// Done returns a channel that is closed when all transactions are answered.
func (r Request) Done() <-chan struct{} { return r.done }

// Lost returns a channel that is closed if the actor fails while it handles the request, or ends
// before it has handled the request.
func (r Request) Lost() <-chan struct{} { return r.lost }

// Failed implements system.Answerable.
func (r Request) Failed(error) { r.once.Do(func() { close(r.lost) }) }

// Answers returns one result for each transaction, in order. Call it only after Done is closed.
func (r Request) Answers() []messages.Submitted { return r.list }

// item is a submission and the receiver of its result.
type item struct {
	tx     *primitives.SignedTransaction
	client messages.Client
	from   messages.Address
	batch  *answers // answers of the request; nil: an actor has sent the submission
	index  int      // index in batch
}

// forwarded is a message between mempools: unchecked submissions whose signers now belong to the
// receiver's shard.
type forwarded struct{ items []item }

// moved is a message between mempools: pooled transactions whose signers now belong to the
// receiver's shard.
type moved struct{ txs []based }

type based struct {
	tx   *primitives.SignedTransaction
	base primitives.Height
	hold hold // what the transaction waits for; hold.code is nil if the transaction waits for no code
}

// checked is a message to self: a batch has been checked.
type checked struct {
	by       *Actor // actor that took the batch; messages of a failed actor are ignored
	batch    *batch
	verdicts []Verdict
}

// batch is a set of submissions that are checked in one call.
type batch struct {
	items    []item
	heads    uint64    // Actor.heads when the batch was taken
	reorgs   uint64    // Actor.reorgs when the batch was taken
	verdicts []Verdict // one for each item; nil until done is set
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

// enqueueIncoming moves incoming to the queue. Each submission stays in incoming until it is
// queued. So after a panic during the move, abandon still answers every submission.
func (a *Actor) enqueueIncoming() {
	for i := range a.incoming {
		a.put(a.incoming[i])
		a.incoming[i] = item{}
	}
	a.incoming = a.incoming[:0]
	a.startChecks()
}

// clientOf returns the client under which a submission is queued. A session without a client is a
// client of its own.
func clientOf(c messages.Client, session messages.SessionID) messages.Client {
	if c != "" {
		return c
	}
	return messages.Client(strconv.AppendUint([]byte("session "), uint64(session), 10))
}

// put queues a submission. It reports evicted submissions of sessions.
func (a *Actor) put(x item) {
	a.o.Tally.Submitted.Add(1)
	a.putQueue(x)
	a.reportDone()
}

// putQueue adds a submission to the queue, and answers the submissions that the queue evicts for
// it.
func (a *Actor) putQueue(x item) {
	for _, lost := range a.queue.Put(string(x.client), x.tx.Size(), x) {
		a.o.Tally.Overrun.Add(1)
		a.answer(lost, messages.Submitted{Err: noRoom(limitQueue)})
	}
}

// startChecks takes batches from the queue and checks them outside the mailbox, on at most
// Options.Checkers goroutines. The batches enter the pool in the order in which they were taken
// from the queue. In another order, a block could include a transaction with a higher nonce of a
// key first, and the key's transactions with lower nonces would become invalid. A checked batch
// waits until the batches before it are checked, so up to twice Checkers batches exist.
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

// check calls f. If f panics on several transactions, check calls it for each transaction alone, so
// that only the transaction that causes the panic fails.
func check(f func([]*primitives.SignedTransaction) []Verdict, txs []*primitives.SignedTransaction) (out []Verdict) {
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case len(txs) == 1:
			out = []Verdict{{Err: fmt.Errorf("mempool: checking transaction %v failed: %v\n%s", txs[0].Hash(), p,
				debug.Stack())}}
		default:
			out = nil
			for i := range txs {
				out = append(out, check(f, txs[i:i+1])...)
			}
		}
	}()
	return f(txs)
}

// batchChecked stores the verdicts of a batch and admits all checked batches that are next in
// order.
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
				a.putQueue(x) // check again, because the state of the check is no longer canonical
			}
			b.items[i] = item{} // if a later item panics, abandon must not answer this item a second time
		}
		a.checking = slices.Delete(a.checking, 0, 1)
	}
	a.reportDone()
	a.startChecks()
}

// admit adds a checked transaction to the pool and answers its sender. late means that the head has
// changed since the check.
func (a *Actor) admit(x item, v *Verdict, late bool) {
	switch {
	case v.Err != nil:
		a.answer(x, messages.Submitted{Err: a.routeUntracked(x, v.Err)})
		return
	case v.Invalid != nil && v.Invalid.Tag != primitives.TxInvalidSignature && a.pool.Find(x.tx.Hash()) != nil:
		// the result of the copy in the pool is reported later
		a.answer(x, messages.Submitted{Pooled: true, MaybeIncluded: true})
		return
	case v.Invalid != nil:
		a.refuse(x, v.Invalid)
		return
	}
	if home := a.o.Chain.Home(x.tx.SignerID); home != a.o.Shard {
		a.forward(home, []item{x})
		return
	}
	if late && a.pool.Find(x.tx.Hash()) == nil {
		if at, used := a.o.Chain.NonceUsed(x.tx); used {
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
		a.publishCounts() // must precede the offer of the transaction
		if a.holdOrOffer(x, v) && a.o.Out.Pooled != nil {
			a.o.Out.Pooled(messages.TransactionPooled{Tx: x.tx})
		}
	}
}

// forward sends unchecked submissions to the mempool of their shard.
func (a *Actor) forward(home primitives.ShardID, items []item) {
	if a.o.Out.Forward(home, forwarded{items}) {
		return
	}
	for _, x := range items {
		a.answer(x, messages.Submitted{Err: ErrShardGone})
	}
}

// routeUntracked forwards a client's transaction that this node cannot check, because it does not
// track the signer's shard. neard does the same (rpc_handler.rs process_tx_internal).
// routeUntracked does not forward transactions that come from peers. It returns the error for the
// sender.
func (a *Actor) routeUntracked(x item, err error) error {
	var e *view.LookupError
	if !a.o.Route || a.o.Out.Pooled == nil || x.client.OfPeer() || !errors.As(err, &e) ||
		e.Kind != view.ErrShardNotTracked {
		return err
	}
	a.o.Out.Pooled(messages.TransactionPooled{Tx: x.tx, Routed: true})
	return &view.LookupError{Kind: view.ErrRouted, Hash: x.tx.Hash()}
}

func (a *Actor) refuse(x item, why error) {
	a.o.Tally.Refused.Add(1)
	a.answer(x, messages.Submitted{Err: why})
}

// answer reports the result of a submission to its sender. If the sender is a session, answer sends
// nothing: reportDone sends a session the number of its checked submissions.
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

// reportDone reports for each session how many of its submissions have been checked since the last
// report.
func (a *Actor) reportDone() {
	for id, n := range a.finished { // the order does not matter, because the sessions are independent
		a.o.Out.Done(id, n)
		delete(a.finished, id)
	}
}

// handOver forwards unchecked submissions to the mempools of their shards. The actor calls handOver
// when its shard ends.
func (a *Actor) handOver() {
	away := map[primitives.ShardID][]item{}
	add := func(x item) {
		if home := a.o.Chain.Home(x.tx.SignerID); home != a.o.Shard {
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

// The supervisor calls abandon after the actor has failed. abandon answers all unchecked
// submissions and records the pool as lost. The replacement actor informs waiters and the producer.
func (a *Actor) abandon() {
	if list := a.poolContents(); len(list) > 0 {
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
