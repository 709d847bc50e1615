package messages

import "github.com/troupe-chain/troupe/primitives"

// SubmitTransactions: waiter, session or node -> mempool of the signers' shard. The mempool
// checks the transactions, fairly between clients, and adds the valid ones to its pool. It
// answers a waiter with Submitted for each transaction, and a session with SubmissionsDone. A
// loss loses the transactions.
type SubmitTransactions struct {
	From         Address
	Client       Client
	Transactions []*primitives.SignedTransaction
}

// SubmissionsDone: mempool -> session, no reply. Count submissions of the session have been
// checked, whatever the result.
type SubmissionsDone struct {
	Session SessionID
	Count   int
}

// SubmitAgain: mempool -> rpc -> sessions -> waiters, and -> producer; no reply. The mempool of
// a shard has restarted with an empty pool. Waiters send their transactions again, and the
// producer asks again for a missing chunk. A duplicate changes nothing.
type SubmitAgain struct{ Shard primitives.ShardID }

// Candidates: mempool -> chunk-producer, answers ProduceChunk: the first page of the
// transactions that the chunk may take, in the order in which it takes them. They stay in the
// pool until a block includes them.
type Candidates struct {
	For  ProduceChunk
	Walk uint64 // identifies this choice
	Page []Candidate
	More bool // further pages can be requested
}

// Candidate is a transaction that a chunk may take.
type Candidate struct {
	Tx *primitives.SignedTransaction
	// Group is the same for transactions of one signer, key and nonce index. They are taken in
	// their order or not at all.
	Group int32
}

// ChunkChosen: chunk-producer -> mempool, no reply: what became of the candidates. A loss
// leaves dropped ones in the pool.
type ChunkChosen struct {
	Walk    uint64
	Chosen  []*primitives.SignedTransaction
	Dropped []DroppedTransaction
	// Left: a limit of the chunk ended the choice, not a lack of candidates.
	Left bool
	// Failed: there is no chunk, so all candidates may be offered again.
	Failed bool
}

// TransactionRefused: node -> mempool of the signer's shard, no reply. The node that the
// transaction was forwarded to rejected it. It leaves the pool and is reported with
// TransactionsDropped. A duplicate changes nothing.
type TransactionRefused struct {
	Tx  *primitives.SignedTransaction
	Err error // as in DroppedTransaction
}

// LayoutChanged: node -> shard -> mempool, after a block that changes the shard layout. The
// mempool forwards transactions of signers that now belong to other shards, and answers with
// PoolMoved when they are in the mailboxes of those. A duplicate changes nothing.
type LayoutChanged struct{}

// PoolMoved answers LayoutChanged.
type PoolMoved struct{}
