package messages

import "github.com/troupe-chain/troupe/primitives"

// WaiterID names a waiter, in one process, for ever.
type WaiterID uint64

// Address names a waiter and the session above it. Waiter 0 is the session itself.
type Address struct {
	Session SessionID
	Waiter  WaiterID
}

// Branch names the chain that milestones tells of: another one after each reorganisation, and whenever milestones begins. None comes again in
// one process.
type Branch uint64

// Position says how far the current chain is: the heights of its head and of the last final block as that head has it.
type Position struct{ Head, Final primitives.Height }

// Watch: waiter -> milestones, answered to the waiter with a Progress that is Watched. It adds to what the waiter is told of:
// the outcomes of IDs, transactions or receipts, and of all receipts that follow from them. All who wait for one transaction are told of what any
// of them watches: ids that are new are confirmed to each. A duplicate changes nothing.
type Watch struct {
	Waiter Address
	Hash   primitives.Hash // of the transaction; it does not change
	IDs    []primitives.Hash
	// Executed are the heights of blocks with outcomes of the transaction that the waiter has read by itself; it is told when
	// they become final, as it is of those of blocks that come later.
	Executed []primitives.Height
	// Use, if Key is not empty, says what could make the transaction invalid while no pool of this node has it: the waiter is
	// told once, with Doubt, and watches again if it still wants to know.
	Use Use
}

// Use is what a transaction that is in no block rests on.
type Use struct {
	Key     string            // the key of its nonce's row in the trie: of the access key, or of the gas key's index
	Nonce   primitives.Nonce  // it is in doubt when the row's nonce reaches this one, or the row goes away
	Expires primitives.Height // the first height of a head at which the block that it refers to is too old
}

// Unwatch: waiter -> milestones, no reply. The waiter is told no more.
type Unwatch struct{ Waiter Address }

// WatchAgain: milestones -> rpc -> sessions -> waiters, no reply but a Watch of each waiter: milestones has begun anew and
// knows of nobody. A duplicate changes nothing.
type WatchAgain struct{}

// TransactionsDropped: mempool -> milestones, no reply: transactions left a pool without being included, or did not come into it although
// their sender was told nothing else. Each waiter that watches one is told. A loss leaves such a waiter to its timeout.
type TransactionsDropped struct {
	// Tip is how far the chain had come in memory. A block up to there may have one of these, where another copy of it was dropped: nobody is
	// told before that block.
	Tip  primitives.Height
	List []DroppedTransaction
}

// DroppedTransaction is one of them.
type DroppedTransaction struct {
	Hash primitives.Hash
	// Err is why, never nil: *primitives.InvalidTxError if no block can have it as things are, view.ErrNoRoom as *view.LookupError if a limit
	// of the node does not let it in, anything else if the node is the reason.
	Err error
	// Nth numbers the drops of a node. A pool that has taken the transaction after that says so with a higher number, as Submitted.Drops.
	Nth uint64
	// Source is whose places this takes in the record of drops: the client of one that came into no pool, else the signer.
	Source string
}
