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
	"github.com/troupe-chain/troupe/storage/history"
)

func newSnapshot(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot",
		Short: "Back up and restore a chain, also while its node runs",
		Long: `Snapshot create copies the chain of a home folder as of one block, also while its node runs.
Snapshot restore makes such a copy the chain of a home folder.`,
		Example: `  troupe --home /tmp/chain snapshot create /backup/chain-monday
  troupe --home /tmp/other snapshot restore /backup/chain-monday`,
	}
	return group(c, newSnapshotCreate(a), newSnapshotRestore(a))
}

func newSnapshotCreate(a *app) *cobra.Command {
	var whole bool
	c := &cobra.Command{
		Use:   "create FOLDER",
		Short: "Copy the chain into a new folder",
		Long: `Create makes a snapshot of the chain of a home folder. It asks the running node, over a socket in
the data folder that only the same user can open; without a running node it reads the folder
itself. A snapshot contains the data folder, the journal of what the validator has signed,
config.json, genesis.json with its records and epoch configs, and a file with the sha256 of each.
A snapshot contains no keys: back up keys separately. It does not contain the imported older
blocks of an archive either (troupe.history.path), which a node can import again. If FOLDER is on
the same file system, complete log segments, which never change, are hard links to the node's
files and take no space. With --copy, these segments are copied too. FOLDER appears only when the
snapshot is complete and synced to disk. An interrupted create leaves at most
FOLDER.unfinished-snapshot, which no node opens and the next create removes.`,
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
			of := "a stopped node"
			if running {
				of = "a running node"
			}
			say(cmd, "block %d of %s, %v, of %s: %d files, %d bytes, in %s", s.Head.Height, s.ChainID, s.Head.Hash, of, len(s.Files), s.Bytes(), dir)
			say(cmd, "the snapshot contains no keys; back them up separately")
			if history.Exists(hm.Paths.History) {
				say(cmd, "the snapshot does not contain the imported older blocks in %s; copy that folder while the node is stopped, or import them again", hm.Paths.History)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&whole, "copy", false, "copy all files; without this flag, unchanging files are hard links to the node's files")
	return c
}

func newSnapshotRestore(a *app) *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use:   "restore FOLDER",
		Short: "Restore a snapshot into the home folder",
		Long: `Restore copies a snapshot into the home folder. Before the copy takes its place there, restore
checks the sha256 of every file and opens the copy once. Stop the node first. An existing chain is
an error; with --replace it is moved aside, next to the data folder. An interrupted restore leaves
the existing chain as it was. Missing files of the home folder (config.json, genesis.json,
records, epoch_configs/) come from the snapshot; existing ones stay, and so do imported older
blocks (troupe.history.path). A home folder of another chain is an error. Snapshots contain no
keys.

Validators: a node must never forget what it has signed. Restore merges the signing journals of the
snapshot and of chains that were moved aside in this home folder. On another machine it cannot know
what was signed after the snapshot. Use the validator's key there only after the old node has
stopped for good and the height of the chain has then grown by at least one epoch_length.`,
		Example: `  troupe --home /tmp/other snapshot restore /backup/chain-monday
  troupe --home /tmp/chain snapshot restore --replace /backup/chain-monday`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress, done := bytesProgress(cmd.ErrOrStderr(), "restore")
			r, err := daemon.RestoreSnapshot(cmd.Context(), daemon.RestoreOptions{
				Home: a.home, Snapshot: args[0], Replace: replace, Progress: progress})
			done()
			if err != nil {
				return err
			}
			say(cmd, "%s is at block %d of %s, %v", r.Data, r.Head.Height, r.ChainID, r.Head.Hash)
			for _, f := range r.Made {
				say(cmd, "made %s", f)
			}
			if r.Aside != "" {
				say(cmd, "the previous chain is in %s", r.Aside)
			}
			if len(r.Signed) > 0 {
				say(cmd, "the signing journal comes from %s; it does not have what the validator signed later elsewhere", strings.Join(r.Signed, " and "))
			}
			if r.NoKey {
				say(cmd, "snapshots contain no keys: add node_key.json, and validator_key.json if the node is to sign")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "move an existing chain aside instead of failing")
	return c
}

// bytesProgress shows a progress bar of bytes if w is a terminal; end removes it. Otherwise
// progress is nil.
func bytesProgress(w io.Writer, what string) (progress func(done, all int64), end func()) {
	if !isTerminal(w) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions64(1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	return func(done, all int64) {
		bar.ChangeMax64(max(all, 1))
		_ = bar.Set64(done)
	}, func() { _ = bar.Finish() }
}
