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
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// stopLimit is how long a clean stop may take before the process ends anyway.
const stopLimit = 5 * time.Second

// arrivedLimit is stopLimit of a node that is to be started again by itself.
const arrivedLimit = time.Minute

func newRun(a *app) *cobra.Command {
	var o struct {
		rpcAddr, prometheusAddr, networkAddr, bootNodes, production string
		fork, capture, jetstream, replica, writerKey                string
		archive, noRPC                                              bool
		maxGas                                                      uint64
		captureMiB                                                  int64
		follow                                                      []string
		checkpoint                                                  string
		produceEmpty                                                bool
	}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the chain of a home folder",
		Long: `Run makes blocks and answers JSON-RPC until SIGINT or SIGTERM, which end it cleanly. The flags
override config.json for this run.

With --boot-nodes, or network.boot_nodes in config.json, the node follows the network that
they belong to; with --network-addr, or network.public_addrs in config.json, others may follow it.

Blocks are made as soon as a transaction waits ("instant"), at neard's delays ("interval"), or only
when sandbox_mine asks for them ("manual"): troupe.block_production in config.json, or
--block-production.

With --fork the chain is a sandbox that goes on from another chain: its accounts, keys, code and
contract values come from a node of that chain by JSON-RPC when they are needed, as they were at
one block, are kept on disk, and are changed here only. URL is any node's: the block is
URL@HEIGHT, URL@HASH, the one before a transaction with URL@tx:HASH, or else the last final one.
The home folder is made, and goes on with that block the next time, with or without --fork.

With --jetstream the node's blocks, with what they did, go into a NATS JetStream: on a server
inside of the node that listens at an address, or on one elsewhere by URL. An address that other
machines reach needs a token (troupe.jetstream.token, here and at the replicas). With --replica the
node follows another one through it: it executes nothing, answers all reads, and passes
transactions on.

With --follow, which may be given several times, the node follows feeds instead of a network, and
makes no blocks: neardata:URL (or URL alone; a troupe's JSON-RPC serves it too), lake:URL of a NEAR
Lake bucket, rpc:URL of any node's JSON-RPC. Nothing that they say is believed: every block is
checked and executed here. The first right one is taken. It goes on from the home folder's state:
its genesis, or a copy of another node's folder.

What a node says goes to stderr; RUST_LOG and --verbose say how much, and log_config.json in the
home as for neard: {"rust_log": "info,rpc=debug"}. A second signal ends it at once.

The end of the terminal that it was started from ends it too. Else SIGHUP has it read
log_config.json and config.json again. What may change while it runs holds
from then on: limits by address and API keys (troupe.rpc.*), gc_blocks_limit, troupe.gc_min_age;
and another key of its account in validator_key.json, where it makes blocks with others: where
that file is gone, or of another account, it signs nothing from then on.
Of other keys it says that they need a restart; a file that is none changes nothing.`,
		Example: `  troupe --home /tmp/chain run
  troupe --home /tmp/chain run --rpc-addr 127.0.0.1:3031 --archive
  troupe --home /tmp/other run --boot-nodes ed25519:7PGseF...@127.0.0.1:24567
  troupe --home /tmp/chain run --jetstream 127.0.0.1:4222
  troupe --home /tmp/reads run --replica nats://127.0.0.1:4222
  troupe --home /tmp/fork run --fork https://rpc.mainnet.near.org
  troupe --home /tmp/copy run --follow http://127.0.0.1:3030 --follow rpc:http://127.0.0.1:3031
  troupe --home /tmp/fork2 run --fork http://127.0.0.1:3030@tx:8sFq...
  curl -s localhost:3030/status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, hup, stop := hangups(cmd.Context())
			defer stop()
			flags := cmd.Flags()
			for flag, addr := range map[string]string{"rpc-addr": o.rpcAddr, "rpc-prometheus-addr": o.prometheusAddr, "network-addr": o.networkAddr} {
				if flags.Changed(flag) && !config.IsAddress(addr) {
					return usagef("--%s is %q, must be host:port, like 127.0.0.1:3030", flag, addr)
				}
			}
			if err := config.CheckBootNodes(o.bootNodes); err != nil {
				return usagef("--boot-nodes must be node_key@host:port, several separated by commas: %w", err)
			}
			if j := o.jetstream; flags.Changed("jetstream") && !config.IsAddress(j) && !config.IsNATS(j) {
				return usagef("--jetstream is %q, must be host:port for a server inside of the node, or nats://host:port of one elsewhere", j)
			}
			if flags.Changed("replica") && !config.IsNATS(o.replica) {
				return usagef("--replica is %q, must be nats://host:port, several separated by commas", o.replica)
			}
			if _, err := primitives.ParsePublicKey(o.writerKey); flags.Changed("writer-key") && err != nil {
				return usagef("--writer-key is %q, must be a public key as in the writer's node_key.json: %v", o.writerKey, err)
			}
			if flags.Changed("replica") && flags.Changed("jetstream") {
				return usagef("--replica and --jetstream: what a replica has is published already")
			}
			if o.captureMiB < 1 {
				return usagef("--capture-max-mib is %d, must be 1 at least", o.captureMiB)
			}
			if p := config.Production(o.production); flags.Changed("block-production") && p != config.Instant && p != config.Interval && p != config.Manual {
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
			if len(feeds) > 0 && (flags.Changed("fork") || o.bootNodes != "") {
				return usagef("--follow is instead of --fork and --boot-nodes")
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
				log.Infof("a fork of %s at block %d, %v", pin.ChainID, pin.Height, pin.Hash)
			}
			hm, err := home.Load(a.home)
			if errors.Is(err, fs.ErrNotExist) && (len(feeds) > 0 || o.bootNodes != "" || o.replica != "") {
				err = fmt.Errorf("%w; a node that follows a chain begins with that chain's genesis: 'troupe --home %s init --genesis GENESIS.JSON'", err, a.home)
			}
			if err != nil {
				return err
			}
			for _, w := range hm.Warnings {
				log.Warn(w.String())
			}
			cfg := hm.Config
			for _, line := range append(sayInert(flags), cfg.Inert()...) {
				log.Info(line)
			}
			switch want := flags.Changed("rpc-addr") || flags.Changed("rpc-prometheus-addr"); {
			case o.noRPC && want:
				log.Warn("no JSON-RPC: --disable-rpc leaves --rpc-addr and --rpc-prometheus-addr without effect")
			case o.noRPC:
				log.Info("no JSON-RPC: --disable-rpc")
			case cfg.RPC == nil && want:
				if err := cfg.AddRPC(); err != nil {
					return err
				}
			case cfg.RPC == nil:
				log.Warn(`no JSON-RPC: "rpc" is null in config.json; --rpc-addr gives one`)
			}
			if flags.Changed("rpc-prometheus-addr") && cfg.RPC != nil {
				cfg.RPC.PrometheusAddr = o.prometheusAddr
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
			ho := daemon.Options{Home: hm, Log: log, Listen: o.rpcAddr, Metrics: flags.Changed("rpc-prometheus-addr"), NoRPC: o.noRPC, Trust: a.fast, Compiler: compilerCommand(), Follow: feeds, Checkpoint: checkpoint}
			again := func(h *daemon.Daemon) { reload(h, log, cmd.ErrOrStderr(), a) }
			if !flags.Changed("capture") {
				return run(ctx, ho, cmd.OutOrStdout(), hup, again)
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
			err = run(ctx, ho, cmd.OutOrStdout(), hup, again)
			derr := done()
			if err != nil && derr == nil && !tapped.Load() { // an empty recording would be in the way of the next try
				derr = os.Remove(o.capture)
			}
			return errors.Join(err, derr)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.rpcAddr, "rpc-addr", "", "where JSON-RPC listens, host:port")
	f.StringVar(&o.prometheusAddr, "rpc-prometheus-addr", "", "where /metrics also listens, host:port")
	f.StringVar(&o.fork, "fork", "", "a chain to go on from: URL[@height|@block|@tx:HASH] of any node's JSON-RPC")
	f.StringArrayVar(&o.follow, "follow", nil, "a feed to follow, KIND:URL, with KIND neardata, lake or rpc; may be repeated")
	f.StringVar(&o.checkpoint, "checkpoint", "", "a block's hash; refuse to run if the chain in the home does not have it")
	f.StringVar(&o.networkAddr, "network-addr", "", "where other nodes may connect, host:port")
	f.StringVar(&o.bootNodes, "boot-nodes", "", "nodes to connect to: node_key@host:port, several separated by commas")
	f.StringVar(&o.jetstream, "jetstream", "", "publish for replicas: host:port of a NATS server inside, or nats://host:port")
	f.StringVar(&o.writerKey, "writer-key", "", "of a replica: take only what this node key has signed")
	f.StringVar(&o.replica, "replica", "", "follow another node's records: nats://host:port, several separated by commas")
	f.StringVar(&o.capture, "capture", "", "record what this node and others say to each other to a new file, for net decode")
	f.Int64Var(&o.captureMiB, "capture-max-mib", 1024, "most of that recording, before it is packed")
	f.StringVar(&a.logFormat, "log-format", "text", "text, or json: an object a line")
	f.BoolVar(&o.archive, "archive", false, "keep everything: no garbage collection")
	f.BoolVar(&o.noRPC, "disable-rpc", false, "do not listen for JSON-RPC")
	f.StringVar(&o.production, "block-production", "", "when to make blocks: instant, interval or manual")
	f.BoolVar(&o.produceEmpty, "produce-empty-blocks", true, "make blocks while nothing waits")
	f.Uint64Var(&o.maxGas, "max-gas-burnt-view", 0, "most gas that a view call may burn")
	// neard's, with nothing here to set; taken so that scripts work.
	f.Uint64("min-peers", 0, "no effect")
	f.String("telemetry-url", "", "no effect")
	f.Bool("connect-to-reliable-peers-on-startup", false, "no effect")
	for _, name := range []string{"min-peers", "telemetry-url", "connect-to-reliable-peers-on-startup"} {
		_ = f.MarkHidden(name) // fails for names that don't exist
	}
	return c
}

// run runs a node; reload is called at each SIGHUP, which comes by hup.
func run(ctx context.Context, o daemon.Options, out io.Writer, hup <-chan os.Signal, reload func(*daemon.Daemon)) error {
	started := quickStart()
	defer started()
	info := buildInfo()
	o.Version = view.Version{Version: info.Release, Build: info.Build, Commit: info.Commit, Compiler: info.Go}
	o.Again = true
	for {
		err := once(ctx, &o, out, hup, reload, started)
		if !goesOn(err) || ctx.Err() != nil {
			return err
		}
		out = io.Discard // who is there has been greeted
	}
}

// goesOn tells whether a node that has ended so is to be started again: it has ended cleanly, since
// something has come to go on from. One that could not end in time holds its folder still, and the
// next would only say that.
func goesOn(err error) bool {
	var stuck *stopError
	return (errors.Is(err, daemon.ErrArrived) || errors.Is(err, daemon.ErrAgain) || errors.Is(err, daemon.ErrRoom)) && !errors.As(err, &stuck)
}

// stopError says why a node has not stopped cleanly.
type stopError struct{ error }

func (e *stopError) Unwrap() error { return e.error }

// ended is why a node has ended, with what its stop came to. A fold that is left under way is no
// failure where the process ends: each start is ready for that.
func ended(why, stop error) error {
	if stop == nil || why == nil && stop == daemon.ErrUnfolded {
		return why
	}
	return errors.Join(why, &stopError{stop})
}

// once runs a node until it is told to stop, or ends by itself; started is called when it has
// started. Behind a clean stop o is that of the node that goes on in its place.
func once(ctx context.Context, o *daemon.Options, out io.Writer, hup <-chan os.Signal, reload func(*daemon.Daemon), started func()) error {
	h, err := startWithin(ctx, *o)
	started()
	if err != nil || h == nil {
		return err
	}
	if h.Addr != nil {
		o.Log.Infof("chain %s, JSON-RPC on %s", o.Home.Genesis.ChainID, daemon.URL(h.Addr.String()))
	}
	if addr := h.NetworkAddr(); addr != nil {
		o.Log.Infof("other nodes may connect to %v@%s", o.Home.NodeKey.PublicKey(), addr)
	}
	if _, quiet := os.LookupEnv("RUST_LOG"); !quiet && isTerminal(out) {
		_, _ = io.WriteString(out, greeting(h, o.Home))
	}
	for going := true; going; {
		select {
		case <-hup:
			reload(h)
			continue
		case <-ctx.Done():
			o.Log.Info("stopping; a second signal ends the process at once")
		case err = <-h.Failed():
		}
		going = false
	}
	limit := stopLimit
	if errors.Is(err, daemon.ErrArrived) { // nobody waits for it, and it goes on only if all is closed
		limit = arrivedLimit
	}
	stopping, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stop := h.Stop(stopping)
	switch stop {
	case nil:
		h.GoOn(o)
	case daemon.ErrUnfolded:
		o.Log.Warn(stop)
	}
	return ended(err, stop)
}

// startGrace is what a start gets to come to its end once the node is told to stop.
const startGrace = time.Second

// startWithin starts the node, unless ctx ends first: a genesis with millions of records takes a
// minute. Then it returns neither node nor error, and what was begun is left as by a crash at that
// moment, which the next start goes on from.
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
	o.Log.Info("told to stop while it starts; a second signal ends the process at once")
	select {
	case s := <-done:
		return s.h, s.err
	case <-time.After(startGrace):
		return nil, nil
	}
}

// greeting is what somebody at a terminal may want to try next.
func greeting(h *daemon.Daemon, hm *home.Home) string {
	if h.Addr == nil {
		return fmt.Sprintf("Chain %s runs, without JSON-RPC. Ctrl-C ends the node.\n", hm.Genesis.ChainID)
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
	fmt.Fprintf(&b, "Chain %s runs; JSON-RPC on %s\nTry:\n  curl -s %[2]s/status\n", hm.Genesis.ChainID, url)
	call("query", fmt.Sprintf(`{"request_type":"view_account","finality":"final","account_id":"%s"}`, account))
	obstacle := h.Obstacle()
	switch {
	case obstacle != "":
		fmt.Fprintf(&b, "It makes no blocks: %s.\n", obstacle)
	case hm.Config.Production == config.Manual:
		b.WriteString("Blocks are made when they are asked for:\n")
		call("sandbox_mine", `{"blocks":1}`)
	}
	if hm.ValidatorKey != nil {
		fmt.Fprintf(&b, "The key of %s is in %s. ", account, hm.Paths.ValidatorKey)
	}
	b.WriteString("Ctrl-C ends the node.\n")
	return b.String()
}
