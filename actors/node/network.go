package node

import (
	"cmp"
	"runtime"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/network"
	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// connectNetwork completes the options of the network actor and makes it a receiver of
// the messages in Options.Net. connectNetwork does nothing if the node has no network.
func (n *Node) connectNetwork() {
	if n.o.Network == nil {
		return
	}
	n.network = actor.NewPID(n.root.ActorSystem().Address(), network.Name)
	o := *n.o.Network
	o.Engine, o.Log, o.Signatures, o.Out = n.engine, n.o.Log, n.o.Signatures, peerReceiver{n}
	if n.o.Validator != nil {
		o.Account, o.Key = n.o.Validator.Account, primitives.SecretKey{} // the validator actor reports the key when it signs
		o.Route.All = n.o.Validator.Eager
		o.Validator = peerReceiver{n}
		if n.engine.Scheduled() {
			o.Shards = network.NewShards(network.ShardsOptions{Engine: n.engine, Account: o.Account, Self: o.Peer,
				Status: o.Status, States: o.States, Random: o.Random,
				Tell: func(m any) { n.tell(n.network, m) }, Log: n.o.Log})
			n.shardMoves.Begin(n.engine.Tip())
			v := *n.o.Validator
			v.Source, v.Moves = o.Shards, &n.shardMoves
			if n.o.hooks.wrapSource != nil {
				v.Source = n.o.hooks.wrapSource(o.Shards)
			}
			n.o.Validator = &v
		}
	}
	n.statuses = network.NewTxStatuses(n.engine, o.Status, o.Account, o.Route.Horizon)
	o.TxStatuses = n.statuses
	n.o.Network = &o
	n.o.Net = networkSender{n, n.o.Net}
}

// ShardMoves returns the shards that this validator tracks and the shards that it is catching up.
// The result is nil if the validator's shards never change.
func (n *Node) ShardMoves() *validatoractor.Moved { return n.shardMoves.Now() }

// newValidator returns the actor that replaces chain and producer when there are other validators.
// The actors that replace this one after a failure use the same life.
func (n *Node) newValidator(life *validatoractor.Life) actor.Actor {
	o := *n.o.Validator
	o.Engine, o.Delays, o.Vote, o.Seed, o.Clock, o.Log = n.engine, n.o.Delays, n.o.Vote, n.o.Seed, n.o.Clock, n.o.Log
	o.Known, o.ChooseLimit = n.o.Signatures.Known, n.o.ChooseLimit
	if o.Eager {
		o.Holds = n.o.Network.Status.Holds
	}
	o.Life, o.Workers = life, cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Out = validatoractor.Out{BlockSender: blockSender{n}, PeerSender: peerSender{n}}
	return validatoractor.New(o)
}

// KeyWaiting returns how long the validator's key signs nothing, because it is new to this node.
func (n *Node) KeyWaiting() consensus.KeyWaiting {
	if n.validator == nil {
		return consensus.KeyWaiting{}
	}
	return n.validator.Waiting()
}

// Rekey makes the validator sign with another key, or with no key if key is zero. wait says when the
// key may sign if it is new to this node. Rekey returns false if this node does not share the chain
// with other validators. The signing journal belongs to the account, so signatures of different keys
// do not contradict each other.
func (n *Node) Rekey(key primitives.SecretKey, wait consensus.KeyWait) bool {
	if n.network == nil || n.o.Validator == nil {
		return false
	}
	n.tell(n.chain, validatoractor.Rekeyed{Key: key, Wait: wait})
	return true
}

// pooled returns the Sender for pooled transactions, or nil if pooled transactions have no
// receiver.
func (n *Node) pooled() messages.Sender[messages.TransactionPooled] {
	if n.network == nil {
		return n.o.Pooled
	}
	return func(m messages.TransactionPooled) {
		if n.o.Pooled != nil {
			n.o.Pooled(m)
		}
		n.tell(n.network, m)
	}
}

// submitOthers submits transactions of peers to the mempools, and returns one request for each
// shard. submitOthers returns nil if the node accepts no transactions.
func (n *Node) submitOthers(c messages.Client, txs []*primitives.SignedTransaction) (out []mempool.Request) {
	if n.refuseRequests() != nil {
		return nil
	}
	set := n.shards.set.Load()
	of := map[*shardActors][]*primitives.SignedTransaction{}
	for _, tx := range txs {
		n.drops.sent(tx.Hash())
		t := set.of(tx.SignerID)
		of[t] = append(of[t], tx)
	}
	for t, list := range of { // the order does not matter, because the shards are independent
		r := mempool.NewRequest(c, list)
		n.tell(t.mempool, r)
		out = append(out, r)
	}
	return out
}
