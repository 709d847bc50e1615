package messages

import "github.com/troupe-chain/troupe/primitives"

// TransactionPooled: mempool -> network, no reply. A transaction has entered a pool. The network
// actor sends the transaction to the chunk producers of the signer's shard, except this node. A
// duplicate changes nothing. After a loss only this node's pool contains the transaction.
type TransactionPooled struct {
	Tx *primitives.SignedTransaction
	// Routed means that the transaction is unchecked and in no pool, because this node does not
	// track the signer's shard. The client was informed that the transaction is forwarded.
	Routed bool
}

// PoolWanted: validator -> mempool, answered with a TransactionPooled for each pooled transaction.
// A restarted validator process has lost its own pool. A duplicate changes nothing.
type PoolWanted struct{}
