package config

// ownKeys are the rules of Troupe's own keys, with their descriptions in docs/operate/config.md. A
// path that begins with docs/ becomes a link there.
var ownKeys = map[string]rule{
	"network.transport": {kind: kString, choices: []string{Near, OverLibp2p, Both},
		doc: "`near`: neard's wire. `libp2p`: encrypted, for networks of this node alone. `both`: a bridge " +
			"between the two"},
	"network.libp2p": {kind: kObject},
	"network.libp2p.addr": {kind: kString,
		doc: "with `both`, the address for libp2p peers: TCP, and QUIC on the same UDP port. Empty: the host of " +
			"`network.addr` at the next port. With `libp2p` that address is `network.addr`"},
	"network.libp2p.quic": {kind: kBool,
		doc: "listen on QUIC beside TCP. A peer given as a QUIC multiaddr is dialled by QUIC"},
	"network.libp2p.mdns": {kind: kBool,
		doc: "look for nodes of this chain on the local network"},
	"network.libp2p.nat_port_map": {kind: kBool,
		doc: "ask the router to forward the port (UPnP, NAT-PMP)"},
	"troupe":         {kind: kObject},
	"troupe.network": {kind: kObject},
	"troupe.network.enabled": {kind: kBool, nullable: true,
		doc: "whether the node connects to peers. null: yes if `network.boot_nodes`, `network.public_addrs`, " +
			"`--boot-nodes` or `--network-addr` is given"},
	"troupe.network.pace": {kind: kString, choices: []string{string(Delays), string(Eager)},
		doc: "when a validator among others votes. `delays`: after `consensus.min_block_production_delay`, as " +
			"in neard. `eager`: at once while transactions wait, so that blocks come as fast as approvals and " +
			"chunks do; for networks of this node alone"},
	"troupe.block_production": {kind: kString, choices: []string{"instant", "interval", "manual"},
		doc: "`interval`: a block each `consensus.min_block_production_delay`, as in neard. `instant`: also at " +
			"once for waiting transactions and for clients that wait for final blocks; 200 ms later two more " +
			"blocks make the rest final. `manual`: only when `sandbox_mine` asks"},
	"troupe.numbering": {kind: kString, choices: []string{"june", "release"},
		doc: "what protocol version 86 means. `june`: nearcore f0c7706f1. `release`: the published releases"},
	"troupe.gc_min_age": {kind: kDuration,
		doc: "blocks younger than this are never collected"},
	"troupe.rpc": {kind: kObject},
	"troupe.rpc.http_status": {kind: kString, choices: []string{"spec", "nearcore", "always_200"},
		doc: "HTTP status of errors. `spec`: as the OpenAPI document says (EXPERIMENTAL_tx_status is always " +
			"200). `nearcore`: as in neard. `always_200`"},
	"troupe.rpc.trusted_proxies": {kind: kStrings,
		doc: "addresses and networks whose X-Forwarded-For is believed. The last address in it that is not one " +
			"of them is the client"},
	"troupe.rpc.api_keys": {kind: kStrings,
		doc: "keys that may stand in front of every path (`POST /KEY`, `/KEY/block`, `/KEY/ws`), each with its " +
			"own limit of requests per second if it has one: `\"KEY\"` or `\"KEY:50\"`"},
	"troupe.rpc.require_api_key": {kind: kBool,
		doc: "refuse calls and WebSockets without a key (401). The GET endpoints stay open"},
	"troupe.rpc.tls_cert": {kind: kString, nullable: true,
		doc: "certificate file (PEM), relative to the home folder. With `tls_key` the RPC speaks TLS. Both " +
			"files are read again when they change"},
	"troupe.rpc.tls_key": {kind: kString, nullable: true,
		doc: "private key file of the certificate (PEM)"},
	"troupe.rpc.simulate": {kind: kBool,
		doc: "serve EXPERIMENTAL_simulate_tx"},
	"troupe.rpc.trace": {kind: kBool,
		doc: "serve EXPERIMENTAL_trace_tx"},
	"troupe.rpc.sandbox": {kind: kBool, nullable: true,
		doc: "serve the methods that begin with `sandbox_`. null: on a fork, and on a chain with an account " +
			"whose key is derived from a word (as `init` makes `near`), where anyone can sign anyway. They " +
			"work where this node alone makes the blocks, and never on a chain called mainnet or testnet " +
			"unless it is a fork. See docs/guide/sandbox.md"},
	"troupe.rpc.console": {kind: kBool, nullable: true,
		doc: "serve the page at `/console` (docs/guide/console.md). null: where `troupe.rpc.sandbox` is on"},
	"troupe.mempool": {kind: kObject},
	"troupe.mempool.max_transactions": {kind: kU64, min: 1, max: maxCount,
		doc: "transactions in the pools, of all accounts"},
	"troupe.mempool.max_per_key": {kind: kU64, min: 1, max: maxCount,
		doc: "transactions in the pools, of one access key"},
	"troupe.mempool.max_queued": {kind: kU64, min: 1, max: maxCount,
		doc: "submissions that are not checked yet, per shard"},
	"troupe.mempool.max_queued_bytes": {kind: kU64, min: 4 << 20, max: maxMemory,
		doc: "bytes of submissions that are not checked yet, per shard"},
	"troupe.mempool.max_held": {kind: kU64, min: 1, max: maxCount,
		doc: "transactions that wait until their code is compiled, per shard"},
	"troupe.mempool.max_held_bytes": {kind: kU64, min: 4 << 20, max: maxMemory,
		doc: "bytes of transactions that wait until their code is compiled, per shard. Code that several of " +
			"them deploy counts once. At most a quarter of the pool's bytes"},
	"troupe.storage": {kind: kObject},
	"troupe.storage.write_buffer_bytes": {kind: kU64, max: maxMemory,
		doc: "write buffer of the index. 0: the store chooses"},
	"troupe.storage.block_cache_bytes": {kind: kU64, max: maxMemory,
		doc: "block cache of the index. 0: the store chooses"},
	"troupe.state": {kind: kObject},
	"troupe.state.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "about how much memory the states may take. The least recently used parts are evicted and read " +
			"from disk again when needed. 0: a quarter of the machine's memory"},
	"troupe.state.point_epochs": {kind: kU64, min: 2, max: 1 << 20,
		doc: "if no new sync point comes, for how many epochs the states of the last one, and all blocks since " +
			"its epoch, stay on disk beyond `gc_num_epochs_to_keep`. It matters in a chain of several shards " +
			"where a shard has no chunks: other nodes can still fetch that shard"},
	"troupe.fork": {kind: kObject},
	"troupe.fork.timeout": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "how long the forked chain's node may take for a reply"},
	"troupe.fork.tries": {kind: kU64, min: 1, max: 100,
		doc: "how often a request is tried before it fails, with a growing pause"},
	"troupe.fork.requests_per_second": {kind: kU64, max: maxCount,
		doc: "requests per second to the forked chain's node. 0: no bound. Public nodes have one"},
	"troupe.fork.requests_at_once": {kind: kU64, min: 1, max: 1024,
		doc: "requests under way at once. Requests that wait meanwhile are sent as one batch where the node " +
			"takes batches"},
	"troupe.fork.max_reply_bytes": {kind: kU64, min: 1 << 16, max: maxMemory,
		doc: "longest reply that is taken"},
	"troupe.fork.memory_bytes": {kind: kU64, min: 1 << 16, max: maxMemory,
		doc: "answers kept in memory"},
	"troupe.fork.cache": {kind: kString, nullable: true,
		doc: "folder in which answers are kept by block, for any number of forks. null: `fork-cache` in the " +
			"home folder"},
	"troupe.fork.require_proofs": {kind: kBool,
		doc: "take contract storage only if it is proven"},
	"troupe.fork.refresh": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "how often live accounts look for a newer block of the forked chain"},
	"troupe.jetstream": {kind: kObject},
	"troupe.jetstream.enabled": {kind: kBool,
		doc: "publish the node's records to NATS JetStream, for replicas (docs/guide/replicas.md)"},
	"troupe.jetstream.listen": {kind: kString, nullable: true,
		doc: "where the NATS server inside the node listens. null: for this process alone"},
	"troupe.jetstream.url": {kind: kString, nullable: true,
		doc: "NATS servers elsewhere, in place of the one inside: `nats://host:port`, several separated by " +
			"commas"},
	"troupe.jetstream.token": {kind: kString, nullable: true,
		doc: "token that the server inside asks clients for, and that the node sends to a server elsewhere. A " +
			"replica sends it too"},
	"troupe.jetstream.dir": {kind: kString, nullable: true,
		doc: "folder of the streams of the server inside. null: `jetstream` in the home folder"},
	"troupe.jetstream.max_bytes": {kind: kU64, min: 16 << 20, max: maxDisk,
		doc: "size of the stream. Beyond it the oldest records go"},
	"troupe.jetstream.max_age": {kind: kDuration, max: maxSeconds * 1_000_000_000,
		doc: "age of records in the stream. 0: any"},
	"troupe.jetstream.copies": {kind: kU64, min: 1, max: 5,
		doc: "copies of the stream on a cluster of servers elsewhere"},
	"troupe.jetstream.max_snapshots": {kind: kU64, max: 64,
		doc: "snapshots that replicas fetch at once. 0: none"},
	"troupe.jetstream.blocks": {kind: kBool,
		doc: "publish nearcore's message of each final block to a second stream, for indexers " +
			"(docs/guide/indexer.md)"},
	"troupe.replica": {kind: kObject},
	"troupe.replica.of": {kind: kString, nullable: true,
		doc: "NATS servers whose records the node follows, as `--replica`. The node is a replica then: it " +
			"executes nothing, makes no blocks and forwards transactions"},
	"troupe.replica.writer_key": {kind: kString, nullable: true,
		doc: "public key of the writer's `node_key.json`. Records and snapshots that it has not signed are " +
			"refused. null: a block is checked by its roots and signatures, and a snapshot is believed"},
	"troupe.replica.max_lag": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "how far a replica may lag before `health` fails"},
	"troupe.proofs": {kind: kObject},
	"troupe.proofs.of": {kind: kString, choices: []string{"duties", "all", "none"},
		doc: "which chunks' state proofs are kept for chunk validators. `duties`: those that a validator among " +
			"others needs itself. `all`. `none`"},
	"troupe.proofs.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "memory for these proofs"},
	"troupe.vm": {kind: kObject},
	"troupe.vm.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "compiled contracts that stay loaded"},
	"troupe.vm.disk_bytes": {kind: kU64, max: maxDisk,
		doc: "compiled contracts on disk, in `contract_cache_path` (by default `data/contract.cache`, which may " +
			"be deleted)"},
	"troupe.vm.compilations": {kind: kU64, max: 1024,
		doc: "contracts compiled at once for calls that wait. 0: one per core, at least 2. Code that no call " +
			"waits for gets half as many, at least 1"},
	"troupe.vm.compiler_processes": {kind: kBool,
		doc: "compile in child processes with limits on time and memory, so that code which hurts the compiler " +
			"does not hurt the node. Linux only"},
	"troupe.tracing": {kind: kObject},
	"troupe.tracing.endpoint": {kind: kString, nullable: true,
		doc: "where traces of transactions go: OTLP over HTTP in its JSON form, " +
			"`http://127.0.0.1:4318/v1/traces`. null: nowhere. See docs/operate/metrics.md"},
	"troupe.tracing.one_in": {kind: kU64, min: 1, max: maxCount,
		doc: "trace one in this many transactions. The hash decides, so all nodes trace the same ones"},
	"troupe.worlds": {kind: kObject},
	"troupe.worlds.max": {kind: kU64, max: 1 << 20,
		doc: "worlds of a sandbox at once (docs/guide/worlds-and-forks.md)"},
	"troupe.worlds.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "about how much memory all worlds may take. At the limit no new one is made; beyond it the largest " +
			"ends"},
	"troupe.worlds.idle_timeout": {kind: kDuration,
		doc: "a world without a request for this long ends. 0: never"},
	"troupe.stream": {kind: kObject},
	"troupe.stream.sync_mode": {kind: kString, choices: []string{"LatestSynced", "FromInterruption", "BlockHeight"},
		doc: "where `troupe stream` begins: at the last block (`LatestSynced`), after the stored cursor " +
			"(`FromInterruption`), or at `troupe.stream.block_height` (`BlockHeight`)"},
	"troupe.stream.block_height": {kind: kU64, max: 1_000_000_000_000_000,
		doc: "the height for `BlockHeight`"},
	"troupe.stream.streaming_mode": {kind: kString, choices: []string{"StreamWhileSyncing", "WaitForFullSync"},
		doc: "`StreamWhileSyncing`, or `WaitForFullSync`: nothing is streamed before the node has caught up " +
			"with its network"},
	"troupe.stream.finality": {kind: kString, choices: []string{"Final", "DoomSlug", "None"},
		doc: "which blocks are streamed. `Final`. `DoomSlug`: also blocks that stay unless block producers are " +
			"slashed. `None`: also blocks that may be skipped"},
}
