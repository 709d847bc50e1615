package daemon

import (
	"context"
	"errors"
	"net"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// Instance is one chain of a process: the node's own chain, or a world.
type Instance struct {
	Engine *engine.Engine
	Node   *node.Node

	id           string // ID of the world; empty: the node's own chain
	home         *home.Home
	log          *logrus.Logger
	store        *storage.Store
	checker      *signature.Checker
	back         *backend.Backend // nil: the node has no RPC, and Options.InProcess is not set
	revertPoints revertPoints
	worlds       *worlds         // all worlds of the process
	front        *network.Status // nil: no network
	feeds        *feeds          // nil: the node follows no feeds
	withOthers   bool            // the node produces blocks together with validators of other nodes
	// key returns the current validator key. key is set only if Reload may change the validator
	// key, which requires withOthers.
	key     func() *primitives.KeyFile
	fork    *forked       // shared by a chain and its worlds; nil: the chain is no fork
	replays chan struct{} // semaphore that admits one ReplayTransaction at a time
}

// Backend returns the chain's backend for queries in this process. The result is nil if there is
// neither an RPC nor Options.InProcess.
func (r *Instance) Backend() *backend.Backend { return r.back }

// World creates a world that continues from this chain, for use in this process. Such a world does
// not end when idle.
func (r *Instance) World(ctx context.Context, q *view.NewWorld) (*Instance, error) {
	s := sandboxControl{r}
	if err := s.checkExclusive(); err != nil {
		return nil, err
	}
	w, err := r.worlds.open(ctx, r, q, true)
	if err != nil {
		return nil, err
	}
	return &w.Instance, nil
}

// End ends a world and its child worlds, and waits until all of them have ended. For the node's own
// chain, End does nothing.
func (r *Instance) End() error {
	w := r.worlds.find(r.id)
	if w == nil {
		return nil
	}
	r.worlds.drop(w, endAsked)
	return w.err
}

// Ended returns whether this chain has ended or is ending, because its node has stopped or its
// world was dropped.
func (r *Instance) Ended() bool {
	if r.id != "" {
		w := r.worlds.find(r.id)
		return w == nil || w.gone.Load()
	}
	r.worlds.mu.Lock()
	defer r.worlds.mu.Unlock()
	return r.worlds.closed
}

// Serve returns the URL of this chain's JSON-RPC. If the RPC has no listener yet, Serve opens one
// on addr. Serve needs Options.Servable. The listener is closed when the node stops.
func (r *Instance) Serve(addr string) (string, error) {
	h := r.worlds.h
	h.serving.Lock()
	defer h.serving.Unlock()
	switch {
	case r.Ended():
		return "", errors.New("the chain has ended")
	case h.server == nil:
		return "", errors.New("this node has no RPC server")
	case h.Addr == nil:
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return "", err
		}
		h.serve(l)
	}
	url := URL(h.Addr.String())
	if r.id != "" {
		url += "/world/" + r.id
	}
	return url, nil
}
