package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench"
)

func newBenchState() *cobra.Command {
	o, b := bench.StateOptions{}, benchRun{}
	c := &cobra.Command{
		Use:   "state",
		Short: "Make a chain with a large state to measure on",
		Long: `State makes a chain of one shard in a new folder, with as many accounts as are asked for,
each with a key, and says at what rate, and what a look at one of them costs.
The other benchmarks run on it with --state. The accounts share 65,536 keys,
so that making these does not take longer than all else.`,
		Example: `  troupe bench state --dir /var/tmp/large --accounts 30000000
  troupe bench node --state /var/tmp/large --rate 5000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd, func(progress func(float64, string), _ io.Writer) (report, error) {
				o.Commit, o.Progress = buildInfo().Commit, progress
				return bench.RunState(cmd.Context(), o)
			})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Dir, "dir", "", "the folder that is made")
	f.IntVar(&o.Accounts, "accounts", 3_000_000, "accounts in the genesis")
	f.Uint64Var(&o.Memory, "memory", 1<<30, "bytes for the tries while they are made")
	f.StringVar(&b.json, "json", "", "write the report to this file as JSON too")
	_ = c.MarkFlagRequired("dir")
	return c
}
