package messages

import "github.com/troupe-chain/troupe/primitives"

// WaiterID identifies a waiter. Ids are unique in a process.
type WaiterID uint64

// Address identifies a waiter and its session. Waiter 0 is the session itself.
type Address struct {
	Session SessionID
	Waiter  WaiterID
}

// Branch identifies the chain that txtracker reports on. It changes with each reorganisation
// and each start of txtracker. Values are unique in a process.
type Branch uint64

// Position is how far the current chain has come: the heights of its head and of the last final
// block as of that head.
type Position struct{ Head, Final primitives.Height }

// Watch: waiter -> txtracker, answered to the waiter with a Progress that is Watched. It
// extends what the waiter is told of: the outcomes of IDs (transactions or receipts) and of all
// receipts that follow from them. All waiters of one transaction share what any of them
// watches; new ids are confirmed to each. A duplicate changes nothing.
type Watch struct {
	Waiter Address
	Hash   primitives.Hash // of the transaction; it does not change
	IDs    []primitives.Hash
	// Executed are the heights of blocks with outcomes that the waiter has read from the store. It
	// is told when they become final, as for blocks that come later.
	Executed []primitives.Height
	// Use, if its Key is not empty, is what can invalidate a transaction that no pool of this node
	// holds. The waiter is told once, with Doubt, and watches again to be told again.
	Use Use
}

// Use is what the validity of a pending transaction depends on.
type Use struct {
	Key     string            // trie key of the access key, or of the gas key's nonce index
	Nonce   primitives.Nonce  // in doubt when the stored nonce reaches this one, or the key is deleted
	Expires primitives.Height // first height of a head at which its base block is too old
}

// Unwatch: waiter -> txtracker, no reply. The waiter is told no more.
type Unwatch struct{ Waiter Address }

// WatchAgain: txtracker -> rpc -> sessions -> waiters; no reply but a Watch of each waiter.
// txtracker has restarted without any waiter. A duplicate changes nothing.
type WatchAgain struct{}

// TransactionsDropped: mempool -> txtracker, no reply. Transactions left a pool without being
// included, or did not enter it and their sender got no other answer. Each waiter of one is
// told. A loss leaves such a waiter to its timeout.
type TransactionsDropped struct {
	// Tip is the height of the in-memory head. A block up to there may include one of the
	// transactions if another copy was dropped, so waiters are told after that block.
	Tip  primitives.Height
	List []DroppedTransaction
}

// DroppedTransaction is one transaction of TransactionsDropped.
type DroppedTransaction struct {
	Hash primitives.Hash
	// Err is the reason, never nil: *primitives.InvalidTxError if no block can include it as
	// things are, view.ErrNoRoom as *view.LookupError if a limit of the node rejects it, any other
	// error if the node is the reason.
	Err error
	// Nth numbers the drops of a node. A pool that takes the transaction later reports a higher
	// number (Submitted.Drops).
	Nth uint64
	// Source is charged for the entry in the record of drops: the client if the transaction never
	// entered a pool, else the signer.
	Source string
}
