package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/otlp"
	"github.com/troupe-chain/troupe/internal/sched"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/libp2p"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	vmengine "github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/history"
)

// Options configure Start: the home, and settings of the command line.
type Options struct {
	// Home is the home folder. Required.
	Home *home.Home
	// Version is the version of the program, which status and the metrics show.
	Version view.Version
	// Log receives the node's log. nil: warnings and errors go to stderr.
	Log *logrus.Logger

	// The RPC.

	// Listen is the address of the RPC, which replaces rpc.addr; status still shows rpc.addr. Empty:
	// rpc.addr.
	Listen string
	// Metrics means that rpc.prometheus_addr was set on the command line.
	Metrics bool
	// NoRPC starts no RPC.
	NoRPC bool
	// InProcess means that the caller uses Backend in this process, with or without an RPC.
	InProcess bool
	// Servable is set if the caller may call Serve. The RPC is then prepared although nothing
	// listens yet.
	Servable bool

	// The chain.

	// Memory keeps the chain and compiled contracts in memory. Start reads the files of Home. The
	// caller may remove these files afterwards. If config.json names a folder for a fork's cache,
	// the node also reads and writes files there. It uses no other files.
	Memory bool
	// Trust skips the validation of the genesis if the store does not exist yet.
	Trust bool
	// Grow adds records to the genesis state of a new chain. nil: no records are added.
	Grow func(*engine.GenesisState)
	// SignFrom is the height from which the validator's key signs, instead of waiting if it is new to
	// the data folder. 0: a new key waits as config.json says. Only a height above all that the key
	// has signed on other machines is safe.
	SignFrom primitives.Height
	// Checkpoint is a block that the stored chain must contain. Zero: no check.
	Checkpoint primitives.Hash
	// Compiler starts a child of this binary that calls vm.ServeCompiler. The zero value compiles
	// contracts in this process.
	Compiler compiler.Command

	// Where blocks come from.

	// Follow are the block feeds to follow instead of a network. The node then produces no blocks.
	// Empty: none.
	Follow []blockfeed.Source
	// ForkTransport carries requests to the remote chain of a fork. nil: http.DefaultTransport.
	ForkTransport http.RoundTripper
	// Restarts is set if the caller restarts the node when Failed delivers ErrStateSynced,
	// ErrRewound or ErrDiskFreed. Only such a node uses state sync.
	Restarts bool

	// Observers.

	// Tap receives a copy of all traffic with peers. Tap must not block. nil: no tap.
	Tap func(tcp.Tapped)
	// The chain's goroutine calls Observe for each accepted block. nil: not called.
	Observe func(*messages.BlockAccepted)

	known map[string]json.RawMessage // configuration of the node that this one replaces (see UpdateOptions)
}

// Daemon is a running node.
type Daemon struct {
	Instance
	Addr    net.Addr // address of the RPC; nil: none
	Console bool     // the RPC serves the page at /console

	serving sync.Mutex // held by Serve

	build           string // build name of the program
	upgradeVotes    []epoch.UpgradeVote
	vm              *vm.VM
	views           *viewpool.Pool
	server          *rpc.Server
	metrics         *metricsServer
	network         net.Addr // address that peers connect to; nil: none
	tap             func(tcp.Tapped)
	libp2p          libp2p.Metrics
	libp2pTransport atomic.Pointer[libp2p.Transport] // transport of the running network actor; nil: none
	stop            context.CancelFunc
	control         *control                   // nil: the system has no Unix sockets
	bootstrap       *bootstrapFolder           // nil: the node does no state sync
	upkeep          chan struct{}              // closed when maintenance has ended
	measured        metrics.Set                // families of metrics_maintenance.go
	gcStop          atomic.Uint64              // height up to which garbage collection last wanted to remove blocks
	configWrong     atomic.Bool                // the last Reload failed
	failed          chan error                 // delivers the reason why the node must end or restart
	restarts        bool                       // see Options.Restarts
	backing         atomic.Bool                // a snapshot is being created
	live            live                       // configuration that Reload may change
	replica         *replica                   // nil: this node is no replica
	publishing      atomic.Pointer[publishing] // nil: the chain is not published
	version         view.Version
	began           time.Time
	cpu             cpu
	tracing         *otlp.Exporter            // nil: tracing is off
	signed          *signature.CachedVerifier // cache of verified validator signatures
	history         *history.Store            // imported older blocks; nil: none
	imports         *blockfeed.Import         // their import; nil: none is configured
}

// keysCached is the maximum number of cached decompressed public keys, for block and approval
// signatures.
const keysCached = 1024

// GCPercent is the debug.SetGCPercent value for a process that runs a node. Go's default, 100, lets
// the heap double before a collection. More collections cost little, because nearly all of a node's
// memory is in slabs without pointers. The collector counts these slabs but does not scan them.
const GCPercent = 50

// Start binds the listeners, opens the store and starts the node. On an error, Start undoes all
// completed steps in reverse order.
func Start(o Options) (_ *Daemon, err error) {
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetLevel(logrus.WarnLevel)
	}
	h := &Daemon{Instance: Instance{home: o.Home, log: o.Log, replays: make(chan struct{}, 1)}, build: o.Version.Build,
		version: o.Version, began: time.Now(), tap: o.Tap, upkeep: make(chan struct{}), failed: make(chan error, 1)}
	h.cpu.percent(h.began) // the next call measures from here on
	h.worlds = newWorlds(h)
	h.restarts = o.Restarts
	h.live.config.Store(o.Home.Config)
	h.configRead()
	h.live.known, h.live.signFrom = o.known, o.SignFrom
	var undo []func()
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	c := o.Home.Config
	if err := o.Home.CheckVersion(); err != nil {
		return nil, err
	}
	if pin, err := fork.ReadPin(o.Home.Paths.Dir); err != nil {
		return nil, err
	} else if pin != nil { // a fork has no network, because no peer has its blocks
		off := false
		c.Network.Enabled = &off
	}
	if len(o.Follow) > 0 {
		followsFeeds(&o)
	}
	if !o.Memory {
		warnings, err := checkHistory(o.Home)
		if err != nil {
			return nil, err
		}
		for _, w := range warnings {
			h.log.Warn(w)
		}
	}
	ports, err := bind(&o) // comes first, because this step fails most often and fastest
	if err != nil {
		return nil, err
	}
	undo = append(undo, ports.close)
	if err := h.open(&o, ports, &undo); err != nil {
		return nil, err
	}
	p := h.publishing.Load()
	if ports.rpc != nil || o.InProcess || p != nil && p.blocksOptions != nil {
		h.openBackend(&o, &undo)
		p.startBlocks(h.back)
	}
	if ports.rpc != nil || o.Servable {
		if err := h.newServer(); err != nil {
			return nil, err
		}
	}
	if ports.rpc != nil {
		h.serve(ports.rpc)
	}
	if ports.metrics != nil {
		h.metrics = serveMetrics(ports.metrics, h.server.AppendMetrics)
	}
	if !o.Memory {
		// Without the socket, the commands that use the socket work only while the node is stopped.
		if h.control, err = h.listenControl(); err != nil {
			h.log.WithError(err).Warn("no control socket: troupe view-state and snapshot work only while this node is stopped")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	obstacle := h.Obstacle()
	switch {
	case h.feeds != nil:
		h.log.Infof("this node follows feeds (%d) and produces no blocks", len(o.Follow))
		go h.feeds.run(ctx)
	case h.replica != nil:
		h.log.Info("this node is a replica of the writer at " + withoutToken(c.Replica.Of))
	case h.Engine.GenesisOnly():
		h.logLooksForPeers()
	case obstacle != "" && h.front != nil && o.Home.ValidatorKey == nil:
		h.log.Info("this node follows its network and produces no blocks")
	case obstacle != "":
		h.logObstacle(obstacle)
	case c.Production == config.Manual:
		h.log.Info("blocks are produced by sandbox_mine only")
	}
	if first := h.store.Tip().Tail; c.Archive && first > h.Engine.Chain().Height {
		h.log.Infof("this archive has all blocks and states from height %d on, and the genesis block", first)
	}
	h.startMaintenance(ctx, c, obstacle)
	if h.fork != nil {
		go h.refreshLoop(ctx, c.Fork.Refresh)
	}
	return h, nil
}

// open opens the store, the engine and the node.
func (h *Daemon) open(o *Options, ports *ports, undo *[]func()) (err error) {
	hm, c := o.Home, o.Home.Config
	if !o.Trust && !storage.Exists(hm.Paths.Data) { // an existing store identifies its genesis by its fingerprint
		if err := hm.Records(func(genesis.Record) error { return nil }); err != nil {
			return err
		}
	}
	if err := finishMove(dataDir(hm)); err != nil {
		return err
	}
	if err := finishRestore(dataDir(hm), h.log); err != nil {
		return err
	}
	if err := installIncoming(hm, h.log); err != nil {
		return err
	}
	defer func() { err = withReplaced(hm, err) }()
	if h.store, err = h.openChain(o); err != nil {
		return err
	}
	*undo = append(*undo, func() { _ = h.store.Close() })
	if c.Replica.Of != "" {
		if err := finishRewind(h.store); err != nil {
			return err
		}
	}
	if h.fork, err = h.openFork(o, true); err != nil {
		return err
	}
	var base engine.RemoteState
	if h.fork != nil {
		base = h.fork
		*undo = append(*undo, h.fork.Close)
	}
	chain, err := chainOf(hm, h.fork)
	if err != nil {
		return err
	}
	if load := chain.Load; o.Grow != nil {
		chain.Load = func() (*engine.GenesisState, error) {
			s, err := load()
			if err == nil {
				o.Grow(s)
			}
			return s, err
		}
	}
	if h.vm, err = vm.New(h.vmOptions(o)); err != nil {
		return err
	}
	*undo = append(*undo, h.vm.Close)
	checker := signature.New()
	h.checker = checker
	h.signed = signature.NewCachedVerifier(primitives.NewVerifier(keysCached).Verify)
	*undo = append(*undo, checker.Close)
	proofs, of := proofsOf(hm)
	hold, err := holdings(hm, ports.network != nil)
	if err != nil {
		return err
	}
	upgrades, err := h.upgrades(chain)
	if err != nil {
		return err
	}
	h.upgradeVotes = upgrades.Votes()
	if h.Engine, err = engine.Open(engine.Options{
		Upgrades: upgrades, Tracks: hold.tracks, Scheduled: hold.scheduled, Assigned: hold.assigned, ProofBytes: proofs,
		ProofsFor: of, Chain: chain, Store: h.store, VM: h.vm, Signature: checker.Check, Verify: h.signed.Verify,
		StateBytes: stateMemory(c.StateMemory),
		GapBlocks:  primitives.Height(hm.Config.StrictNonceBlocks), Base: base, Snapshots: ports.network != nil,
		SyncPointEpochs: int(c.PointEpochs), PartialBodies: len(o.Follow) > 0,
		Warn: h.warn, Now: peersClock(ports.network != nil),
		MaxHeightJump: maxHeightJump(ports.network != nil, chain),
	}); err != nil {
		return checkTracked(hm, err)
	}
	*undo = append(*undo, func() { _ = h.Engine.Close() })
	removeReplaced(hm, h.log)
	if err := h.checkCheckpoint(o.Checkpoint); err != nil {
		return err
	}
	h.logTracked(&c.TrackedShards)
	no := h.nodeOptions(hm, checker, h.blockObserver(o.Observe), o.Version.Build)
	if o.Memory {
		no.Failed = ""
	}
	if c.Replica.Of != "" {
		if err := h.asReplica(o, ports, hold.tracks, &no); err != nil {
			return err
		}
		*undo = append(*undo, h.replica.close)
	}
	if len(o.Follow) > 0 {
		h.openFeeds(o.Follow, hold.tracks, &no)
	}
	if h.openTracing(&no, o.Version); h.tracing != nil {
		*undo = append(*undo, func() { h.tracing.Close(context.Background()) })
	}
	if ports.network == nil {
		if err := checkNeverShared(hm); err != nil {
			return err
		}
	} else {
		h.network = ports.network.Addr()
		h.warnPatched()
		if no.Network, err = h.networkOptions(ports.network); err != nil {
			return err
		}
		if no.Validator, err = h.validatorOptions(o.SignFrom); err != nil {
			return err
		}
		if no.Validator == nil && hold.scheduled && hm.ValidatorKey == nil && !h.Engine.GenesisOnly() {
			no.Validator = h.shadowOptions()
		}
		if no.Validator != nil { // all validators must produce blocks in the same mode
			no.Mode = production.Interval
		}
		sync := &no.Network.Sync
		if err := h.limitSync(hm, sync); err != nil {
			return err
		}
		if o.Restarts && sync.Horizon > 0 {
			h.bootstrap = h.newBootstrap()
			no.Network.StateSyncs = h.bootstrap
			*undo = append(*undo, h.bootstrap.stop)
		}
	}
	if err := h.checkDuties(); err != nil {
		return err
	}
	if err := h.openHistory(o, &no, undo); err != nil {
		return err
	}
	if h.Node, err = node.Start(no); err != nil {
		return err
	}
	*undo = append(*undo, func() {
		ctx, cancel := context.WithTimeout(context.Background(), undoLimit)
		defer cancel()
		_ = h.Node.Stop(ctx)
	})
	if h.replica != nil {
		h.replica.start()
	}
	if c.JetStream.Enabled {
		p, err := h.publish(hm, hold.tracks)
		if err != nil {
			return err
		}
		p.followed = h.Node.Followed()
		h.publishing.Store(p)
		*undo = append(*undo, p.close)
	}
	return nil
}

// inHome resolves a path of config.json relative to the home folder; empty stays empty.
func inHome(hm *home.Home, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(hm.Paths.Dir, path)
}

// undoLimit is the time limit for stopping a node if Start fails after node.Start.
const undoLimit = 5 * time.Second

// openBackend creates the backend that answers queries about the chain.
func (h *Daemon) openBackend(o *Options, undo *[]func()) {
	hm, c := o.Home, o.Home.Config
	h.views = viewpool.New(viewpool.Options{Timeout: c.RPC.PollingTimeout, Queue: int(c.RPC.Limits.Views),
		Alarm: func(e *viewpool.PanicError) {
			h.log.Errorf("view call failed: %v\n%s", e.Reason, e.Stack)
		}})
	*undo = append(*undo, h.views.Close)
	h.back = backend.New(backend.Options{
		Engine: h.Engine, VM: h.vm, Views: h.views, MaxGasBurntView: c.MaxGasBurntView, Genesis: hm.Genesis, Submit: h.Node,
		Obstacles: obstacles{h.Node}, Version: o.Version, RPCAddr: c.RPC.Addr,
		Validator: hm.ValidatorKey, NodeKey: nodeKey(hm), MaxIdle: h.maxIdle(c), KeepEpochs: keepEpochs(c), Now: time.Now,
		Control: sandboxControl{&h.Instance},
		Config:  c.Client(hm.Genesis, o.Version), Origins: origins(c), OlderWaits: int(c.History.Waits),
	})
	if h.history != nil {
		h.back.History = h.history
	}
	switch {
	case h.front != nil:
		h.back.Network = h.front
	case h.replica != nil:
		h.back.Network = h.replica
	}
	if h.feeds != nil {
		h.back.Network, h.back.Submit = h.feeds, feedForwarder{h.Node, h.feeds}
	}
}

// newServer creates the RPC server.
func (h *Daemon) newServer() (err error) {
	hm, c, back := h.home, h.home.Config, h.back
	h.Console = h.consoleEnabled(back)
	h.server, err = rpc.New(back, rpc.Options{
		Addr: c.RPC.Addr, CORSOrigins: c.RPC.CORS, HTTPStatus: c.RPC.HTTPStatus, MaxBody: int(c.RPC.MaxBody),
		PollingTimeout: c.RPC.PollingTimeout, Limits: rpcLimits(c.RPC), TrustedProxies: c.RPC.TrustedProxies,
		APIKeys: c.RPC.APIKeys, RequireAPIKey: c.RPC.RequireAPIKey, TLSCert: inHome(hm, c.RPC.TLSCert), TLSKey: inHome(hm, c.RPC.TLSKey),
		NoSimulate: !c.RPC.Simulate, NoTrace: !c.RPC.Trace, NoSandbox: !h.sandboxEnabled(back), Debug: c.RPC.Debug,
		Console: h.Console, Actors: h.Node.AppendActors,
		Included: func() uint64 { return h.Node.Stats().Transactions }, ViewStateLimit: c.ViewStateSizeLimit,
		ViewKeysLimit:   c.ViewAccessKeysLimit,
		IndexerRequests: indexerRequests(c.RPC), Metrics: h.appendMetrics, Log: h.log,
	})
	return err
}

// serve serves the RPC on a listener, until the node stops.
func (h *Daemon) serve(l net.Listener) {
	h.Addr = l.Addr()
	if exposed := h.exposureWarning(h.back); exposed != "" {
		h.log.Warn(exposed)
	}
	go func() {
		if err := h.server.Serve(l); err != nil {
			h.failed <- fmt.Errorf("rpc: %w", err)
		}
	}()
}

// indexerRequests returns the maximum number of concurrent calls of EXPERIMENTAL_indexer_block. 0
// means that the method is switched off.
func indexerRequests(c *config.RPC) int {
	if !c.Indexer {
		return 0
	}
	return int(c.IndexerRequests)
}

// vmOptions returns where compiled contracts are stored and how contracts are compiled.
func (h *Daemon) vmOptions(o *Options) vm.Options {
	c := o.Home.Config
	if vmengine.ThreadPerRun() {
		h.log.Warn("thread stacks are too small for contracts, and this system's C library cannot enlarge them: each " +
			"contract call starts its own thread, which takes some 20 us")
	}
	v := vm.Options{
		Dir: o.Home.Paths.Contracts, Memory: int64(c.ContractMemory), Disk: int64(c.ContractDisk), Builders: int(c.Compilations),
		Build: o.Version.Version + " " + o.Version.Build + " " + o.Version.Commit + executable(),
		Alarm: func(err error) {
			h.log.WithError(err).Error("the contract engine reports a fault that no contract should cause")
		},
		Unlinked: newUnlinkedLog(h.log).report,
	}
	if o.Memory {
		v.Dir = ""
	}
	if c.CompilerProcesses {
		v.Compiler = o.Compiler
	}
	return v
}

// executable identifies the running file by size and modification time. The version would not
// suffice, because two different binaries of `go build` can have the same version.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" %d %d", info.Size(), info.ModTime().UnixNano())
}

// Failed delivers an error after which the caller must stop the node. It is the error of a failed
// RPC server, ErrStateSynced, ErrRewound or ErrDiskFreed. After ErrStateSynced, ErrRewound and
// ErrDiskFreed, the caller should restart the node.
func (h *Daemon) Failed() <-chan error { return h.failed }

// openChain opens the chain that Start runs.
func (h *Daemon) openChain(o *Options) (*storage.Store, error) {
	if !o.Memory {
		return openStore(o.Home, h.log, true)
	}
	id, err := identity(o.Home, readFingerprints(o.Home.Paths.Data))
	if err != nil {
		return nil, err
	}
	so := storage.Options{Identity: id}
	setCaches(&so, o.Home.Config)
	return storage.OpenMemory(storage.NewMemDisk(), so)
}

// openStore opens the data folder, which belongs to one chain and one process. If reads is set and
// the disk is full, openStore opens the folder read-only.
func openStore(hm *home.Home, log *logrus.Logger, reads bool) (*storage.Store, error) {
	dir := hm.Paths.Data
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sums := readFingerprints(dir)
	id, err := identity(hm, sums)
	if err != nil {
		return nil, err
	}
	o := storage.Options{ReadOnlyIfFull: reads, Identity: id, Converting: logConversion(log)}
	setCaches(&o, hm.Config)
	s, err := storage.Open(dir, o)
	switch {
	case errors.Is(err, storage.ErrLocked):
		return nil, fmt.Errorf("%w: another node runs on %s; stop it first, or query it by JSON-RPC or troupe view-state", err, hm.Paths.Dir)
	case errors.Is(err, storage.ErrForeign):
		return nil, fmt.Errorf("%w. If you changed the genesis on purpose, remove %s and start again", err, dir)
	case err != nil:
		return nil, err
	}
	if err := sums.save(dir); err != nil { // harmless, because the next start hashes the files again
		log.WithError(err).Debug("the hashes of genesis files were not cached (genesis.sums)")
	}
	return s, nil
}

// conversionPeriod is the time between two log lines of a running conversion.
const conversionPeriod = 10 * time.Second

// logConversion returns a storage.Options.Converting that logs the conversion of a data folder.
func logConversion(log *logrus.Logger) func(from, to int, rows int64) {
	var last time.Time
	return func(from, to int, rows int64) {
		if now := time.Now(); now.Sub(last) >= conversionPeriod {
			last = now
			log.Infof("converts the data folder from format %d to %d: %d rows", from, to, rows)
		}
	}
}

// identity returns the store's identity of a home: chain ID, and hash of the genesis configuration
// and files.
func identity(hm *home.Home, sums *fingerprints) (storage.Identity, error) {
	b := genesis.AppendConfig(nil, hm.Genesis)
	for _, path := range []string{hm.Paths.Genesis, hm.Paths.Records} {
		if path == "" {
			continue
		}
		digest, err := sums.of(path)
		if err != nil {
			return storage.Identity{}, err
		}
		b = append(b, digest[:]...)
	}
	return storage.Identity{ChainID: hm.Genesis.ChainID, Genesis: primitives.HashBytes(b), Numbering: hm.Numbering}, nil
}

func recordsOf(hm *home.Home) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return openRecords(hm) }
}

func openRecords(hm *home.Home) (io.ReadCloser, error) {
	path := hm.Paths.Records
	if path == "" {
		path = hm.Paths.Genesis
	}
	return os.Open(filepath.Clean(path))
}

func nodeKey(hm *home.Home) primitives.PublicKey {
	switch {
	case hm.NodeKey != nil:
		return hm.NodeKey.PublicKey()
	case hm.ValidatorKey != nil:
		return hm.ValidatorKey.PublicKey()
	}
	return primitives.ZeroED25519Key
}

// maxIdle returns the age of the head above which the node is unhealthy: ten times the maximum
// block delay. 0 means no bound. The result is 0 if the node makes blocks on demand, and for forks,
// because a fork continues the remote chain's time.
func (h *Daemon) maxIdle(c *config.Config) time.Duration {
	if c.Production == config.Manual || h.fork != nil {
		return 0
	}
	return 10 * c.Consensus.MaxDelay
}

// keepEpochs returns the number of epochs that garbage collection keeps; 0: all.
func keepEpochs(c *config.Config) uint64 {
	if c.Archive {
		return 0
	}
	return c.GCEpochsToKeep
}

func (h *Daemon) nodeOptions(hm *home.Home, checker *signature.Checker, observe func(*messages.BlockAccepted), build string) node.Options {
	c := hm.Config
	o := node.Options{
		Engine: h.Engine, Signatures: checker, Keys: map[primitives.AccountID]primitives.SecretKey{},
		Mode: modes[c.Production], SkipEmpty: !c.Consensus.ProduceEmptyBlocks,
		Delays: doomslug.Delays{
			Endorsement: int64(c.Consensus.MinDelay), Skip: int64(c.Consensus.MaxDelay), MaxWait: int64(c.Consensus.MaxWait),
			ChunkWait: c.Consensus.ChunkWait,
		},
		ChooseLimit: c.ChooseLimit,
		Mempool:     txpool.Limits{Bytes: c.TransactionPoolSize, Transactions: c.MempoolTransactions, KeyTransactions: c.MempoolKeys},
		Failed:      filepath.Join(hm.Paths.Data, "failed"), FailedBuild: build,
		Room: h.onDiskFull, Summary: c.LogSummaryPeriod, Thread: sched.Need, Observe: observe, Log: h.log,
	}
	o.Limits = node.Limits{Queue: int(c.Queued), QueueBytes: int(c.QueuedBytes), Held: int(c.Held), HeldBytes: int(c.HeldBytes)}
	if h.fork != nil {
		o.Clock = forkClock(h.Engine.Head())
	}
	if c.RPC != nil {
		o.Limits.Parked, o.Limits.Sessions, o.Limits.Wait = int(c.RPC.Limits.Parked), int(c.RPC.Limits.Connections), c.RPC.PollingTimeout
		o.Limits.BeginWait, o.Limits.Outcomes = c.RPC.Limits.WaitDelay, int(c.RPC.Limits.Outcomes)
	}
	if hm.ValidatorKey != nil {
		o.Keys[hm.ValidatorKey.AccountID] = hm.ValidatorKey.SecretKey
	}
	return o
}

var modes = map[config.Production]production.Mode{
	config.Instant: production.Instant, config.Interval: production.Interval, config.Manual: production.Manual,
}

// origins returns the bounds of EXPERIMENTAL_receipt_to_tx from config.json.
func origins(c *config.Config) backend.Origins {
	o := &c.ReceiptOrigins
	return backend.Origins{
		NoMapping: !o.Mapping, NoOutcomes: !o.Outcomes,
		MaxWindow: o.Window, MaxHop: o.Hop, MaxOutcomes: o.Budget,
	}
}
