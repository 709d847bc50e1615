package mempool

import (
	"errors"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// No transaction leaves this actor silently. Its sender is answered (answer). If the sender was
// told that the transaction is pooled, or waits for no answer, the reason is reported with
// TransactionsDropped (drop). Inclusion by a block needs no report. If the actor fails, its
// pool is recorded as lost, and waiters submit again.

// ErrRolledBack means that the chain was rolled back to a snapshot without the transaction in its
// pools.
var ErrRolledBack = errors.New("mempool: the chain was rolled back to a snapshot without this transaction; send it again")

// ErrShardGone means that the shard of the transaction has no pool on this node any more.
var ErrShardGone = errors.New("mempool: the transaction's shard has no pool on this node any more")

// Limits that reject a transaction, by their names in config.json.
const (
	limitTransactions = "troupe.mempool.max_transactions"
	limitBytes        = "transaction_pool_size_limit"
	limitKey          = "troupe.mempool.max_per_key"
	limitQueue        = "troupe.mempool.max_queued, troupe.mempool.max_queued_bytes"
	limitHeld         = "troupe.mempool.max_held, troupe.mempool.max_held_bytes"
	limitAfterHeld    = "transactions after one that waits for compilation may fill half of transaction_pool_size_limit and troupe.mempool.max_transactions"
)

// noRoom returns the error for a transaction that a limit rejects.
func noRoom(limit string) error { return &view.LookupError{Kind: view.ErrNoRoom, Reason: limit} }

// refusal returns the error that the sender gets for an error of the pool.
func refusal(tx *primitives.SignedTransaction, err error) error {
	var taken *txpool.NonceTaken
	switch {
	case errors.As(err, &taken): // the answer it would get once the other one is in a block
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

// usedNonce returns the error for a transaction of a key that has reached the nonce at.
func usedNonce(tx *primitives.SignedTransaction, at primitives.Nonce) *primitives.InvalidTxError {
	return &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce, TxNonce: tx.Nonce.Nonce, KeyNonce: at}
}

// dropped converts a transaction that the chunk producer rejected. A waiter checks it against
// the state first, so that a congested shard is reported with its details.
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

// drop ends the holds of dropped transactions and reports the drops.
func (a *Actor) drop(gone []messages.DroppedTransaction) {
	for _, x := range gone {
		a.unhold(x.Hash, messages.Submitted{Err: x.Err})
	}
	a.reportDropped(gone)
}

// reportDropped numbers drops and reports them.
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

// newDrop returns the drop of a transaction that leaves the pool.
func newDrop(tx *primitives.SignedTransaction, why error) messages.DroppedTransaction {
	return messages.DroppedTransaction{Hash: tx.Hash(), Err: why, Source: string(tx.SignerID)}
}

// markPooled reports that a transaction is in the pool. The record of drops then forgets an
// earlier drop.
func (a *Actor) markPooled(tx *primitives.SignedTransaction) { a.reportSettled(tx, true) }

// reportSettled reports the result of a submission to the record of drops.
func (a *Actor) reportSettled(tx *primitives.SignedTransaction, pooled bool) {
	if a.o.Out.Settled != nil {
		a.o.Out.Settled(tx.Hash(), pooled)
	}
}

// dropUnanswered records the drop of a submission with a sender that gets no answer, unless another
// copy is in the pool. A bad signature says nothing about the transaction, since its hash does
// not cover it.
func (a *Actor) dropUnanswered(x item, err error) {
	hash := x.tx.Hash()
	var invalid *primitives.InvalidTxError
	if errors.As(err, &invalid) && invalid.Tag == primitives.TxInvalidSignature || a.pool.Find(hash) != nil {
		return
	}
	a.reportDropped([]messages.DroppedTransaction{{Hash: hash, Err: err, Source: "client " + string(x.client)}})
}

// poolContents lists what the pool held when the actor failed, as drops. Waiters send theirs
// again.
func (a *Actor) poolContents() (list []messages.DroppedTransaction) {
	defer func() { _ = recover() }() // the pool itself may have failed
	a.pool.Each(func(tx *primitives.SignedTransaction, _ primitives.Height) {
		list = append(list, newDrop(tx, ErrRestarted))
	})
	return list
}

// refused drops a transaction that the node it was forwarded to rejected.
func (a *Actor) refused(m *messages.TransactionRefused) {
	hash := m.Tx.Hash()
	if home := a.o.Home(m.Tx.SignerID); home != a.o.Shard {
		a.o.Out.Forward(home, *m) // a shard without a pool does not hold it
		return
	}
	if a.pool.Remove(hash) {
		a.drop([]messages.DroppedTransaction{newDrop(m.Tx, m.Err)})
		a.publishCounts()
	}
}
