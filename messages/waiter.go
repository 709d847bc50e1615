package messages

import "github.com/troupe-chain/troupe/primitives"

// Progress: txtracker -> waiter, no reply: news about the transaction and receipts that the waiter
// watches, up to and including one block. It comes in the order of blocks. News may repeat what the
// waiter has read from the store.
type Progress struct {
	// At is the position after the block, or txtracker's current position if the news is not about
	// a block.
	At       Position
	Branch   Branch
	Watched  bool       // answers Watch: later news follows; the waiter reads older outcomes from the store
	Executed []Executed // outcomes in block At.Head; shared by all waiters of the transaction, read only
	// Doubt: the data that Watch.Use describes has changed, so the transaction may be invalid now.
	Doubt bool
	// Reorganised: outcomes that the waiter knows may no longer be canonical, so it reads them
	// again.
	Reorganised bool
	// Dropped is why the transaction left the pool without being included (DroppedTransaction.Err);
	// nil: it did not.
	Dropped error
	Nth     uint64 // DroppedTransaction.Nth of Dropped
	// Lost is the error with which the wait ends, because a rollback removed the transaction; nil:
	// the wait goes on.
	Lost error
}

// Executed is the outcome of a transaction or receipt in an accepted block of the current chain.
type Executed struct {
	Outcome *primitives.OutcomeWithID
	Block   primitives.Hash
	Height  primitives.Height
	// Refund is the ID of the outcome's last receipt if that is a refund (its predecessor is the
	// system), else zero.
	Refund primitives.Hash
}

// Submitted: mempool -> waiter, no reply: the result of the waiter's submission.
type Submitted struct {
	Hash primitives.Hash
	// Pooled: the transaction is in the pool. If the pool drops it later, that is reported.
	Pooled bool
	// Drops is the number of the node's last drop before this result (DroppedTransaction.Nth).
	Drops uint64
	// Err is why the transaction is in no pool: an *primitives.InvalidTxError; view.ErrNoRoom in a
	// *view.LookupError, in which case neard would not answer the client at all; any other error is
	// a fault of this node. Exactly one of Pooled and Err is set.
	Err error
}
