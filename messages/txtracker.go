package messages

import "github.com/troupe-chain/troupe/primitives"

// WaiterID identifies a waiter: the actor for one wait of one client. IDs are unique in a process.
type WaiterID uint64

// Address identifies a waiter and its session. Waiter 0 addresses the session itself.
type Address struct {
	Session SessionID
	Waiter  WaiterID
}

// Branch identifies the chain that txtracker reports on. It changes with each reorganisation and
// when txtracker starts. Values are unique in a process.
type Branch uint64

// Position is how far the current chain has come: the height of its head, and of the last final
// block according to that head.
type Position struct{ Head, Final primitives.Height }

// Watch: waiter -> txtracker, answered to the waiter with a Progress that has Watched set. It adds
// IDs (transactions or receipts) to the ones that the waiter gets news of. News are their outcomes,
// and the outcomes of all receipts that follow from them. All waiters of one transaction share the
// watched IDs; each of them gets a Watched for new ones. A duplicate changes nothing.
type Watch struct {
	Waiter Address
	Hash   primitives.Hash // of the transaction; equal in all Watches of a waiter
	IDs    []primitives.Hash
	// Executed are the heights of blocks whose outcomes the waiter has read from the store. The
	// waiter gets a Progress when they become final, as for later blocks.
	Executed []primitives.Height
	// Use is what can make the transaction invalid, for a transaction in no pool of this node. If
	// it changes, the waiter gets one Progress with Doubt. To get another one it sends Watch again.
	// An empty Use.Key disables this.
	Use Use
}

// Use is what the validity of a pending transaction depends on.
type Use struct {
	Key     string            // trie key of the access key, the gas key's nonce, or the uninitialized account
	Nonce   primitives.Nonce  // the transaction is in doubt when the stored nonce reaches it, or there is none any more
	Expires primitives.Height // lowest head height at which the base block is too old
}

// Unwatch: waiter -> txtracker, no reply. The waiter gets no further Progress.
type Unwatch struct{ Waiter Address }

// WatchAgain: txtracker -> rpc -> sessions -> waiters; each waiter sends its Watch again. txtracker
// has restarted and knows no waiters. A duplicate changes nothing.
type WatchAgain struct{}

// TransactionsDropped: mempool -> txtracker, no reply. The transactions have left a pool without
// being included, or have not entered it and their sender got no other answer. txtracker informs
// each waiter of these transactions. After a loss such a waiter ends with its timeout.
type TransactionsDropped struct {
	// Tip is the height of the in-memory head. A block up to Tip may include one of the
	// transactions, if only a copy of it was dropped. So waiters are informed after that block.
	Tip  primitives.Height
	List []DroppedTransaction
}

// DroppedTransaction is one transaction of TransactionsDropped.
type DroppedTransaction struct {
	Hash primitives.Hash
	// Err is the reason, never nil: an *primitives.InvalidTxError if no block can include the
	// transaction in the current state; view.ErrNoRoom in a *view.LookupError if a limit of the
	// node rejects it; any other error is a fault of the node.
	Err error
	// Nth numbers the drops of a node. If a pool takes the transaction later, Submitted.Drops is at
	// least Nth.
	Nth uint64
	// Source is the account or client whose share of the drop record the entry uses: the client if
	// the transaction never entered a pool, else the signer.
	Source string
}
