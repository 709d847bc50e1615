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
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
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
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	vmengine "github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/storage"
)

// Options are what the command line adds to the home.
type Options struct {
	Home    *home.Home
	Version view.Version
	Log     *logrus.Logger // nil: warnings and errors to stderr
	Listen  string         // where the RPC listens instead of rpc.addr, which status goes on to show
	Metrics bool           // rpc.prometheus_addr comes from the command line
	NoRPC   bool
	Inside  bool // who starts it asks it in its own process (Backend), whether there is an RPC or not
	Trust   bool // the sense of a genesis that is not in the store yet is not checked
	// Compiler starts a child of this binary that calls vm.ServeCompiler; the zero value: contracts
	// are compiled in this process.
	Compiler compiler.Command
	// Grow adds to the first state of a chain that begins; nil: nothing.
	Grow func(*engine.GenesisState)
	// Other reaches the node of the chain that this one is a fork of; nil: by the network.
	Other http.RoundTripper
	// Tap is shown what this node and others say to each other, and may not wait; nil: nobody is.
	Tap func(tcp.Tapped)
	// Again: whoever started the node stops it and starts it anew when Failed gives ErrArrived.
	// Only such a node begins in the middle of its chain.
	Again bool
	// Follow are feeds that the node follows, instead of a network. It makes no blocks then.
	Follow []blockfeed.Source
	// Checkpoint is a block that the chain in the home must have; zero: any chain will do.
	Checkpoint primitives.Hash
	Observe    func(*messages.BlockAccepted) // called for each accepted block, on the chain's goroutine; nil: nobody

	known map[string]json.RawMessage // of the node in whose place this one goes on, see GoOn
}

// Daemon is a running node.
type Daemon struct {
	Instance
	Addr net.Addr // of the RPC; nil: there is none

	build      string // what the program calls itself
	vm         *vm.VM
	views      *viewpool.Pool
	server     *rpc.Server
	metrics    *metricsServer
	network    net.Addr // where they may connect
	tap        func(tcp.Tapped)
	libp2p     libp2p.Metrics
	way        atomic.Pointer[libp2p.Transport] // the last one
	listened   bool                             // the network's actor has taken its first listener
	stop       context.CancelFunc
	control    *control                    // nil: the system has no such sockets
	arrivals   *arrivals                   // nil: it begins with the genesis
	upkeep     chan struct{}               // closed when upkeep has ended
	failed     chan error                  // the RPC ended by itself
	again      bool                        // whoever started the node starts it anew, see Options
	backing    atomic.Bool                 // a snapshot of it is being made
	live       live                        // what Reload may change
	fold       func(context.Context) error // of a stop
	replica    *replica                    // nil: it is none
	publishing atomic.Pointer[publishing]  // nil: its records go nowhere
	version    view.Version
	began      time.Time
	cpu        cpu
	tracing    *otlp.Exporter            // nil: no transaction is traced
	signed     *signature.CachedVerifier // of validators' signatures
}

// keysCached is how many signers' keys are kept ready for checking signatures of blocks and votes.
const keysCached = 1024

// GCPercent is what a process that hosts a node gives to debug.SetGCPercent. It trades time for
// memory: nearly all of a node's memory lies in slabs without pointers, which the collector only
// counts, so that by default it would wait for the heap to double.
const GCPercent = 50

// Start binds what it listens on, opens everything, and begins to make blocks and to answer. What
// has been begun when something fails is undone in the opposite order.
func Start(o Options) (_ *Daemon, err error) {
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetLevel(logrus.WarnLevel)
	}
	h := &Daemon{Instance: Instance{home: o.Home, log: o.Log, replays: make(chan struct{}, 1)}, build: o.Version.Build, version: o.Version, began: time.Now(), tap: o.Tap, upkeep: make(chan struct{}), failed: make(chan error, 1)}
	h.cpu.percent(h.began) // what the process took before is not the node's
	h.worlds = newWorlds(h)
	h.again = o.Again
	h.live.config.Store(o.Home.Config)
	h.live.known = o.known
	h.fold = h.foldLast
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
	} else if pin != nil { // nobody else has its blocks
		off := false
		c.Network.Enabled = &off
	}
	if len(o.Follow) > 0 {
		followsFeeds(&o)
	}
	ports, err := bind(&o) // first, since it fails most often and cheapest
	if err != nil {
		return nil, err
	}
	undo = append(undo, ports.close)
	if err := h.open(&o, ports, &undo); err != nil {
		return nil, err
	}
	p := h.publishing.Load()
	if ports.rpc != nil || o.Inside || p != nil && p.told != nil {
		h.look(&o, &undo)
		p.tell(h.back)
	}
	if ports.rpc != nil {
		if err := h.answer(ports); err != nil {
			return nil, err
		}
	}
	if h.control, err = h.listenControl(); err != nil { // what it is for can be done when the node has stopped
		h.log.WithError(err).Warn("no socket for other processes: `troupe view-state` works only while this node is stopped")
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	obstacle := h.Obstacle()
	switch {
	case h.feeds != nil:
		h.log.Infof("this node follows feeds (%d), and makes no blocks", len(o.Follow))
		go h.feeds.run(ctx)
	case h.replica != nil:
		h.log.Info("this node is a replica: its writer's blocks come by " + c.Replica.Of)
	case obstacle != "" && h.front != nil && o.Home.ValidatorKey == nil:
		h.log.Info("this node follows others, and makes no blocks")
	case obstacle != "":
		h.sayObstacle(obstacle)
	case c.Production == config.Manual:
		h.log.Info("blocks are made when sandbox_mine asks for them")
	}
	h.keepUp(ctx, c, obstacle)
	if h.fork != nil {
		go h.follow(ctx, c.Fork.Refresh)
	}
	return h, nil
}

// open opens store, engine and node.
func (h *Daemon) open(o *Options, ports *ports, undo *[]func()) (err error) {
	hm, c := o.Home, o.Home.Config
	if !o.Trust && !storage.Exists(hm.Paths.Data) { // once there is a store, its genesis is known by its fingerprint
		if err := hm.Records(func(genesis.Record) error { return nil }); err != nil {
			return err
		}
	}
	if err := finishRestore(dataDir(hm), h.log); err != nil {
		return err
	}
	if err := takeArrived(hm, h.log); err != nil {
		return err
	}
	defer func() { err = withOld(hm, err) }()
	if h.store, err = openStore(hm, h.log, true); err != nil {
		return err
	}
	*undo = append(*undo, func() { _ = h.store.Close() })
	if c.Replica.Of != "" {
		if err := goBack(h.store); err != nil {
			return err
		}
	}
	if h.fork, err = h.openFork(hm, o.Other, true); err != nil {
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
	if h.Engine, err = engine.Open(engine.Options{
		Tracks: hold.tracks, Scheduled: hold.scheduled, Assigned: hold.assigned, ProofBytes: proofs, ProofsFor: of, Chain: chain, Store: h.store, VM: h.vm, Signature: checker.Check, Verify: h.signed.Verify, StateBytes: stateMemory(c.StateMemory),
		GapBlocks: primitives.Height(hm.Config.StrictNonceBlocks), Base: base, Snapshots: ports.network != nil, SyncPointEpochs: int(c.PointEpochs), PartialBodies: len(o.Follow) > 0,
		Warn: func(err error) { h.log.Warn(err) }, Now: peersClock(ports.network != nil),
	}); err != nil {
		return checkTracked(hm, err)
	}
	*undo = append(*undo, func() { _ = h.Engine.Close() })
	dropOld(hm, h.log)
	if err := h.checkCheckpoint(o.Checkpoint); err != nil {
		return err
	}
	h.sayTracked(&c.TrackedShards)
	no := h.nodeOptions(hm, checker, h.observes(o.Observe), o.Version.Build)
	if c.Replica.Of != "" {
		if err := h.asReplica(o, ports, hold.tracks, &no); err != nil {
			return err
		}
		*undo = append(*undo, h.replica.close)
	}
	if len(o.Follow) > 0 {
		h.openFeeds(o.Follow, hold.tracks, &no)
	}
	if h.traces(&no, o.Version); h.tracing != nil {
		*undo = append(*undo, func() { h.tracing.Close(context.Background()) })
	}
	if ports.network == nil {
		if err := checkAlone(hm); err != nil {
			return err
		}
	} else {
		h.network = ports.network.Addr()
		h.sayPatched()
		if no.Network, err = h.networkOptions(ports.network); err != nil {
			return err
		}
		if no.Validator, err = h.togetherOptions(); err != nil {
			return err
		}
		if no.Validator == nil && hold.scheduled && hm.ValidatorKey == nil {
			no.Validator = h.shadowOptions()
		}
		if no.Validator != nil { // the pace is that of all
			no.Mode = production.Interval
		}
		if no.Network.Sync.Horizon = h.horizon(hm, hold.tracks); o.Again && no.Network.Sync.Horizon > 0 {
			h.arrivals = h.comes()
			no.Network.StateSyncs = h.arrivals
			*undo = append(*undo, h.arrivals.stop)
		}
	}
	if err := h.checkDuties(); err != nil {
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

// inHome is the path of a file that config.json names, empty for none.
func inHome(hm *home.Home, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(hm.Paths.Dir, path)
}

// undoLimit bounds the stop of a node whose RPC could not be made.
const undoLimit = 5 * time.Second

// look makes what answers for the chain.
func (h *Daemon) look(o *Options, undo *[]func()) {
	hm, c := o.Home, o.Home.Config
	h.views = viewpool.New(viewpool.Options{Timeout: c.RPC.PollingTimeout, Queue: int(c.RPC.Limits.Views), Alarm: func(e *viewpool.PanicError) {
		h.log.Errorf("view call failed: %v\n%s", e.Reason, e.Stack)
	}})
	*undo = append(*undo, h.views.Close)
	h.back = backend.New(backend.Options{
		Engine: h.Engine, VM: h.vm, Views: h.views, MaxGasBurntView: c.MaxGasBurntView, Genesis: hm.Genesis, Submit: h.Node, Halted: h.Node.HaltedView, Version: o.Version, RPCAddr: c.RPC.Addr,
		Validator: hm.ValidatorKey, NodeKey: nodeKey(hm), MaxIdle: h.maxIdle(c), KeepEpochs: keepEpochs(c), Now: time.Now, Steer: steerer{&h.Instance},
		Config: c.Client(hm.Genesis, o.Version), Origins: origins(c),
	})
	switch {
	case h.front != nil:
		h.back.Network = h.front
	case h.replica != nil:
		h.back.Network = h.replica
	}
	if h.feeds != nil {
		h.back.Network, h.back.Submit = h.feeds, feedPasser{h.Node, h.feeds}
	}
}

// answer makes the RPC and serves it.
func (h *Daemon) answer(ports *ports) (err error) {
	hm, c, back := h.home, h.home.Config, h.back
	h.server, err = rpc.New(back, rpc.Options{
		Addr: c.RPC.Addr, CORSOrigins: c.RPC.CORS, HTTPStatus: c.RPC.HTTPStatus, MaxBody: int(c.RPC.MaxBody),
		PollingTimeout: c.RPC.PollingTimeout, Limits: rpcLimits(c.RPC), TrustedProxies: c.RPC.TrustedProxies,
		APIKeys: c.RPC.APIKeys, RequireAPIKey: c.RPC.RequireAPIKey, TLSCert: inHome(hm, c.RPC.TLSCert), TLSKey: inHome(hm, c.RPC.TLSKey),
		NoSimulate: !c.RPC.Simulate, NoTrace: !c.RPC.Trace, NoSandbox: !h.steered(back), Debug: c.RPC.Debug, Console: h.consoled(back), Actors: h.Node.AppendActors, ViewStateLimit: c.ViewStateSizeLimit, Metrics: h.appendMetrics, Log: h.log,
	})
	if err != nil {
		return err
	}
	h.Addr = ports.rpc.Addr()
	if exposed := h.exposed(back); exposed != "" {
		h.log.Warn(exposed)
	}
	go func() {
		if err := h.server.Serve(ports.rpc); err != nil {
			h.failed <- fmt.Errorf("rpc: %w", err)
		}
	}()
	if ports.metrics != nil {
		h.metrics = serveMetrics(ports.metrics, h.server.AppendMetrics)
	}
	return nil
}

// vmOptions say where contracts are kept, and how they are compiled.
func (h *Daemon) vmOptions(o *Options) vm.Options {
	c := o.Home.Config
	if vmengine.ThreadPerRun() {
		h.log.Warn("threads have stacks too small for contracts, and this system's C library has no way to make them larger, so each call starts one of its own and takes some 20 us longer")
	}
	v := vm.Options{
		Dir: o.Home.Paths.Contracts, Memory: int64(c.ContractMemory), Disk: int64(c.ContractDisk), Builders: int(c.Compilations),
		Build: o.Version.Version + " " + o.Version.Build + " " + o.Version.Commit + executable(),
		Alarm: func(err error) { h.log.WithError(err).Error("contract engine") },
	}
	if c.CompilerProcesses {
		v.Compiler = o.Compiler
	}
	return v
}

// executable tells the running file from others whose version says the same, as of all that `go
// build` makes.
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

// Failed tells when the RPC has ended by itself.
func (h *Daemon) Failed() <-chan error { return h.failed }

// openStore opens the data folder, which belongs to one chain and one process. reads: on a full
// disk it is opened for reads.
func openStore(hm *home.Home, log *logrus.Logger, reads bool) (*storage.Store, error) {
	c := hm.Config
	dir := hm.Paths.Data
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sums := readFingerprints(dir)
	id, err := identity(hm, sums)
	if err != nil {
		return nil, err
	}
	s, err := storage.Open(dir, storage.Options{ReadOnlyIfFull: reads, Identity: id, WriteBuffer: int(c.WriteBuffer), BlockCache: blockCache(c)})
	switch {
	case errors.Is(err, storage.ErrLocked):
		return nil, fmt.Errorf("%w: another node runs on %s; stop it first, or ask it: by JSON-RPC, or for its state by troupe view-state dump-state", err, hm.Paths.Dir)
	case errors.Is(err, storage.ErrForeign):
		return nil, fmt.Errorf("%w. If the genesis was changed on purpose, remove %s and start again", err, dir)
	case err != nil:
		return nil, err
	}
	if err := sums.save(dir); err != nil { // not worth failing for: the next start reads the files again
		log.WithError(err).Debug("fingerprints of the genesis not remembered")
	}
	return s, nil
}

// identity names the genesis by its configuration and by its files.
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
	return storage.Identity{ChainID: hm.Genesis.ChainID, Genesis: primitives.HashBytes(b), Numbering: hm.Config.Numbering}, nil
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

// maxIdle is how old the head of a healthy node may be: ten times the longest block delay (rpc.md
// 3.1); without bound where blocks are made on demand, and in a fork, whose time is that of the
// other chain.
func (h *Daemon) maxIdle(c *config.Config) time.Duration {
	if c.Production == config.Manual || h.fork != nil {
		return 0
	}
	return 10 * c.Consensus.MaxDelay
}

// keepEpochs is how many epochs garbage collection keeps, 0: all of them.
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
		Vote: parameters.Newest(c.Numbering), Mode: modes[c.Production], SkipEmpty: !c.Consensus.ProduceEmptyBlocks,
		Delays: doomslug.Delays{
			Endorsement: int64(c.Consensus.MinDelay), Skip: int64(c.Consensus.MaxDelay), MaxWait: int64(c.Consensus.MaxWait),
			ChunkWait: c.Consensus.ChunkWait,
		},
		Mempool: txpool.Limits{Bytes: c.TransactionPoolSize, Transactions: c.MempoolTransactions, KeyTransactions: c.MempoolKeys},
		Failed:  filepath.Join(hm.Paths.Data, "failed"), FailedBuild: build,
		Room: h.room, Summary: c.LogSummaryPeriod, Thread: sched.Need, Observe: observe, Log: h.log,
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
