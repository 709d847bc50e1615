package messages

import "github.com/troupe-chain/troupe/primitives"

// Progress: milestones -> waiter, no reply: what happened to what the waiter watches. Facts may come twice, since a waiter
// also reads what was stored before it began to watch.
type Progress struct {
	Watched  bool // answers Watch: from now on the waiter is told; what is older it reads
	Executed []Executed
	Final    primitives.Height // of the head's last final block
	NewHead  bool
	// Reorganised: what was executed may be so no longer; the waiter reads again.
	Reorganised bool
	// Dropped: the transaction left the pool without being included.
	Dropped bool
}

// Executed is the outcome of a transaction or receipt in an accepted block of the current chain.
type Executed struct {
	Outcome *primitives.OutcomeWithID
	Block   primitives.Hash
	Height  primitives.Height
	// Refund is the last of the outcome's receipts if that comes from the system, else zero.
	Refund primitives.Hash
}
