package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/viewstate"
	"github.com/troupe-chain/troupe/primitives"
)

// historyFile is the content of the state file of check-history.
type historyFile struct {
	Source  string                 `json:"source"`
	Genesis primitives.Hash        `json:"genesis_hash"`
	Start   primitives.Height      `json:"start_height"`
	Check   blockfeed.HistoryCheck `json:"check"`
}

// historySavePeriod is the time between two writes of the state file.
const historySavePeriod = 5 * time.Second

func newCheckHistory(a *app) *cobra.Command {
	var o struct {
		start, end uint64
		file       string
	}
	c := &cobra.Command{
		Use:   "check-history SOURCE",
		Short: "Verify the older blocks of a feed against this chain",
		Long: `Check-history fetches blocks from a feed, from a block that this node has down to older ones, and
verifies that they are of this chain. Each block's hash must be the one that the block above names.
The hash proves header and chunk headers, and the chunk headers above prove the outcomes. Not
proven are contents of transactions and receipts, because feeds leave out what their hashes need.
SOURCE is lake:URL, lake:FOLDER (files HEIGHT/block.json and HEIGHT/shard_N.json), or neardata:URL.
A check that was stopped or killed continues where it was.`,
		Example: `  troupe --home /tmp/chain view-state check-history lake:/tmp/lake
  troupe view-state check-history neardata:https://mainnet.neardata.xyz --end-index 200000000`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := blockfeed.ParseHistory(args[0])
			if err != nil {
				return usagef("%w", err)
			}
			hm, err := home.Load(a.home)
			if err != nil {
				return err
			}
			var line viewLine
			if err := daemon.ViewState(cmd.Context(), hm,
				&viewstate.Request{Anchor: &viewstate.AnchorRequest{Height: heightFlag(cmd, "start-index", o.start)}}, &line); err != nil {
				return err
			}
			var at viewstate.Anchor
			if err := json.Unmarshal([]byte(line), &at); err != nil {
				return err
			}
			if o.file == "" {
				o.file = filepath.Join(a.home, "check-history.json")
			}
			f, err := readHistory(o.file, s.Name(), &at, cmd.Flags().Changed("start-index"))
			if err != nil {
				return err
			}
			return checkHistory(cmd, s, f, o.file, primitives.Height(o.end), &at)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.start, "start-index", 0, "first height, of a block that this node has (default: its lowest block)")
	f.Uint64Var(&o.end, "end-index", 0, "last height (default: the block after the genesis)")
	f.StringVar(&o.file, "state-file", "", "file with the progress (default: check-history.json in the home folder)")
	return c
}

// viewLine is a viewstate.Out for a command that prints one line.
type viewLine string

func (l *viewLine) Line(text string) error        { *l = viewLine(text); return nil }
func (l *viewLine) Row(string) error              { return nil }
func (l *viewLine) Progress(uint64, uint64) error { return nil }

// readHistory returns the progress in a state file, or a new one that begins at the anchor. started
// means that the caller has chosen the anchor.
func readHistory(path, source string, at *viewstate.Anchor, started bool) (*historyFile, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return &historyFile{source, at.Genesis, at.Height, blockfeed.HistoryCheck{Height: at.Height, Hash: at.Hash}}, nil
	}
	if err != nil {
		return nil, err
	}
	f := new(historyFile)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("%s: %w: remove the file to begin again", path, err)
	}
	if f.Source != source || f.Genesis != at.Genesis || started && f.Start != at.Height {
		return nil, fmt.Errorf("%s is of a check of %s from height %d on, with the genesis %v: remove it, or give another --state-file", path, f.Source, f.Start, f.Genesis)
	}
	return f, nil
}

// save writes the state file. A crash leaves the old or the new content.
func (f *historyFile) save(path string) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	w, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func checkHistory(cmd *cobra.Command, s blockfeed.Source, f *historyFile, path string, to primitives.Height, at *viewstate.Anchor) error {
	to = max(to, at.First+1)
	bar := viewBar(cmd.ErrOrStderr())
	if bar != nil {
		bar.ChangeMax64(int64(f.Start-min(f.Start, to)) + 1)
		defer func() { _ = bar.Finish() }()
	}
	if err := f.save(path); err != nil { // before the first request, so that a file that cannot be written costs nothing
		return err
	}
	saved := time.Now()
	err := blockfeed.CheckHistory(cmd.Context(), s, &f.Check, to, f.Genesis, func() error {
		if bar != nil {
			_ = bar.Set64(int64(f.Start - f.Check.Height))
		}
		if time.Since(saved) < historySavePeriod {
			return nil
		}
		saved = time.Now()
		return f.save(path)
	})
	if bad := f.save(path); bad != nil {
		return errors.Join(err, bad)
	}
	c := &f.Check
	say(cmd, "%d blocks of %s below and at height %d are of this chain; %d outcomes are proven, %d are not", c.Blocks, s.Name(), f.Start, c.Outcomes, c.Unproven)
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("stopped above height %d: the same command continues", c.Height)
	}
	return err
}
