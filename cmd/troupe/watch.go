package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/top"
)

// watchFlags are the flags of commands that poll a running node.
type watchFlags struct {
	url   string
	every time.Duration
	once  bool
}

// add adds the flags. once describes what --once does.
func (w *watchFlags) add(c *cobra.Command, once string) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&w.url, "url", "", "JSON-RPC of the node (default: rpc.addr of config.json in --home, else http://127.0.0.1:3030)")
	f.DurationVar(&w.every, "every", time.Second, "time between two polls")
	f.BoolVar(&w.once, "once", false, once)
}

// node returns the URL of the node, after it has checked the flags.
func (w *watchFlags) node(a *app) (string, error) {
	if w.every < 100*time.Millisecond {
		return "", usagef("--every is %v, must be at least 100ms", w.every)
	}
	return a.nodeURL(w.url)
}

// polled is the result of one poll.
type polled struct {
	look *top.Look
	err  error // nil: the node has answered
}

// poll polls a node at once, and again every after each answer that the caller has taken, until ctx
// ends. The channel is never closed: callers also wait for ctx.
func poll(ctx context.Context, url string, every time.Duration) <-chan polled {
	out := make(chan polled)
	go func() {
		pause := time.NewTimer(every)
		defer pause.Stop()
		for {
			look, err := top.Ask(ctx, url)
			select {
			case out <- polled{look, err}:
			case <-ctx.Done():
				return
			}
			pause.Reset(every)
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// nextPoll returns the next answer. Errors: the node does not answer, or ctx has ended.
func nextPoll(ctx context.Context, polls <-chan polled) (*top.Look, error) {
	select {
	case p := <-polls:
		return p.look, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
