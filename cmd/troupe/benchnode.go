package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench"
)

// report is what a benchmark found.
type report interface {
	WriteJSON(io.Writer) error
	WriteText(io.Writer) error
}

// benchRun is what the benchmarks of a whole node have in common.
type benchRun struct{ json, profile string }

func (b *benchRun) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.json, "json", "", "write the report to this file as JSON too")
	f.StringVar(&b.profile, "cpuprofile", "", "write a profile of the processor's time while measuring to this file")
}

// run runs a benchmark and writes its report.
func (b *benchRun) run(cmd *cobra.Command, measure func(progress func(float64, string), profile io.Writer) (report, error)) error {
	var profile io.Writer
	if b.profile != "" {
		f, err := os.Create(b.profile)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		profile = f
	}
	progress, done := benchProgress(cmd.ErrOrStderr())
	r, err := measure(progress, profile)
	done()
	if err != nil {
		return err
	}
	if b.json != "" {
		if err := writeFile(b.json, r.WriteJSON); err != nil {
			return err
		}
	}
	return r.WriteText(cmd.OutOrStdout())
}

func newBenchNode() *cobra.Command {
	o, b := bench.NodeOptions{}, benchRun{}
	c := &cobra.Command{
		Use:   "node",
		Short: "Measure a whole node under signed transfers",
		Long: `Node runs a whole node in this process, on a chain of its own in a temporary folder, and submits
signed transfers to it without HTTP. All that a node does is in: signatures and state are checked
at the door, chunks and blocks made at once, applied and synced to disk.

Without --rate as much is submitted as --window lets through: the figures are what the node can do,
and latencies those of a full node. With --rate latencies count from when a transfer was due.`,
		Example: `  troupe bench node
  troupe bench node --rate 5000 --duration 20s
  troupe bench node --accounts 1000000 --signers 100000 --cpuprofile node.pprof`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd, func(progress func(float64, string), profile io.Writer) (report, error) {
				o.Commit, o.Progress, o.CPUProfile = buildInfo().Commit, progress, profile
				return bench.RunNode(cmd.Context(), o)
			})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&o.Accounts, "accounts", 100_000, "accounts in the genesis")
	f.IntVar(&o.Signers, "signers", 0, "how many of them sign; 0: all")
	f.Float64Var(&o.Skew, "skew", 1, "Zipf exponent of who sends and who receives; 0: all alike")
	f.IntVar(&o.Shards, "shards", 1, "shards, up to 26")
	f.IntVar(&o.Senders, "senders", 4, "goroutines that submit")
	f.IntVar(&o.Batch, "batch", 64, "transfers submitted at a time")
	f.IntVar(&o.Window, "window", 8192, "transfers that are submitted and not in a block, at the most")
	f.Float64Var(&o.Rate, "rate", 0, "transfers a second to submit; 0: as many as the window lets through")
	f.DurationVar(&o.Warm, "warm", 3*time.Second, "how long to run before measuring")
	f.DurationVar(&o.Duration, "duration", time.Minute, "how long to measure")
	f.Float64Var(&o.Signed, "signed", 25_000, "transfers to sign beforehand for each second; the run ends when all are submitted")
	f.StringVar(&o.Dir, "dir", "", "where the chain's folder is made and removed; the system's temporary folder by default")
	f.StringVar(&o.State, "state", "", "a chain that bench state made: run on it")
	f.Uint64Var(&o.Memory, "memory", 0, "bytes for the tries of that chain; 0: the node's own choice")
	b.flags(c)
	return c
}
