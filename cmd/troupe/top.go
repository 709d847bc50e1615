package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/localnet"
	"github.com/troupe-chain/troupe/internal/top"
)

func newTop(a *app) *cobra.Command {
	var o struct {
		url   string
		every time.Duration
		once  bool
	}
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
			if o.every < 100*time.Millisecond {
				return usagef("--every is %v, must be at least 100ms", o.every)
			}
			place, err := a.nodeURL(o.url)
			if err != nil {
				return err
			}
			if in, ok := cmd.InOrStdin().(*os.File); ok && !o.once {
				if out, ok := cmd.OutOrStdout().(*os.File); ok {
					if t, ok := localnet.OpenTerminal(in, out); ok {
						defer t.Close()
						return topScreen(cmd, t, place, o.every)
					}
				}
			}
			before, err := top.Ask(cmd.Context(), place)
			if err != nil {
				return err
			}
			select {
			case <-time.After(o.every):
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			}
			now, err := top.Ask(cmd.Context(), place)
			if err != nil {
				return err
			}
			for _, line := range new(top.View).Lines(place, before, now, 0, 0) {
				say(cmd, "%s", line)
			}
			return nil
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.url, "url", "", "JSON-RPC of the node (default: rpc.addr of config.json in --home, else http://127.0.0.1:3030)")
	f.DurationVar(&o.every, "every", time.Second, "time between two polls")
	f.BoolVar(&o.once, "once", false, "print one screen and end")
	return c
}

// topScreen shows the node until the user quits. While the node does not answer, topScreen says so
// on the screen and keeps polling.
func topScreen(cmd *cobra.Command, t *localnet.Terminal, place string, every time.Duration) error {
	var v top.View
	var before, now *top.Look
	lost := ""
	type answer struct {
		look *top.Look
		err  error
	}
	answers := make(chan answer, 1)
	ask := func() {
		l, err := top.Ask(cmd.Context(), place)
		answers <- answer{l, err}
	}
	go ask()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for asking := true; ; {
		select {
		case <-cmd.Context().Done():
			return nil
		case in, open := <-t.Keys:
			if !open || v.Key(string(in)) {
				return nil
			}
		case x := <-answers:
			if asking, lost = false, ""; x.err != nil {
				lost = x.err.Error()
			} else {
				before, now = now, x.look
			}
		case <-tick.C:
			if !asking {
				asking = true
				go ask()
			}
		}
		width, height := t.Size()
		lines := []string{"asking " + place}
		if now != nil {
			lines = v.Lines(place, before, now, width, height)
		}
		if lost != "" {
			lines[0] = top.Fit(lost, width)
		}
		t.Draw(lines)
	}
}
