package messages

import "github.com/troupe-chain/troupe/primitives"

// SubmitTransactions: waiter or node -> mempool of the signers' shard. The mempool checks the
// transactions, fairly between clients, and adds the valid ones to its pool. It sends a waiter
// Submitted for each transaction. After a loss the transactions are in no pool.
type SubmitTransactions struct {
	From         Address
	Client       Client
	Transactions []*primitives.SignedTransaction
}

// SubmitAgain: mempool -> rpc -> sessions -> waiters, and -> producer; no reply. The mempool of a
// shard has restarted with an empty pool. Waiters send their transactions again, and the producer
// requests a missing chunk again. A duplicate changes nothing.
type SubmitAgain struct{ Shard primitives.ShardID }

// Candidates: mempool -> chunk-producer, answers ProduceChunk. It contains the first page of the
// transactions that the chunk may take, in order. They stay in the pool until a block includes
// them.
type Candidates struct {
	For  ProduceChunk
	Walk uint64 // identifies the walk: the choice of transactions for this chunk
	Page []Candidate
	More bool // further pages can be requested
}

// Candidate is a transaction that a chunk may take.
type Candidate struct {
	Tx *primitives.SignedTransaction
	// Group is equal for transactions of one signer, key and nonce index. The chunk takes the
	// transactions of a group in order. If it does not take one, it takes no later one of the
	// group.
	Group int32
}

// ChunkChosen: chunk-producer -> mempool, no reply. It lists the candidates that the chunk takes or
// drops. It is not sent if the pool has one page of candidates and the chunk takes them all. After a
// loss, the dropped transactions stay in the pool.
type ChunkChosen struct {
	Walk    uint64
	Chosen  []*primitives.SignedTransaction
	Dropped []DroppedTransaction
	// Left means that a limit of the chunk ended the choice, so candidates remain.
	Left bool
	// Failed means that no chunk was made, so all candidates may be offered again.
	Failed bool
}

// TransactionRefused: node -> mempool of the signer's shard, no reply. This node forwarded the
// transaction to another node, which rejected it. The mempool drops the transaction and reports
// that with TransactionsDropped. A duplicate changes nothing.
type TransactionRefused struct {
	Tx  *primitives.SignedTransaction
	Err error // reason of the rejection, as in DroppedTransaction.Err
}

// LayoutChanged: node -> mempool, asked after a block that changes the shard layout. The
// mempool forwards transactions whose signers now belong to other shards. It answers with PoolMoved
// when they are in the mailboxes of those shards' mempools. A duplicate changes nothing.
type LayoutChanged struct{}

// PoolMoved answers LayoutChanged.
type PoolMoved struct{}
