package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/viewstate"
	"github.com/troupe-chain/troupe/primitives"
)

// viewPrinter prints what a command of view-state sends. The progress bar is only shown if lines are
// rare and stderr is a terminal.
type viewPrinter struct {
	w, csv *bufio.Writer // csv may be nil
	bar    *progressbar.ProgressBar
}

func (p *viewPrinter) Line(text string) error {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	_, err := fmt.Fprintln(p.w, text)
	if p.bar != nil { // a terminal: show the line at once
		err = errors.Join(err, p.w.Flush())
	}
	return err
}

func (p *viewPrinter) Row(text string) error {
	if p.csv == nil {
		return nil
	}
	_, err := fmt.Fprintln(p.csv, text)
	return err
}

func (p *viewPrinter) Progress(done, all uint64) error {
	if p.bar != nil {
		p.bar.ChangeMax64(int64(all))
		_ = p.bar.Set64(int64(done))
	}
	return nil
}

// viewState runs a request. csv is the path of the CSV file; empty: none.
func viewState(a *app, cmd *cobra.Command, r *viewstate.Request, csv string, bar bool) (err error) {
	hm, err := home.Load(a.home)
	if err != nil {
		return err
	}
	p := &viewPrinter{w: bufio.NewWriter(cmd.OutOrStdout())}
	defer func() { err = errors.Join(err, p.w.Flush()) }()
	if csv != "" {
		f, err2 := os.Create(csv)
		if err2 != nil {
			return err2
		}
		p.csv = bufio.NewWriter(f)
		defer func() { err = errors.Join(err, p.csv.Flush(), f.Close()) }()
	}
	if bar {
		if p.bar = viewBar(cmd.ErrOrStderr()); p.bar != nil {
			defer func() { _ = p.bar.Finish() }()
		}
	}
	err = daemon.ViewState(cmd.Context(), hm, r, p)
	if errors.Is(err, viewstate.ErrUsage) {
		return usagef("%w", err)
	}
	return err
}

// viewBar returns a progress bar, or nil if w is not a terminal.
func viewBar(w io.Writer) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return progressbar.NewOptions64(1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("heights"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
}

func newViewChain(a *app) *cobra.Command {
	var o struct {
		height        uint64
		block, chunks bool
	}
	c := &cobra.Command{
		Use: "view-chain", Aliases: []string{"view_chain"},
		Short: "Print the head or another block, and the results of its chunks",
		Long: `View-chain prints the head of the chain or the block at a height, its shard layout, and for each
new chunk what applying the chunk led to: state root, outcome root, gas and burnt tokens.`,
		Example: `  troupe --home /tmp/chain view-state view-chain
  troupe --home /tmp/chain view-state view-chain --height 100 --block --chunk`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := &viewstate.ChainRequest{Block: o.block, Chunks: o.chunks, Height: heightFlag(cmd, "height", o.height)}
			return viewState(a, cmd, &viewstate.Request{Chain: r}, "", false)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.height, "height", 0, "height of the block (default: the head)")
	f.BoolVar(&o.block, "block", false, "print the block, as the RPC method block returns it")
	f.BoolVar(&o.chunks, "chunk", false, "print the block's new chunks, as the RPC method chunk returns them")
	return c
}

// heightFlag returns the value of a flag; nil: the flag was not given.
func heightFlag(cmd *cobra.Command, name string, v uint64) *primitives.Height {
	if !cmd.Flags().Changed(name) {
		return nil
	}
	h := primitives.Height(v)
	return &h
}

func newEpochInfo(a *app) *cobra.Command {
	var o struct {
		validator string
		kickouts  bool
	}
	c := &cobra.Command{
		Use: "epoch-info [--validator-account-id ID] [--kickouts-summary] SELECTION [VALUE]", Aliases: []string{"epoch_info"},
		Short: "Print epochs: heights, protocol version, producers, kickouts",
		Long: `Epoch-info prints epochs, and for each of their heights the producers of the block (BP) and of each
shard's chunk (CP). From protocol version 87 on another validator may have produced a chunk, if the
validator that was drawn had missed too many. SELECTION is current, all, epoch-id ID,
epoch-height HEIGHT, block-hash HASH, block-height HEIGHT, or protocol-version VERSION.`,
		Example: `  troupe --home /tmp/chain view-state epoch-info current
  troupe --home /tmp/chain view-state epoch-info --kickouts-summary all
  troupe --home /tmp/chain view-state epoch-info --validator-account-id test.near block-height 100`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				for _, s := range viewstate.Selections {
					if s.Name == args[0] && len(args) == 1+btoi(s.Value) {
						return nil
					}
				}
			}
			return usagef("epoch-info needs one of: current, all, epoch-id ID, epoch-height HEIGHT, block-hash HASH, block-height HEIGHT, protocol-version VERSION")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &viewstate.EpochRequest{By: args[0], Kickouts: o.kickouts}
			if len(args) > 1 {
				r.Value = args[1]
			}
			if cmd.Flags().Changed("validator-account-id") {
				ids, err := accountIDs(cmd, "validator-account-id", []string{o.validator})
				if err != nil {
					return err
				}
				r.Validator = ids[0]
			}
			return viewState(a, cmd, &viewstate.Request{Epochs: r}, "", false)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.validator, "validator-account-id", "", "list this validator's blocks and chunks, its missing chunks and its kickout")
	f.BoolVar(&o.kickouts, "kickouts-summary", false, "print only the validators that lost their seats, and why")
	return c
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func newApplyRange(a *app) *cobra.Command {
	var o struct {
		start, end uint64
		shards     []string
		verbose    bool
		csv        string
	}
	c := &cobra.Command{
		Use: "apply-range [flags] [sequential | parallel]", Aliases: []string{"apply_range"},
		Short: "Apply stored chunks again and compare the results",
		Long: `Apply-range applies the chunks of stored blocks again, on the stored states, and compares outcome
roots, gas, burnt tokens, congestion and every changed value with the stored results. It writes
nothing to the store. Chunks whose states were garbage-collected are skipped. The exit code is 1 if
a result differs. sequential (the default) applies one chunk at a time, parallel one on each
processor. A running node applies the chunks itself, beside its other work.`,
		Example: `  troupe --home /tmp/chain view-state apply-range --start-index 100 --end-index 200
  troupe --home /tmp/chain view-state apply-range --shard-id 0 --csv-file /tmp/chunks.csv parallel`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "sequential" && args[0] != "parallel" {
				return usagef("apply-range %q: want sequential or parallel", args[0])
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &viewstate.ApplyRequest{Start: heightFlag(cmd, "start-index", o.start), End: heightFlag(cmd, "end-index", o.end),
				Verbose: o.verbose, Parallel: len(args) == 1 && args[0] == "parallel"}
			for _, text := range o.shards {
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					return usagef("--shard-id: %w", err)
				}
				r.Shards = append(r.Shards, primitives.ShardID(n))
			}
			return viewState(a, cmd, &viewstate.Request{Apply: r}, o.csv, true)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.start, "start-index", 0, "first height (default: the lowest stored height)")
	f.Uint64Var(&o.end, "end-index", 0, "last height (default: the head)")
	f.StringSliceVar(&o.shards, "shard-id", nil, "apply only this shard; may be repeated (default: all tracked shards)")
	f.BoolVar(&o.verbose, "verbose-output", false, "print a line for each chunk")
	f.StringVar(&o.csv, "csv-file", "", "write a row for each chunk to this CSV file")
	f.String("storage", "", "ignored: there is only one store")
	_ = f.MarkHidden("storage")
	return c
}
