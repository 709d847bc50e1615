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
		Short: "Measure how soon a new chain answers, and an idle node's memory",
		Long: `Start runs this command as others would: init in a new folder, then run, until /status answers with
200; then it lets the node stand idle, looks at its memory, ends it and starts it again.`,
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
	f.IntVar(&o.Times, "times", 11, "how often to start")
	f.DurationVar(&o.Idle, "idle", 3*time.Second, "how long a node stands idle before its memory is looked at")
	f.StringVar(&o.Binary, "binary", "", "the command to start; by default this one")
	f.StringVar(&o.Dir, "dir", "", "where folders are made and removed; the system's temporary folder by default")
	f.StringVar(&b.json, "json", "", "write the report to this file as JSON too")
	return c
}
