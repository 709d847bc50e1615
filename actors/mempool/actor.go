// Package mempool is the shell of package chain/txpool: the actor that owns one shard's pool. It takes submissions, has them
// looked at in turns of their clients, keeps the pool in step with the chain and offers chunks its transactions.
//
//	in      SubmitTransactions, Request: submissions; PoolWanted from a validator; BlockAdopted, LayoutChanged, CapturePool, RestorePool from the chain; ProduceChunk from the producer;
//	        Page, ChunkChosen from the chunk-producer; from other mempools what belongs here now
//	out     Submitted, SubmissionsDone to who submits; TransactionsWaiting to the producer, TransactionsDropped to milestones and the record,
//	        Candidates to the chunk-producer; SubmitAgain when it begins after a failure
//	state   Actor: the queue of what nobody has looked at, the pool, what is held back, the choice that is being made. Others see
//	        the counters of Front
//	units   as chain/txpool has them
//	bound   chain/txpool's Limits and QueueLimits; Options.Judges batches are being looked at, and as many may wait for one before
//	        them; Options.Hold wait for their code, Compiling of them are with the compiler, and what is behind them has half of the pool
//	errors  chain/txpool's, as Submitted tells them
//	source  our own; nearcore's pool lies behind one mutex
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

// Out is whom the actor talks to.
type Out struct {
	Candidates messages.Sender[messages.Candidates]          // the chunk-producer
	Dropped    messages.Sender[messages.TransactionsDropped] // milestones
	Submitted  func(messages.Address, messages.Submitted)    // a waiter
	Done       messages.Sender[messages.SubmissionsDone]     // a session
	Forward    func(primitives.ShardID, any) bool            // another mempool; false: there is none
	// Settled says what became of a submission, or of what has come back: it is in the pool, or else it is not by this copy. nil: nobody asks.
	Settled func(hash primitives.Hash, pooled bool)
	Lost    messages.Sender[messages.TransactionsDropped] // the record of what was dropped alone: waiters send theirs again; nil: there is none
	Again   messages.Sender[messages.SubmitAgain]         // all waiters, and the producer
	Pooled  messages.Sender[messages.TransactionPooled]   // the network; nil: there is none
}

// Options are what the actor works with. Its functions are called from any goroutine.
type Options struct {
	Shard  primitives.ShardID
	Pool   *txpool.Pool // empty
	Queue  txpool.QueueLimits
	Hold   txpool.QueueLimits // of what waits for its code
	Status *Status
	Tally  *Tally
	// Check looks at transactions by the head's state; Judges is how often at the same time.
	Check    func([]*primitives.SignedTransaction) []Verdict
	Checkers int
	// Route: a client's transaction of a shard that is not held goes to Out.Pooled all the same.
	Route bool
	// Home is the shard of an account in the next block, Base the height of a known block. Overtook tells by the tip's state
	// whether a transaction's nonce is ahead of its key's next, Used what nonce its key has come to, and whether it is behind that: no
	// block takes it any more.
	Home      func(primitives.AccountID) primitives.ShardID
	Base      func(primitives.Hash) (primitives.Height, bool)
	IsAhead   func(*primitives.SignedTransaction) bool
	NonceUsed func(*primitives.SignedTransaction) (primitives.Nonce, bool)
	// Again: the actor begins after a failure. Started is called when messages reach it; nil: nobody asks.
	Again   bool
	Started func()
	Out     Out
}

// Actor owns a shard's pool.
type Actor struct {
	o             Options
	pool          *txpool.Pool
	incoming      []item // of the message in work, and not queued yet
	queue         *txpool.Queue[item]
	checking      []*batch                   // in the order in which they were taken: that in which they come into the pool
	checksRunning int                        // of looking: that are being looked at still
	heads         uint64                     // blocks that have become the head
	reorgs        uint64                     // how often the chain was another from then on
	finished      map[messages.SessionID]int // submissions whose sessions have not been told yet
	side          map[primitives.Hash]sideBlock

	holds           map[primitives.Hash]hold
	codes           map[primitives.Hash]*codeWaiters // of holds with code, by its name
	held, heldBytes int                              // of holds: what waits for its code
	compileQueue    *txpool.Queue[compileSlot]       // of these: what has not had its turn
	compiling       int                              // and what the compiler is at work for, also if it has left the pool
	ended           chan struct{}                    // closed when the actor has ended or failed

	walk    walk
	minWalk uint64 // the first choice of the pool as it is; those before were of one that the chain has gone back from
	// chose is what the last chunk took: it is offered again if the next block does not include it.
	chose []primitives.Hash

	self     func(any)
	runAside func(func()) // runs beside the mailbox
}

// sideBlock is what a block of a branch that is not canonical includes: it stays in the pool until that branch wins.
type sideBlock struct {
	prev   primitives.Hash
	height primitives.Height
	txs    []*primitives.SignedTransaction
}

// New returns the actor of a shard's pool.
func New(o Options) *Actor {
	a := &Actor{
		o: o, pool: o.Pool, queue: txpool.NewQueue[item](o.Queue), finished: map[messages.SessionID]int{},
		holds: map[primitives.Hash]hold{}, codes: map[primitives.Hash]*codeWaiters{}, side: map[primitives.Hash]sideBlock{}, ended: make(chan struct{}),
	}
	o.Hold.Turn = math.MaxInt // each takes the compiler, whatever its size
	a.compileQueue = txpool.NewQueue[compileSlot](o.Hold)
	a.self = a.Handle // until it has a mailbox
	a.runAside = func(f func()) { f() }
	return a
}

// Receive is the only way to the actor's state.
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
	case *actor.Stopping: // with the shard, or with the node
		a.closeEnded()
		a.handOver()
	default:
		a.Handle(c.Message())
	}
}

// Handle takes one message.
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
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("mempool actor: no case for %T", m))
	}
}

// closeEnded says that nobody waits for the compiler any more.
func (a *Actor) closeEnded() {
	select {
	case <-a.ended:
	default:
		close(a.ended)
	}
}

// publishCounts shows the sizes.
func (a *Actor) publishCounts() {
	a.o.Status.count.Store(int64(a.pool.Len()))
	a.o.Status.size.Store(int64(a.pool.Bytes()))
	a.o.Status.queued.Store(int64(a.queue.Len()))
	a.o.Status.held.Store(int64(a.held))
	a.o.Status.heldBytes.Store(int64(a.heldBytes))
	a.o.Status.compiling.Store(int64(a.compiling))
}

// applyBlock brings the pool in step with an adopted block: what the chain includes, what can't follow that, and what has expired leaves, what a
// branch that lost had comes back.
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
		if a.o.Home(tx.SignerID) != a.o.Shard {
			continue
		}
		base, ok := a.o.Base(tx.BlockHash)
		err := error(txpool.ErrExpired) // a block that is not known is of a branch that is gone
		if ok {
			var added bool
			added, err = a.pool.Add(tx, base) // full, or its nonce is taken: the pool's other transactions were first
			again = again || added
		}
		if err != nil && a.o.Out.Pooled != nil && !errors.Is(err, txpool.ErrExpired) {
			continue // other nodes have it, and may run it
		}
		if err != nil {
			gone = append(gone, newDrop(tx, refusal(tx, err)))
		} else {
			a.markPooled(tx)
		}
	}
	for _, hash := range a.chose {
		if a.pool.Find(hash) != nil {
			again = true
			break
		}
	}
	a.chose = a.chose[:0]
	a.publishCounts()
	if again {
		a.o.Status.offer()
	}
	a.drop(gone)
}

// remove takes out what a block includes. What waits of the same keys with nonces that are used up by that is gone: it would wait until it expires
// where another than this pool's owner makes the chunks, and who waits for it is told at once.
func (a *Actor) remove(txs []*primitives.SignedTransaction, gone []messages.DroppedTransaction) []messages.DroppedTransaction {
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
			at, used := a.o.NonceUsed(x)
			if !used { // the chunk's was not executed
				break
			}
			a.pool.Remove(x.Hash())
			gone = append(gone, newDrop(x, usedNonce(x, at)))
		}
	}
	return gone
}

// forwardMoved sends on what belongs to other shards now.
func (a *Actor) forwardMoved() {
	if a.pool.Len() == 0 {
		return
	}
	away := map[primitives.ShardID][]based{}
	var stay []based
	a.pool.Drain(func(tx *primitives.SignedTransaction, base primitives.Height) {
		if home := a.o.Home(tx.SignerID); home == a.o.Shard {
			stay = append(stay, based{tx: tx, base: base})
		} else {
			away[home] = append(away[home], based{tx: tx, base: base})
		}
	})
	a.walk = walk{}
	a.chose = a.chose[:0]
	for _, x := range stay {
		_, _ = a.pool.Add(x.tx, x.base) // it was there
	}
	var leaving []based
	for _, txs := range away {
		leaving = append(leaving, txs...)
	}
	holds := a.detach(leaving) // what waits for its code waits there, with its turn
	var gone []messages.DroppedTransaction
	for home, txs := range away { // each goes to its own, so the order does not matter
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

// rejectNoPool answers for what should go to a shard that has no pool.
func (a *Actor) rejectNoPool(txs []based) (gone []messages.DroppedTransaction) {
	for _, x := range txs {
		if x.hold.pending != nil {
			a.answer(*x.hold.pending, messages.Submitted{Err: ErrShardGone})
		}
		gone = append(gone, newDrop(x.tx, ErrShardGone))
	}
	return gone
}

// receiveMoved takes what another pool held. What finds no room is dropped, as where it is new.
func (a *Actor) receiveMoved(txs []based) {
	var gone []messages.DroppedTransaction
	for _, x := range txs {
		if home := a.o.Home(x.tx.SignerID); home != a.o.Shard { // the layout has changed once more
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
