package messages

import "github.com/troupe-chain/troupe/primitives"

// SubmitTransactions: waiter or node -> mempool of the signers' shard. The mempool checks the
// transactions, fairly between clients, and adds the valid transactions to its pool. For each
// transaction, the mempool sends the waiter a Submitted. After a loss the transactions are in no
// pool.
type SubmitTransactions struct {
	From         Address
	Client       Client
	Transactions []*primitives.SignedTransaction
}

// SubmitAgain: mempool -> rpc -> sessions -> waiters, and -> producer; no reply. The mempool of a
// shard has restarted with an empty pool. Waiters send their transactions again, and the producer
// requests a missing chunk again. A duplicate changes nothing.
type SubmitAgain struct{ Shard primitives.ShardID }

// Candidates: mempool -> chunk-producer, answers ProduceChunk. Candidates contains the first page
// of the transactions that the chunk may take, in order. The transactions stay in the pool until a
// block includes them.
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
	// transactions of a group in order. If the chunk does not take a transaction, it takes no
	// transaction after that one in the group.
	Group int32
}

// ChunkChosen: chunk-producer -> mempool, no reply. ChunkChosen lists the candidates that the chunk
// takes or drops. The chunk producer does not send ChunkChosen if the pool has one page of
// candidates and the chunk takes them all. After a loss, the dropped transactions stay in the pool.
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
// transaction to another node, and that node rejected the transaction. The mempool drops the
// transaction and reports the drop with TransactionsDropped. A duplicate changes nothing.
type TransactionRefused struct {
	Tx  *primitives.SignedTransaction
	Err error // reason of the rejection, as in DroppedTransaction.Err
}

// LayoutChanged: node -> mempool, asked after a block that changes the shard layout. The mempool
// forwards transactions whose signers now belong to other shards. The mempool answers with
// PoolMoved when the transactions are in the mailboxes of those shards' mempools. A duplicate
// changes nothing.
type LayoutChanged struct{}

// PoolMoved answers LayoutChanged.
type PoolMoved struct{}
