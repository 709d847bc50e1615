package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
)

func newCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the data folder of a chain that does not run",
		Long: `Check reads every record of the log and all states, whose hashes must lead to their roots.

What a start mends is mended here too, and is all that can be: records that a crash cut off at the
end of the log, an index that is behind the log, a fold, import or collection that did not come to
its end. Compiled contracts may be removed at any time. A broken record with whole ones behind it,
a missing file of the log or the index, and a state that does not lead to its root can't be mended:
restore a snapshot, or put the data folder away and follow the network again.

To check a chain that runs, make a snapshot of it, restore that elsewhere, and check it there:
no key is needed for that.`,
		Example: `  troupe --home /tmp/chain check
  troupe --home /tmp/copy snapshot restore /backup/chain-monday
  troupe --home /tmp/copy check`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hm, err := home.LoadChain(a.home)
			if err != nil {
				return err
			}
			progress, done := benchProgress(cmd.ErrOrStderr())
			if progress == nil {
				progress = func(float64, string) {}
			}
			c, err := daemon.CheckDB(cmd.Context(), hm, progress)
			done()
			if c != nil {
				say(cmd, "head %d, folded up to %d, blocks from %d on", c.Head.Height, c.Folded.Height, c.Tail)
				say(cmd, "log: %d records as they were written", c.Records)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", hm.Paths.Data, err)
			}
			say(cmd, "states: of %d shards, all lead to their roots", c.Shards)
			return nil
		},
	}
}
