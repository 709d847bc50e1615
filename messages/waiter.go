package messages

import "github.com/troupe-chain/troupe/primitives"

// Progress: txtracker -> waiter, no reply. Progress reports outcomes of the transaction and
// receipts that the waiter watches, up to and including one block. Progress messages come in the
// order of blocks. A Progress may repeat outcomes that the waiter has read from the store.
type Progress struct {
	// At is the position after the block. If the message is not about a block, At is txtracker's
	// current position.
	At     Position
	Branch Branch
	// answers Watch: txtracker will report outcomes from now on; the waiter reads outcomes up to
	// now from the store
	Watched bool
	// Executed are the outcomes in block At.Head, and in blocks before At.Head whose outcomes
	// txtracker has held back (Watch.FinalOnly). All waiters of the transaction share Executed,
	// read only.
	Executed []Executed
	// Doubt means that the data in Watch.Use has changed, so the transaction may be invalid now.
	Doubt bool
	// Reorganised means that outcomes known to the waiter may no longer be canonical. The waiter
	// reads these outcomes again.
	Reorganised bool
	// Dropped is the reason for which the transaction left the pool without being included
	// (DroppedTransaction.Err). nil: the transaction was not dropped.
	Dropped error
	Nth     uint64 // DroppedTransaction.Nth of Dropped
	// Lost is the error with which the wait ends, because a rollback removed the transaction. nil:
	// the wait continues.
	Lost error
}

// Executed is the outcome of a transaction or receipt in an accepted block of the current chain.
type Executed struct {
	Outcome *primitives.OutcomeWithID
	Block   primitives.Hash
	Height  primitives.Height
	// Refund is the ID of the outcome's last receipt if that receipt is a refund (its predecessor
	// is the system), else zero.
	Refund primitives.Hash
}

// Submitted: mempool -> waiter, no reply: the result of the waiter's submission.
type Submitted struct {
	Hash primitives.Hash
	// Pooled means that the transaction is in the pool. If the pool drops the transaction, a
	// Progress reports the drop.
	Pooled bool
	// MaybeIncluded means that a copy is in the pool, but that the check found the transaction
	// invalid. So a block may include the transaction already. If only Pooled is set, no block up
	// to the head at the time of the check includes the transaction.
	MaybeIncluded bool
	// Drops is the number of the node's last drop before this result (DroppedTransaction.Nth).
	Drops uint64
	// Err is the reason for which the transaction is in no pool. *primitives.InvalidTxError: the
	// transaction is invalid. view.ErrNoRoom in a *view.LookupError: a limit rejects the
	// transaction; neard would not answer the client at all. Any other error is a fault of this
	// node. Exactly one of Pooled and Err is set.
	Err error
}
