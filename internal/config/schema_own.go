package config

// ownKeys are the rules of Troupe's own keys, with their descriptions in docs/operate/config.md. A
// path in a description that begins with docs/ becomes a link in that page.
var ownKeys = map[string]rule{
	"network.transport": {kind: kString, choices: []string{Near, OverLibp2p, Both},
		doc: "protocol between peers. `near`: neard's, over TCP. `libp2p`: over libp2p, encrypted, for " +
			"networks of Troupe nodes only. `both`: peers of both kinds"},
	"network.libp2p": {kind: kObject},
	"network.libp2p.addr": {kind: kString,
		doc: "address for libp2p peers if the transport is `both`: TCP, and QUIC on the same UDP port. Empty: " +
			"the host of `network.addr`, and the port after it. With transport `libp2p`, `network.addr` is " +
			"used instead"},
	"network.libp2p.quic": {kind: kBool,
		doc: "listen on QUIC in addition to TCP. A peer that is given as a QUIC multiaddr is dialled by QUIC"},
	"network.libp2p.mdns": {kind: kBool,
		doc: "find nodes of this chain on the local network by mDNS"},
	"network.libp2p.nat_port_map": {kind: kBool,
		doc: "request a port forwarding from the router (UPnP, NAT-PMP)"},
	"troupe":         {kind: kObject},
	"troupe.network": {kind: kObject},
	"troupe.network.enabled": {kind: kBool, nullable: true,
		doc: "whether the node connects to peers. null: yes if `network.boot_nodes`, `network.public_addrs`, " +
			"`--boot-nodes` or `--network-addr` is given, or the chain is mainnet or testnet"},
	"troupe.network.pace": {kind: kString, choices: []string{string(Delays), string(Eager)},
		doc: "when a validator approves a block, if the chain has several validators. `delays`: after " +
			"`consensus.min_block_production_delay`, as in neard. `eager`: at once while transactions wait, " +
			"so that blocks come as fast as approvals and chunks arrive. With `eager`, nodes also relay " +
			"blocks before their import. Use `eager` only in networks of Troupe nodes"},
	"troupe.validator": {kind: kObject},
	"troupe.validator.new_key_wait_blocks": {kind: kU64, nullable: true, max: 1 << 32,
		doc: "for how many blocks a validator key that is new to the data folder signs nothing. It protects from " +
			"signatures that contradict those of another machine with this key. null: an epoch on mainnet and " +
			"testnet, otherwise 0. See docs/operate/upgrade.md"},
	"troupe.block_production": {kind: kString, choices: []string{"instant", "interval", "manual"},
		doc: "when a node that is the only block producer makes a block. `interval`: after each " +
			"`consensus.min_block_production_delay`, as in neard. `instant`: also at once while a transaction " +
			"waits or a client waits for finality. If no client waits, the two blocks that make the last work " +
			"final come after 200 ms. `manual`: only for `sandbox_mine`"},
	"troupe.numbering": {kind: kString, nullable: true, choices: []string{"june", "release"},
		doc: "which features protocol version 86 has. `release`: those of the published releases. `june`: " +
			"those of nearcore f0c7706f1, and 86 is then the newest version. null: the value with which the " +
			"data folder was written, or `release` for a new folder. mainnet and testnet always use `release`"},
	"troupe.archive_start": {kind: kString, nullable: true, choices: []string{StartGenesis, StartStateSync},
		doc: "where a new node with `archive` begins. `genesis`: it executes all blocks. `state_sync`: at the " +
			"state of a recent block, if it is as far behind as other nodes that do so. It never has the " +
			"blocks before. null: `genesis`, but `state_sync` on mainnet and testnet"},
	"troupe.history": {kind: kObject},
	"troupe.history.source": {kind: kString, nullable: true,
		doc: "feed from which a node with `archive` imports the blocks below its lowest one, after it has " +
			"verified them: `neardata:URL`, `lake:URL`, or `lake:FOLDER` (relative to the home folder). null: no " +
			"import. See docs/guide/follow.md"},
	"troupe.history.path": {kind: kString, nullable: true,
		doc: "folder of the imported blocks, relative to the home folder. null: `history`"},
	"troupe.history.first_height": {kind: kU64, max: 1 << 62,
		doc: "lowest height to import. 0: down to the genesis"},
	"troupe.history.fetches": {kind: kU64, min: 1, max: 64,
		doc: "largest number of blocks that are fetched at the same time"},
	"troupe.history.processor_percent": {kind: kU64, min: 1, max: 6400,
		doc: "share of the processor that the import may use, in percent of one core"},
	"troupe.history.disk_reserve_bytes": {kind: kU64, max: 1 << 50,
		doc: "room on the disk that the import leaves. While there is less, it pauses. 0: it does not pause"},
	"troupe.history.cache_bytes": {kind: kU64, max: maxMemory,
		doc: "memory for imported blocks that were read last"},
	"troupe.history.max_waits": {kind: kU64, min: 1, max: 1 << 16,
		doc: "largest number of requests for transactions of imported blocks that wait for the node's own blocks"},
	"troupe.gc_min_age": {kind: kDuration,
		doc: "blocks younger than this are never garbage-collected"},
	"troupe.rpc": {kind: kObject},
	"troupe.rpc.http_status": {kind: kString, choices: []string{"spec", "nearcore", "always_200"},
		doc: "HTTP status of error replies. `spec`: as in the OpenAPI document, where EXPERIMENTAL_tx_status " +
			"always has 200. `nearcore`: as in neard. `always_200`: 200 for every error of a method"},
	"troupe.rpc.trusted_proxies": {kind: kStrings,
		doc: "addresses and networks of proxies. In requests from them, the client's address is the last " +
			"address in X-Forwarded-For that is not in this list"},
	"troupe.rpc.api_keys": {kind: kStrings,
		doc: "keys that clients put at the beginning of a path (`POST /KEY`, `/KEY/block`, `/KEY/ws`). " +
			"`\"KEY:50\"` also limits the key KEY to 50 requests per second"},
	"troupe.rpc.require_api_key": {kind: kBool,
		doc: "refuse requests without an API key (HTTP 401): JSON-RPC calls, WebSockets, the console, `/debug` and " +
			"`/v0`. Five paths need no key: GET `/status`, `/health`, `/network_info`, `/metrics`, `/openapi.json`"},
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
		doc: "serve the methods that begin with `sandbox_`. null: only on a fork, and on a chain with an " +
			"account whose key is derived from a word (as `init` makes `near`), since anyone can sign there. " +
			"The methods work only if this node makes all blocks, and never on a chain called mainnet or " +
			"testnet, unless it is a fork. See docs/guide/sandbox.md"},
	"troupe.rpc.console": {kind: kBool, nullable: true,
		doc: "serve the web console at `/console` (docs/guide/console.md). null: only if the methods of " +
			"`troupe.rpc.sandbox` are served"},
	"troupe.mempool": {kind: kObject},
	"troupe.mempool.max_transactions": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of transactions in the pool of each shard"},
	"troupe.mempool.max_per_key": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of transactions of one access key in the pools"},
	"troupe.mempool.max_queued": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of submitted transactions of each shard that are not checked yet"},
	"troupe.mempool.max_queued_bytes": {kind: kU64, min: 4 << 20, max: maxMemory,
		doc: "largest size of the submitted transactions of each shard that are not checked yet"},
	"troupe.mempool.max_held": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of transactions of each shard that wait until their contract's code is compiled"},
	"troupe.mempool.max_held_bytes": {kind: kU64, min: 4 << 20, max: maxMemory,
		doc: "largest size of the transactions of each shard that wait until their contract's code is " +
			"compiled, and at most a quarter of `transaction_pool_size_limit`. Code that several of them " +
			"deploy counts once"},
	"troupe.storage": {kind: kObject},
	"troupe.storage.write_buffer_bytes": {kind: kU64, max: maxMemory,
		doc: "write buffer of the store's index. 0: a 32nd of the index's size on disk, between 16 and 64 MiB"},
	"troupe.storage.block_cache_bytes": {kind: kU64, max: maxMemory,
		doc: "block cache of the store's index. 0: an eighth of `troupe.state.memory_bytes`, between 48 MiB " +
			"and 1 GiB, or 3 % of the index if that is more, up to half of `troupe.state.memory_bytes`"},
	"troupe.state": {kind: kObject},
	"troupe.state.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "approximate memory for the tries of the state. The least recently used parts of the tries are " +
			"evicted, and read from disk when they are needed. 0: a quarter of the machine's memory"},
	"troupe.state.point_epochs": {kind: kU64, min: 2, max: 1 << 20,
		doc: "for how many epochs the states of the newest sync point, and all blocks since its epoch, stay " +
			"on disk if there is no newer sync point. A sync point is a block whose states peers can " +
			"download. An epoch has no sync point if a shard has no chunks in it"},
	"troupe.fork": {kind: kObject},
	"troupe.fork.timeout": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "largest time of a request to the forked chain's node"},
	"troupe.fork.tries": {kind: kU64, min: 1, max: 100,
		doc: "how often a request to the forked chain's node is tried before it fails. The pauses between the " +
			"tries grow"},
	"troupe.fork.requests_per_second": {kind: kU64, max: maxCount,
		doc: "largest number of requests per second to the forked chain's node. 0: no limit. Public nodes " +
			"have limits of their own"},
	"troupe.fork.requests_at_once": {kind: kU64, min: 1, max: 1024,
		doc: "largest number of concurrent requests to the forked chain's node. Further requests wait, and " +
			"are then sent as one batch if the node accepts batches"},
	"troupe.fork.max_reply_bytes": {kind: kU64, min: 1 << 16, max: maxMemory,
		doc: "largest accepted reply of the forked chain's node"},
	"troupe.fork.memory_bytes": {kind: kU64, min: 1 << 16, max: maxMemory,
		doc: "memory for replies of the forked chain's node"},
	"troupe.fork.cache": {kind: kString, nullable: true,
		doc: "folder in which replies of the forked chain's node are stored for each block. Several forks may " +
			"share it. null: `fork-cache` in the home folder"},
	"troupe.fork.require_proofs": {kind: kBool,
		doc: "refuse contract storage of the forked chain that comes without a proof"},
	"troupe.fork.refresh": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "how often the node polls the forked chain for a newer block, for accounts that are `live` " +
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
		doc: "token that clients must send to the built-in server. If another NATS server is used, this node " +
			"sends it the token. A replica sends the token too"},
	"troupe.jetstream.dir": {kind: kString, nullable: true,
		doc: "folder for the streams of the built-in server. null: `jetstream` in the home folder"},
	"troupe.jetstream.max_bytes": {kind: kU64, min: 16 << 20, max: maxDisk,
		doc: "largest size of the stream. At the limit, the oldest records are removed"},
	"troupe.jetstream.max_age": {kind: kDuration, max: maxSeconds * 1_000_000_000,
		doc: "records that are older than this are removed from the stream. 0: no limit"},
	"troupe.jetstream.copies": {kind: kU64, min: 1, max: 5,
		doc: "number of copies of the stream, if `troupe.jetstream.url` names a cluster of NATS servers"},
	"troupe.jetstream.max_snapshots": {kind: kU64, max: 64,
		doc: "how many replicas may download a snapshot at the same time. 0: none"},
	"troupe.jetstream.blocks": {kind: kBool,
		doc: "publish nearcore's StreamerMessage of each final block to a second stream, for indexers " +
			"(docs/guide/indexer.md)"},
	"troupe.replica": {kind: kObject},
	"troupe.replica.of": {kind: kString, nullable: true,
		doc: "NATS servers from which this node reads another node's records, as with `--replica`. The node " +
			"is then a replica: it executes nothing, makes no blocks and forwards transactions"},
	"troupe.replica.writer_key": {kind: kString, nullable: true,
		doc: "public key in the writer's `node_key.json`. Records and snapshots that this key has not signed " +
			"are refused. null: blocks are checked by their roots and signatures, but snapshots are not " +
			"verified"},
	"troupe.replica.max_lag": {kind: kDuration, min: 1_000_000, max: maxSeconds * 1_000_000_000,
		doc: "largest time by which a replica may be behind the writer. Beyond it, the replica's `health` fails"},
	"troupe.proofs": {kind: kObject},
	"troupe.proofs.of": {kind: kString, choices: []string{"duties", "all", "none"},
		doc: "of which chunks the node keeps state proofs, from which it makes state witnesses. `duties`: of " +
			"shards for which this node's validator produces chunks, if the chain has other validators. " +
			"`all`: of every chunk. `none`: of no chunk"},
	"troupe.proofs.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "memory for the state proofs that `troupe.proofs.of` selects"},
	"troupe.vm": {kind: kObject},
	"troupe.vm.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "memory for compiled contracts"},
	"troupe.vm.disk_bytes": {kind: kU64, max: maxDisk,
		doc: "disk space for compiled contracts, in `contract_cache_path` (by default `data/contract.cache`, " +
			"which may be deleted)"},
	"troupe.vm.compilations": {kind: kU64, max: 1024,
		doc: "how many contracts are compiled at once for calls that wait for their code. 0: one per core, " +
			"and at least 2. Code for which no call waits gets half of that number, and at least 1"},
	"troupe.vm.compiler_processes": {kind: kBool,
		doc: "compile contracts in child processes with limits on time and memory, so that code which crashes " +
			"the compiler does not crash the node. Linux only"},
	"troupe.tracing": {kind: kObject},
	"troupe.tracing.endpoint": {kind: kString, nullable: true,
		doc: "URL to which traces of transactions are sent, by OTLP over HTTP in JSON form, such as " +
			"`http://127.0.0.1:4318/v1/traces`. null: no traces. See docs/operate/metrics.md"},
	"troupe.tracing.one_in": {kind: kU64, min: 1, max: maxCount,
		doc: "one in this many transactions is traced. The hash of the transaction decides, so all nodes " +
			"trace the same transactions"},
	"troupe.worlds": {kind: kObject},
	"troupe.worlds.max": {kind: kU64, max: 1 << 20,
		doc: "largest number of worlds, the child chains of a sandbox (docs/guide/worlds-and-forks.md)"},
	"troupe.worlds.memory_bytes": {kind: kU64, max: maxMemory,
		doc: "approximate memory for all worlds. At the limit no further world can be made. Above the limit, " +
			"the largest world ends"},
	"troupe.worlds.idle_timeout": {kind: kDuration,
		doc: "a world that gets no request for this long ends. 0: never"},
	"troupe.stream": {kind: kObject},
	"troupe.stream.sync_mode": {kind: kString, choices: []string{"LatestSynced", "FromInterruption", "BlockHeight"},
		doc: "where `troupe stream` begins: at the last block (`LatestSynced`), after the stored cursor " +
			"(`FromInterruption`), or at `troupe.stream.block_height` (`BlockHeight`)"},
	"troupe.stream.block_height": {kind: kU64, max: 1_000_000_000_000_000,
		doc: "the height at which `troupe stream` begins if `troupe.stream.sync_mode` is `BlockHeight`"},
	"troupe.stream.streaming_mode": {kind: kString, choices: []string{"StreamWhileSyncing", "WaitForFullSync"},
		doc: "`StreamWhileSyncing`: stream from the start. `WaitForFullSync`: stream nothing before the node has " +
			"caught up with its network"},
	"troupe.stream.finality": {kind: kString, choices: []string{"Final", "DoomSlug", "None"},
		doc: "which blocks are streamed. `Final`: final blocks. `DoomSlug`: also blocks that leave the chain " +
			"only if block producers sign contradicting blocks. `None`: all blocks; some may leave the chain " +
			"later"},
}
