package mempool

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// No transaction leaves this actor silently. The actor answers the sender of a submission (answer).
// If the actor reported the transaction as pooled before, or the sender waits for no answer, the
// actor reports the drop with TransactionsDropped (drop). It does not report inclusion in a block.
// If the actor fails, the drop record gets the transactions of its pool as lost, and waiters submit
// their transactions again.

// ErrRolledBack is the reason of a drop after a rollback: no pool contained the transaction at the
// revert point.
var ErrRolledBack = errors.New("mempool: the chain was rolled back to a snapshot without this transaction; send it again")

// ErrShardGone means that the transaction's shard no longer has a pool on this node.
var ErrShardGone = errors.New("mempool: the transaction's shard has no pool on this node any more")

// Limits that reject a transaction, by their names in config.json.
const (
	limitTransactions = "troupe.mempool.max_transactions"
	limitBytes        = "transaction_pool_size_limit"
	limitKey          = "troupe.mempool.max_per_key"
	limitQueue        = "troupe.mempool.max_queued, troupe.mempool.max_queued_bytes"
	limitHeld         = "troupe.mempool.max_held, troupe.mempool.max_held_bytes"
	limitAfterHeld    = "transactions after one that waits for compilation may fill half of " +
		"transaction_pool_size_limit and troupe.mempool.max_transactions"
)

// noRoom returns the error for a transaction that a limit keeps out. limit names the limit.
func noRoom(limit string) error { return &view.LookupError{Kind: view.ErrNoRoom, Reason: limit} }

// refusal converts an error of txpool.Pool.Add to the error that the sender gets.
func refusal(tx *primitives.SignedTransaction, err error) error {
	var taken *txpool.NonceTaken
	switch {
	case errors.As(err, &taken): // neard returns this error when the other transaction is in a block
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

// usedNonce returns the error for a transaction whose access key already has the nonce at.
func usedNonce(tx *primitives.SignedTransaction, at primitives.Nonce) *primitives.InvalidTxError {
	return &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce, TxNonce: tx.Nonce.Nonce, KeyNonce: at}
}

// dropped converts a transaction that the chunk producer dropped. For a congested shard the error
// has no details: waiters check the state again and report the details.
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

// drop ends the holds of transactions that left the pool, answers the pending senders of these
// transactions, and reports the drops.
func (a *Actor) drop(gone []messages.DroppedTransaction) {
	for _, x := range gone {
		a.unhold(x.Hash, messages.Submitted{Err: x.Err})
	}
	a.reportDropped(gone)
}

// reportDropped numbers the drops and sends TransactionsDropped.
func (a *Actor) reportDropped(gone []messages.DroppedTransaction) {
	if len(gone) == 0 {
		return
	}
	for i := range gone {
		gone[i].Nth = a.o.Tally.Drops.Add(1)
	}
	a.o.Out.Dropped(messages.TransactionsDropped{List: gone})
}

// newDrop returns the report for a transaction that leaves the pool because of why.
func newDrop(tx *primitives.SignedTransaction, why error) messages.DroppedTransaction {
	return messages.DroppedTransaction{Hash: tx.Hash(), Err: why, Source: string(tx.SignerID)}
}

// markPooled reports that a transaction is in the pool. On this report the drop record deletes an
// earlier drop of the transaction.
func (a *Actor) markPooled(tx *primitives.SignedTransaction) { a.reportSettled(tx, true) }

// reportSettled reports the result of a submission to the drop record.
func (a *Actor) reportSettled(tx *primitives.SignedTransaction, pooled bool) {
	a.o.Out.Settled(tx.Hash(), pooled)
}

// dropUnanswered reports a failed submission as dropped if the submission's sender gets no answer.
// It does nothing if the pool has another copy of the transaction. It also does nothing if the
// signature is bad: the hash does not cover the signature, so a copy with another signature may be
// valid.
func (a *Actor) dropUnanswered(x item, err error) {
	hash := x.tx.Hash()
	var invalid *primitives.InvalidTxError
	if errors.As(err, &invalid) && invalid.Tag == primitives.TxInvalidSignature || a.pool.Find(hash) != nil {
		return
	}
	a.reportDropped([]messages.DroppedTransaction{{Hash: hash, Err: err, Source: "client " + string(x.client)}})
}

// poolContents returns the contents of a failed actor's pool as drops. If the pool panics,
// poolContents returns the transactions that it has read before the panic.
func (a *Actor) poolContents() (list []messages.DroppedTransaction) {
	defer func() { _ = recover() }() // the pool's data may be inconsistent, because the actor has failed
	a.pool.Each(func(tx *primitives.SignedTransaction, _ primitives.Height) {
		list = append(list, newDrop(tx, ErrRestarted))
	})
	return list
}

// refused drops a transaction that another node rejected after this node forwarded it.
func (a *Actor) refused(m *messages.TransactionRefused) {
	hash := m.Tx.Hash()
	if home := a.o.Chain.Home(m.Tx.SignerID); home != a.o.Shard {
		a.o.Out.Forward(home, *m) // does nothing if this node has no pool of that shard
		return
	}
	if a.pool.Remove(hash) {
		a.chose = slices.DeleteFunc(a.chose, func(x primitives.Hash) bool { return x == hash })
		a.drop([]messages.DroppedTransaction{newDrop(m.Tx, m.Err)})
		a.publishCounts()
	}
}
