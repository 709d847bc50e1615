// Package node assembles the actors: it spawns them, says how each of them fails, and is what
// the RPC server, the command and the benchmarks call.
//
//	in      Options: an open engine, keys, limits; transactions and waits from any goroutine
//	out     Node: OpenSession, SendTx, Tx, Submit, Mine, Metrics, Stop
//	state   the actors, the shards' pools, counters
//	units   wall clock times of blocks in ns since 1970
//	bound   Limits: what waits and what is checked at once; permits are taken before anything
//	        is sent
//	errors  *primitives.InvalidTxError, *view.LookupError, ErrStopped, *HaltedError
//	source  our own; checks and waits are in nearcore's order (chain/jsonrpc/src/lib.rs)
//
// The actor tree:
//
//	node                    the guardian; supervision.go says which failure halts the node
//	├── chain               the one goroutine that changes the engine
//	├── producer            votes, block production
//	├── shards/<id>         applies the shard's chunks
//	│   ├── chunk-producer  chooses transactions
//	│   └── mempool         owns the pool: takes submissions, offers chunks its transactions
//	├── milestones          package txtracker: which waiter a block concerns
//	├── streams             package subscriptions: the parent of subscribers
//	│   └── subscriber-<n>  one for each subscription
//	├── rpc                 the parent of sessions
//	│   └── session-<n>     one for each client, from its first submission or wait on
//	│       └── waiter-<n>  one for each awaited transaction
//	├── network             other nodes; only if there are any
//	└── meter               the summary line
//
// With other validators one actor, validator, takes the place of chain and producer; in a
// replica the actor of package replica does.
//
// Reads, signature checks (package engine/signature) and the counters of pools pass no mailbox.
package node
