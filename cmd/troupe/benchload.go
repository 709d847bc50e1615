package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench"
	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

func newBenchLoad() *cobra.Command {
	o := bench.LoadOptions{Limits: true}
	s := load.DefaultSearch()
	var keyFile, jsonFile, htmlFile, profile, arrival, fund string
	var knee bool
	c := &cobra.Command{
		Use:   "load",
		Short: "Measure latency under a scheduled load, or find the highest rate that a target sustains",
		Long: `Load sends transactions or reads at scheduled times, however fast they complete (open loop), and
measures the latency of each from its scheduled time. If a request has to wait for a free
connection (--connections), the wait is part of the latency.
  --target rpc      a running node, by --url: troupe or neard, over JSON-RPC. --key-file is the key
                    of an account that pays: the sending accounts are created below it, and reused
                    by the next run
  --target node     a whole node in this process, on a chain of its own, without HTTP
  --target shard    chunk execution alone; workloads native, ft and cross-shard
  --target cluster  --nodes validators of --program, one process each, on a new network

--knee searches for the knee: the rate at which half of the trials pass. A trial passes if its p99
latency is at most --p99 and the fraction --kept of the load completes. Each rate is 1.5 times the
previous rate, until a rate fails twice. From then on the search picks the rate whose result
narrows the estimate of the knee most. It ends when the 95 % confidence interval of the knee
extends to each side by at most the fraction --within of the knee. Then one run at nine tenths of
the knee follows. With --target node or shard each trial begins with a new chain, and the trials of
several searches (--runs) alternate. With --target cluster each search starts a new cluster.

docs/guide/benchmarks.md explains the report and how to compare two.`,
		Example: `  troupe bench load --url http://127.0.0.1:3030 --key-file ~/.near/validator_key.json --rate 500
  troupe bench load --target node --workload mixed --knee --runs 3 --html k.html --json k.json
  troupe bench load --url http://127.0.0.1:3030 --workload reads --rate 5000 --connections 64
  troupe bench load --target cluster --nodes 4 --shards 2 --workload cross-shard --rate 200`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(view.LevelNames[:], o.Until) || o.Until == "NONE" {
				return usagef("--until is %q, must be one of %s", o.Until, strings.Join(view.LevelNames[1:], ", "))
			}
			if !slices.Contains(bench.LoadTargets, o.Target) {
				return usagef("--target is %q, must be one of %s", o.Target, strings.Join(bench.LoadTargets, ", "))
			}
			if !slices.Contains(bench.Transports, o.Transport) {
				return usagef("--transport is %q, must be one of %s", o.Transport, strings.Join(bench.Transports, ", "))
			}
			if !slices.Contains([]string{"", string(config.Delays), string(config.Eager)}, o.Pace) {
				return usagef("--pace is %q, must be %s or %s", o.Pace, config.Delays, config.Eager)
			}
			w, err := load.WorkloadOf(o.Workload)
			if err != nil {
				return usagef("--workload is %q, must be one of %s", o.Workload, strings.Join(load.Workloads(), ", "))
			}
			switch {
			case o.Target == "rpc" && o.URL == "":
				return usagef("--target rpc needs --url")
			case o.Target != "rpc" && (o.URL != "" || keyFile != ""):
				return usagef("--url and --key-file are for --target rpc only")
			case !knee && o.Rate == 0 && !w.Reads():
				return usagef("give --rate, requests per second, or --knee to search for the highest rate")
			case knee && o.Rate != 0:
				return usagef("--rate and --knee exclude each other; set the first rate of the search with --from")
			}
			var ok bool
			if o.Fund, ok = parseNEAR(fund); !ok {
				return usagef("--fund is %q, must be NEAR, like 1 or 0.25", fund)
			}
			if keyFile != "" {
				if o.KeyFile, err = home.ReadKeyFile(keyFile); err != nil {
					return err
				}
			}
			if o.Arrival = load.Arrival(arrival); knee {
				o.Search = &s
			}
			o.Commit = buildInfo().Commit
			var done func()
			o.Progress, done = benchProgress(cmd.ErrOrStderr())
			if o.Progress == nil {
				o.Progress = func(float64, string) {}
			}
			if profile != "" {
				f, err := os.Create(profile)
				if err != nil {
					return err
				}
				defer f.Close()
				o.CPUProfile = f
			}
			r, err := bench.RunLoad(cmd.Context(), o)
			done()
			if r == nil {
				return err
			}
			if errors.Is(err, context.Canceled) {
				err = errors.New("interrupted; the report has what was measured until then")
			}
			errs := []error{err, r.WriteText(cmd.OutOrStdout())}
			if jsonFile != "" {
				errs = append(errs, writeFile(jsonFile, r.WriteJSON))
			}
			if htmlFile != "" {
				errs = append(errs, writeFile(htmlFile, r.WriteHTML))
			}
			return errors.Join(errs...)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Target, "target", "rpc", strings.Join(bench.LoadTargets, ", "))
	f.StringVar(&o.Workload, "workload", "native", strings.Join(load.Workloads(), ", "))
	f.StringVar(&o.URL, "url", "", "http://host:port of a node, or https://host")
	f.StringVar(&keyFile, "key-file", "", "with --target rpc: file with a full access key of the account that pays")
	f.Float64Var(&o.Rate, "rate", 0, "requests per second; 0 means as many as the connections allow, which is possible only for reads")
	f.StringVar(&arrival, "arrival", string(load.Poisson), "how requests are spread over time: poisson or fixed")
	f.DurationVar(&o.Warm, "warm", 2*time.Second, "warm-up at the rate of the measurement, not measured")
	f.DurationVar(&o.For, "duration", 10*time.Second, "measured time of each run or trial")
	f.IntVar(&o.Runs, "runs", 1, "number of runs at --rate, or of searches with --knee")
	f.IntVar(&o.Connections, "connections", 1024, "maximum number of requests in flight")
	f.IntVar(&o.Accounts, "accounts", 1000, "sending accounts; each has one transaction in flight")
	f.StringVar(&fund, "fund", "1", "NEAR that each created account gets")
	f.StringVar(&o.Until, "until", view.LevelExecutedOptimistic.String(),
		"execution level to wait for: "+strings.Join(view.LevelNames[1:], ", "))
	f.DurationVar(&o.Timeout, "timeout", 20*time.Second, "time limit of one request, and of the requests in flight at the end")
	f.BoolVar(&knee, "knee", false, "search for the highest sustainable rate")
	f.DurationVar(&s.P99, "p99", time.Second, "with --knee: highest p99 latency with which a trial passes")
	f.Float64Var(&s.Kept, "kept", s.Kept, "with --knee: fraction of the requests that must complete for a trial to pass")
	f.Float64Var(&s.From, "from", s.From, "with --knee: first rate of the search")
	f.Float64Var(&s.Most, "most", s.Most, "with --knee: highest rate of the search")
	f.Float64Var(&s.Within, "within", s.Within, "with --knee: half width of the 95 % confidence interval at which the search ends, as a fraction of the knee")
	f.Float64Var(&s.Quiet, "quiet", s.Quiet, "with --knee: fraction of CPU time that other processes may use in a trial with --target node or shard")
	f.IntVar(&s.Trials, "trials", s.Trials, "with --knee: maximum number of trials of a search")
	f.IntVar(&o.Shards, "shards", 1, "number of shards of the chain that is created; not with --target rpc")
	f.IntVar(&o.Nodes, "nodes", 2, "number of validators of a cluster")
	f.StringVar(&o.Transport, "transport", config.Near, "transport of a cluster: near, libp2p, or bridge (half of the nodes each)")
	f.StringVar(&o.Pace, "pace", "", "when the validators of a cluster vote (troupe.network.pace): delays, at neard's block delays, or eager, at once while transactions wait (default: delays)")
	f.StringVar(&o.Program, "program", "", "program that runs the nodes of a cluster, like neard (default: this program)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the schedule and of the requests")
	f.StringVar(&o.Dir, "dir", "", "where temporary folders are created (default: the system's temporary folder)")
	f.StringVar(&jsonFile, "json", "", "write the report to this file as JSON")
	f.StringVar(&profile, "cpuprofile", "", "write a CPU profile of the measured time to this file")
	f.StringVar(&htmlFile, "html", "", "write the report to this file as an HTML page with charts")
	return c
}

// parseNEAR parses an amount in NEAR with at most 24 decimals.
func parseNEAR(text string) (primitives.Balance, bool) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > 24 || whole == "" {
		return primitives.Balance{}, false
	}
	b, err := primitives.ParseBalance(strings.TrimLeft(whole+part+strings.Repeat("0", 24-len(part)), "0") + "")
	return b, err == nil
}

func newBenchCompare() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A.json B.json",
		Short: "Compare two reports of bench load",
		Long: `Compare prints, for each figure of two reports, the ratio of B to A with a 95 % confidence
interval. For the figures of a phase the interval is computed by bootstrap over the seconds of the
phase, for the knee (the highest sustained rate) by Welch's method over the searches, which needs
--runs 2 or more. Reports of different workloads, rates or bounds cannot be compared.
The interval covers the variation within the runs, not between days or machines: run A and B
alternately.`,
		Example: `  troupe bench compare before.json after.json`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := load.ReadReport(args[0])
			if err != nil {
				return err
			}
			b, err := load.ReadReport(args[1])
			if err != nil {
				return err
			}
			c, err := load.Compare(a, b)
			if err != nil {
				return fmt.Errorf("%s and %s: %w", args[0], args[1], err)
			}
			return c.WriteText(cmd.OutOrStdout())
		},
	}
}
