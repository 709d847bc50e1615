package mempool

import (
	"errors"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// No transaction leaves this actor without a word: its sender is answered (answer), or, where the sender was told that it is in the pool or
// waits for no answer, the reason goes out with TransactionsDropped (drop). What a block includes needs no word. On a failure of the actor
// the pool is recorded as lost, and waiters send theirs again.

// ErrRolledBack says that the chain went back to a snapshot in whose pools the transaction was not.
var ErrRolledBack = errors.New("mempool: the chain went back to a snapshot, in which the transaction was not waiting")

// ErrShardGone says that the shard which the transaction belongs to has no pool here any more.
var ErrShardGone = errors.New("mempool: its shard has no pool on this node any more")

// Limits by which there is no room for a transaction, as config.json has them.
const (
	limitTransactions = "troupe.mempool.max_transactions"
	limitBytes        = "transaction_pool_size_limit"
	limitKey          = "troupe.mempool.max_per_key"
	limitQueue        = "troupe.mempool.max_queued, troupe.mempool.max_queued_bytes"
	limitHeld         = "troupe.mempool.max_held, troupe.mempool.max_held_bytes"
	limitAfterHeld   = "what is behind a transaction that waits for its code may have half of transaction_pool_size_limit and troupe.mempool.max_transactions"
)

// noRoom is the refusal by a limit.
func noRoom(limit string) error { return &view.LookupError{Kind: view.ErrNoRoom, Reason: limit} }

// refusal returns the error that the transaction's sender gets for a pool's error.
func refusal(tx *primitives.SignedTransaction, err error) error {
	var taken *txpool.NonceTaken
	switch {
	case errors.As(err, &taken): // what it would be told once the other is in a block
		return usedNonce(tx, taken.Nonce)
	case errors.Is(err, txpool.ErrExpired):
		return &primitives.InvalidTxError{Tag: primitives.TxExpired}
	case errors.Is(err, txpool.ErrKeyFull):
		return noRoom(limitKey)
	case errors.Is(err, txpool.ErrBytes):
		return noRoom(limitBytes)
	default:
		return noRoom(limitTransactions)
	}
}

// usedNonce is the refusal of a transaction whose key has come to a nonce.
func usedNonce(tx *primitives.SignedTransaction, at primitives.Nonce) *primitives.InvalidTxError {
	return &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce, TxNonce: tx.Nonce.Nonce, KeyNonce: at}
}

// dropped converts a transaction that a chunk producer rejected. A waiter checks it against the state first, and reports a congested
// shard with its details.
func dropped(x *apply.Dropped) messages.DroppedTransaction {
	out := newDrop(x.SignedTransaction, &primitives.InvalidTxError{Tag: primitives.TxExpired})
	switch {
	case x.Err != nil:
		out.Err = x.Err
	case x.Reason == apply.DropCongested:
		out.Err = noRoom("the shard of its receiver is congested")
	}
	return out
}

// drop tells of what has left the pool, or did not come into it, without being included.
func (a *Actor) drop(gone []messages.DroppedTransaction) {
	for _, x := range gone {
		a.unhold(x.Hash, messages.Submitted{Err: x.Err})
	}
	a.reportDropped(gone)
}

// reportDropped numbers drops and tells of them.
func (a *Actor) reportDropped(gone []messages.DroppedTransaction) {
	if len(gone) == 0 {
		return
	}
	for i := range gone {
		gone[i].Nth = a.o.Tally.Drops.Add(1)
	}
	if a.o.Out.Dropped != nil {
		a.o.Out.Dropped(messages.TransactionsDropped{List: gone})
	}
}

// newDrop is a transaction that leaves the pool.
func newDrop(tx *primitives.SignedTransaction, why error) messages.DroppedTransaction {
	return messages.DroppedTransaction{Hash: tx.Hash(), Err: why, Source: string(tx.SignerID)}
}

// markPooled tells the record that a transaction has come into the pool: what became of it before holds no more.
func (a *Actor) markPooled(tx *primitives.SignedTransaction) { a.reportSettled(tx, true) }

// reportSettled tells the record what became of a submission.
func (a *Actor) reportSettled(tx *primitives.SignedTransaction, pooled bool) {
	if a.o.Out.Settled != nil {
		a.o.Out.Settled(tx.Hash(), pooled)
	}
}

// dropUnanswered drops a submission whose sender hears of no answer, unless another copy of it is in the pool. A bad signature says nothing of the
// transaction, since it is no part of its hash.
func (a *Actor) dropUnanswered(x item, err error) {
	hash := x.tx.Hash()
	var invalid *primitives.InvalidTxError
	if errors.As(err, &invalid) && invalid.Tag == primitives.TxInvalidSignature || a.pool.Find(hash) != nil {
		return
	}
	a.reportDropped([]messages.DroppedTransaction{{Hash: hash, Err: err, Source: "client " + string(x.client)}})
}

// poolContents lists what the pool held when the actor failed. Waiters send theirs again.
func (a *Actor) poolContents() (list []messages.DroppedTransaction) {
	defer func() { _ = recover() }() // the pool may be what has failed
	a.pool.Each(func(tx *primitives.SignedTransaction, _ primitives.Height) {
		list = append(list, newDrop(tx, ErrRestarted))
	})
	return list
}

// refused drops what the node that it was passed on to does not take.
func (a *Actor) refused(m *messages.TransactionRefused) {
	hash := m.Tx.Hash()
	if home := a.o.Home(m.Tx.SignerID); home != a.o.Shard {
		a.o.Out.Forward(home, *m) // where there is no pool it has left this one already
		return
	}
	if a.pool.Remove(hash) {
		a.drop([]messages.DroppedTransaction{newDrop(m.Tx, m.Err)})
		a.publishCounts()
	}
}
