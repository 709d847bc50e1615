package main

import (
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
)

func newSnapshot(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Back up and restore a chain, whether its node runs or not",
		Long: `Snapshot makes a copy of a home's chain as it is at one block, and makes a chain of such a copy
again. A node that runs on the home goes on meanwhile.`,
		Example: `  troupe --home /tmp/chain snapshot create /backup/chain-monday
  troupe --home /tmp/other snapshot restore /backup/chain-monday`,
	}
	return group(c, newSnapshotCreate(a), newSnapshotRestore(a))
}

func newSnapshotCreate(a *app) *cobra.Command {
	var whole bool
	c := &cobra.Command{
		Use:   "create FOLDER",
		Short: "Copy the chain as it is now into a new folder",
		Long: `Create asks the node that runs on the home, at a socket in its data folder that is its user's
alone, for a snapshot; where none runs, the folder itself is read. The snapshot has the data
folder, what the validator has signed, config.json, genesis.json and the files beside it, and a
file with the sha256 of each. Keys are not in it: copy them by hand, and keep them elsewhere.

Where FOLDER is on the same file system, whole segments of the log are second names of the
node's own files, which never change: that takes no room. --copy copies them too.

The folder has its name only when all is on disk. What ends it before leaves at most
FOLDER.unfinished-snapshot, which no node opens and which the next one removes.`,
		Example: `  troupe --home /tmp/chain snapshot create /backup/chain-monday
  troupe --home /tmp/chain snapshot create --copy /mnt/disk/chain-monday`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			hm, err := home.Load(a.home)
			if err != nil {
				return err
			}
			progress, done := bytesProgress(cmd.ErrOrStderr(), "snapshot")
			s, running, err := daemon.CreateSnapshot(cmd.Context(), hm, buildInfo().Build, &daemon.BackupRequest{Dir: dir, Copy: whole}, progress)
			done()
			if err != nil {
				return err
			}
			of := "the folder of a node that does not run"
			if running {
				of = "a node that runs"
			}
			say(cmd, "block %d of %s, %v, of %s: %d files, %d bytes, in %s", s.Head.Height, s.ChainID, s.Head.Hash, of, len(s.Files), s.Bytes(), dir)
			say(cmd, "keys are not in it")
			return nil
		},
	}
	c.Flags().BoolVar(&whole, "copy", false, "copy segments of the log too, where they could be second names of the node's files")
	return c
}

func newSnapshotRestore(a *app) *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use:   "restore FOLDER",
		Short: "Make the chain of a snapshot that of the home",
		Long: `Restore checks every file of a snapshot as it copies it, opens the copy once, and then puts it
where the home's data is. No node may run there. A chain that is there is an error; with --replace
it is put aside, beside the data folder. What ends it before leaves what was there as it was.

Files of the home that are missing (config.json, genesis.json, records, epoch_configs/) come from
the snapshot; those that are there stay. A home of another chain is an error. No key is in it.

A validator must not forget what it has signed. Where the folder that is put aside knows more of
that than the snapshot, this is taken over. On another machine nothing is known of what was signed
behind the snapshot: let the validator's key sign there only when the old node has ended for good,
and the chain is an epoch beyond the last thing that it signed.`,
		Example: `  troupe --home /tmp/other snapshot restore /backup/chain-monday
  troupe --home /tmp/chain snapshot restore --replace /backup/chain-monday`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress, done := bytesProgress(cmd.ErrOrStderr(), "restore")
			r, err := daemon.RestoreSnapshot(cmd.Context(), daemon.RestoreOptions{Home: a.home, Snapshot: args[0], Replace: replace, Progress: progress})
			done()
			if err != nil {
				return err
			}
			say(cmd, "%s is at block %d of %s, %v", r.Data, r.Head.Height, r.ChainID, r.Head.Hash)
			for _, f := range r.Made {
				say(cmd, "made %s", f)
			}
			if r.Aside != "" {
				say(cmd, "what was there is in %s", r.Aside)
			}
			if len(r.Signed) > 0 {
				say(cmd, "what the validator has signed is known from %s; nothing is known of what it has signed since", strings.Join(r.Signed, " and "))
			}
			if r.NoKey {
				say(cmd, "keys are not in a snapshot: put node_key.json there, and validator_key.json where the node is to sign")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "put a chain that is there aside")
	return c
}

// bytesProgress shows a bar of bytes on a terminal; done takes it away.
func bytesProgress(w io.Writer, what string) (progress func(done, all int64), end func()) {
	if !isTerminal(w) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions64(1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	return func(done, all int64) {
		bar.ChangeMax64(max(all, 1))
		_ = bar.Set64(done)
	}, func() { _ = bar.Finish() }
}
