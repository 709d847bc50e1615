package messages

import "github.com/troupe-chain/troupe/primitives"

// TransactionPooled: mempool -> network, no reply: a transaction is in a pool for the first time. It is sent to who makes the chunks of its shard, if
// that is not this node. A duplicate changes nothing; a loss leaves it here.
type TransactionPooled struct {
	Tx     *primitives.SignedTransaction
	Routed bool // it is a client's, unchecked and in no pool, for its shard is not held; the client was told that it is passed on
}

// PoolWanted: validator -> mempool, answered by a TransactionPooled for each transaction that is there: a validator that has failed has lost its own. A
// duplicate changes nothing.
type PoolWanted struct{}
