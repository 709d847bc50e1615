package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/txlog"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// stopLimit is the time limit of a clean stop. When stopLimit has passed, the process ends anyway.
const stopLimit = 5 * time.Second

// restartStopLimit replaces stopLimit if the node is restarted in this process after the stop.
const restartStopLimit = time.Minute

func newRun(a *app) *cobra.Command {
	var o struct {
		rpcAddr, prometheusAddr, networkAddr, bootNodes, production string
		fork, capture, jetstream, replica, writerKey                string
		archive, noRPC                                              bool
		maxGas, signFrom                                            uint64
		captureMiB                                                  int64
		follow, proxies                                             []string
		checkpoint                                                  string
		produceEmpty, exitWithStdin                                 bool
		transactions                                                txLogFlags
	}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the chain of a home folder",
		Long: `Run starts the node of a home folder. It produces blocks and serves JSON-RPC until SIGINT or
SIGTERM stops it cleanly; a second signal ends the node at once. Flags override config.json for
this run.

Blocks are produced as soon as a transaction waits ("instant"), at neard's delays ("interval"), or
only on sandbox_mine ("manual"): --block-production, or troupe.block_production in config.json.

Network: with --boot-nodes (network.boot_nodes), the node follows the network of these nodes. With
--network-addr (network.addr), it accepts peers.

Fork: with --fork URL, the chain is a sandbox that continues another chain from one block.
Accounts, keys, code and contract data are read from a node of that chain over JSON-RPC when
needed, cached on disk, and changed only here. The block is URL@HEIGHT, URL@HASH, the block
before a transaction with URL@tx:HASH, or else the last final block. It is stored in the home
folder and used again on the next run, with or without --fork.

Replicas: with --jetstream, the node publishes its blocks and their effects to a NATS JetStream
server: an embedded one that listens on host:port, or an external one at a URL. To listen beyond
this machine, set the same troupe.jetstream.token here and at the replicas. With --replica, the
node follows such a writer: it executes nothing, answers all reads, and forwards transactions.

Feeds: with --follow KIND:URL, which may be repeated, the node follows block feeds instead of a
network and produces no blocks. KIND is neardata (the default; the JSON-RPC of a troupe node serves
it), lake (a NEAR Lake bucket) or rpc (any node's JSON-RPC). The node checks and executes every
block, so feeds need not be trusted. It starts from the state in the home folder: the genesis, or a
copy of another node's folder.

Log: the node logs to stderr, at the levels that RUST_LOG, --verbose, or log_config.json in the
home folder set, as for neard: {"rust_log": "info,rpc=debug"}.

Transactions: --log-transactions prints each executed transaction to stdout, with the logs and
failures of its receipts; --log-transactions=failed only those that failed.

Reload: SIGHUP makes the node read log_config.json, config.json and validator_key.json again. It
applies limits per address and API keys (troupe.rpc.*), gc_blocks_limit, troupe.gc_min_age, and,
for a validator of a network, a new key of the same account. If the key file is gone, or has
another account, the node stops signing. It logs which other changes need a restart; an invalid
file changes nothing. Closing the terminal in which the node was started stops the node, although
that also sends SIGHUP.`,
		Example: `  troupe --home /tmp/chain run
  troupe --home /tmp/chain run --rpc-addr 127.0.0.1:3031 --archive
  troupe --home /tmp/other run --boot-nodes ed25519:7PGseF...@127.0.0.1:24567
  troupe --home /tmp/chain run --log-transactions --log-accounts app.test.near,alice.test.near
  troupe --home /tmp/chain run --jetstream 127.0.0.1:4222
  troupe --home /tmp/reads run --replica nats://127.0.0.1:4222
  troupe --home /tmp/fork run --fork https://rpc.mainnet.near.org
  troupe --home /tmp/copy run --follow http://127.0.0.1:3030 --follow rpc:http://127.0.0.1:3031
  troupe --home /tmp/fork2 run --fork http://127.0.0.1:3030@tx:8sFq...
  curl -s localhost:3030/status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			survivePipes()
			ctx, hup, stop := hangups(cmd.Context())
			defer stop()
			if o.exitWithStdin {
				var release func()
				ctx, release = untilEnd(ctx, cmd.InOrStdin())
				defer release()
			}
			flags := cmd.Flags()
			for flag, addr := range map[string]string{
				"rpc-addr": o.rpcAddr, "rpc-prometheus-addr": o.prometheusAddr, "network-addr": o.networkAddr,
			} {
				if flags.Changed(flag) && !config.IsAddress(addr) {
					return usagef("--%s is %q, must be host:port, like 127.0.0.1:3030", flag, addr)
				}
			}
			for _, p := range o.proxies {
				if !config.IsNetwork(p) {
					return usagef("--trusted-proxies has %q, must be addresses or networks, like 10.0.0.1 or 10.0.0.0/8", p)
				}
			}
			if err := config.CheckBootNodes(o.bootNodes); err != nil {
				return usagef("--boot-nodes must be node_key@host:port, several separated by commas: %w", err)
			}
			if j := o.jetstream; flags.Changed("jetstream") && !config.IsAddress(j) && !config.IsNATS(j) {
				return usagef("--jetstream is %q, must be host:port for an embedded server, or nats://host:port of an external one", j)
			}
			if flags.Changed("replica") && !config.IsNATS(o.replica) {
				return usagef("--replica is %q, must be nats://host:port, several separated by commas", o.replica)
			}
			if _, err := primitives.ParsePublicKey(o.writerKey); flags.Changed("writer-key") && err != nil {
				return usagef("--writer-key is %q, must be a public key as in the writer's node_key.json: %v", o.writerKey, err)
			}
			if flags.Changed("replica") && flags.Changed("jetstream") {
				return usagef("--replica and --jetstream exclude each other: a replica does not publish")
			}
			if o.captureMiB < 1 {
				return usagef("--capture-max-mib is %d, must be at least 1", o.captureMiB)
			}
			if p := config.Production(o.production); flags.Changed("block-production") && p != config.Instant &&
				p != config.Interval && p != config.Manual {
				return usagef("--block-production is %q, must be instant, interval or manual", o.production)
			}
			if a.logFormat != "text" && a.logFormat != "json" {
				return usagef("--log-format is %q, must be text or json", a.logFormat)
			}
			feeds, err := feedsOf(o.follow)
			if err != nil {
				return err
			}
			var checkpoint primitives.Hash
			if flags.Changed("checkpoint") {
				if checkpoint, err = primitives.ParseHash(o.checkpoint); err != nil {
					return usagef("--checkpoint: %w", err)
				}
			}
			transactions, err := o.transactions.options(flags, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if len(feeds) > 0 && (flags.Changed("fork") || o.bootNodes != "") {
				return usagef("--follow excludes --fork and --boot-nodes")
			}
			log, err := newLog(cmd.ErrOrStderr(), a)
			if err != nil {
				return err
			}
			if flags.Changed("fork") {
				spec, err := fork.ParseSpec(o.fork)
				if err != nil {
					return usagef("--fork: %w", err)
				}
				pin, err := fork.Make(ctx, a.home, spec, fork.Options{URL: spec.URL})
				if err != nil {
					return err
				}
				log.Infof("this chain is a fork of %s at block %d, %v", pin.ChainID, pin.Height, pin.Hash)
			}
			hm, err := home.Load(a.home)
			if errors.Is(err, fs.ErrNotExist) && (len(feeds) > 0 || o.bootNodes != "" || o.replica != "") {
				err = fmt.Errorf("%w; create the home folder with the genesis of the chain to follow: 'troupe --home %s init --genesis GENESIS.JSON'", err, a.home)
			}
			if err != nil {
				return err
			}
			for _, w := range hm.Warnings {
				log.Warn(w.String())
			}
			cfg := hm.Config
			for _, line := range append(describeIgnored(flags), cfg.Inert()...) {
				log.Info(line)
			}
			switch want := flags.Changed("rpc-addr") || flags.Changed("rpc-prometheus-addr"); {
			case o.noRPC && want:
				log.Warn("no JSON-RPC: --disable-rpc overrides --rpc-addr and --rpc-prometheus-addr")
			case o.noRPC:
				log.Info("no JSON-RPC: --disable-rpc")
			case cfg.RPC == nil && want:
				if err := cfg.AddRPC(); err != nil {
					return err
				}
			case cfg.RPC == nil:
				log.Warn(`no JSON-RPC: "rpc" is null in config.json; use --rpc-addr to listen`)
			}
			if flags.Changed("rpc-prometheus-addr") && cfg.RPC != nil {
				cfg.RPC.PrometheusAddr = o.prometheusAddr
			}
			if flags.Changed("trusted-proxies") && cfg.RPC != nil {
				cfg.RPC.TrustedProxies = o.proxies
			}
			if flags.Changed("boot-nodes") {
				cfg.Network.BootNodes = o.bootNodes
			}
			if flags.Changed("network-addr") {
				cfg.Network.Addr = o.networkAddr
			}
			if on := true; o.bootNodes != "" || flags.Changed("network-addr") {
				cfg.Network.Enabled = &on
			}
			switch {
			case !flags.Changed("jetstream"):
			case config.IsNATS(o.jetstream):
				cfg.JetStream.Enabled, cfg.JetStream.URL = true, o.jetstream
			default:
				cfg.JetStream.Enabled, cfg.JetStream.Listen, cfg.JetStream.URL = true, o.jetstream, ""
			}
			if flags.Changed("writer-key") {
				cfg.Replica.Key = o.writerKey
			}
			if flags.Changed("replica") {
				cfg.Replica.Of, cfg.JetStream.Enabled = o.replica, false
			}
			if flags.Changed("archive") {
				cfg.Archive = o.archive
			}
			if flags.Changed("block-production") {
				cfg.Production = config.Production(o.production)
			}
			if flags.Changed("produce-empty-blocks") {
				cfg.Consensus.ProduceEmptyBlocks = o.produceEmpty
			}
			if flags.Changed("max-gas-burnt-view") {
				cfg.MaxGasBurntView = primitives.Gas(o.maxGas)
			}
			ho := daemon.Options{Home: hm, Log: log, Listen: o.rpcAddr, Metrics: flags.Changed("rpc-prometheus-addr"),
				NoRPC: o.noRPC, Trust: a.fast, Compiler: compilerCommand(), Follow: feeds, Checkpoint: checkpoint,
				SignFrom: primitives.Height(o.signFrom)}
			if transactions != nil {
				transactions.Failed = func() {
					log.Warn("stdout is closed: transactions are no longer printed")
				}
				l := txlog.New(*transactions)
				defer l.Close()
				ho.Observe = l.Observe
			}
			out := cmd.OutOrStdout()
			e := events{hup: hup, reload: func(h *daemon.Daemon) { reload(h, log, cmd.ErrOrStderr(), a) }, ready: func(h *daemon.Daemon) error {
				if _, quiet := os.LookupEnv("RUST_LOG"); !quiet && isTerminal(out) {
					_, _ = io.WriteString(out, greeting(h, hm))
				}
				return nil
			}}
			if !flags.Changed("capture") {
				return run(ctx, ho, e)
			}
			r, done, err := openRecording(o.capture, o.captureMiB)
			if err != nil {
				return err
			}
			var tapped atomic.Bool
			ho.Tap = func(t tcp.Tapped) {
				tapped.Store(true)
				if t.Conn == 0 {
					r.Spread(t.Sent, t.Remote, t.Frame)
					return
				}
				r.Tap(uint64(t.Conn), t.Ours, t.Sent, t.Remote, t.Frame)
			}
			err = run(ctx, ho, e)
			derr := done()
			// Remove a recording without frames. Otherwise the next run could not use its name,
			// because an existing recording is never overwritten.
			if err != nil && derr == nil && !tapped.Load() {
				derr = os.Remove(o.capture)
			}
			return errors.Join(err, derr)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.rpcAddr, "rpc-addr", "", "address that JSON-RPC listens on, host:port")
	f.StringVar(&o.prometheusAddr, "rpc-prometheus-addr", "", "additional address for /metrics, host:port")
	f.StringSliceVar(&o.proxies, "trusted-proxies", nil, "addresses and networks of proxies whose X-Forwarded-For names the client, separated by commas")
	f.StringVar(&o.fork, "fork", "", "run a fork of another chain: URL[@height|@hash|@tx:HASH] of a node's JSON-RPC")
	f.StringArrayVar(&o.follow, "follow", nil, "follow a block feed, KIND:URL, with KIND neardata, lake or rpc; may be repeated")
	f.StringVar(&o.checkpoint, "checkpoint", "", "hash of a block; refuse to start if the stored chain does not contain it")
	f.Uint64Var(&o.signFrom, "sign-from", 0, "height from which the validator's key signs although it is new to this data folder. A height that the key has signed on another machine leads to contradicting signatures")
	f.StringVar(&o.networkAddr, "network-addr", "", "address that peers may connect to, host:port")
	f.StringVar(&o.bootNodes, "boot-nodes", "", "nodes to connect to first: node_key@host:port, separated by commas")
	f.StringVar(&o.jetstream, "jetstream", "", "publish blocks for replicas: host:port of an embedded NATS server, or nats://host:port of an external one")
	f.StringVar(&o.writerKey, "writer-key", "", "with --replica: accept only records that this node key has signed")
	f.StringVar(&o.replica, "replica", "", "be a replica of another node: nats://host:port of its server, separated by commas")
	f.StringVar(&o.capture, "capture", "", "record the traffic with peers to this new file, for troupe net decode")
	f.Int64Var(&o.captureMiB, "capture-max-mib", 1024, "size limit of the recording of --capture in MiB, before compression")
	o.transactions.add(f)
	addExitWithStdin(c, &o.exitWithStdin)
	f.StringVar(&a.logFormat, "log-format", "text", "format of the log: text, or json (one object per line)")
	f.BoolVar(&o.archive, "archive", false, "keep all blocks: no garbage collection")
	f.BoolVar(&o.noRPC, "disable-rpc", false, "do not listen for JSON-RPC")
	f.StringVar(&o.production, "block-production", "", "when to produce blocks: instant, interval or manual")
	f.BoolVar(&o.produceEmpty, "produce-empty-blocks", true, "produce blocks while no transaction waits")
	f.Uint64Var(&o.maxGas, "max-gas-burnt-view", 0, "gas limit of a view call")
	// These flags of neard have no effect here. The command accepts these flags so that scripts
	// written for neard work.
	f.Uint64("min-peers", 0, "no effect")
	f.String("telemetry-url", "", "no effect")
	f.Bool("connect-to-reliable-peers-on-startup", false, "no effect")
	for _, name := range []string{"min-peers", "telemetry-url", "connect-to-reliable-peers-on-startup"} {
		_ = f.MarkHidden(name) // fails for names that don't exist
	}
	return c
}

// events contains a command's callbacks and signals for its running node.
type events struct {
	ready  func(*daemon.Daemon) error // called once, when the node runs; an error stops the node
	hup    <-chan os.Signal           // delivers SIGHUP; nil: no signal is delivered
	reload func(*daemon.Daemon)       // called at each SIGHUP
}

// run runs a node until ctx ends or the node fails. It restarts the node when the daemon requests a
// restart.
func run(ctx context.Context, o daemon.Options, e events) error {
	started := delayGC()
	defer started()
	info := buildInfo()
	o.Version = view.Version{Version: info.Release, Build: info.Build, Commit: info.Commit, Compiler: info.Go}
	o.Restarts = true
	for {
		err := once(ctx, &o, &e, started)
		if !restarts(err) || ctx.Err() != nil {
			return err
		}
		e.ready = func(*daemon.Daemon) error { return nil }
	}
}

// restarts returns whether a node that ended with err must be started again. The node must have
// requested the restart and stopped cleanly. A node that did not stop in time still holds the lock
// of its folder, so a restart would fail.
func restarts(err error) bool {
	var stuck *stopError
	return (errors.Is(err, daemon.ErrStateSynced) || errors.Is(err, daemon.ErrRewound) ||
		errors.Is(err, daemon.ErrDiskFreed)) && !errors.As(err, &stuck)
}

// stopError is the error of an unclean stop.
type stopError struct{ error }

func (e *stopError) Unwrap() error { return e.error }

// ended returns the error with which a node ended, joined with the error of its stop. An unfinished
// advance of the flat head, or end of a state sync, is no failure if the process ends: the next start
// completes it.
func ended(why, stop error) error {
	if stop == nil || why == nil && (stop == daemon.ErrFlatHeadBehind || stop == daemon.ErrStateSyncUnfinished) {
		return why
	}
	return errors.Join(why, &stopError{stop})
}

// once runs a node until ctx ends or the node fails. once calls started as soon as the node runs.
// After a clean stop, once updates o for a restart.
func once(ctx context.Context, o *daemon.Options, e *events, started func()) error {
	h, err := startWithin(ctx, *o)
	started()
	if err != nil || h == nil {
		return err
	}
	if h.Addr != nil {
		o.Log.Infof("chain %s, JSON-RPC on %s", o.Home.Genesis.ChainID, daemon.URL(h.Addr.String()))
	}
	if addr := h.NetworkAddr(); addr != nil {
		o.Log.Infof("peers may connect to %v@%s", o.Home.NodeKey.PublicKey(), addr)
	}
	err = e.ready(h)
	for going := err == nil; going; {
		select {
		case <-e.hup:
			e.reload(h)
			continue
		case <-ctx.Done():
			o.Log.Info("stopping; a second signal ends the process at once")
		case err = <-h.Failed():
		}
		going = false
	}
	limit := stopLimit
	if errors.Is(err, daemon.ErrStateSynced) { // stop cleanly before the restart
		limit = restartStopLimit
	}
	stopping, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stop := h.Stop(stopping)
	switch stop {
	case nil:
		h.UpdateOptions(o)
	case daemon.ErrFlatHeadBehind, daemon.ErrStateSyncUnfinished:
		o.Log.Warn(stop)
	}
	return ended(err, stop)
}

// startGrace is the additional time for a start after ctx has ended.
const startGrace = time.Second

// startWithin starts the node. A start with a genesis of millions of records takes a minute, so ctx
// may end before. In that case startWithin returns nil and nil, and leaves the data folder as after
// a crash. The next start handles that.
func startWithin(ctx context.Context, o daemon.Options) (*daemon.Daemon, error) {
	type started struct {
		h   *daemon.Daemon
		err error
	}
	done := make(chan started, 1)
	go func() {
		h, err := daemon.Start(o)
		done <- started{h, err}
	}()
	select {
	case s := <-done:
		return s.h, s.err
	case <-ctx.Done():
	}
	o.Log.Info("received a signal to stop during the start; a second signal ends the process at once")
	select {
	case s := <-done:
		return s.h, s.err
	case <-time.After(startGrace):
		return nil, nil
	}
}

// greeting returns the text for a terminal: where the node listens and example calls.
func greeting(h *daemon.Daemon, hm *home.Home) string {
	if h.Addr == nil {
		return fmt.Sprintf("Chain %s is running without JSON-RPC. Ctrl-C stops the node.\n", hm.Genesis.ChainID)
	}
	url := daemon.URL(h.Addr.String())
	account := primitives.AccountID("near")
	if hm.ValidatorKey != nil {
		account = hm.ValidatorKey.AccountID
	}
	var b strings.Builder
	call := func(method, params string) {
		fmt.Fprintf(&b, "  curl -s %s -H 'content-type: application/json' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}'\n", url, method, params)
	}
	fmt.Fprintf(&b, "Chain %s is running; JSON-RPC on %s\n", hm.Genesis.ChainID, url)
	if h.Console {
		fmt.Fprintf(&b, "Console: %s/console/\n", url)
	}
	fmt.Fprintf(&b, "Try:\n  curl -s %s/status\n", url)
	call("query", fmt.Sprintf(`{"request_type":"view_account","finality":"final","account_id":"%s"}`, account))
	obstacle := h.Obstacle()
	switch {
	case obstacle != "":
		fmt.Fprintf(&b, "It produces no blocks: %s.\n", obstacle)
	case hm.Config.Production == config.Manual:
		b.WriteString("Blocks are produced on request:\n")
		call("sandbox_mine", `{"blocks":1}`)
	}
	if hm.ValidatorKey != nil {
		fmt.Fprintf(&b, "The key of %s is in %s. ", account, hm.Paths.ValidatorKey)
	}
	b.WriteString("Ctrl-C stops the node.\n")
	return b.String()
}
