package node

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/replica"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// newReplica makes the actor of a chain whose blocks come with what they did, in the place of the chain's and the producer's.
func (n *Node) newReplica() actor.Actor {
	return replica.New(replica.Options{Engine: n.engine, Log: n.o.Log, Out: replica.Out{Adopted: n.blockImported, Accepted: n.blockAccepted, Halted: n.chainHalted}})
}

// Give gives a replica its next block, behind those that were given before. done is called when it is on disk, or why it does not come there.
func (n *Node) Give(g *engine.ExecutedBlock, done func(error)) {
	if err := n.refuseBlocks(); err != nil {
		done(err)
		return
	}
	n.tell(n.chain, replica.Block{ExecutedBlock: g, Done: done})
}

// SubmitOthers hands transactions that other nodes have sent to the pools, and returns what the pools say of each: nil if it was taken.
func (n *Node) SubmitFromPeers(c messages.Client, txs []*primitives.SignedTransaction) []mempool.Request {
	return n.submitOthers(c, txs)
}

// Halt ends all work on blocks for a reason of the caller's.
func (n *Node) Halt(err error) { n.chainHalted(messages.ChainHalted{Err: err, Drop: func() {}}) }
