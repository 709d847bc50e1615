package messages

import "github.com/troupe-chain/troupe/primitives"

// Progress: txtracker -> waiter, no reply: news about what the waiter watches, up to and
// including one block. It comes in the order of blocks. Facts may be repeated, since a waiter
// also reads what was stored before it began to watch.
type Progress struct {
	// At is the position after the block, or txtracker's position if the news is not about a
	// block.
	At       Position
	Branch   Branch
	Watched  bool       // answers Watch: the waiter is told of what comes after At, and reads what is older
	Executed []Executed // in block At.Head; shared by all waiters of the transaction, read only
	// Doubt: what the transaction depends on (Watch.Use) has changed, so it may have become
	// invalid.
	Doubt bool
	// Reorganised: known outcomes may no longer hold; the waiter reads again.
	Reorganised bool
	// Dropped is why the transaction left the pool without being included
	// (DroppedTransaction.Err), or nil.
	Dropped error
	Nth     uint64 // of Dropped, as in DroppedTransaction
	// Lost ends the wait: a rollback removed what it waited for.
	Lost error
}

// Executed is the outcome of a transaction or receipt in an accepted block of the current
// chain.
type Executed struct {
	Outcome *primitives.OutcomeWithID
	Block   primitives.Hash
	Height  primitives.Height
	// Refund is the last of the outcome's receipts if its predecessor is the system, else zero.
	Refund primitives.Hash
}

// Submitted: mempool -> waiter, no reply: the result of the waiter's submission.
type Submitted struct {
	Hash primitives.Hash
	// Pooled: it is in the pool, which reports if it drops it.
	Pooled bool
	// Drops is the number of the last drop before that.
	Drops uint64
	// Err is why it is in no pool: *primitives.InvalidTxError; view.ErrNoRoom as
	// *view.LookupError, where neard returns nothing and lets the client wait; any other error is
	// a failure of this node. Exactly one of Pooled and Err is set.
	Err error
}
