package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/storage/history"
)

// count returns a number with a noun, to which it adds an s unless the number is 1.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// heightsOf returns the heights of a store of older blocks, or "" if it has none.
func heightsOf(s *history.Stats) string {
	if s.Blocks == 0 {
		return ""
	}
	return fmt.Sprintf(", heights %d to %d", s.Low.Height, s.Top.Height)
}

func newCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the data folder of a stopped node",
		Long: `Check reads every record of the block log and every state, and compares the hashes of the states
with their roots. Then it does the same with the imported older blocks of an archive
(troupe.history.path), if there are any: records, hashes from block to block, index. Stop the node
first.
Like a normal start, check repairs what a crash leaves: a cut-off record at the end of the log, an
index that is behind the log, an unfinished import or garbage collection. It cannot repair a
damaged record in the middle of the log, a missing file, or a state that does not match its root:
restore a snapshot (troupe snapshot restore), or remove the data folder and sync from the network
again. Files of compiled contracts may be removed at any time.
To check the chain of a running node, make a snapshot, restore the snapshot into another home
folder, and run check there. No keys are needed.`,
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
				say(cmd, "head %d, flat head %d, blocks from %d on", c.Head.Height, c.FlatHead.Height, c.Tail)
				say(cmd, "log: %s, intact", count(c.Records, "record"))
			}
			if c != nil && c.States {
				say(cmd, "states: those of %s match their roots", count(c.Shards, "shard"))
			}
			if err != nil && !strings.Contains(err.Error(), hm.Paths.Data) && (c == nil || !c.States) {
				err = fmt.Errorf("%s: %w", hm.Paths.Data, err)
			}
			if err != nil {
				return err
			}
			if h := c.History; h != nil {
				say(cmd, "older blocks: %d in %s%s, intact and in the index", h.Blocks, h.Folder, heightsOf(&h.Stats))
			}
			return nil
		},
	}
}
