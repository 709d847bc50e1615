package messages

import "github.com/troupe-chain/troupe/primitives"

// WaiterID identifies a waiter: the actor for one wait of one client. IDs are unique in a process.
type WaiterID uint64

// Address identifies a waiter and its session. Waiter 0 addresses the session itself.
type Address struct {
	Session SessionID
	Waiter  WaiterID
}

// Branch identifies the chain that txtracker reports on. The Branch changes with each
// reorganisation and when txtracker starts. Values are unique in a process.
type Branch uint64

// Position is the state of the current chain: the height of the head, and the height of the last
// final block according to that head.
type Position struct{ Head, Final primitives.Height }

// Watch: waiter -> txtracker, answered to the waiter with a Progress that has Watched set. Watch
// adds IDs (transactions or receipts) to the IDs that the waiter watches. The waiter then gets the
// outcomes of these IDs, and the outcomes of all receipts that follow from them. All waiters of one
// transaction share the watched IDs. Each waiter gets a Watched for new IDs. A duplicate changes
// nothing.
type Watch struct {
	Waiter Address
	Hash   primitives.Hash // the transaction's hash; equal in all Watches of a waiter
	IDs    []primitives.Hash
	// Executed lists heights of blocks whose outcomes the waiter has read from the store. The
	// waiter gets a Progress when these blocks become final, as for the blocks that follow.
	Executed []primitives.Height
	// Use describes what can make the transaction invalid while the transaction is in no pool of
	// this node. If the state that Use describes changes, the waiter gets one Progress with Doubt.
	// To get another such Progress, the waiter sends Watch again. An empty Use.Key disables these
	// messages.
	Use Use
	// Quiet means that the waiter gets no Watched. The waiter sends the watch before it submits the
	// transaction. If the mempool finds the nonce unused, no block up to then includes the
	// transaction.
	Quiet bool
	// FinalOnly means that the waiter waits for FINAL. If all waiters of a transaction do,
	// txtracker may hold outcomes back until a Progress with the block after which all blocks with
	// known outcomes are final. FinalOnly must be equal in all Watches of a waiter.
	FinalOnly bool
	// Begun is called when txtracker handles the message, on its goroutine. nil: not called.
	Begun func()
}

// Use is the data on which the validity of a pending transaction depends.
type Use struct {
	Key string // trie key of the access key, the gas key's nonce, or the uninitialized account
	// Nonce is the transaction's nonce. The waiter gets a Progress with Doubt when the stored nonce
	// reaches Nonce, or when no nonce is stored any more.
	Nonce   primitives.Nonce
	Expires primitives.Height // lowest head height at which the base block is too old
}

// Unwatch: waiter -> txtracker, no reply. The waiter gets no further Progress.
type Unwatch struct{ Waiter Address }

// WatchAgain: txtracker -> rpc -> sessions -> waiters. txtracker has restarted and knows no
// waiters. Each waiter sends its Watch again. A duplicate changes nothing.
type WatchAgain struct{}

// TransactionsDropped: mempool -> txtracker, no reply. The transactions have left a pool without
// being included in a block. Or the transactions have not entered a pool, and their sender got no
// other answer. txtracker informs the waiters of these transactions. After a loss such a waiter
// ends with its timeout.
type TransactionsDropped struct {
	// Tip is the height of the in-memory head. If only a copy of a transaction was dropped, a block
	// up to Tip may include the transaction. So waiters are informed after that block.
	Tip  primitives.Height
	List []DroppedTransaction
}

// DroppedTransaction is one transaction of TransactionsDropped.
type DroppedTransaction struct {
	Hash primitives.Hash
	// Err is the reason and never nil. *primitives.InvalidTxError: no block can include the
	// transaction in the current state. view.ErrNoRoom in a *view.LookupError: a limit of the node
	// rejects it. Any other error is a fault of the node.
	Err error
	// Nth numbers the drops of a node. If a pool accepts the transaction after this drop,
	// Submitted.Drops is at least Nth.
	Nth uint64
	// Source determines whose share of the drop record the entry uses. Source is the client if the
	// transaction never entered a pool, else the signer.
	Source string
}
