package messages

import "github.com/troupe-chain/troupe/primitives"

// TransactionPooled: mempool -> network, no reply. A transaction has entered a pool. The
// network sends it to the chunk producers of its shard, unless they are this node. A duplicate
// changes nothing. A loss leaves it only in this pool.
type TransactionPooled struct {
	Tx *primitives.SignedTransaction
	// from a client, unchecked and in no pool since this node lacks the shard; the client was told
	// that it is forwarded
	Routed bool
}

// PoolWanted: validator -> mempool, answered with a TransactionPooled for each transaction in
// the pool, since a restarted validator has lost its own. A duplicate changes nothing.
type PoolWanted struct{}
