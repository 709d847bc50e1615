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
		Long: `Bench runs a part of the node under load and prints what it did, beside what this machine can do
at most: the limits are measured in the same run. docs/performance.md says how to read the figures.`,
		Example: "  troupe bench shard --duration 5s",
	}, newBenchShard(), newBenchNode(), newBenchRPC(), newBenchStart(), newBenchState(), newBenchLoad(), newBenchCompare())
}

func newBenchShard() *cobra.Command {
	o := bench.ShardOptions{}
	var jsonFile, profile string
	c := &cobra.Command{
		Use:   "shard",
		Short: "Measure the executor of chunks alone",
		Long: `Shard makes native transfers between accounts of a state in memory and applies them, chunk after
chunk, with all limits of the protocol: transactions, receipts, refunds, the trie with its hashes,
outcomes and their root in every block. With --ft-transfer all accounts hold a token, and the
transfers are calls of its contract. What comes before (checking signatures, choosing
transactions) and after (writing to disk) is left out.`,
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
	f.Float64Var(&o.Skew, "skew", 1, "Zipf exponent of who sends and who receives; 0: all alike")
	f.IntVar(&o.Shards, "shards", 1, "shards, up to 26")
	f.Float64Var(&o.Cross, "cross-shard", 0, "part of the transfers that go to another shard, 0 to 1")
	f.IntVar(&o.Batch, "batch", 0, "transfers in a chunk; 0: as many as leave no receipt to wait")
	f.IntVar(&o.Blocks, "blocks", 0, "blocks to measure; 0: as many as --duration holds")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long to measure")
	f.BoolVar(&o.Tokens, "ft-transfer", false, "transfers of a NEP-141 token, by calls of its contract")
	f.IntVar(&o.Contracts, "tokens", 1, "with --ft-transfer, tokens in each shard, each a contract of its own")
	f.IntVar(&o.Cores, "cores", 1, "cores to use; with more than 1, receipts and shards run in parallel")
	f.Uint64Var(&o.Seed, "seed", 1, "of the random transfers: the same seed and sizes, the same roots")
	f.StringVar(&o.State, "state", "", "a chain that bench state made: its accounts, loaded before the block that names them")
	f.Uint64Var(&o.Memory, "memory", 0, "bytes for the tries of that chain; 0: the node's own choice")
	f.StringVar(&o.Dir, "dir", "", "folder for the file that shows how long a sync takes; the system's temporary one by default")
	f.StringVar(&jsonFile, "json", "", "write the report to this file as JSON too")
	f.StringVar(&profile, "cpuprofile", "", "write a profile of the processor's time to this file")
	return c
}

// writeFile writes a file by f.
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

// benchProgress shows a bar on a terminal; done takes it away.
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
