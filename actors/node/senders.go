package node

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/session"
	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// The types in this file implement what the actors send through. An actor gets such a value when it
// is made, so that sending allocates nothing but the message.

// blockSender implements messages.BlockSender, chain.ShardSender and chain.RevertSender.
type blockSender struct{ n *Node }

func (s blockSender) Imported(m messages.BlockImported) { s.n.blockImported(m) }
func (s blockSender) Accepted(m messages.BlockAccepted) { s.n.blockAccepted(m) }
func (s blockSender) Halted(m messages.ChainHalted)     { s.n.chainHalted(m) }
func (s blockSender) Captured()                         { s.n.capture() }
func (s blockSender) RolledBack(m messages.RolledBack)  { s.n.rolledBack(m) }

func (s blockSender) Apply(id primitives.ShardID, m messages.ApplyChunk) { s.n.shards.apply(id, m) }

// networkSender implements messages.NetworkSender. It sends each message first to also, unless also
// is nil, and then to the network actor.
type networkSender struct {
	n    *Node
	also messages.NetworkSender
}

func (s networkSender) Refused(m messages.BlockRefused) {
	if s.also != nil {
		s.also.Refused(m)
	}
	s.n.tell(s.n.network, m)
}

func (s networkSender) ChunkRefused(m messages.ChunkRefused) {
	if s.also != nil {
		s.also.ChunkRefused(m)
	}
	s.n.tell(s.n.network, m)
}

func (s networkSender) Wanted(m messages.BlockWanted) {
	if s.also != nil {
		s.also.Wanted(m)
	}
	s.n.tell(s.n.network, m)
}

func (s networkSender) ChunksWanted(m messages.ChunksWanted) {
	if s.also != nil {
		s.also.ChunksWanted(m)
	}
	s.n.tell(s.n.network, m)
}

// peerSender implements validatoractor.PeerSender.
type peerSender struct{ n *Node }

func (s peerSender) Refused(m messages.BlockRefused) { s.n.o.Net.Refused(m) }

func (s peerSender) Signs(key primitives.SecretKey) {
	s.n.o.Network.Status.Rekey(key)
	s.n.tell(s.n.network, network.Rekeyed{Key: key})
}

func (s peerSender) Again() {
	for _, t := range s.n.shards.set.Load().list {
		s.n.tell(t.mempool, messages.PoolWanted{})
	}
}

func (s peerSender) Send(list []consensus.Send) {
	n := s.n
	if n.o.hooks.onSend != nil {
		n.o.hooks.onSend(list)
	}
	n.o.Network.Status.Send(list, func(m any) { n.tell(n.network, m) })
}

// peerReceiver implements network.Out and network.ConsensusReceiver.
type peerReceiver struct{ n *Node }

func (s peerReceiver) Block(m messages.BlockReceived)      { s.n.Receive(m) }
func (s peerReceiver) Chunk(m messages.ChunkReceivedAlone) { s.n.Receive(m) }
func (s peerReceiver) Failed(err error)                    { s.n.o.Exit(network.Name, err, nil) }

func (s peerReceiver) Submit(c messages.Client, txs []*primitives.SignedTransaction) []mempool.Request {
	return s.n.submitOthers(c, txs)
}

func (s peerReceiver) Receive(m consensus.Received, done func()) {
	s.n.tell(s.n.chain, validatoractor.Heard{Received: m, Done: done})
}

// productionSender implements producer.Out.
type productionSender struct{ n *Node }

func (s productionSender) ProduceChunk(m messages.ProduceChunk) { s.n.shards.produce(m) }
func (s productionSender) MakeBlock(m messages.MakeBlock)       { s.n.tell(s.n.chain, m) }
func (s productionSender) Mocked(m *primitives.Mocks)           { s.n.engine.SetMocks(m) }

// progressSender implements txtracker.Out.
type progressSender struct{ n *Node }

func (s progressSender) Progress(to messages.Address, m messages.Progress) { s.n.toWaiter(to, m) }
func (s progressSender) Again(m messages.WatchAgain)                       { s.n.tell(s.n.rpc, m) }

// sessionOwner implements session.Owner.
type sessionOwner struct{ n *Node }

func (s sessionOwner) Session(id messages.SessionID) *actor.Props { return s.n.session(id) }
func (s sessionOwner) Started(id messages.SessionID, pid *actor.PID) {
	s.n.sessionHandles.started(id, pid)
}
func (s sessionOwner) Failed(id messages.SessionID) { s.n.sessionHandles.failed(id) }

// waitSender implements waiter.Out for one wait.
type waitSender struct {
	n *Node
	r session.Request
}

func (s *waitSender) Watch(m messages.Watch)               { s.n.tell(s.n.tracker, m) }
func (s *waitSender) Unwatch(m messages.Unwatch)           { s.n.tell(s.n.tracker, m) }
func (s *waitSender) Submit(m messages.SubmitTransactions) { s.n.route(m) }
func (s *waitSender) Reply(m messages.Awaited)             { s.r.Reply(m) }

// shardSender implements mempool.ActorSender and shard.Out for the actors of one shard.
type shardSender struct {
	n *Node
	t *shardActors
}

func (s shardSender) Candidates(m messages.Candidates) { s.n.tell(s.t.producer, m) }

func (s shardSender) Forward(to primitives.ShardID, m any) bool {
	other := s.n.shards.set.Load().find(to)
	if other != nil {
		s.n.tell(other.mempool, m)
	}
	return other != nil
}

func (s shardSender) Again(m messages.SubmitAgain) {
	s.n.tell(s.n.rpc, m)
	s.n.tell(s.n.producer, m)
}

func (s shardSender) Made(m messages.ChunkMade) {
	s.n.tracer.mark(m.Chunk.Transactions, chosen)
	s.n.tell(s.n.producer, m)
}

func (s shardSender) More(m mempool.Page)           { s.n.tell(s.t.mempool, m) }
func (s shardSender) Chosen(m messages.ChunkChosen) { s.n.tell(s.t.mempool, m) }

// submissionSender implements mempool.ClientSender and mempool.DropRecorder.
type submissionSender struct{ n *Node }

func (s submissionSender) Submitted(to messages.Address, m messages.Submitted) { s.n.toWaiter(to, m) }
func (s submissionSender) Done(id messages.SessionID, count int)               { s.n.sessionHandles.done(id, count) }
func (s submissionSender) Dropped(m messages.TransactionsDropped)              { s.n.dropped(m) }
func (s submissionSender) Lost(m messages.TransactionsDropped)                 { s.n.lost(m) }
func (s submissionSender) Settled(hash primitives.Hash, pooled bool)           { s.n.settled(hash, pooled) }
