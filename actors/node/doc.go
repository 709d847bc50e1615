// Package node puts the actors together: it spawns them, says how each of them fails, and is what the RPC, the command and
// the benchmarks call.
//
//	in      Options: an open engine, keys, limits; transactions and waits from any goroutine
//	out     Node: OpenSession, SendTx, Tx, Submit, Mine, Metrics, Stop
//	state   the actors, the shards' pools, counters
//	units   times in ns on the wall clock where blocks are concerned
//	bound   Limits: what waits and is checked at the same time; permits are counted before anything is sent
//	errors  *primitives.InvalidTxError, *view.LookupError, ErrStopped
//	source  our own; the order of checks and waits is nearcore's (rpc.md 5.2)
//
// The tree:
//
//	node                    the guardian: see supervision.go for who halts the node and who restarts
//	├── chain               the one goroutine that changes the engine
//	├── producer            votes, block production
//	├── shards/<id>         applies the shard's chunks
//	│   ├── chunk-producer  chooses transactions
//	│   └── mempool         owns the pool: takes submissions, offers chunks its transactions
//	├── milestones          who waits for which transaction
//	├── rpc                 the parent of sessions
//	│   └── session-<n>     one a client, from its first submission or wait on
//	│       └── waiter-<n>  one an awaited transaction
//	├── network             other nodes; only where there are any
//	└── meter               the summary line
//
// No mailbox lies on the way of reads, of signature checks (package engine/signature) and of pools' counters.
package node
