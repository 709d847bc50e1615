// Package mempool is the actor that owns the transaction pool of one shard. It queues submissions
// and has them checked, fairly between clients. It removes transactions that blocks include or
// invalidate. It offers transactions to the chunk producer.
//
//	in      SubmitTransactions, Request: submissions; PoolWanted from the validator actor;
//	        BlockImported, LayoutChanged, CapturePool, RestorePool from the chain;
//	        ProduceChunk from the producer; Page, ChunkChosen from the chunk-producer;
//	        transactions that other mempools forward
//	out     Submitted, Done to senders; TransactionsWaiting to the producer;
//	        TransactionsDropped to txtracker and to the drop record; Candidates to the
//	        chunk-producer; SubmitAgain after a restart
//	state   Actor: the queue of unchecked submissions, the pool, held transactions, the
//	        current walk (the choice of transactions for one chunk); Status: counters that
//	        other goroutines read
//	units   as in chain/txpool
//	bound   the pool: Limits of chain/txpool; the queue: QueueLimits; batches: twice
//	        Options.Checkers; transactions that wait for compilation: Options.Hold, and with
//	        those that follow them half of the pool; running compilations: Compiling
//	errors  those of chain/txpool, as in messages.Submitted
//	source  our own; nearcore guards its pool with a mutex
//
// On a validator among others, chunks come from the pools of package consensus instead, which get
// each accepted transaction through the network actor.
package mempool

import (
	"errors"
	"fmt"
	"math"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Out sends the actor's messages.
type Out struct {
	ActorSender
	ClientSender
	DropRecorder
	// Pooled sends to the network; nil: such transactions have no receiver.
	Pooled messages.Sender[messages.TransactionPooled]
}

// ActorSender sends to other actors of the node.
type ActorSender interface {
	Candidates(messages.Candidates) // to the chunk producer actor
	// Forward sends a message to another shard's mempool. Forward returns false if the shard has no
	// mempool on this node.
	Forward(primitives.ShardID, any) bool
	Again(messages.SubmitAgain) // to all waiters and the producer
}

// ClientSender answers submissions.
type ClientSender interface {
	Submitted(messages.Address, messages.Submitted) // to the waiter that submitted the transaction
	// Done reports that submissions of a session have been checked, whatever the results.
	Done(s messages.SessionID, count int)
}

// DropRecorder records which transactions the node has dropped.
type DropRecorder interface {
	Dropped(messages.TransactionsDropped) // reaches the transaction tracker too
	// Lost records the contents of a failed actor's pool as dropped. Waiters are not informed,
	// because each waiter submits its transaction again.
	Lost(messages.TransactionsDropped)
	// The actor calls Settled with the result of each submission, and for each transaction that
	// returns to the pool after a reorganisation or rollback. pooled is true if the submitted copy
	// is in the pool.
	Settled(hash primitives.Hash, pooled bool)
}

// Chain is what a mempool reads of the chain. Its methods are safe for concurrent use.
type Chain interface {
	// Home returns the shard of an account in the next block.
	Home(id primitives.AccountID) primitives.ShardID
	// Base returns the height of a block, and false if the block is unknown.
	Base(block primitives.Hash) (primitives.Height, bool)
	// IsAhead returns whether the transaction's nonce exceeds the next nonce of its key by at most
	// EarlyGap, in the state of the in-memory head.
	IsAhead(tx *primitives.SignedTransaction) bool
	// NonceUsed returns the current nonce of the transaction's key. used is true if that nonce is
	// at or above the transaction's nonce, so that no block can include the transaction.
	NonceUsed(tx *primitives.SignedTransaction) (current primitives.Nonce, used bool)
}

// Options configure the actor. The functions in Options may be called from any goroutine.
type Options struct {
	// Shard is the shard whose transactions the actor owns.
	Shard primitives.ShardID
	// Chain is what the actor reads of the chain. Required.
	Chain Chain

	// The pool and its limits.

	// Pool is an empty pool. Required.
	Pool *txpool.Pool
	// Queue limits the submissions that wait for their check. Hold limits the transactions that wait
	// for compilation.
	Queue, Hold txpool.QueueLimits

	// Checks.

	// Check checks transactions against the state of the head and returns one Verdict for each.
	// Required.
	Check func([]*primitives.SignedTransaction) []Verdict
	// Checkers is the maximum number of concurrent calls of Check. Required.
	Checkers int
	// Route means that a client's transaction whose shard this node does not track is sent to
	// Out.Pooled. If Route is not set, the submission of such a transaction fails.
	Route bool

	// Failures.

	// Again means that this actor replaces a failed actor. It then sends SubmitAgain when it starts.
	Again bool
	// Started is called once the actor receives messages. nil: not called.
	Started func()

	// Observers.

	// Status is what other goroutines read of the actor. Required. It survives a failure.
	Status *Status
	// Tally counts events. Required. All mempools of a node may share it.
	Tally *Tally
	// Out sends the actor's messages.
	Out Out
}

// Actor owns a shard's pool. Only its own goroutine may use it.
type Actor struct {
	o        Options
	pool     *txpool.Pool
	incoming []item // submissions of the message being handled that are not in queue yet
	queue    *txpool.Queue[item]
	// checking are the batches of submissions being checked, in the order in which the batches
	// enter the pool.
	checking      []*batch
	checksRunning int    // number of batches in checking whose check has not ended
	heads         uint64 // number of blocks that became the head
	reorgs        uint64 // number of reorganisations and rollbacks
	// finished is, by session, the number of checked submissions to report with Out.Done.
	finished map[messages.SessionID]int
	side     map[primitives.Hash]sideBlock

	holds        map[primitives.Hash]hold
	codes        map[primitives.Hash]*codeWaiters // transactions that wait for code, by hash of the code
	held         int                              // number of transactions that wait for code
	heldBytes    int                              // bytes that the transactions that wait for code count
	compileQueue *txpool.Queue[compileSlot]       // holds whose compilation has not started
	// compiling is the number of running compilations. A compilation continues even if the
	// transactions that wait for it leave the pool.
	compiling int
	ended     chan struct{} // closed when the actor has stopped or failed, which cancels compilations

	walk    walk
	minWalk uint64 // id of the first walk after the last rollback; results of walks with smaller ids are ignored
	// chose contains the pooled transactions that the chunk for the next block has taken.
	// Transactions among them that the block does not include are offered again.
	chose []primitives.Hash

	self     func(any)    // sends a message to this actor
	runAside func(func()) // runs a function outside the mailbox
}

// sideBlock is a block of a non-canonical branch. The transactions of a sideBlock stay in the pool
// until that branch becomes canonical.
type sideBlock struct {
	prev   primitives.Hash
	height primitives.Height
	txs    []*primitives.SignedTransaction
}

// New returns the actor of a shard's pool.
func New(o Options) *Actor {
	a := &Actor{
		o: o, pool: o.Pool, queue: txpool.NewQueue[item](o.Queue), finished: map[messages.SessionID]int{},
		holds: map[primitives.Hash]hold{}, codes: map[primitives.Hash]*codeWaiters{}, side: map[primitives.Hash]sideBlock{},
		ended: make(chan struct{}),
	}
	o.Hold.Turn = math.MaxInt // a signer's turn ends with each Take, whatever the size of the code
	a.compileQueue = txpool.NewQueue[compileSlot](o.Hold)
	a.self = a.Handle // replaced when Receive gets actor.Started; tests without a mailbox keep a.Handle
	a.runAside = func(f func()) { f() }
	return a
}

// Receive handles lifecycle messages and passes the rest to Handle.
func (a *Actor) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, pid := c.ActorSystem().Root, c.Self()
		a.self = func(m any) { root.Send(pid, m) }
		a.runAside = func(f func()) { go f() }
		a.publishCounts()
		if a.o.Started != nil {
			a.o.Started()
		}
		if a.o.Again {
			a.o.Status.offers.Store(false)
			a.o.Out.Again(messages.SubmitAgain{Shard: a.o.Shard})
		}
	case *actor.Restarting:
		a.closeEnded()
		a.abandon()
	case *actor.Stopping: // the shard no longer exists, or the node stops
		a.closeEnded()
		a.handOver()
	default:
		a.Handle(c.Message())
	}
}

// Handle handles one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.SubmitTransactions:
		a.submit(&m)
	case Request:
		a.request(m)
	case checked:
		a.batchChecked(&m)
	case holdTimeout:
		a.holdEnded(m)
	case forwarded:
		a.incoming = append(a.incoming, m.items...)
		a.enqueueIncoming()
	case moved:
		a.receiveMoved(m.txs)
	case messages.BlockImported:
		a.applyBlock(m.BlockAccepted)
	case system.Request[messages.LayoutChanged, messages.PoolMoved]:
		a.forwardMoved()
		m.Reply(messages.PoolMoved{}, nil)
	case messages.ProduceChunk:
		a.startWalk(m)
	case messages.TransactionRefused:
		a.refused(&m)
	case messages.PoolWanted:
		if a.o.Out.Pooled != nil {
			a.pool.Each(func(tx *primitives.SignedTransaction, _ primitives.Height) {
				a.o.Out.Pooled(messages.TransactionPooled{Tx: tx})
			})
		}
	case system.Request[messages.CapturePool, messages.PoolCaptured]:
		m.Reply(a.capture(), nil)
	case system.Request[messages.RestorePool, messages.PoolRestored]:
		a.restore(&m.Question)
		m.Reply(messages.PoolRestored{}, nil)
	case Page:
		a.nextPage(m)
	case messages.ChunkChosen:
		a.finishWalk(&m)
	case actor.SystemMessage, actor.AutoReceiveMessage: // all lifecycle messages except the ones above need no action
	default:
		panic(fmt.Sprintf("mempool actor: no case for %T", m))
	}
}

// closeEnded closes ended, if it is open, so that running compilations stop.
func (a *Actor) closeEnded() {
	select {
	case <-a.ended:
	default:
		close(a.ended)
	}
}

// publishCounts copies the counters to Status.
func (a *Actor) publishCounts() {
	a.o.Status.count.Store(int64(a.pool.Len()))
	a.o.Status.unchosen.Store(int64(a.pool.Len() - len(a.chose)))
	a.o.Status.size.Store(int64(a.pool.Bytes()))
	a.o.Status.queued.Store(int64(a.queue.Len()))
	a.o.Status.held.Store(int64(a.held))
	a.o.Status.heldBytes.Store(int64(a.heldBytes))
	a.o.Status.compiling.Store(int64(a.compiling))
}

// applyBlock updates the pool after an imported block. applyBlock removes transactions that the
// block includes, transactions that can no longer be included, and expired transactions.
// Transactions of a branch that is no longer canonical return to the pool.
func (a *Actor) applyBlock(m *messages.BlockAccepted) {
	var chunk *primitives.Chunk
	for i := range m.Shards {
		if m.Shards[i].ID == a.o.Shard {
			chunk = m.Shards[i].Chunk
		}
	}
	if !m.IsHead {
		b := sideBlock{prev: m.Block.Header.PrevHash, height: m.Height()}
		if chunk != nil {
			b.txs = chunk.Transactions
		}
		a.side[m.Hash] = b
		return
	}
	a.heads++
	chose := a.chose
	a.chose = nil // the transactions in chose leave the pool now, or are offered again
	var gone []messages.DroppedTransaction
	if m.Reorganised {
		a.reorgs++
		for prev := m.Block.Header.PrevHash; ; {
			b, ok := a.side[prev]
			if !ok {
				break
			}
			gone = a.remove(b.txs, gone)
			delete(a.side, prev)
			prev = b.prev
		}
	}
	for hash, b := range a.side {
		if b.height <= m.Final {
			delete(a.side, hash)
		}
	}
	if chunk != nil {
		gone = a.remove(chunk.Transactions, gone)
	}
	for _, tx := range a.pool.Advance(m.Height()) {
		gone = append(gone, newDrop(tx, &primitives.InvalidTxError{Tag: primitives.TxExpired}))
	}
	again := false
	for _, tx := range m.Returned {
		if a.o.Chain.Home(tx.SignerID) != a.o.Shard {
			continue
		}
		base, ok := a.o.Chain.Base(tx.BlockHash)
		// used if the base block of tx is unknown, because that block is on an abandoned branch
		err := error(txpool.ErrExpired)
		if ok {
			var added bool
			added, err = a.pool.Add(tx, base) // fails if the pool is full or has another transaction with the nonce
			again = again || added
		}
		if err != nil && a.o.Out.Pooled != nil && !errors.Is(err, txpool.ErrExpired) {
			continue // do not report a drop: other nodes have the transaction too and may include it
		}
		if err != nil {
			gone = append(gone, newDrop(tx, refusal(tx, err)))
		} else {
			a.markPooled(tx)
		}
	}
	for _, hash := range chose {
		if a.pool.Find(hash) != nil {
			again = true
			break
		}
	}
	a.chose = chose[:0]
	a.publishCounts()
	if again {
		a.o.Status.offer()
	}
	a.drop(gone)
}

// remove removes the transactions of a block from the pool. It also drops the pooled transactions
// of the same access keys whose nonces the block has used up, and appends the dropped transactions
// to gone. On a node that does not produce this shard's chunks, the dropped transactions would
// otherwise stay until they expire.
func (a *Actor) remove(txs []*primitives.SignedTransaction,
	gone []messages.DroppedTransaction) []messages.DroppedTransaction {
	for _, tx := range txs {
		if hash := tx.Hash(); a.pool.Remove(hash) {
			a.release(hash)
		}
	}
	if a.pool.Len() == 0 {
		return gone
	}
	for _, tx := range txs {
		for {
			x := a.pool.Front(tx)
			if x == nil || x.Nonce.Nonce > tx.Nonce.Nonce {
				break
			}
			at, used := a.o.Chain.NonceUsed(x)
			if !used { // the block includes tx but did not execute it, so its nonce is not used
				break
			}
			a.pool.Remove(x.Hash())
			gone = append(gone, newDrop(x, usedNonce(x, at)))
		}
	}
	return gone
}

// forwardMoved forwards pooled transactions whose signers belong to other shards after a layout
// change.
func (a *Actor) forwardMoved() {
	if a.pool.Len() == 0 {
		return
	}
	away := map[primitives.ShardID][]based{}
	var stay []based
	a.pool.Drain(func(tx *primitives.SignedTransaction, base primitives.Height) {
		if home := a.o.Chain.Home(tx.SignerID); home == a.o.Shard {
			stay = append(stay, based{tx: tx, base: base})
		} else {
			away[home] = append(away[home], based{tx: tx, base: base})
		}
	})
	a.walk = walk{}
	a.chose = a.chose[:0]
	for _, x := range stay {
		_, _ = a.pool.Add(x.tx, x.base) // cannot fail, because the transaction was in the pool
	}
	var leaving []based
	for _, txs := range away {
		leaving = append(leaving, txs...)
	}
	holds := a.detach(leaving) // a transaction that waits for compilation keeps waiting in the pool of its new shard
	var gone []messages.DroppedTransaction
	for home, txs := range away { // the order does not matter, because the shards are independent
		for i := range txs {
			hash := txs[i].tx.Hash()
			txs[i].hold = holds[hash]
			a.release(hash)
		}
		if !a.o.Out.Forward(home, moved{txs}) {
			gone = append(gone, a.rejectNoPool(txs)...)
		}
	}
	a.drop(gone)
	a.publishCounts()
	if a.pool.Len() == 0 {
		a.o.Status.offers.Store(false)
	}
}

// rejectNoPool handles transactions whose shard has no pool on this node. rejectNoPool answers the
// pending senders of these transactions and returns the transactions as drops with ErrShardGone.
func (a *Actor) rejectNoPool(txs []based) (gone []messages.DroppedTransaction) {
	for _, x := range txs {
		if x.hold.pending != nil {
			a.answer(*x.hold.pending, messages.Submitted{Err: ErrShardGone})
		}
		gone = append(gone, newDrop(x.tx, ErrShardGone))
	}
	return gone
}

// receiveMoved adds transactions from another shard's pool. If the pool has no space for a
// transaction, receiveMoved drops it, as the mempool does with a new submission.
func (a *Actor) receiveMoved(txs []based) {
	var gone []messages.DroppedTransaction
	for _, x := range txs {
		if home := a.o.Chain.Home(x.tx.SignerID); home != a.o.Shard { // the layout has changed again
			if again := []based{x}; !a.o.Out.Forward(home, moved{again}) {
				gone = append(gone, a.rejectNoPool(again)...)
			}
			continue
		}
		h := x.hold
		added, err := a.pool.Add(x.tx, x.base)
		if err == nil {
			a.markPooled(x.tx)
		}
		if err != nil {
			err = refusal(x.tx, err)
		} else if added && h.code != nil {
			if a.hold(x.tx, hold{code: h.code, name: h.name, brings: h.brings, pending: h.pending}) {
				continue
			}
			err = noRoom(limitHeld)
		}
		if h.pending != nil {
			a.answer(*h.pending, messages.Submitted{Pooled: err == nil, Err: err})
		}
		if err != nil {
			gone = append(gone, newDrop(x.tx, err))
		}
	}
	a.drop(gone)
	a.compile()
	a.publishCounts()
	if a.pool.Len() > 0 {
		a.o.Status.offer()
	}
}
