package messages

import "github.com/troupe-chain/troupe/primitives"

// SubmitTransactions: waiter, session or node -> mempool of their signers' shard. It looks at them, in turns with those of other
// clients, and puts the good ones into its pool. A waiter is answered with Submitted for each, a session with
// SubmissionsDone once they are done with. A loss loses the transactions.
type SubmitTransactions struct {
	From         Address
	Client       Client
	Transactions []*primitives.SignedTransaction
}

// SubmissionsDone: mempool -> session, no reply: that many of its submissions are done with, whatever became of them.
type SubmissionsDone struct {
	Session SessionID
	Count   int
}

// SubmitAgain: mempool -> rpc -> sessions -> waiters, and -> producer, no reply: the mempool of a shard has begun anew and knows nothing
// of what it had. Waiters send their transactions again, and the producer asks again for a chunk that has not come. A duplicate
// changes nothing.
type SubmitAgain struct{ Shard primitives.ShardID }

// Candidates: mempool -> chunk-producer, answers ProduceChunk: the first of those that a chunk may take, in the order in which it
// takes them. They are the pool's still, until a block includes them.
type Candidates struct {
	For  ProduceChunk
	Walk uint64 // names this choice
	Page []Candidate
	More bool // there are more, for the asking
}

// Candidate is a transaction that a chunk may take.
type Candidate struct {
	Tx *primitives.SignedTransaction
	// Group is the same for those of one signer, key and nonce index, which are taken in their order or not at all.
	Group int32
}

// ChunkChosen: chunk-producer -> mempool, no reply: what became of the candidates. A loss leaves the dropped ones in the pool.
type ChunkChosen struct {
	Walk    uint64
	Chosen  []*primitives.SignedTransaction
	Dropped []DroppedTransaction
	// Left: a limit of the chunk ended the choice, not the candidates.
	Left bool
	// Failed: there is no chunk, so all may be taken again.
	Failed bool
}

// TransactionRefused: node -> mempool of its signer's shard, no reply: the node that it was passed on to does not take it. It leaves the pool and
// is told of with TransactionsDropped. A duplicate changes nothing.
type TransactionRefused struct {
	Tx  *primitives.SignedTransaction
	Err error // as DroppedTransaction has it
}

// LayoutChanged: node -> shard -> mempool, after the block behind which the layout is another. It sends transactions on whose
// signers are in other shards now, and answers when they are in the mailboxes of those. A duplicate changes nothing.
type LayoutChanged struct{}

// PoolMoved is the answer to LayoutChanged.
type PoolMoved struct{}
