package daemon

import (
	"context"

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

// Instance is one chain of a process: that of its folder, or a world.
type Instance struct {
	Engine *engine.Engine
	Node   *node.Node

	id        string // of a world; empty: it is none
	home      *home.Home
	log       *logrus.Logger
	store     *storage.Store
	checker   *signature.Checker
	back      *backend.Backend // nil: nobody asks
	snapshots snapshots
	worlds    *worlds                    // of the process
	front     *network.Status            // nil: there are no other nodes
	feeds     *feeds                     // nil: it follows none
	together  bool                       // it makes blocks with other validators
	key       func() *primitives.KeyFile // of the validator now, where that may change: of who makes blocks with others
	fork      *forked                    // nil: the chain is a fork of no other; worlds have their parent's
	replays   chan struct{}              // has whoever replays a transaction
}

// Backend is what answers for the chain to who asks in this process; nil: nobody does
// (Options.Inside).
func (r *Instance) Backend() *backend.Backend { return r.back }

// World makes a world that goes on from this chain, for who asks it in this process: it does not
// end because nobody asks.
func (r *Instance) World(ctx context.Context, q *view.NewWorld) (*Instance, error) {
	s := steerer{r}
	if err := s.alone(); err != nil {
		return nil, err
	}
	w, err := r.worlds.open(ctx, r, q, true)
	if err != nil {
		return nil, err
	}
	return &w.Instance, nil
}

// End ends a world, with those that go on from it, and waits until nothing is left.
func (r *Instance) End() error {
	w := r.worlds.find(r.id)
	if w == nil {
		return nil
	}
	r.worlds.drop(w, whyAsked)
	return w.err
}
