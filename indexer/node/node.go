// Package node provides blocks to package indexer from a node in the indexer's process. The node
// joins a network without producing blocks, or runs the chain of a home folder.
//
//	in      a home folder, as `troupe init` makes it: config.json, genesis.json, node_key.json,
//	        data/
//	out     stream.Source: feeds without a socket
//	state   the node's, in data/
//	units   heights in blocks
//	bound   the limits in config.json
//	errors  errors of the start of a node; when the node ends by itself its feeds end with
//	        ErrRefused and the reason
//	source  nearcore chain/indexer/src/lib.rs
//
// As for any node, config.json determines the tracked shards (tracked_shards_config) and how many
// old blocks are kept (archive).
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

// Options configure a node. Only Home is required.
type Options struct {
	Home        string
	BootNodes   string         // node_key@host:port, separated by commas; empty: from config.json
	NetworkAddr string         // address for peers, host:port; empty: from config.json
	RPCAddr     string         // address of the JSON-RPC, host:port; empty: no RPC
	Archive     bool           // never collect garbage, whatever config.json says
	Log         *logrus.Logger // nil: warnings and errors to stderr
}

// Node is a running node and a stream.Source.
type Node struct {
	options daemon.Options
	config  indexer.Config

	mu      sync.Mutex
	h       *daemon.Daemon
	changed chan struct{} // closed when h or ended change
	ended   error         // why the node has ended; nil: it runs
	stop    context.CancelFunc
	over    chan struct{} // closed when the watching goroutine has ended
	closed  error         // error of the end or of the stop; set before over is closed
}

// Start loads the home and starts its node.
func Start(o Options) (*Node, error) {
	hm, err := o.Load()
	if err != nil {
		return nil, err
	}
	return Under(daemon.Options{Home: hm, Log: o.Log, Listen: o.RPCAddr, NoRPC: o.RPCAddr == ""})
}

// Load loads the home and applies the options to its configuration.
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

// Under starts a node with the options of package daemon.
func Under(o daemon.Options) (*Node, error) {
	o.InProcess, o.Restarts = true, true
	if o.Home.Config.Network.On() { // a node in a network produces no blocks here, even with a validator key
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

// settings returns the stream settings of config.json.
func (n *Node) settings() indexer.Config {
	s := &n.options.Home.Config.Stream
	c := indexer.Config{Source: n}
	switch {
	case s.SyncMode == "BlockHeight":
		c.SyncMode = indexer.BlockHeight(s.Height)
	case s.SyncMode == "FromInterruption" && s.Height > 0:
		c.SyncMode = indexer.FromInterruption(nil).Or(s.Height)
	}
	c.StreamingMode, _ = indexer.ParseStreamingMode(s.StreamingMode) // config.json was validated when it was loaded
	c.Finality, _ = indexer.ParseFinality(s.Finality)
	return c
}

// Config returns the stream settings of config.json (troupe.stream) with this node as the source.
// If Resumes returns true, the caller must set the SyncMode, because the caller has the cursor.
func (n *Node) Config() indexer.Config { return n.config }

// Resumes returns whether config.json asks to continue after the stored cursor (FromInterruption).
func (n *Node) Resumes() bool { return n.options.Home.Config.Stream.SyncMode == "FromInterruption" }

// stopLimit is the maximum time for which Close waits for the node to stop.
const stopLimit = 30 * time.Second

// watch restarts the node when the node asks for a restart, for example after a state sync, and
// records the error when the node ends by itself.
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

// Open implements stream.Source.
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
			go func() { // a wait in a node that has ended would never return
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

// Host returns the running node; nil: there is none at the moment.
func (n *Node) Host() *daemon.Daemon {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.h
}

// Close stops the node.
func (n *Node) Close() error {
	n.stop()
	<-n.over
	return n.closed
}
