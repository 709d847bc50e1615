package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench"
)

// report is the result of a benchmark.
type report interface {
	WriteJSON(io.Writer) error
	WriteText(io.Writer) error
}

// benchRun holds the flags that the benchmarks of a whole node share.
type benchRun struct{ json, profile string }

func (b *benchRun) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.json, "json", "", "also write the report to this file as JSON")
	f.StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of the measured time to this file")
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
signed transfers to it without HTTP. The node does all its work: it checks signatures and state
when it receives a transfer, produces chunks and blocks at once, applies them and syncs them to
disk. Without --rate it submits as much as --window allows: the result is the node's maximum, and
the latencies are those under full load. With --rate, latency counts from a transfer's scheduled
time.`,
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
	f.IntVar(&o.Signers, "signers", 0, "how many of the accounts sign transfers; 0: all")
	f.Float64Var(&o.Skew, "skew", 1, "Zipf exponent of the choice of senders and receivers; 0: uniform")
	f.IntVar(&o.Shards, "shards", 1, "shards, up to 26")
	f.IntVar(&o.Senders, "senders", 4, "goroutines that submit transfers")
	f.IntVar(&o.Batch, "batch", 64, "transfers in one submission")
	f.IntVar(&o.Window, "window", 8192, "maximum number of transfers that are submitted and not yet in a block")
	f.Float64Var(&o.Rate, "rate", 0, "transfers per second; 0: as many as --window allows")
	f.DurationVar(&o.Warm, "warm", 3*time.Second, "warm-up, not measured")
	f.DurationVar(&o.Duration, "duration", time.Minute, "how long to measure")
	f.Float64Var(&o.Signed, "signed", 25_000, "without --rate: transfers to sign before the run, per second of --warm and --duration. If all are submitted earlier, the run ends early")
	f.StringVar(&o.Dir, "dir", "", "where the chain's temporary folder is created (default: the system's temporary folder)")
	f.StringVar(&o.State, "state", "", "folder made by bench state: run on that chain")
	f.Uint64Var(&o.Memory, "memory", 0, "with --state: bytes of memory for the tries; 0: the node's default")
	b.flags(c)
	return c
}
