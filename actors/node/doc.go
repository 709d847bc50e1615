// Package node assembles the actors: it spawns the actors, defines how each failure is handled, and
// offers the methods that the RPC server, the command and the benchmarks call.
//
//	in      Options: an open engine, keys, limits; transactions and waits from any goroutine
//	out     Node: OpenSession, SendTx, Tx, Submit, Mine, Metrics, Stop
//	state   the actors, the pools of the shards, counters
//	units   timestamps of blocks in ns since 1970
//	bound   Limits: concurrent waits, unchecked and held transactions; permits are taken before
//	        anything is sent
//	errors  *primitives.InvalidTxError, *view.LookupError, ErrStopped, *HaltedError
//	source  our own; checks and waits are in nearcore's order (chain/jsonrpc/src/lib.rs)
//
// The actor tree:
//
//	node                    the guardian; supervision.go says which failure halts the node
//	├── chain               the only goroutine that changes the engine
//	├── producer            approvals, block production
//	├── shards/<id>         applies the shard's chunks
//	│   ├── chunk-producer  chooses the transactions of chunks
//	│   └── mempool         owns the pool: takes submissions, offers transactions to chunks
//	├── txtracker           informs waiters about their transactions
//	├── streams             package subscriptions: the parent of subscribers
//	│   └── subscriber-<n>  one for each subscription
//	├── rpc                 package session: the parent of sessions
//	│   └── session-<n>     one for each client, from its first submission or wait on
//	│       └── waiter-<n>  one for each wait for a transaction
//	├── network             peers; only if the node has a network
//	├── history-import      fetches older blocks; only on an archive that is configured so
//	└── meter               logs the summary line
//
// If the chain has other validators, the actor validator takes the place of chain and producer. In
// a replica, the actor of package replica does.
//
// On a validator among others, the network actor passes each transaction that a mempool accepts
// also to the validator actor. The core of that actor has pools of its own (consensus/pools.go), and
// this node's chunks come from these pools. The mempools' pools then serve checks, forwarding and
// waiters only. Chunks are applied and built by steps and jobs of the validator actor, so the
// actors shards/<id> and chunk-producer get no work.
//
// The path of a peer's block to the disk (n.chain is the PID of the actor that imports blocks):
//
//	    function                               follower                 validator
//	 1  tcp.link.read                          a goroutine of the connection decodes the frame
//	 2  near.PeerManager.Step, received        the host's loop emits Deliver
//	 3  network.Actor.deliver, inbox.admit     takes an inbox slot, sends delivered to the network actor
//	 4  network.Actor.block, shouldImport      sends BlockReceived (Node.Receive) to n.chain
//	 5  importer.Take: Precheck, Pool.Add      chain.Actor.received     consensus.Node.block
//	 6  importer.Next: engine.BeginImport      chain.Actor.next         consensus.Node.importNext
//	 7  importer.Run.Start: engine.Job.Run     actors shards/<id>       goroutines of validator.Actor.run
//	 8  importer.Finish: engine.FinishImport   chain.Actor.emit         consensus.Node.imported
//	    the block is imported: both send BlockImported
//	 9  engine.runPipeline                     writes with one fsync, then calls the actor back
//	10  engine.Stored                          chain.Actor.stored       validator.Actor.stored
//	    the block is persisted: both send BlockAccepted
//
// In a validator, the actors shards/<id> apply nothing; they only own the mempools.
//
// Reads, signature checks (package engine/signature) and counters of pools need no message.
package node
