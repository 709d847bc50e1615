// Package node is a source of blocks for package indexer that is a node of its own: it joins a
// network without making blocks, or runs the chain of a home folder, in the indexer's process.
//
//	in      a home folder, as `troupe init` makes it: config.json, genesis.json, node_key.json,
//	        data/
//	out     stream.Source: feeds without a socket between
//	state   the node's, in data/
//	units   heights in blocks
//	bound   what config.json gives a node
//	errors  what a node does not start by; once it has ended by itself its feeds end with
//	        ErrRefused and why
//	source  nearcore chain/indexer/src/lib.rs
//
// Which shards it follows, and how much of the past it keeps, config.json says as for any node
// (tracked_shards_config, archive).
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/stream"
)

// Options say what a node is made of. Only Home has no default.
type Options struct {
	Home        string
	BootNodes   string         // node_key@host:port, several separated by commas; empty: as config.json says
	NetworkAddr string         // where other nodes may connect, host:port; empty: as config.json says
	RPCAddr     string         // where it also serves JSON-RPC, host:port; empty: nowhere
	Archive     bool           // keep everything, whatever config.json says
	Log         *logrus.Logger // nil: warnings and errors to stderr
}

// Node runs.
type Node struct {
	options daemon.Options
	config  indexer.Config

	mu      sync.Mutex
	h       *daemon.Daemon
	changed chan struct{} // closed when h or ended change
	ended   error         // why there is none any more
	stop    context.CancelFunc
	over    chan struct{} // closed when the goroutine has ended
	closed  error         // what it ended by, or could not be stopped by; set before
}

// Start begins one.
func Start(o Options) (*Node, error) {
	hm, err := o.Load()
	if err != nil {
		return nil, err
	}
	return Under(daemon.Options{Home: hm, Log: o.Log, Listen: o.RPCAddr, NoRPC: o.RPCAddr == ""})
}

// Load reads the home, and sets in its configuration what the options say.
func (o *Options) Load() (*home.Home, error) {
	hm, err := home.Load(o.Home)
	if err != nil {
		return nil, err
	}
	c := hm.Config
	if o.BootNodes != "" {
		c.Network.BootNodes = o.BootNodes
	}
	if o.NetworkAddr != "" {
		c.Network.Addr = o.NetworkAddr
	}
	if on := true; o.BootNodes != "" || o.NetworkAddr != "" {
		c.Network.Enabled = &on
	}
	c.Archive = c.Archive || o.Archive
	if o.RPCAddr != "" && c.RPC == nil {
		if err := c.AddRPC(); err != nil {
			return nil, err
		}
	}
	return hm, nil
}

// Under begins one as a host's options say.
func Under(o daemon.Options) (*Node, error) {
	o.InProcess, o.Restarts = true, true
	if o.Home.Config.Network.On() { // in a network it makes no blocks, even with a validator's key
		o.Home.ValidatorKey = nil
	}
	h, err := daemon.Start(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{options: o, h: h, changed: make(chan struct{}), stop: cancel, over: make(chan struct{})}
	n.config = n.settings()
	go n.watch(ctx)
	return n, nil
}

// settings are those of config.json.
func (n *Node) settings() indexer.Config {
	s := &n.options.Home.Config.Stream
	c := indexer.Config{Source: n}
	switch {
	case s.SyncMode == "BlockHeight":
		c.SyncMode = indexer.BlockHeight(s.Height)
	case s.SyncMode == "FromInterruption" && s.Height > 0:
		c.SyncMode = indexer.FromInterruption(nil).Or(s.Height)
	}
	c.StreamingMode, _ = indexer.ParseStreamingMode(s.StreamingMode) // they have been checked
	c.Finality, _ = indexer.ParseFinality(s.Finality)
	return c
}

// Config returns the stream settings of config.json (troupe.stream), with this node as the source.
// For FromInterruption the consumer sets the SyncMode itself, since it has the cursor: Resumes.
func (n *Node) Config() indexer.Config { return n.config }

// Resumes returns whether config.json asks to continue after what the consumer has stored.
func (n *Node) Resumes() bool { return n.options.Home.Config.Stream.SyncMode == "FromInterruption" }

// stopLimit bounds a stop.
const stopLimit = 30 * time.Second

// watch starts the node anew when the state of a later block has come, and notes when it ends by
// itself.
func (n *Node) watch(ctx context.Context) {
	defer close(n.over)
	for {
		n.mu.Lock()
		h := n.h
		n.mu.Unlock()
		var why error
		select {
		case <-ctx.Done():
			why = context.Canceled
		case why = <-h.Failed():
		}
		again := errors.Is(why, daemon.ErrStateSynced)
		if again {
			n.set(nil, nil)
		}
		stopping, cancel := context.WithTimeout(context.Background(), stopLimit)
		err := h.Stop(stopping)
		cancel()
		if again && err == nil && ctx.Err() == nil {
			if h, err = daemon.Start(n.options); err == nil {
				n.set(h, nil)
				continue
			}
		}
		if again || ctx.Err() != nil {
			why = nil
		}
		n.closed = errors.Join(why, err)
		n.set(nil, fmt.Errorf("%w: the node has ended: %w", stream.ErrRefused, cmp.Or(n.closed, context.Cause(ctx))))
		return
	}
}

func (n *Node) set(h *daemon.Daemon, ended error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.h, n.ended = h, ended
	close(n.changed)
	n.changed = make(chan struct{})
}

// Open is part of stream.Source.
func (n *Node) Open(ctx context.Context, q *stream.Query) (stream.Feed, error) {
	for {
		n.mu.Lock()
		h, ended, changed := n.h, n.ended, n.changed
		n.mu.Unlock()
		switch {
		case ended != nil:
			return nil, ended
		case h != nil:
			with, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			go func() { // a wait in a node that is gone would never end
				select {
				case <-changed:
					cancel(errors.New("the node restarts"))
				case <-with.Done():
				}
			}()
			return h.Backend().Open(with, q)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Host is the node that runs now; nil: none does.
func (n *Node) Host() *daemon.Daemon {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.h
}

// Close ends the node cleanly.
func (n *Node) Close() error {
	n.stop()
	<-n.over
	return n.closed
}
