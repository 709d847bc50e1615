package messages

import "github.com/troupe-chain/troupe/primitives"

// WaiterID names a waiter, in one process, for ever.
type WaiterID uint64

// Watch: waiter -> milestones, answered to the waiter with Watched. It adds to what the waiter is told of: the outcomes of
// IDs, transactions or receipts, and of all receipts that follow from them. A duplicate changes nothing.
type Watch struct {
	Waiter WaiterID
	Tell   Sender[Progress]
	IDs    []primitives.Hash
	// Included: the transaction is known to be in a block, so the waiter is told when the final head moves.
	Included bool
	// EveryBlock: the waiter is told of every new head, as its transaction waits in no pool of this node.
	EveryBlock bool
}

// Unwatch: waiter -> milestones, no reply. The waiter is told no more.
type Unwatch struct{ Waiter WaiterID }

// TransactionsDropped: mempool -> milestones, no reply: transactions left a pool without being included. Each waiter that
// watches one is told. A loss leaves such a waiter to its timeout.
type TransactionsDropped struct{ Hashes []primitives.Hash }
