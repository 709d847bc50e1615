package config

// ownKeys are the rules of Troupe's own keys, with their descriptions in docs/operate/config.md. A
// path in a description that begins with docs/ becomes a link in that page.
var ownKeys = map[string]rule{
	"network.transport": {kind: kString, choices: []string{Near, OverLibp2p, Both},
		doc: "`near`: neard's protocol over TCP. `libp2p`: encrypted, for networks of Troupe nodes only. `both`: " +
			"the node connects peers of both kinds"},
	"network.libp2p": {kind: kObject},
	"network.libp2p.addr": {kind: kString,
		doc: "with transport `both`: the address for libp2p peers, for TCP and for QUIC on the same UDP port. " +
			"Empty: the host of `network.addr` at the next port. With transport `libp2p`, `network.addr` is " +
			"used instead"},
	"network.libp2p.quic": {kind: kBool,
		doc: "listen on QUIC in addition to TCP. A peer that is given as a QUIC multiaddr is dialled by QUIC"},
	"network.libp2p.mdns": {kind: kBool,
		doc: "look for nodes of this chain on the local network"},
	"network.libp2p.nat_port_map": {kind: kBool,
		doc: "ask the router to forward the port (UPnP, NAT-PMP)"},
	"troupe":         {kind: kObject},
	"troupe.network": {kind: kObject},
	"troupe.network.enabled": {kind: kBool, nullable: true,
		doc: "whether the node connects to peers. null: yes if `network.boot_nodes`, `network.public_addrs`, " +
			"`--boot-nodes` or `--network-addr` is given, or the chain is mainnet or testnet"},
	"troupe.network.pace": {kind: kString, choices: []string{string(Delays), string(Eager)},
		doc: "when a validator votes, if the chain has several. `delays`: after " +
			"`consensus.min_block_production_delay`, as in neard. `eager`: at once while transactions wait, so " +
			"that blocks come as fast as approvals and chunks arrive; every node then also relays blocks before " +
			"their import. Use `eager` only in networks of Troupe " +
			"nodes"},
	"troupe.block_production": {kind: kString, choices: []string{"instant", "interval", "manual"},
		doc: "when a node that makes all blocks makes one. `interval`: after each " +
			"`consensus.min_block_production_delay`, as in neard. `instant`: also at once when a transaction " +
			"waits or a client waits for finality; the two blocks that make the rest final come 200 ms later. " +
			"`manual`: only when `sandbox_mine` asks"},
	"troupe.numbering": {kind: kString, nullable: true, choices: []string{"june", "release"},
		doc: "what protocol version 86 means. `release`: as in the published releases. `june`: as in nearcore " +
			"f0c7706f1, and no version after it. null: as the data folder was written, `release` for a new one. " +
			"mainnet and testnet are always `release`"},
	"troupe.gc_min_age": {kind: kDuration,
		doc: "blocks younger than this are never garbage-collected"},
	"troupe.rpc": {kind: kObject},
	"troupe.rpc.http_status": {kind: kString, choices: []string{"spec", "nearcore", "always_200"},
		doc: "HTTP status of errors. `spec`: as in the OpenAPI document (EXPERIMENTAL_tx_status is always 200). " +
			"`nearcore`: as in neard. `always_200`: 200 for every error of a method"},
	"troupe.rpc.trusted_proxies": {kind: kStrings,
		doc: "addresses and networks of proxies whose header X-Forwarded-For is used. The client is the last " +
			"address in it that is not in this list"},
	"troupe.rpc.api_keys": {kind: kStrings,
		doc: "keys that clients put in front of a path (`POST /KEY`, `/KEY/block`, `/KEY/ws`). `\"KEY:50\"` also " +
			"limits this key to 50 requests per second; `\"KEY\"` has no limit of its own"},
	"troupe.rpc.require_api_key": {kind: kBool,
		doc: "refuse calls and WebSockets without an API key (HTTP 401). The GET endpoints stay open"},
	"troupe.rpc.tls_cert": {kind: kString, nullable: true,
		doc: "certificate file (PEM), relative to the home folder. With `tls_key` the RPC uses TLS. Both files " +
			"are read again when they change"},
	"troupe.rpc.tls_key": {kind: kString, nullable: true,
		doc: "private key file of the certificate (PEM)"},
	"troupe.rpc.simulate": {kind: kBool,
		doc: "serve EXPERIMENTAL_simulate_tx"},
	"troupe.rpc.trace": {kind: kBool,
		doc: "serve EXPERIMENTAL_trace_tx"},
	"troupe.rpc.sandbox": {kind: kBool, nullable: true,
		doc: "serve the methods that begin with `sandbox_`. null: on a fork, and on a chain with an account " +
			"whose key is derived from a word (as `init` makes `near`), since anyone can sign there anyway. " +
			"They work only if this node makes all blocks, and never on a chain called mainnet or testnet " +
			"unless it is a fork. See docs/guide/sandbox.md"},
	"troupe.rpc.console": {kind: kBool, nullable: true,
		doc: "serve the web console at `/console` (docs/guide/console.md). null: where `troupe.rpc.sandbox` is " +
			"on"},
	"troupe.mempool": {kind: kObject},
	"troupe.mempool.max_transactions": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of transactions in the pool, per shard"},
	"troupe.mempool.max_per_key": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of transactions of one access key in the pools"},
	"troupe.mempool.max_queued": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of submitted transactions that are not checked yet, per shard"},
	"troupe.mempool.max_queued_bytes": {kind: kU64, min: 4 << 20, max: maxMemory,
		doc: "total size of submitted transactions that are not checked yet, per shard"},
	"troupe.mempool.max_held": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of transactions that wait until their code is compiled, per shard"},
	"troupe.mempool.max_held_bytes": {kind: kU64, min: 4 << 20, max: maxMemory,
		doc: "total size of transactions that wait until their code is compiled, per shard. Code that several of " +
			"them deploy counts once. At most a quarter of the pool's bytes"},
	"troupe.storage": {kind: kObject},
	"troupe.storage.write_buffer_bytes": {kind: kU64, max: maxMemory,
		doc: "write buffer of the index. 0: a 32nd of the index's size on disk, between 16 and 64 MiB"},
	"troupe.storage.block_cache_bytes": {kind: kU64, max: maxMemory,
		doc: "block cache of the index. 0: an eighth of the memory for tries, between 48 MiB and 1 GiB"},
	"troupe.state": {kind: kObject},
	"troupe.state.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "approximate memory for the tries with the state. The least recently used parts are evicted and " +
			"read from disk again when needed. 0: a quarter of the machine's memory"},
	"troupe.state.point_epochs": {kind: kU64, min: 2, max: 1 << 20,
		doc: "the newest sync point is the newest block whose states peers can download. Its states and all " +
			"blocks since its epoch stay on disk until there is a newer one, for at most this many epochs. This " +
			"matters in a chain of several shards in which a shard has no chunks: other nodes can still " +
			"download that shard"},
	"troupe.fork": {kind: kObject},
	"troupe.fork.timeout": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "how long the forked chain's node may take to reply"},
	"troupe.fork.tries": {kind: kU64, min: 1, max: 100,
		doc: "how often a request to the forked chain's node is tried before it fails. The pause between tries " +
			"grows"},
	"troupe.fork.requests_per_second": {kind: kU64, max: maxCount,
		doc: "most requests per second to the forked chain's node. 0: no limit. Public nodes have limits"},
	"troupe.fork.requests_at_once": {kind: kU64, min: 1, max: 1024,
		doc: "most concurrent requests to the forked chain's node. Requests that wait meanwhile are sent as one " +
			"batch if that node accepts batches"},
	"troupe.fork.max_reply_bytes": {kind: kU64, min: 1 << 16, max: maxMemory,
		doc: "largest reply of the forked chain's node that is accepted"},
	"troupe.fork.memory_bytes": {kind: kU64, min: 1 << 16, max: maxMemory,
		doc: "memory for replies of the forked chain's node"},
	"troupe.fork.cache": {kind: kString, nullable: true,
		doc: "folder in which replies of the forked chain's node are stored for each block. Several forks may " +
			"share it. null: `fork-cache` in the home folder"},
	"troupe.fork.require_proofs": {kind: kBool,
		doc: "refuse contract storage without a proof"},
	"troupe.fork.refresh": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "how often the node looks for a newer block of the forked chain, for accounts that are `live` " +
			"(`sandbox_fork`)"},
	"troupe.jetstream": {kind: kObject},
	"troupe.jetstream.enabled": {kind: kBool,
		doc: "publish the records of the node's block log to NATS JetStream, for replicas " +
			"(docs/guide/replicas.md)"},
	"troupe.jetstream.listen": {kind: kString, nullable: true,
		doc: "address of the built-in NATS server. null: only this process can use it"},
	"troupe.jetstream.url": {kind: kString, nullable: true,
		doc: "other NATS servers to use instead of the built-in one: `nats://host:port`, several separated by " +
			"commas"},
	"troupe.jetstream.token": {kind: kString, nullable: true,
		doc: "token that clients must send to the built-in server, and that this node sends to another server. A " +
			"replica sends it too"},
	"troupe.jetstream.dir": {kind: kString, nullable: true,
		doc: "folder for the streams of the built-in server. null: `jetstream` in the home folder"},
	"troupe.jetstream.max_bytes": {kind: kU64, min: 16 << 20, max: maxDisk,
		doc: "largest size of the stream. Beyond it the oldest records are removed"},
	"troupe.jetstream.max_age": {kind: kDuration, max: maxSeconds * 1_000_000_000,
		doc: "largest age of records in the stream. 0: no limit"},
	"troupe.jetstream.copies": {kind: kU64, min: 1, max: 5,
		doc: "number of copies of the stream in a cluster of other NATS servers"},
	"troupe.jetstream.max_snapshots": {kind: kU64, max: 64,
		doc: "how many replicas may download a snapshot at the same time. 0: none"},
	"troupe.jetstream.blocks": {kind: kBool,
		doc: "publish nearcore's StreamerMessage of each final block to a second stream, for indexers " +
			"(docs/guide/indexer.md)"},
	"troupe.replica": {kind: kObject},
	"troupe.replica.of": {kind: kString, nullable: true,
		doc: "NATS servers whose records this node follows, as with `--replica`. The node is then a replica: it " +
			"executes nothing, makes no blocks and forwards transactions"},
	"troupe.replica.writer_key": {kind: kString, nullable: true,
		doc: "public key in the writer's `node_key.json`. Records and snapshots that this key has not signed are " +
			"refused. null: blocks are checked by their roots and signatures, but snapshots are not verified"},
	"troupe.replica.max_lag": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "how far a replica may be behind the writer before `health` fails"},
	"troupe.proofs": {kind: kObject},
	"troupe.proofs.of": {kind: kString, choices: []string{"duties", "all", "none"},
		doc: "for which chunks state proofs are kept, to make state witnesses. `duties`: for the shards for " +
			"which this node's validator produces chunks, if the chain has other validators. `all`: for every " +
			"chunk. `none`"},
	"troupe.proofs.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "memory for the state proofs of `troupe.proofs.of`"},
	"troupe.vm": {kind: kObject},
	"troupe.vm.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "memory for compiled contracts"},
	"troupe.vm.disk_bytes": {kind: kU64, max: maxDisk,
		doc: "disk space for compiled contracts, in `contract_cache_path` (by default `data/contract.cache`, " +
			"which may be deleted)"},
	"troupe.vm.compilations": {kind: kU64, max: 1024,
		doc: "how many contracts are compiled at once for calls that wait. 0: one per core, at least 2. Code " +
			"that no call waits for gets half as many, at least 1"},
	"troupe.vm.compiler_processes": {kind: kBool,
		doc: "compile contracts in child processes with limits on time and memory, so that code which crashes " +
			"the compiler does not crash the node. Linux only"},
	"troupe.tracing": {kind: kObject},
	"troupe.tracing.endpoint": {kind: kString, nullable: true,
		doc: "URL to which traces of transactions are sent, by OTLP over HTTP in JSON form, such as " +
			"`http://127.0.0.1:4318/v1/traces`. null: no traces. See docs/operate/metrics.md"},
	"troupe.tracing.one_in": {kind: kU64, min: 1, max: maxCount,
		doc: "trace one in this many transactions. The hash of the transaction decides, so all nodes trace the " +
			"same ones"},
	"troupe.worlds": {kind: kObject},
	"troupe.worlds.max": {kind: kU64, max: 1 << 20,
		doc: "largest number of worlds of a sandbox (docs/guide/worlds-and-forks.md)"},
	"troupe.worlds.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "approximate memory for all worlds. At the limit no further world can be made; beyond it the " +
			"largest world ends"},
	"troupe.worlds.idle_timeout": {kind: kDuration,
		doc: "a world ends after this long without a request. 0: never"},
	"troupe.stream": {kind: kObject},
	"troupe.stream.sync_mode": {kind: kString, choices: []string{"LatestSynced", "FromInterruption", "BlockHeight"},
		doc: "where `troupe stream` begins: at the last block (`LatestSynced`), after the stored cursor " +
			"(`FromInterruption`), or at `troupe.stream.block_height` (`BlockHeight`)"},
	"troupe.stream.block_height": {kind: kU64, max: 1_000_000_000_000_000,
		doc: "the height at which `BlockHeight` begins"},
	"troupe.stream.streaming_mode": {kind: kString, choices: []string{"StreamWhileSyncing", "WaitForFullSync"},
		doc: "`StreamWhileSyncing`: stream from the start. `WaitForFullSync`: stream nothing before the node has " +
			"caught up with its network"},
	"troupe.stream.finality": {kind: kString, choices: []string{"Final", "DoomSlug", "None"},
		doc: "which blocks are streamed. `Final`: final blocks. `DoomSlug`: also blocks that can only be dropped " +
			"if block producers are slashed. `None`: all blocks; some may be dropped later"},
}
