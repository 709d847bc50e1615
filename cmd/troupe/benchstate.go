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
		Long: `State creates a chain with one shard and --accounts accounts in a new folder. It prints the rate at
which it created the accounts, the size of the state on disk and as nearcore counts it, and the
time to look up one account. The other benchmarks run on this chain with --state, and the folder is
a home for run. The accounts share 65,536 keys, so that key generation does not dominate the time.

With --values, the first 1,000 accounts also have contract storage, the first ones most of it. Its
values do not compress, and have from 1 to twice --value-bytes bytes.`,
		Example: `  troupe bench state --dir /var/tmp/large --accounts 30000000
  troupe bench node --state /var/tmp/large --rate 5000
  troupe bench state --dir /var/tmp/mixed --accounts 30000000 --values 60000000 --value-bytes 250`,
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
	f.StringVar(&o.Dir, "dir", "", "folder to create")
	f.IntVar(&o.Accounts, "accounts", 3_000_000, "accounts in the genesis")
	f.IntVar(&o.Values, "values", 0, "contract storage entries in the genesis")
	f.IntVar(&o.ValueBytes, "value-bytes", 200, "mean length of a contract storage entry's value")
	f.Uint64Var(&o.Seed, "seed", 0, "selects keys and values of the contract storage entries; equal options make equal states")
	f.Uint64Var(&o.EpochLength, "epoch-length", 0, "blocks of an epoch; 0: as init writes")
	f.Uint64Var(&o.Memory, "memory", 1<<30, "bytes of memory for the tries while they are built")
	f.StringVar(&b.json, "json", "", "also write the report to this file as JSON")
	_ = c.MarkFlagRequired("dir")
	return c
}
