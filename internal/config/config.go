package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// Production is the mode of block production.
type Production string

// Instant makes a block as soon as work waits, Interval after neard's delays, Manual only on
// request.
const (
	Instant  Production = "instant"
	Interval Production = "interval"
	Manual   Production = "manual"
)

// Proofs selects the chunks whose execution proofs (state witnesses) a node keeps.
type Proofs string

// The values of the setting for chunks that a node validates: a validator's own chunks if other
// validators check them, all chunks, or none.
const (
	ProofsOfDuties Proofs = "duties"
	ProofsOfAll    Proofs = "all"
	ProofsOfNone   Proofs = "none"
)

// The values of troupe.archive_start.
const (
	StartGenesis   = "genesis"
	StartStateSync = "state_sync"
)

// Config holds the settings of config.json that this node uses.
type Config struct {
	GenesisFile, RecordsFile      string
	ValidatorKeyFile, NodeKeyFile string
	RPC                           *RPC // settings of the RPC server; nil: no RPC server
	Consensus                     Consensus
	TrackedShards                 TrackedShards
	Archive                       bool
	ArchiveStart                  string // where a new archival node begins; empty: it depends on the chain
	History                       History
	GCEpochsToKeep, GCBlocksLimit uint64
	GCStepPeriod, GCMinAge        time.Duration
	StorePath                     string // path of the data folder; empty: <home>/data
	WriteBuffer, BlockCache       uint64 // sizes in bytes; 0: the store's default
	StateMemory                   uint64 // bytes of memory for tries; 0: a share of the machine's memory
	// PointEpochs is a number of epochs. For that long the node keeps the newest state that peers
	// can download, if no newer state follows.
	PointEpochs                  uint64
	Proofs                       Proofs
	ProofBytes                   uint64 // maximum size of the stored proofs in bytes
	ContractCachePath            string // folder of compiled contracts; empty: <data>/contract.cache
	ContractMemory, ContractDisk uint64 // maximum size of cached compiled code in bytes
	// maximum number of concurrent compilations; 0: number of cores, at least two
	Compilations                     uint64
	CompilerProcesses                bool   // contracts are compiled in separate processes
	TransactionPoolSize              uint64 // maximum total size of a shard's pooled transactions in bytes
	MempoolTransactions, MempoolKeys uint64 // maximum number of pooled transactions: of all keys, and of one key
	// StrictNonceBlocks is the number of blocks for which a transaction with a strict nonce waits
	// for transactions with lower nonces. 0: the engine's default.
	StrictNonceBlocks   uint64
	ChooseLimit         time.Duration // maximum time for choosing a chunk's transactions; 0: no limit
	Queued, QueuedBytes uint64        // limits per shard, number and bytes, of submitted transactions that are not checked yet
	Held, HeldBytes     uint64        // limits per shard, number and bytes, of transactions that wait for compiled code
	ViewStateSizeLimit  uint64        // maximum size in bytes of a contract's state that view_state returns
	ViewAccessKeysLimit uint32        // maximum number of access keys in a reply
	MaxGasBurntView     primitives.Gas
	ReceiptOrigins      ReceiptOrigins
	Network             Network
	// NewKeyWait is the number of blocks for which a validator key that is new to the data folder
	// signs nothing. nil: it depends on the chain, see home.KeyWait.
	NewKeyWait       *uint64
	LogSummaryPeriod time.Duration
	Production       Production
	Worlds           Worlds
	Tracing          Tracing
	Stream           Stream
	Numbering        primitives.Numbering // empty: the numbering of the data folder, or release for a new folder
	Fork             Fork
	JetStream        JetStream
	Replica          Replica
	Document         *Document // the whole configuration file, with missing keys added
}

// History holds troupe.history.*: the import of older blocks into an archive.
type History struct {
	Source  string            // feed, in the form of IsHistorySource; empty: no import
	Path    string            // folder, relative to the home folder
	First   primitives.Height // lowest height; 0: the block above the genesis
	Fetches uint64
	Percent uint64 // of one core
	Reserve uint64 // bytes of the disk that are left free; 0: no check
	Cache   uint64 // bytes of decoded blocks
	Waits   uint64 // requests that wait for the rest of a transaction
}

// Network holds network.*, the remaining keys about peers, and troupe.network.*.
type Network struct {
	Enabled *bool // nil: see On; home.Load sets it for mainnet and testnet
	// Public are the addresses at which other validators reach this validator, in the form
	// key@host:port: its own, or those of nodes that forward to it. At most ten, with different
	// keys.
	Public       []string
	AllowPrivate bool // true: Public may have addresses of private networks
	// Stun are the servers, as host:port, that a validator without Public asks for its IP address.
	// home.Load removes the servers of init on chains other than mainnet and testnet.
	Stun                []string
	Transport           string // near, libp2p or both
	Libp2p              Libp2p
	Addr                string // address on which to listen for peers; empty: a free port of the loopback interface
	BootNodes           string // list in the form that CheckBootNodes accepts
	Whitelist           string // list in the same form as BootNodes
	Blacklist           []string
	MaxPeers            uint64
	MinOutbound         uint64
	IdealLow, IdealHigh uint64
	SafeSet             uint64
	InboundT1           bool
	OutboundT1          bool
	T1Period            time.Duration
	AdvertisePeriod     time.Duration // time between advertisements of a validator's own addresses
	NewT1               uint64        // maximum number of T1 dials in one round
	Experimental        Experimental
	// ReceivedLimits change neard's limits on messages of peers, by neard's names; see Rates.
	ReceivedLimits map[string]RateOverride
	SyncThreshold  uint64 // number of blocks behind the peers from which the node syncs (sync_height_threshold)
	SyncRequests   uint64 // maximum number of blocks requested from one peer at a time
	HeadersWait    time.Duration
	// HorizonEpochs is a number of epochs. A node that is behind by more epochs starts with an
	// epoch sync proof and the state of a later block. Zero disables epoch sync.
	HorizonEpochs uint64
	ProofWait     time.Duration
	StateWait     time.Duration // timeout of a request for a state part
	StatePause    time.Duration // pause before the next request to a peer that did not send a state part
	RouteHorizon  uint64        // number of next heights to whose chunk producers a transaction is forwarded
	NoRouting     bool          // true: transactions are not forwarded to chunk producers
	Pace          Pace
}

// Experimental holds network.experimental.*.
type Experimental struct {
	T3Addr     string // address to which hosts connect to send states; empty: as peers see this node
	NoInbound  bool   // peers that are not whitelisted cannot connect
	NoOutbound bool
	OnlyBoot   bool // the node dials only boot nodes
	// SkipTombstones is a time after the start. Removed edges are neither sent nor accepted in it.
	SkipTombstones time.Duration
	ForgetPeers    bool   // the peers of the previous run are not dialled
	MaxPeersSent   uint64 // maximum number of known peers in a PeersResponse
	TTL            uint64 // maximum number of hops of a message; 0: the default
}

// maxPeersSent is the maximum, and the default, of MaxPeersSent (nearcore PEERS_RESPONSE_MAX_PEERS).
const maxPeersSent = 512

// Pace determines when a validator in a network sends its approvals, and when any node relays
// blocks.
type Pace string

// Delays sends approvals after min_block_production_delay, as neard does. Eager sends approvals at
// once if transactions or receipts wait. With Eager, a node also relays blocks before their import.
const (
	Delays Pace = "delays"
	Eager  Pace = "eager"
)

// maxHorizon is the maximum of HorizonEpochs. No chain has had as many epochs.
const maxHorizon = 1 << 20

// The transports.
const (
	Near       = "near"
	OverLibp2p = "libp2p"
	Both       = "both"
)

// Libp2p holds network.libp2p.*.
type Libp2p struct {
	// Addr is the libp2p listen address if Transport is both. Empty means the port after the port
	// of network.addr.
	Addr             string
	Quic, MDNS, NATs bool
}

// On returns whether the node connects to peers.
func (n *Network) On() bool {
	if n.Enabled != nil {
		return *n.Enabled
	}
	return n.BootNodes != "" || len(n.Public) > 0 || n.Transport != Near && n.Libp2p.MDNS
}

// ReceiptOrigins holds save_receipt_to_tx, save_tx_outcomes and receipt_to_tx_*: the bounds of
// EXPERIMENTAL_receipt_to_tx.
type ReceiptOrigins struct {
	Mapping, Outcomes   bool
	Window, Hop, Budget uint64 // limits of searches for a receipt's transaction; 0: neard's defaults
}

// Fork holds troupe.fork.*: how a node of the forked chain is queried.
type Fork struct {
	Timeout, Refresh         time.Duration
	Tries, PerSecond, AtOnce uint64
	MaxReply, Memory         uint64 // maximum size of a reply, and memory for cached replies, in bytes
	Cache                    string // path of the cache folder; empty: <home>/fork-cache
	RequireProofs            bool
}

// JetStream holds troupe.jetstream.*: the NATS server to which the node publishes its records for
// replicas.
type JetStream struct {
	Enabled   bool
	Listen    string // listen address of the embedded server; empty: that server accepts no connections
	URL       string // URL of an external server; empty: the embedded one
	Token     string
	Dir       string // data folder of the embedded server; empty: <home>/jetstream
	MaxBytes  uint64
	MaxAge    time.Duration // maximum age of messages in the stream; 0: unlimited
	Copies    uint64        // number of replicas of the stream in a NATS cluster
	Snapshots uint64        // number of snapshots that nodes may fetch concurrently
	Blocks    bool          // true: the messages of final blocks for indexers are published too
}

// Replica holds troupe.replica.*. A replica executes nothing itself: it imports the records of a
// writer node.
type Replica struct {
	Of     string // URL of the NATS server; empty: the node is no replica
	Key    string // node key that must have signed the records; empty: any key
	MaxLag time.Duration
}

// RPC holds rpc.* and troupe.rpc.*.
type RPC struct {
	Addr, PrometheusAddr string
	CORS                 []string
	PollingTimeout       time.Duration
	MaxBody              uint64 // maximum size of a request's body in bytes
	HTTPStatus           string
	Limits               limits.Limits
	Named                limits.Named // the limits that the configuration file sets
	TrustedProxies       []string     // proxies whose X-Forwarded-For header is trusted
	APIKeys              []string     // keys of which a request's path may begin with one
	RequireAPIKey        bool
	TLSCert, TLSKey      string // paths of PEM files; empty: no TLS
	Debug                bool   // whether the data of debug pages is served
	Indexer              bool   // whether EXPERIMENTAL_indexer_block is enabled
	IndexerRequests      uint64 // maximum number of concurrent calls of EXPERIMENTAL_indexer_block
	Simulate, Trace      bool   // whether simulations and traces are enabled
	// Sandbox enables the sandbox_ methods. nil: these methods are enabled on a fork, and on a
	// chain with an account of init for which any client can sign.
	Sandbox *bool
	Console *bool // whether /console is served; nil: if the sandbox_ methods are enabled
}

// Stream holds troupe.stream.*: the defaults of troupe stream and package indexer/node.
type Stream struct {
	SyncMode      string // LatestSynced, FromInterruption or BlockHeight
	Height        primitives.Height
	StreamingMode string // StreamWhileSyncing or WaitForFullSync
	Finality      string // Final, DoomSlug or None
}

// Tracing holds troupe.tracing.*.
type Tracing struct {
	Endpoint string // URL of the OTLP collector (HTTP); empty: nothing is traced
	OneIn    uint64 // one of OneIn transactions is traced
}

// Worlds holds troupe.worlds.*.
type Worlds struct {
	Max   uint64        // maximum number of sandbox copies (worlds) at a time
	Bytes uint64        // approximate maximum memory of all sandbox copies in bytes
	Idle  time.Duration // time without requests after which a sandbox copy is deleted; 0: never
}

// Consensus holds consensus.*.
type Consensus struct {
	MinDelay, MaxDelay, MaxWait time.Duration
	ChunkWait                   [2]uint64
	ProduceEmptyBlocks          bool
}

// Default returns the config.json that init writes. fast shortens the block delays, as neard init
// --fast does.
func Default(fast bool) *Document {
	d := initial().clone()
	if fast {
		d.Set("consensus.min_block_production_delay", durationDocument(120*time.Millisecond))
		d.Set("consensus.max_block_production_delay", durationDocument(500*time.Millisecond))
		// The limit is twice the number of blocks that can be made in a gc_step_period, so that
		// garbage collection keeps up (nearcore 2.14.0-rc.1 nearcore/src/config.rs:1096).
		d.Set("gc_blocks_limit", jsonNumber(9))
	}
	return d
}

// initial is the parsed init.json. A start uses init.json four times, so it is parsed only once. A
// caller that changes the document must clone it first.
var initial = sync.OnceValue(func() *Document { return embedded("init.json", initJSON) })

// ours is the parsed own, which is read once.
var ours = sync.OnceValue(func() *Document { return embedded("our own defaults", []byte(own)) })

func embedded(name string, in []byte) *Document {
	d, err := parseDocument(in)
	if err != nil {
		panic(fmt.Sprintf("config: the embedded %s: %v", name, err))
	}
	return d
}

// own are the defaults of Troupe's own keys, and of keys of neard that neard's init does not write.
// The defaults of the RPC limits are in limits.Table instead. Init does not write these keys, so
// that the file equals the one that neard's init writes.
const own = `{"troupe":{"block_production":"instant","numbering":null,"archive_start":null,
"history":{"source":null,"path":null,"first_height":0,"fetches":4,"processor_percent":50,"disk_reserve_bytes":10737418240,"cache_bytes":67108864,"max_waits":256},
"gc_min_age":{"secs":3600,"nanos":0},
"rpc":{"http_status":"spec","trusted_proxies":[],"api_keys":[],"require_api_key":false,"tls_cert":null,"tls_key":null,"simulate":true,"trace":true,"sandbox":null,"console":null},
"mempool":{"max_transactions":200000,"max_per_key":10000,"max_queued":20000,"max_queued_bytes":67108864,"max_held":4096,"max_held_bytes":25165824},
"storage":{"write_buffer_bytes":0,"block_cache_bytes":0},
"state":{"memory_bytes":0,"point_epochs":20},
"proofs":{"of":"duties","memory_bytes":268435456},
"network":{"enabled":null,"pace":"delays"},
"validator":{"new_key_wait_blocks":null},
"jetstream":{"enabled":false,"listen":"127.0.0.1:4222","url":null,"token":null,"dir":null,"max_bytes":1073741824,"max_age":{"secs":0,"nanos":0},"copies":1,"max_snapshots":2,"blocks":false},
"replica":{"of":null,"writer_key":null,"max_lag":{"secs":5,"nanos":0}},
"fork":{"timeout":{"secs":10,"nanos":0},"tries":4,"requests_per_second":0,"requests_at_once":8,"max_reply_bytes":67108864,"memory_bytes":268435456,
"cache":null,"require_proofs":false,"refresh":{"secs":2,"nanos":0}},
"vm":{"memory_bytes":268435456,"disk_bytes":4294967296,"compilations":0,"compiler_processes":true},
 "tracing":{"endpoint":null,"one_in":1000},
 "worlds":{"max":1024,"memory_bytes":1073741824,"idle_timeout":{"secs":600,"nanos":0}},
 "stream":{"sync_mode":"LatestSynced","block_height":0,"streaming_mode":"StreamWhileSyncing","finality":"Final"}},
"network":{"transport":"near","libp2p":{"addr":"","quic":true,"mdns":false,"nat_port_map":false}},"archive":false,"max_gas_burnt_view":null,
"view_access_keys_limit":100,"rpc":{"enable_indexer_rpc":false,"indexer_max_concurrent_requests":1}}`

// Read parses config.json and checks the values of known keys. Read adds no key. file is the file's
// name in errors.
func Read(file string, in []byte) (*Document, []Warning, error) {
	doc, err := parseDocument(in)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	warnings, err := check(file, doc)
	if err != nil {
		return nil, warnings, err
	}
	return doc, warnings, nil
}

// Parse reads config.json and adds the missing keys in memory. file is the name in errors.
func Parse(file string, in []byte) (*Config, []Warning, error) {
	doc, warnings, err := Read(file, in)
	if err != nil {
		return nil, warnings, err
	}
	base := Default(false)
	base.Complete(ours().clone())
	base.Yield(doc)
	var hadTracked []string
	for _, k := range trackedKeys {
		if v, ok := doc.Get(k); ok && v != nil {
			hadTracked = append(hadTracked, k)
		}
	}
	doc.Complete(base)
	c, err := extract(file, doc, hadTracked)
	return c, warnings, err
}

// AddRPC adds the RPC settings that init writes, and the settings under troupe.rpc, to a
// configuration without RPC.
func (c *Config) AddRPC() error {
	d := NewDocument()
	for _, k := range c.Document.keys {
		if k != "rpc" {
			d.put(k, c.Document.values[k])
		}
	}
	with, _, err := Parse("config.json", d.Format())
	if err == nil {
		c.RPC = with.RPC
	}
	return err
}

// readLimits returns the RPC limits that a file sets, and the defaults for the limits that the file
// does not set. The schema has already checked the bounds of the values.
func readLimits(d *Document) (out limits.Limits, named limits.Named) {
	out = limits.Default()
	for i := range limits.Table {
		r := &limits.Table[i]
		v, ok := d.Get("troupe.rpc." + r.Key)
		if !ok || v == nil {
			continue
		}
		n, _ := asU64(v)
		if r.Time != nil {
			t, _ := asDuration(v)
			n = uint64(t)
		}
		named[i] = true
		r.Set(&out, n, true)
	}
	return out, named
}

// Yield removes keys from d, a file of defaults, that would contradict the file top. It removes
// tracked_shards_config and consensus.block_request_timeout if top has the older keys for these
// settings, and it removes the RPC settings if top switches the RPC off.
func (d *Document) Yield(top *Document) {
	for _, k := range trackedKeys {
		if _, ok := top.Get(k); ok {
			d.remove("tracked_shards_config")
		}
	}
	if _, ok := top.Get(olderBlockTimeout); ok {
		consensus, _ := d.Get("consensus")
		if c, ok := consensus.(*Document); ok {
			c.remove("block_request_timeout")
		}
	}
	if v, ok := top.Get("rpc"); ok && v == nil {
		d.remove("rpc")
	}
}

// blockTimeout is a key of config.json. olderBlockTimeout is the name of the same key in neard 2.13
// and older. A file may have only one of the two keys: neard 2.14 refuses a file with both.
const blockTimeout, olderBlockTimeout = "consensus.block_request_timeout", "consensus.state_sync_external_timeout"

func (d *Document) remove(key string) {
	delete(d.values, key)
	d.keys = slices.DeleteFunc(d.keys, func(k string) bool { return k == key })
}

func durationDocument(v time.Duration) *Document {
	d := NewDocument()
	d.put("secs", jsonNumber(uint64(v/time.Second)))
	d.put("nanos", jsonNumber(uint64(v%time.Second)))
	return d
}

func asDuration(v any) (time.Duration, bool) {
	d, ok := v.(*Document)
	if !ok || !isDuration(d) {
		return 0, false
	}
	secs, ok1 := asU64(d.values["secs"])
	nanos, ok2 := asU64(d.values["nanos"])
	if !ok1 || !ok2 || secs > maxSeconds || nanos >= 1_000_000_000 {
		return 0, false
	}
	return time.Duration(secs)*time.Second + time.Duration(nanos), true
}

// extract fills Config from a document whose kinds the schema has checked.
func extract(file string, d *Document, hadTracked []string) (*Config, error) {
	str := func(path string) string { v, _ := d.Get(path); s, _ := v.(string); return s }
	num := func(path string) uint64 { v, _ := d.Get(path); n, _ := asU64(v); return n }
	dur := func(path string) time.Duration { v, _ := d.Get(path); t, _ := asDuration(v); return t }
	yes := func(path string) bool { v, _ := d.Get(path); b, _ := v.(bool); return b }
	maybe := func(path string) *bool {
		v, _ := d.Get(path)
		if b, ok := v.(bool); ok {
			return &b
		}
		return nil
	}
	list := func(path string) (out []string) {
		v, _ := d.Get(path)
		items, _ := v.([]any)
		for _, x := range items {
			out = append(out, x.(string))
		}
		return out
	}
	c := &Config{
		GenesisFile: str("genesis_file"), RecordsFile: str("genesis_records_file"),
		ValidatorKeyFile: str("validator_key_file"), NodeKeyFile: str("node_key_file"),
		Archive: yes("archive"), ArchiveStart: str("troupe.archive_start"),
		GCEpochsToKeep: max(num("gc_num_epochs_to_keep"), 3), GCBlocksLimit: num("gc_blocks_limit"),
		GCStepPeriod: dur("gc_step_period"), GCMinAge: dur("troupe.gc_min_age"), StorePath: str("store.path"),
		WriteBuffer: num("troupe.storage.write_buffer_bytes"), BlockCache: num("troupe.storage.block_cache_bytes"),
		StateMemory: num("troupe.state.memory_bytes"), PointEpochs: num("troupe.state.point_epochs"),
		Proofs: Proofs(str("troupe.proofs.of")), ProofBytes: num("troupe.proofs.memory_bytes"),
		ContractCachePath: str(
			"contract_cache_path",
		), ContractMemory: num("troupe.vm.memory_bytes"), ContractDisk: num("troupe.vm.disk_bytes"),
		Tracing: Tracing{Endpoint: str("troupe.tracing.endpoint"), OneIn: num("troupe.tracing.one_in")},
		Worlds:  Worlds{Max: num("troupe.worlds.max"), Bytes: num("troupe.worlds.memory_bytes"), Idle: dur("troupe.worlds.idle_timeout")},
		Stream: Stream{SyncMode: str("troupe.stream.sync_mode"), Height: primitives.Height(num("troupe.stream.block_height")),
			StreamingMode: str("troupe.stream.streaming_mode"), Finality: str("troupe.stream.finality")},
		Compilations: num("troupe.vm.compilations"), CompilerProcesses: yes("troupe.vm.compiler_processes"),
		TransactionPoolSize: num("transaction_pool_size_limit"), MempoolTransactions: num("troupe.mempool.max_transactions"),
		MempoolKeys: num("troupe.mempool.max_per_key"),
		Queued:      num("troupe.mempool.max_queued"), QueuedBytes: num("troupe.mempool.max_queued_bytes"),
		Held: num(
			"troupe.mempool.max_held",
		), HeldBytes: num("troupe.mempool.max_held_bytes"), ViewStateSizeLimit: num("trie_viewer_state_size_limit"),
		ViewAccessKeysLimit: uint32(num("view_access_keys_limit")),
		MaxGasBurntView:     primitives.Gas(num("max_gas_burnt_view")), LogSummaryPeriod: dur("log_summary_period"),
		Production: Production(str("troupe.block_production")), Numbering: primitives.Numbering(str("troupe.numbering")),
		Document: d,
	}
	if v, _ := d.Get("produce_chunk_add_transactions_time_limit"); v != nil {
		c.ChooseLimit = max(dur("produce_chunk_add_transactions_time_limit"), 1) // a limit of 0 is a limit
	}
	if v, _ := d.Get("troupe.validator.new_key_wait_blocks"); v != nil {
		n := num("troupe.validator.new_key_wait_blocks")
		c.NewKeyWait = &n
	}
	if v, _ := d.Get("transaction_pool_strict_nonce_ttl_blocks"); v != nil {
		c.StrictNonceBlocks = max(num("transaction_pool_strict_nonce_ttl_blocks"), 1)
	}
	c.History = History{
		Source: str(
			"troupe.history.source",
		), Path: cmp.Or(str("troupe.history.path"), "history"), First: primitives.Height(num("troupe.history.first_height")),
		Fetches: num(
			"troupe.history.fetches",
		), Percent: num("troupe.history.processor_percent"), Reserve: num("troupe.history.disk_reserve_bytes"),
		Cache: num("troupe.history.cache_bytes"), Waits: num("troupe.history.max_waits"),
	}
	c.Fork = Fork{
		Timeout: dur("troupe.fork.timeout"), Refresh: dur("troupe.fork.refresh"), Tries: num("troupe.fork.tries"),
		PerSecond: num(
			"troupe.fork.requests_per_second",
		), AtOnce: num("troupe.fork.requests_at_once"), MaxReply: num("troupe.fork.max_reply_bytes"),
		Memory: num("troupe.fork.memory_bytes"), Cache: str("troupe.fork.cache"), RequireProofs: yes("troupe.fork.require_proofs"),
	}
	c.JetStream = JetStream{
		Enabled: yes(
			"troupe.jetstream.enabled",
		), Listen: str("troupe.jetstream.listen"), URL: str("troupe.jetstream.url"), Token: str("troupe.jetstream.token"),
		Dir: str(
			"troupe.jetstream.dir",
		), MaxBytes: num("troupe.jetstream.max_bytes"), MaxAge: dur("troupe.jetstream.max_age"), Copies: num("troupe.jetstream.copies"),
		Snapshots: num("troupe.jetstream.max_snapshots"), Blocks: yes("troupe.jetstream.blocks"),
	}
	c.Replica = Replica{Of: str("troupe.replica.of"), Key: str("troupe.replica.writer_key"), MaxLag: dur("troupe.replica.max_lag")}
	k := &c.Consensus
	k.MinDelay, k.MaxDelay = dur("consensus.min_block_production_delay"), dur("consensus.max_block_production_delay")
	k.MaxWait = dur("consensus.max_block_wait_delay")
	mult, _ := d.Get("consensus.chunk_wait_mult")
	k.ChunkWait[0], k.ChunkWait[1], _ = asRational(mult)
	k.ProduceEmptyBlocks = yes("consensus.produce_empty_blocks")
	if v, ok := d.Get("rpc"); ok && v != nil {
		c.RPC = &RPC{
			Addr: str("rpc.addr"), PrometheusAddr: str("rpc.prometheus_addr"),
			PollingTimeout: dur("rpc.polling_config.polling_timeout"),
			MaxBody:        num("rpc.limits_config.json_payload_max_size"), HTTPStatus: str("troupe.rpc.http_status"),
			CORS: list("rpc.cors_allowed_origins"), TrustedProxies: list("troupe.rpc.trusted_proxies"),
			APIKeys: list("troupe.rpc.api_keys"), RequireAPIKey: yes("troupe.rpc.require_api_key"),
			TLSCert: str("troupe.rpc.tls_cert"), TLSKey: str("troupe.rpc.tls_key"),
			Debug: yes("rpc.enable_debug_rpc"), Indexer: yes("rpc.enable_indexer_rpc"), IndexerRequests: num("rpc.indexer_max_concurrent_requests"),
			Simulate: yes("troupe.rpc.simulate"), Trace: yes("troupe.rpc.trace"),
			Sandbox: maybe("troupe.rpc.sandbox"), Console: maybe("troupe.rpc.console"),
		}
		c.RPC.Limits, c.RPC.Named = readLimits(d)
	}
	unless := func(path string, otherwise bool) bool {
		if b := maybe(path); b != nil {
			return *b
		}
		return otherwise
	}
	o := &c.ReceiptOrigins
	o.Outcomes = unless("save_tx_outcomes", true)
	o.Mapping = unless("save_receipt_to_tx", o.Outcomes)
	o.Window, o.Hop = num("receipt_to_tx_max_hint_window"), num("receipt_to_tx_max_hop_distance")
	o.Budget = num("receipt_to_tx_max_outcomes_per_request")
	c.Network = Network{
		Pace: Pace(
			str("troupe.network.pace"),
		), Transport: str("network.transport"), Libp2p: Libp2p{Addr: str("network.libp2p.addr"), Quic: yes("network.libp2p.quic"),
			MDNS: yes("network.libp2p.mdns"), NATs: yes("network.libp2p.nat_port_map")},
		Enabled: maybe("troupe.network.enabled"), Public: list("network.public_addrs"),
		AllowPrivate: yes("network.allow_private_ip_in_public_addrs"), Stun: list("network.trusted_stun_servers"),
		Addr: str("network.addr"), BootNodes: str("network.boot_nodes"), Whitelist: str("network.whitelist_nodes"),
		Blacklist: list("network.blacklist"), MaxPeers: num("network.max_num_peers"), MinOutbound: num("network.minimum_outbound_peers"),
		IdealLow: num(
			"network.ideal_connections_lo",
		), IdealHigh: num("network.ideal_connections_hi"), SafeSet: num("network.safe_set_size"),
		InboundT1: yes(
			"network.tier1.enable_inbound",
		), OutboundT1: yes("network.tier1.enable_outbound"), T1Period: dur("network.tier1.connect_interval"),
		SyncThreshold: num("consensus.sync_height_threshold"), SyncRequests: num("consensus.sync_max_block_requests"),
		HorizonEpochs: num("epoch_sync.epoch_sync_horizon_num_epochs"), ProofWait: dur("epoch_sync.timeout_for_epoch_sync"),
		StateWait: dur("consensus.state_sync_p2p_timeout"), StatePause: dur("consensus.state_sync_retry_backoff"),
		HeadersWait: dur(
			"consensus.header_sync_initial_timeout",
		), RouteHorizon: num("tx_routing_height_horizon"), NoRouting: yes("disable_tx_routing"),
	}
	c.Network.AdvertisePeriod = dur("network.tier1.advertise_proxies_interval")
	c.Network.NewT1 = num("network.tier1.new_connections_per_attempt")
	const experimental = "network.experimental."
	x := &c.Network.Experimental
	x.T3Addr, x.NoInbound = str(experimental+"tier3_public_addr"), yes(experimental+"inbound_disabled")
	x.OnlyBoot = yes(experimental + "connect_only_to_boot_nodes")
	x.SkipTombstones = time.Duration(min(num(experimental+"skip_sending_tombstones_seconds"), maxSeconds)) * time.Second
	x.NoOutbound, x.ForgetPeers = yes(overrides+"outbound_disabled"), !unless(overrides+"connect_to_reliable_peers_on_startup", true)
	x.TTL, x.MaxPeersSent = num(overrides+"routed_message_ttl"), maxPeersSent
	if v, _ := d.Get(overrides + "max_send_peers"); v != nil {
		x.MaxPeersSent = num(overrides + "max_send_peers")
	}
	var err, limitsErr error
	limit, _ := d.Get(rateLimits)
	if c.Network.ReceivedLimits, limitsErr = readRateLimits(limit); limitsErr != nil {
		limitsErr = fmt.Errorf("%s: %s: %w", file, rateLimits, limitsErr)
	}
	c.TrackedShards, err = trackedShards(file, d)
	if err := errors.Join(err, limitsErr, c.rules(file, hadTracked)); err != nil {
		return nil, err
	}
	return c, nil
}
