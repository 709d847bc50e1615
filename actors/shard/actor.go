// Package shard contains two actors of each shard: the shard actor, which applies chunks, and its
// child chunk-producer. The shard actor's other child, the mempool, is in package mempool.
//
//	in      ApplyChunk from the chain; Candidates from the mempool
//	out     ChunkApplied to the chain, ChunkMade to the producer; Page and ChunkChosen to the
//	        mempool
//	state   none but the mailbox: the chunks of a shard are applied in order, those of
//	        different shards in parallel
//	units   none
//	bound   the chain imports one block at a time
//	errors  a job keeps its own error for the chain; a panic halts the node
//	source  our own
package shard

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
)

// Names of the children.
const (
	MempoolName       = "mempool"
	ChunkProducerName = "chunk-producer"
)

// Actor applies a shard's chunks. It applies a chunk in Receive, on the actor's goroutine, because
// the next messages must see the result.
type Actor struct {
	applied messages.Sender[messages.ChunkApplied]
	// producer and mempool are the Props of the children. The children find each other by name.
	producer, mempool *actor.Props

	pool *actor.PID
}

// The node sends Retire to a shard actor, without a reply. Retire means that no branch can contain
// the shard any more. The shard actor and its mempool first handle the messages in their mailboxes.
// The mempool forwards its transactions to other shards. Then the shard actor ends.
type Retire struct{}

// New returns a shard's actor. The actor spawns its children when it starts.
func New(applied messages.Sender[messages.ChunkApplied], producer, mempool *actor.Props) *Actor {
	return &Actor{applied: applied, producer: producer, mempool: mempool}
}

// Receive handles one message.
func (a *Actor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.spawn(c)
	case Retire:
		// The mempool handles Poison after the messages that are already in its mailbox. Stopping
		// this actor instead would skip the rest of its own mailbox.
		c.Poison(a.pool)
	case *actor.Terminated:
		if m.Who.Equal(a.pool) {
			c.Stop(c.Self())
		}
	default:
		a.Handle(m)
	}
}

func (a *Actor) spawn(c actor.Context) {
	if _, err := c.SpawnNamed(a.producer, ChunkProducerName); err != nil {
		panic(fmt.Errorf("shard actor: start actor %s: %w", ChunkProducerName, err))
	}
	pool, err := c.SpawnNamed(a.mempool, MempoolName)
	if err != nil {
		panic(fmt.Errorf("shard actor: start actor %s: %w", MempoolName, err))
	}
	a.pool = pool
}

// Handle handles one message that is not about the actor's lifecycle.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.ApplyChunk:
		m.Job.Run()
		a.applied(messages.ChunkApplied{Block: m.Block})
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("shard actor: no case for %T", m))
	}
}
