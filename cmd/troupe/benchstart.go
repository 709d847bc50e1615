package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench"
)

func newBenchStart() *cobra.Command {
	o, b := bench.StartOptions{}, benchRun{}
	c := &cobra.Command{
		Use:   "start",
		Short: "Measure the start time of a new chain and the memory of an idle node",
		Long: `Start runs this program as a user would: init in a new folder, then run until /status answers with
200. Then start leaves the node idle, reads the node's memory, stops the node, and starts it again.`,
		Example: "  troupe bench start --times 20",
		Args:    cobra.NoArgs,
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
				return bench.RunStart(cmd.Context(), o)
			})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&o.Times, "times", 11, "number of starts")
	f.DurationVar(&o.Idle, "idle", 3*time.Second, "idle time before the memory is read")
	f.StringVar(&o.Binary, "binary", "", "program to start (default: this one)")
	f.StringVar(&o.Dir, "dir", "", "where temporary folders are created (default: the system's temporary folder)")
	f.StringVar(&b.json, "json", "", "also write the report to this file as JSON")
	return c
}
