package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/engine/badchunk"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/internal/testkit/replay"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// errDifferent means that a result differs from the recorded chain.
var errDifferent = errors.New("the results differ from the recorded chain; the first differences are printed above")

func newVerify(*app) *cobra.Command {
	var o struct {
		epochConfigs, folder string
		serial               bool
		restart              uint64
		findings             int
	}
	c := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Replay recorded chains of neard and compare all results",
		Long: `Verify executes every chunk of a recorded chain, produces every block and chunk again from its
predecessor with the validators' keys, and compares each root, outcome, receipt, gas amount, state
change, epoch and view with those of neard. It prints the first differences with their path and
both values. Input that a node cannot derive comes from the recording: times, approvals, which
chunks are included, and the order of their transactions.

A node that cannot apply a chunk halts and writes the chunk, with everything it needs, to a file in
data/failed of its home folder. Given such a file, verify applies the chunk again, and fails if
the chunk still cannot be applied.`,
		Example: `  troupe verify native.jsonl.gz
  troupe verify --epoch-configs epoch_configs reshard.jsonl.gz
  troupe verify ~/.near/data/failed/chunk-0000001234-s0-8Ynx3FzP.json.gz`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			configs, err := readEpochConfigs(o.epochConfigs)
			if err != nil {
				return err
			}
			different, fails := false, false
			for _, file := range files {
				if badchunk.Is(file) {
					err := verifyFailed(cmd.OutOrStdout(), file)
					if fails = fails || errors.Is(err, errFails); err != nil && !errors.Is(err, errFails) {
						return fmt.Errorf("%s: %w", file, err)
					}
					continue
				}
				rec, err := replay.Open(file)
				if err != nil {
					return err
				}
				opts := replay.Options{EpochConfig: configs, RestartAt: primitives.Height(o.restart), MaxFindings: o.findings, Par: parallel.Do}
				if o.serial {
					opts.Par = nil
				}
				if o.folder != "" {
					dir := filepath.Join(o.folder, filepath.Base(file))
					opts.Open = func(so storage.Options) (*storage.Store, error) { return storage.Open(dir, so) }
				}
				opts.Progress = verifyProgress(cmd.ErrOrStderr(), filepath.Base(file))
				start := time.Now()
				report, err := replay.Run(rec, opts)
				if report != nil {
					printReport(cmd.OutOrStdout(), file, report, time.Since(start))
					different = different || len(report.Findings) > 0
				}
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
			switch {
			case different:
				return errDifferent
			case fails:
				return errFails
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.epochConfigs, "epoch-configs", "", "folder with epoch configs by version, like <home>/epoch_configs")
	f.StringVar(&o.folder, "data", "", "store the chain in this folder instead of in memory")
	f.BoolVar(&o.serial, "serial", false, "execute receipts one by one, without parallelism")
	f.Uint64Var(&o.restart, "restart-at", 0, "close and reopen the store after the block of this height")
	f.IntVar(&o.findings, "max", 20, "stop after this number of differences")
	return c
}

func printReport(w io.Writer, file string, r *replay.Report, took time.Duration) {
	for _, d := range r.Findings {
		_, _ = fmt.Fprintln(w, d)
	}
	_, _ = fmt.Fprintf(w, "%s: %d blocks, %d chunks, %d transactions, %d blocks' changes, %d epochs, %d light client blocks in %.1f s\n",
		filepath.Base(file), r.Blocks, r.Chunks, r.Transactions, r.Changes, r.Epochs, r.Lights, took.Seconds())
	if r.Beyond > 0 {
		_, _ = fmt.Fprintf(w, "  %d recorded replies are not compared: they refer to blocks after the recording's last block\n", r.Beyond)
	}
	if r.Unkeyed != "" {
		_, _ = fmt.Fprintf(w, "  blocks were executed and compared, but not produced again: the recording lacks the key seed of %s (validator_seeds in its first line)\n", r.Unkeyed)
	}
	_, _ = fmt.Fprintf(w, "  %d differences\n", len(r.Findings))
}

func verifyProgress(w io.Writer, name string) func(done, all int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, all int) {
		if bar == nil {
			bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
		}
		_ = bar.Set(done)
	}
}

// readEpochConfigs reads *.json in a folder. If dir is empty, readEpochConfigs returns nil. It
// returns an error for a folder without such files.
func readEpochConfigs(dir string) (map[string][]byte, error) {
	if dir == "" {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no epoch configs, files like 86.json", dir)
	}
	out := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out[filepath.Base(name)] = b
	}
	return out, nil
}
