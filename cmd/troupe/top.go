package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/localnet"
	"github.com/troupe-chain/troupe/internal/top"
)

func newTop(a *app) *cobra.Command {
	var w watchFlags
	c := &cobra.Command{
		Use:   "top",
		Short: "Show a live view of a node: chain, RPC, actors, shards",
		Long: `Top polls the status and the metrics of a running node and shows them in one screen: the head, the
rate of blocks and transactions, the latency of the RPC, and for each kind of actor its queue
length, message rate, load, and the time that messages wait and take (50th and 99th percentile
since the previous poll). It also works with neard, which reports fewer figures. The console at
/console shows the same in a browser. With --once, or without a terminal, it polls twice, prints
one screen, and ends.`,
		Example: `  troupe top
  troupe top --url https://rpc.example.org --every 5s
  troupe top --once | head -4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := w.node(a)
			if err != nil {
				return err
			}
			ctx, end := context.WithCancel(cmd.Context())
			defer end()
			polls := poll(ctx, place, w.every)
			if in, ok := cmd.InOrStdin().(*os.File); ok && !w.once {
				if out, ok := cmd.OutOrStdout().(*os.File); ok {
					if t, ok := localnet.OpenTerminal(in, out); ok {
						defer t.Close()
						return topScreen(ctx, t, place, polls)
					}
				}
			}
			before, err := nextPoll(ctx, polls)
			if err != nil {
				return err
			}
			now, err := nextPoll(ctx, polls)
			if err != nil {
				return err
			}
			for _, line := range new(top.View).Lines(place, before, now, 0, 0) {
				say(cmd, "%s", line)
			}
			return nil
		},
	}
	w.add(c, "print one screen and end")
	return c
}

// topScreen shows the node until the user quits. While the node does not answer, topScreen says so
// on the screen and keeps polling.
func topScreen(ctx context.Context, t *localnet.Terminal, place string, polls <-chan polled) error {
	var v top.View
	var before, now *top.Look
	lost := ""
	for {
		width, height := t.Size()
		lines := []string{"asking " + place}
		if now != nil {
			lines = v.Lines(place, before, now, width, height)
		}
		if lost != "" {
			lines[0] = top.Fit(lost, width)
		}
		t.Draw(lines)
		select {
		case <-ctx.Done():
			return nil
		case in, open := <-t.Keys:
			if !open || v.Key(string(in)) {
				return nil
			}
		case x := <-polls:
			if lost = ""; x.err != nil {
				lost = x.err.Error()
			} else {
				before, now = now, x.look
			}
		}
	}
}
