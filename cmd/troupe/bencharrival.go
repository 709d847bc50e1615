package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench"
)

func newBenchArrival() *cobra.Command {
	o, b := bench.ArrivalOptions{}, benchRun{}
	c := &cobra.Command{
		Use:   "arrival",
		Short: "Measure how a new node gets a large state from another one",
		Long: `Arrival runs two nodes as processes: one on a folder that bench state made, with a chain of at
least five epochs, and one that has only the genesis. The second gets an epoch sync proof and the
state from the first over loopback. With --kills it is killed and started again at moments spread
over the download. Arrival reports time, bytes, memory and their shares of the limits of disk and
loopback, and compares accounts of both nodes.

The epochs must be long: an epoch of --block-time must last longer than the download. Afterwards
only arrival can use the folder, because its validator has signed in a network.`,
		Example: `  troupe bench state --dir /var/tmp/large --accounts 15000000 --epoch-length 5000
  troupe bench arrival --state /var/tmp/large --kills 10 --dir /var/tmp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd, func(progress func(float64, string), _ io.Writer) (report, error) {
				if o.Binary == "" {
					self, err := os.Executable()
					if err != nil {
						return nil, err
					}
					o.Binary = self
				}
				o.Commit, o.Progress = buildInfo().Commit, progress
				return bench.RunArrival(cmd.Context(), o)
			})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.State, "state", "", "folder made by bench state")
	f.IntVar(&o.Kills, "kills", 0, "how often the arriving node is killed")
	f.Uint64Var(&o.Seed, "seed", 0, "selects the moments of the kills, and the accounts that are compared")
	f.DurationVar(&o.BlockTime, "block-time", time.Second, "time between two blocks during the arrival")
	f.IntVar(&o.Looks, "looks", 1000, "accounts to compare at the end")
	f.StringVar(&o.Binary, "binary", "", "program to start (default: this one)")
	f.StringVar(&o.Dir, "dir", "", "where the home of the arriving node is created (default: the system's temporary folder)")
	f.StringVar(&b.json, "json", "", "also write the report to this file as JSON")
	_ = c.MarkFlagRequired("state")
	return c
}
