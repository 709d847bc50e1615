package node

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/replica"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// newReplica returns the actor that replaces chain and producer in a replica.
func (n *Node) newReplica() actor.Actor {
	return replica.New(replica.Options{Engine: n.engine, Log: n.o.Log, Out: blockSender{n}})
}

// Give passes the next executed block to a replica, in the order of calls. done is called with nil
// when the block is on disk, else with an error.
func (n *Node) Give(g *engine.ExecutedBlock, done func(error)) {
	if err := n.refuseBlocks(); err != nil {
		done(err)
		return
	}
	n.tell(n.chain, replica.Block{ExecutedBlock: g, Done: done})
}

// SubmitFromPeers submits transactions of another node to the mempools. It returns one request for
// each shard, which carries the results. SubmitFromPeers returns nil if the node accepts no
// transactions.
func (n *Node) SubmitFromPeers(c messages.Client, txs []*primitives.SignedTransaction) []mempool.Request {
	return n.submitOthers(c, txs)
}

// Halt halts the node with an error of the caller.
func (n *Node) Halt(err error) { n.chainHalted(messages.ChainHalted{Err: err, Drop: func() {}}) }
