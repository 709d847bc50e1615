package node

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
)

// Hooks let tests observe and change a node. Only tests of this package set them. A nil field does
// nothing.
type Hooks struct {
	// dispatcher runs all actors, in place of the node's dispatchers.
	dispatcher actor.Dispatcher
	// trip is called before and after an actor handles a message, on the actor's goroutine. kind is
	// the actor's kind.
	trip func(kind string, m any, after bool)
	// onSend gets a validator's messages before the node sends them.
	onSend func([]consensus.Send)
	// wrapSource wraps the source of the shards that a validator catches up.
	wrapSource func(engine.PartSource) engine.PartSource
}

// trippedActor is an actor that calls Hooks.trip.
type trippedActor struct {
	actor.Actor
	kind string
	trip func(kind string, m any, after bool)
}

// Receive implements actor.Actor.
func (t *trippedActor) Receive(c actor.Context) {
	t.trip(t.kind, c.Message(), false)
	t.Actor.Receive(c)
	t.trip(t.kind, c.Message(), true)
}
