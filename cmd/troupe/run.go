package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/host"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// stopLimit is how long a clean stop may take before the process ends anyway.
const stopLimit = 5 * time.Second

func newRun(a *app) *cobra.Command {
	var o struct {
		rpcAddr, prometheusAddr, networkAddr, bootNodes, production string
		archive, noRPC                                              bool
		maxGas                                                      uint64
		produceEmpty                                                bool
	}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the chain of a home folder",
		Long: `Run makes blocks and answers JSON-RPC until SIGINT or SIGTERM, which end it cleanly. The flags
override config.json for this run.

Blocks are made as soon as a transaction waits ("instant"), at neard's delays ("interval"), or only
when asked ("manual"): troupe.block_production in config.json, or --block-production.`,
		Example: `  troupe --home /tmp/chain run
  troupe --home /tmp/chain run --rpc-addr 127.0.0.1:3031 --archive
  curl -s localhost:3030/status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hm, err := home.Load(a.home)
			if err != nil {
				return err
			}
			log := newLog(cmd.ErrOrStderr(), a)
			for _, w := range hm.Warnings {
				log.Warn(w.String())
			}
			cfg := hm.Config
			flags := cmd.Flags()
			if o.prometheusAddr != "" && cfg.RPC != nil {
				cfg.RPC.PrometheusAddr = o.prometheusAddr
			}
			if flags.Changed("archive") {
				cfg.Archive = o.archive
			}
			if flags.Changed("block-production") {
				switch p := config.Production(o.production); p {
				case config.Instant, config.Interval, config.Manual:
					cfg.Production = p
				default:
					return usagef("--block-production is %q, must be instant, interval or manual", o.production)
				}
			}
			if flags.Changed("produce-empty-blocks") {
				cfg.Consensus.ProduceEmptyBlocks = o.produceEmpty
			}
			if flags.Changed("max-gas-burnt-view") {
				cfg.MaxGasBurntView = primitives.Gas(o.maxGas)
			}
			return run(cmd.Context(), host.Options{Home: hm, Log: log, Listen: o.rpcAddr, NoRPC: o.noRPC, Compiler: compilerCommand()}, cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.rpcAddr, "rpc-addr", "", "where JSON-RPC listens, host:port")
	f.StringVar(&o.prometheusAddr, "rpc-prometheus-addr", "", "where /metrics also listens, host:port")
	f.StringVar(&o.networkAddr, "network-addr", "", "where other nodes may connect, host:port; this version connects to none")
	f.StringVar(&o.bootNodes, "boot-nodes", "", "nodes to connect to; this version connects to none")
	f.BoolVar(&o.archive, "archive", false, "keep everything: no garbage collection")
	f.BoolVar(&o.noRPC, "disable-rpc", false, "do not listen for JSON-RPC")
	f.StringVar(&o.production, "block-production", "", "when to make blocks: instant, interval or manual")
	f.BoolVar(&o.produceEmpty, "produce-empty-blocks", true, "make blocks while nothing waits")
	f.Uint64Var(&o.maxGas, "max-gas-burnt-view", 0, "most gas that a view call may burn")
	// neard's, with nothing here to set; taken so that scripts work.
	f.Uint64("min-peers", 0, "ignored")
	f.String("telemetry-url", "", "ignored")
	f.Bool("connect-to-reliable-peers-on-startup", false, "ignored")
	for _, name := range []string{"min-peers", "telemetry-url", "connect-to-reliable-peers-on-startup"} {
		_ = f.MarkHidden(name) // fails for names that don't exist
	}
	return c
}

func run(ctx context.Context, o host.Options, out io.Writer) error {
	debug.SetGCPercent(host.GCPercent)
	info := buildInfo()
	o.Version = view.Version{Version: info.Release, Build: info.Build, Commit: info.Commit, Compiler: info.Go}
	h, err := host.Start(o)
	if err != nil {
		return err
	}
	if h.Addr != nil {
		greet(out, h, o.Home)
	}
	select {
	case <-ctx.Done():
	case err = <-h.Failed():
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if stopErr := h.Stop(stopping); err == nil {
		err = stopErr
	}
	return err
}

// greet prints what to try next.
func greet(w io.Writer, h *host.Host, hm *home.Home) {
	account := "near"
	if hm.ValidatorKey != nil {
		account = string(hm.ValidatorKey.AccountID)
	}
	_, _ = fmt.Fprintf(w, `Chain %s runs; JSON-RPC on http://%s
Try:
  curl -s http://%[2]s/status
  curl -s http://%[2]s -H 'content-type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"query","params":{"request_type":"view_account","finality":"final","account_id":"%[3]s"}}'
The key of %[3]s is in %[4]s. Ctrl-C ends the node.
`, hm.Genesis.ChainID, h.Addr, account, hm.Paths.ValidatorKey)
}

// newLog returns a log to stderr: warnings, and the summary line; with --verbose everything.
func newLog(w io.Writer, a *app) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(w)
	f, isFile := w.(*os.File)
	colors := a.color == "always" || a.color == "auto" && isFile && term.IsTerminal(int(f.Fd()))
	log.SetFormatter(&logrus.TextFormatter{ForceColors: colors, DisableColors: !colors, FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	log.SetLevel(logrus.InfoLevel)
	if a.verbose != "" {
		log.SetLevel(logrus.DebugLevel)
	}
	return log
}
