package messages

import "github.com/troupe-chain/troupe/primitives"

// TransactionPooled: mempool -> network, no reply. A transaction of a client or of a peer has entered
// a pool. The network actor sends the transaction to the chunk producers of the signer's shard,
// except this node. On a validator among others, the network actor also passes the transaction to
// this node's validator actor, whose consensus core adds it to a pool of its own
// (consensus/pools.go). This node's chunks come from that pool. A duplicate changes nothing. After a
// loss only the mempool's pool contains the transaction.
type TransactionPooled struct {
	Tx *primitives.SignedTransaction
	// Routed means that the transaction is unchecked and in no pool, because this node does not
	// track the signer's shard. The client was informed that the transaction is forwarded.
	Routed bool
}

// PoolWanted: validator -> mempool, answered with a TransactionPooled for each pooled transaction.
// A restarted validator actor has lost its own pools. A duplicate changes nothing.
type PoolWanted struct{}
