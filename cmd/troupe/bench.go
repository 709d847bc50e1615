package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/bench"
)

func newBench(*app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure parts of the node, and this machine",
		Long: `Bench runs one part of the node under load and prints what it achieved. It measures the limits of
this machine (signatures, hashes, disk) in the same run, for comparison. docs/performance.md
explains the figures.`,
		Example: "  troupe bench shard --duration 5s",
	}, newBenchShard(), newBenchNode(), newBenchRPC(), newBenchStart(), newBenchState(), newBenchArrival(), newBenchLoad(), newBenchCompare())
}

func newBenchShard() *cobra.Command {
	o := bench.ShardOptions{}
	var jsonFile, profile string
	c := &cobra.Command{
		Use:   "shard",
		Short: "Measure chunk execution alone",
		Long: `Shard executes chunk after chunk of transfers between accounts of a state in memory. The limits of
the protocol on gas and proof size apply. Each block executes transactions, receipts and refunds,
and computes the new state root and the root of the outcomes. With --ft-transfer the transfers are
ft_transfer calls of a token contract.
Not measured: signature checks, the choice of transactions, and writing to disk.`,
		Example: `  troupe bench shard
  troupe bench shard --accounts 100000 --shards 4 --cross-shard 0.5 --cores 2 --json shard.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.Commit = buildInfo().Commit
			var done func()
			o.Progress, done = benchProgress(cmd.ErrOrStderr())
			if profile != "" {
				f, err := os.Create(profile)
				if err != nil {
					return err
				}
				defer func() { _ = f.Close() }()
				o.CPUProfile = f
			}
			r, err := bench.RunShard(cmd.Context(), o)
			done()
			if err != nil {
				return err
			}
			if jsonFile != "" {
				if err := writeFile(jsonFile, r.WriteJSON); err != nil {
					return err
				}
			}
			return r.WriteText(cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&o.Accounts, "accounts", 1_000_000, "accounts in the state")
	f.Float64Var(&o.Skew, "skew", 1, "Zipf exponent of the choice of senders and receivers; 0: uniform")
	f.IntVar(&o.Shards, "shards", 1, "shards, up to 26")
	f.Float64Var(&o.Cross, "cross-shard", 0, "fraction of the transfers that go to another shard, 0 to 1")
	f.IntVar(&o.Batch, "batch", 0, "transfers in a chunk; 0: as many as fit without delayed receipts")
	f.IntVar(&o.Blocks, "blocks", 0, "blocks to measure; 0: as many as --duration holds")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long to measure")
	f.BoolVar(&o.Tokens, "ft-transfer", false, "transfers of a NEP-141 token, by calls of its contract")
	f.IntVar(&o.Contracts, "tokens", 1, "with --ft-transfer, number of token contracts in each shard")
	f.IntVar(&o.Cores, "cores", 1, "cores to use; with more than 1, receipts and shards run in parallel")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the random transfers; the same seed and sizes give the same state roots")
	f.StringVar(&o.State, "state", "", "folder made by bench state: send transfers between the accounts of that state. The accounts of a block are read from disk before the time of the block is measured")
	f.Uint64Var(&o.Memory, "memory", 0, "with --state: bytes of memory for the tries; 0: the node's default")
	f.StringVar(&o.Dir, "dir", "", "folder in which the time of fsync is measured, with a temporary file (default: the system's temporary folder)")
	f.StringVar(&jsonFile, "json", "", "also write the report to this file as JSON")
	f.StringVar(&profile, "cpuprofile", "", "write a CPU profile to this file")
	return c
}

// writeFile creates path and calls f to write its contents.
func writeFile(path string, f func(io.Writer) error) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := f(out); err != nil {
		_ = out.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return out.Close()
}

// benchProgress shows a progress bar if w is a terminal; done removes it. Otherwise progress is
// nil.
func benchProgress(w io.Writer) (progress func(part float64, what string), done func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(1000, progressbar.OptionSetWriter(w), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))
	progress = func(part float64, what string) {
		bar.Describe(what)
		_ = bar.Set(int(part * 1000))
	}
	return progress, func() { _ = bar.Finish() }
}
