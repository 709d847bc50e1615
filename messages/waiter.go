package messages

import "github.com/troupe-chain/troupe/primitives"

// Progress: milestones -> waiter, no reply: what happened to what the waiter watches, up to and with one block. Progress comes
// in the order of blocks. Facts may come twice, since a waiter also reads what was stored before it began to watch.
type Progress struct {
	// At is the position after the block, or that of milestones if there is none.
	At       Position
	Branch   Branch
	Watched  bool       // answers Watch: from At on the waiter is told; what is older it reads
	Executed []Executed // in the block At.Head, shared by all who wait for the transaction, so read only
	// Doubt: what the transaction rests on has changed (Watch.Use), so it may not be valid any more.
	Doubt bool
	// Reorganised: what was executed may be so no longer; the waiter reads again.
	Reorganised bool
	// Dropped is why the transaction left the pool without being included, as DroppedTransaction has it; nil: it has not.
	Dropped error
	Nth     uint64 // of Dropped, as DroppedTransaction has it
	// Lost ends the wait: what it waited for has never been.
	Lost error
}

// Executed is the outcome of a transaction or receipt in an accepted block of the current chain.
type Executed struct {
	Outcome *primitives.OutcomeWithID
	Block   primitives.Hash
	Height  primitives.Height
	// Refund is the last of the outcome's receipts if that comes from the system, else zero.
	Refund primitives.Hash
}

// Submitted: mempool -> waiter, no reply: what became of the transaction that the waiter has sent it.
type Submitted struct {
	Hash primitives.Hash
	// Pooled: it is in the pool, which says when it drops it.
	Pooled bool
	// Drops is the number of the last drop before that.
	Drops uint64
	// Err is why it is in none: *primitives.InvalidTxError; view.ErrNoRoom as *view.LookupError, where neard says nothing and lets the client
	// wait; anything else is the node's own fault. Exactly one of Pooled and Err says something.
	Err error
}
