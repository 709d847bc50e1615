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
		Short: "Offer a load at times of its own to a node, a cluster or an executor; find the knee",
		Long: `Load offers transactions or questions at times that do not depend on how fast they are done (open
loop), and measures how long each took from when it was due. What can't be begun in time, since all
--connections are taken, waits, and that counts.

  --target rpc      a node that runs, by --url: troupe or neard, asked by JSON-RPC. --key-file is
                    the key of an account that pays: the accounts that send are made below it, and
                    found again by the next run
  --target node     a whole node in this process, on a chain of its own, asked without HTTP
  --target shard    the executor of chunks alone: native, ft and cross-shard
  --target cluster  --nodes validators of --program, each a process, on a network made for the run

With --knee the rate is looked for that half of the trials hold, which is to have p99 within --p99
and --kept of what is due done: rates go up by half until one fails twice, then each trial is at
the rate that tells most, until the knee is known to --within at 95 %. Each trial has a node or
executor of its own, each search a cluster. With --runs, searches on a node or executor make their
trials in turns. Then nine tenths of the knee are offered once.

docs/guide/benchmarks.md says more, and how reports are compared.`,
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
				return usagef("--url and --key-file are of --target rpc")
			case !knee && o.Rate == 0 && !w.Reads():
				return usagef("--rate says how many a second, or --knee looks for the most")
			case knee && o.Rate != 0:
				return usagef("--rate and --knee exclude each other; --from is where the search begins")
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
				err = errors.New("told to stop in the middle; the report has what was measured")
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
	f.StringVar(&keyFile, "key-file", "", "full access key of an account that pays")
	f.Float64Var(&o.Rate, "rate", 0, "a second; 0 with reads: as many as the connections let through")
	f.StringVar(&arrival, "arrival", string(load.Poisson), "poisson or fixed: how what is due lies in time")
	f.DurationVar(&o.Warm, "warm", 2*time.Second, "before measuring, at the same rate")
	f.DurationVar(&o.For, "duration", 10*time.Second, "what is measured, of each run or trial")
	f.IntVar(&o.Runs, "runs", 1, "runs at the rate, or searches")
	f.IntVar(&o.Connections, "connections", 1024, "things under way at a time, at most")
	f.IntVar(&o.Accounts, "accounts", 1000, "that send; each has one thing under way")
	f.StringVar(&fund, "fund", "1", "NEAR for each account that is made")
	f.StringVar(&o.Until, "until", view.LevelExecutedOptimistic.String(), "how far a transaction is waited for: "+strings.Join(view.LevelNames[1:], ", "))
	f.DurationVar(&o.Timeout, "timeout", 20*time.Second, "of one request, and for what is under way at the end")
	f.BoolVar(&knee, "knee", false, "look for the highest rate that is kept up with")
	f.DurationVar(&s.P99, "p99", time.Second, "of the knee: the longest that p99 may be")
	f.Float64Var(&s.Kept, "kept", s.Kept, "of the knee: the part of what is due that must be done")
	f.Float64Var(&s.From, "from", s.From, "the first rate of the search")
	f.Float64Var(&s.Most, "most", s.Most, "the highest rate that is tried")
	f.Float64Var(&s.Within, "within", s.Within, "part of the knee by which it may be missed, at 95 %")
	f.Float64Var(&s.Quiet, "quiet", s.Quiet, "part of the processor's time that others may have in a trial of node or shard")
	f.IntVar(&s.Trials, "trials", s.Trials, "of a search, at most")
	f.IntVar(&o.Shards, "shards", 1, "of what is started")
	f.IntVar(&o.Nodes, "nodes", 2, "validators of a cluster")
	f.StringVar(&o.Transport, "transport", config.Near, "of a cluster: near, libp2p, or bridge (half of each)")
	f.StringVar(&o.Pace, "pace", "", "of a cluster: delays, as neards, or eager")
	f.StringVar(&o.Program, "program", "", "what runs the nodes of a cluster, like neard; this program by default")
	f.Uint64Var(&o.Seed, "seed", 1, "of when things are due and what they are")
	f.StringVar(&o.Dir, "dir", "", "where folders are made and removed; the system's temporary folder by default")
	f.StringVar(&jsonFile, "json", "", "write the report to this file as JSON")
	f.StringVar(&profile, "cpuprofile", "", "write a profile of this process while it measures to this file")
	f.StringVar(&htmlFile, "html", "", "write the report to this file as a page, with drawings")
	return c
}

// parseNEAR reads an amount in NEAR, with up to 24 digits behind the point.
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
		Long: `Compare says for each figure of two reports what B is of A, with an interval at 95 %: of phases by
bootstrap over their seconds, of knees by Welch's method over the searches (--runs 2 at least).
Reports of other loads, rates or bounds are not compared.

An interval knows what varies within the runs, not what differs between two days or machines: run
A and B in turns.`,
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
