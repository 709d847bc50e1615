package messages

import "github.com/troupe-chain/troupe/primitives"

// TransactionPooled: mempool -> network, no reply: a transaction is in a pool for the first time. It is sent to who makes the chunks of its shard, if
// that is not this node. A duplicate changes nothing; a loss leaves it here.
type TransactionPooled struct{ Tx *primitives.SignedTransaction }
