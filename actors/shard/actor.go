// Package shard holds the actors of one shard: the one that applies its chunks, and below it the chunk-producer; the
// mempool's actor, the third, has its own package.
//
//	in      ApplyChunk, BlockAdopted, LayoutChanged, CapturePool and RestorePool from the chain, ProduceChunk from the producer; Candidates from the mempool
//	out     ChunkApplied and MakeChunk to the chain; the rest goes on to the children
//	state   none but the mailbox: chunks of a shard are applied in order, shards at the same time
//	units   none
//	bound   the chain has one block in work at a time
//	errors  a job keeps its own error for the chain; a panic ends the process
//	source  our own
package shard

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
)

// Names of the children.
const (
	MempoolName       = "mempool"
	ChunkProducerName = "chunk-producer"
)

// Actor applies a shard's chunks. Applying is its work, so it does that in Receive: what has to wait for it waits rightly.
type Actor struct {
	applied messages.Sender[messages.ChunkApplied]
	// producer and mempool are the children's properties. They know each other by name.
	producer, mempool *actor.Props

	toMempool func(any)
	pool      *actor.PID
}

// Retire: node -> shard: no branch can have the shard any more. It ends behind what lies in its mailbox and in that of its mempool, which
// sends on what belongs to other shards.
type Retire struct{}

// New returns a shard's actor, which spawns its children when it starts.
func New(applied messages.Sender[messages.ChunkApplied], producer, mempool *actor.Props) *Actor {
	return &Actor{applied: applied, producer: producer, mempool: mempool}
}

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.spawn(c)
	case Retire:
		c.Poison(a.pool) // which is taken in turn; a stop of this actor would go before all that it has
	case *actor.Terminated:
		if m.Who.Equal(a.pool) {
			c.Stop(c.Self())
		}
	default:
		a.Handle(m)
	}
}

func (a *Actor) spawn(c actor.Context) {
	root := c.ActorSystem().Root
	if _, err := c.SpawnNamed(a.producer, ChunkProducerName); err != nil {
		panic(fmt.Errorf("shard actor: spawn %s: %w", ChunkProducerName, err))
	}
	pool, err := c.SpawnNamed(a.mempool, MempoolName)
	if err != nil {
		panic(fmt.Errorf("shard actor: spawn %s: %w", MempoolName, err))
	}
	a.pool = pool
	a.toMempool = func(m any) { root.Send(pool, m) }
}

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.ApplyChunk:
		m.Job.Run()
		a.applied(messages.ChunkApplied{Block: m.Block})
	case messages.BlockImported:
		a.toMempool(m)
	case system.Request[messages.LayoutChanged, messages.PoolMoved]:
		a.toMempool(m)
	case messages.ProduceChunk:
		a.toMempool(m)
	case system.Request[messages.CapturePool, messages.PoolCaptured]:
		a.toMempool(m)
	case system.Request[messages.RestorePool, messages.PoolRestored]:
		a.toMempool(m)
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("shard actor: no case for %T", m))
	}
}
