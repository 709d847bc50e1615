package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/internal/prom"
)

// errNoHistory means that the node has no import to show.
var errNoHistory = errors.New("this node has no imported history: set archive and troupe.history.source in its config.json, and restart it")

func newHistory(a *app) *cobra.Command {
	var w watchFlags
	c := &cobra.Command{
		Use:   "history",
		Short: "Show the progress of an archive's import of older blocks",
		Long: `History shows how far a running node has imported the blocks below its first one, which
troupe.history.source in config.json asks for. It shows a bar until the import is done or has
stopped, or until Ctrl-C, which ends the display and not the import. With --once, or without a
terminal, it prints one line and ends. The exit code is 1 if the import has stopped, or if the node
has no imported blocks. The node's log says why an import pauses or has stopped.`,
		Example: `  troupe history
  troupe history --url http://127.0.0.1:3030 --once`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := w.node(a)
			if err != nil {
				return err
			}
			ctx, end := context.WithCancel(cmd.Context())
			defer end()
			polls := poll(ctx, url, w.every)
			look, err := nextPoll(ctx, polls)
			if err != nil {
				return err
			}
			p := historyOf(look.Metrics)
			if p == nil {
				return errNoHistory
			}
			if !w.once {
				p = watchHistory(ctx, cmd.OutOrStdout(), polls, p)
			}
			say(cmd, "%s", p)
			if p.state == blockfeed.ImportStopped {
				return errors.New("the import has stopped: the node's log has the reason and what to do")
			}
			return nil
		},
	}
	w.add(c, "print one line and end")
	return c
}

// watchHistory shows a bar until the import has ended or the user interrupts, and returns the last
// progress. It returns at once if out is not a terminal.
func watchHistory(ctx context.Context, out io.Writer, polls <-chan polled, p *historyProgress) *historyProgress {
	bar := viewBar(out)
	if bar == nil {
		return p
	}
	defer func() { _ = bar.Finish() }()
	for {
		bar.ChangeMax64(max(p.total(), 1))
		bar.Describe(string(p.state) + ", " + p.timeLeft())
		_ = bar.Set64(min(p.done(), max(p.total(), 1)-1)) // a full bar would end
		if p.ended() {
			return p
		}
		look, err := nextPoll(ctx, polls)
		switch {
		case ctx.Err() != nil:
			return p
		case err != nil: // the node may restart
			bar.Describe("no reply")
		default:
			if now := historyOf(look.Metrics); now != nil {
				p = now
			}
		}
	}
}

// historyProgress is the progress of an import, from the metrics of a node.
type historyProgress struct {
	state                      blockfeed.ImportState // empty: no feed is configured
	blocks, low, high, first   float64
	bytes, outcomes, unproven  float64
	share, secondsLeft, errors float64
}

// historyOf returns the progress in metrics, or nil if there is none.
func historyOf(m *prom.Metrics) *historyProgress {
	p := new(historyProgress)
	for name, v := range map[string]*float64{
		"blocks": &p.blocks, "lowest_height": &p.low, "highest_height": &p.high, "first_height": &p.first,
		"bytes": &p.bytes, "outcomes": &p.outcomes,
		"unproven_outcomes": &p.unproven, "progress": &p.share, "seconds_left": &p.secondsLeft, "errors": &p.errors,
	} {
		*v, _ = m.Sum("troupe_history_" + name)
	}
	for _, s := range m.Samples["troupe_history_state"] {
		if s.Value == 1 {
			p.state = blockfeed.ImportState(s.Labels["state"])
		}
	}
	if !m.Has("troupe_history_blocks") {
		return nil
	}
	return p
}

func (p *historyProgress) ended() bool {
	return p.state == "" || p.state == blockfeed.ImportDone || p.state == blockfeed.ImportStopped
}

// done and total are numbers of heights.
func (p *historyProgress) done() int64 {
	if p.blocks == 0 {
		return 0
	}
	return int64(p.high - p.low + 1)
}

func (p *historyProgress) total() int64 {
	if p.blocks == 0 || p.high < p.first {
		return 0
	}
	return int64(p.high - p.first + 1)
}

func (p *historyProgress) timeLeft() string {
	if p.secondsLeft < 0 {
		return "time left unknown"
	}
	return fmt.Sprintf("%v left", time.Duration(p.secondsLeft*float64(time.Second)).Round(time.Second))
}

// String returns one line.
func (p *historyProgress) String() string {
	has := "no blocks yet"
	if p.blocks > 0 {
		has = fmt.Sprintf("%.0f blocks, heights %.0f to %.0f, %.1f MiB", p.blocks, p.low, p.high, p.bytes/(1<<20))
	}
	if p.state == "" {
		return has + "; no feed is configured"
	}
	text := fmt.Sprintf("%s: %.2f %% down to height %.0f; %s; %.0f outcomes are proven, %.0f are not",
		p.state, 100*p.share, p.first, has, p.outcomes, p.unproven)
	if !p.ended() {
		text += "; " + p.timeLeft()
	}
	switch p.state {
	case blockfeed.ImportWaiting:
		text += "; it begins when the node has a recent state and the next blocks"
	case blockfeed.ImportRefused:
		text += "; the feed contradicts the chain at the next block and is asked again, see the node's log"
	case blockfeed.ImportAway:
		text += "; the feed does not deliver the next block and is asked again, see the node's log"
	}
	switch {
	case p.errors == 1:
		text += "; 1 failed attempt"
	case p.errors > 0:
		text += fmt.Sprintf("; %.0f failed attempts", p.errors)
	}
	return text
}
