// Package chain is the actor that makes, imports and rolls back blocks. Only its goroutine changes
// the engine.
//
//	in      MakeBlock from the producer; TakeSnapshot, EndSnapshot, Rollback from
//	        the node; BlockReceived, ChunkReceivedAlone from the network; ChunkApplied from the
//	        shard actors
//	out     ApplyChunk to the shard actors; BlockImported, then BlockAccepted once
//	        the block is on disk; BlockRefused, ChunkRefused; BlockWanted, ChunksWanted;
//	        ChainHalted; RolledBack
//	state   Actor: the importer (consensus/importer), requests to make blocks, imported blocks that
//	        are not on disk
//	units   as in package engine
//	bound   received blocks: the limits of chain/blockpool; imported blocks that are not on
//	        disk: engine.MaxAhead; senders of other messages wait for the reply
//	errors  consensus/importer classifies them; a fault of this node halts the chain. If the engine
//	        may be half changed, the actor panics
//	source  our own
package chain

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/consensus/importer"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Engine is the part of *engine.Engine that the actor uses.
type Engine interface {
	importer.Engine
	Reverter
	NewBlock(p *engine.Proposal, key primitives.SecretKey) (*primitives.Block, error)
	// Stored returns the imported blocks that have reached the disk since the last call.
	Stored() ([]*engine.Imported, error)
	Head() *engine.BlockNode
	Final() storage.BlockRef
}

// Reverter rolls the chain back to points that it has saved.
type Reverter interface {
	NewRevertPoint() (*engine.RevertPoint, error)
	ShareRevertPoint(*engine.RevertPoint) (*engine.RevertPoint, error)
	EndRevertPoint(*engine.RevertPoint)
	Rewind(*engine.RevertPoint) error
}

// Out sends the actor's messages.
type Out struct {
	messages.BlockSender
	ShardSender
	RevertSender
	// NetworkSender is nil if the node has no network.
	messages.NetworkSender
}

// ShardSender sends chunks to the actors of their shards.
type ShardSender interface {
	Apply(primitives.ShardID, messages.ApplyChunk)
}

// RevertSender reports revert points.
type RevertSender interface {
	// Captured is called after a revert point is saved, before the reply.
	Captured()
	RolledBack(messages.RolledBack)
}

// Options configure the actor.
type Options struct {
	// Engine is the chain. Required. Only this actor changes it.
	Engine Engine
	// Tip and Final are the heights of the engine's tip and of its last final block at the start.
	Tip, Final primitives.Height

	// Produced blocks.

	// Keys are the secret keys of this node's validators by account. Empty: the node makes no blocks.
	Keys map[primitives.AccountID]primitives.SecretKey
	// Vote is the latest_protocol_version of produced blocks. 0: it follows the upgrade schedule.
	Vote primitives.ProtocolVersion

	// Received blocks.

	// Clock returns the time in ns that limits how often a block or body is requested. nil: always 0.
	Clock func() uint64
	// Counters count orphans and their evictions. nil: not counted.
	Counters *blockpool.Counters
	// Measured has the metrics that importer.Families lists. nil: not measured.
	Measured *metrics.Set

	// Observers.

	// Log receives refused blocks and failures. Required.
	Log *logrus.Logger
	// Out sends the actor's messages.
	Out Out
}

// Actor makes, imports and rolls back blocks. Only its own goroutine may use it.
type Actor struct {
	o         Options
	inFlight  []*messages.BlockAccepted // imported blocks that may not be on disk yet, oldest first
	proposals []messages.MakeBlock
	blocks    *importer.Importer
	drains    []func(messages.Drained, error) // replies to pending DrainChain requests
	whenIdle  []func()                        // functions to call when no block is being imported or written
	era       messages.Era
	self      messages.Sender[next]
	disk      messages.Sender[stored]
	halted    bool // true: the actor starts no further import of a block
}

// next is a message to self: start the next block. The actor handles it after the messages that are
// already in the mailbox.
type next struct{}

// stored is a message to self, sent from any goroutine. It means that imported blocks are on disk,
// or that writing them failed.
type stored struct{}

// New returns the actor.
func New(o Options) *Actor {
	a := &Actor{o: o}
	a.blocks = importer.New(
		importer.Options{Engine: o.Engine, Emit: a.emit, Tip: o.Tip, Final: o.Final, Counters: o.Counters, Measured: o.Measured},
	)
	if a.o.Clock == nil {
		a.o.Clock = func() uint64 { return 0 }
	}
	a.self = func(next) { a.next() } // until Receive gets actor.Started, and in tests without a mailbox
	a.disk = func(stored) {}
	return a
}

// Receive handles lifecycle messages and passes the rest to Handle.
func (a *Actor) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
		root, pid := c.ActorSystem().Root, c.Self()
		a.self = func(m next) { root.Send(pid, m) }
		a.disk = func(m stored) { root.Send(pid, m) }
		return
	}
	a.Handle(c.Message())
}

// Handle handles one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.MakeBlock:
		if !a.isClosing() && m.Era == a.era {
			a.proposals = append(a.proposals, m)
			a.next()
		}
	case messages.BlockReceived:
		a.received(&m)
	case messages.ChunkReceivedAlone:
		a.receivedChunk(&m)
	case messages.ChunkApplied:
		a.applied(m.Block)
	case messages.ChainHalted: // sent by this actor or by another actor of the node
		a.halt()
	case next:
		a.next()
	case stored:
		a.stored()
	case system.Request[messages.DrainChain, messages.Drained]:
		a.drains = append(a.drains, m.Reply)
		a.drained()
	case system.Request[messages.TakeSnapshot, messages.SnapshotTaken]:
		a.runWhenIdle(func() { a.snapshot(m) })
	case system.Request[messages.Rollback, messages.SnapshotTaken]:
		a.runWhenIdle(func() { a.rollback(m) })
	case messages.EndSnapshot:
		a.o.Engine.EndRevertPoint(m.Snapshot.(*engine.RevertPoint))
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("chain actor: no case for %T", m))
	}
}

// isClosing returns whether the actor starts no further block, because it drains or has halted.
func (a *Actor) isClosing() bool { return len(a.drains) > 0 || a.halted }

// next starts imports until one waits for shard actors, or until engine.MaxAhead blocks are not on
// disk yet. This node's own blocks come before received blocks, because a block of this node soon
// becomes stale.
func (a *Actor) next() {
	for a.blocks.Running() == nil && !a.isClosing() && len(a.whenIdle) == 0 && len(a.inFlight) < engine.MaxAhead {
		if len(a.proposals) > 0 {
			m := a.proposals[0]
			a.proposals[0] = messages.MakeBlock{}
			a.proposals = a.proposals[1:]
			a.makeBlock(&m)
			continue
		}
		r := a.blocks.Next(a.o.Clock())
		if r == nil {
			return
		}
		a.applyChunks(r)
	}
}

// makeBlock makes a block of this node and starts its import. makeBlock drops the request if a
// received block has replaced the requested parent as head.
func (a *Actor) makeBlock(m *messages.MakeBlock) {
	b, err := a.o.Engine.NewBlock(&engine.Proposal{
		Parent: m.Parent, Height: m.Height, Timestamp: m.Timestamp, Chunks: m.Chunks, Endorsements: m.Endorsements,
		Approvals: m.Approvals, Vote: a.o.Vote, Patch: m.Patch, Mocks: m.Mocks,
	}, a.o.Keys[m.Producer])
	var r *importer.Run
	if err == nil {
		r, err = a.blocks.Produced(b, m.Chunks)
	}
	if err != nil {
		a.ownBlockFailed(m.Height, err)
		return
	}
	a.applyChunks(r)
}

// ownBlockFailed handles an error of making or importing a block of this node. If the block is
// stale, or contains an invalid chunk of another producer, ownBlockFailed drops the block. Every
// other error halts the chain.
func (a *Actor) ownBlockFailed(height primitives.Height, err error) {
	log := a.o.Log.WithError(err).WithField("height", height)
	switch {
	case errors.Is(err, engine.ErrOrphan), engine.VerdictOf(err) == engine.VerdictStale:
		log.Info("a block of this node was dropped: the chain has moved to another branch")
	case errors.Is(err, engine.ErrChunk):
		log.Error("a block of this node was dropped: it contains an invalid chunk of another producer")
	default:
		a.fail(fmt.Errorf("chain: block %d of this node: %w", height, err))
	}
}

// fail halts the chain after a fault of this node that left the engine unchanged.
func (a *Actor) fail(err error) {
	a.halt()
	m := messages.ChainHalted{Err: err, Drop: func() {}}
	if f := (*engine.ApplyFailure)(nil); errors.As(err, &f) {
		m.Height, m.Block, m.Drop = f.Height, f.Block, f.Release
	}
	a.o.Out.Halted(m)
}

// halt stops all work. The actor still reports blocks that are being written to disk. The shard
// actors finish the chunks that they are applying, but the chain actor does not finish the import
// of these chunks' block.
func (a *Actor) halt() {
	a.halted, a.proposals = true, nil
	a.blocks.Stop()
	a.drained()
}

// stored reports the blocks that are on disk now, in the order of their import.
func (a *Actor) stored() {
	list, err := a.o.Engine.Stored()
	for i := range list {
		m := a.inFlight[0]
		a.inFlight[0] = nil
		a.inFlight = a.inFlight[1:]
		if m.Hash != list[i].Entry.Hash {
			panic(fmt.Sprintf("chain actor: block %v came to the disk, want %v", list[i].Entry.Hash, m.Hash))
		}
		a.o.Out.Accepted(*m)
	}
	// Writers give up waiting for disk space only when the node stops.
	if errors.Is(err, storage.ErrFull) && !errors.Is(err, storage.ErrFailed) {
		a.inFlight = nil // the engine still holds these blocks, so that readers of the engine's head find them
		a.fail(err)
		return
	}
	if err != nil {
		panic(fmt.Errorf("chain: %w", err))
	}
	a.drained()
	a.next()
}

// drained answers pending DrainChain requests and runs the functions in whenIdle, once no block is
// being imported or written.
func (a *Actor) drained() {
	if a.blocks.Running() != nil || len(a.inFlight) > 0 {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
	a.runIdle()
}

// Accepted returns the message that reports an imported block.
func Accepted(a *engine.Imported) messages.BlockAccepted {
	e := a.Entry
	m := messages.BlockAccepted{
		Block: e.Block, Hash: e.Hash, IsHead: a.IsHead, Reorganised: a.IsHead && a.OldHead.Hash != e.Header().PrevHash,
		Final: a.Final.Height, FinalHash: a.Final.Hash, Returned: a.Returned, Shards: make([]messages.ShardAccepted,
			len(e.Shards)),
	}
	for i := range e.Shards {
		s := &e.Shards[i]
		m.Shards[i] = messages.ShardAccepted{ID: s.ID, Chunk: s.Chunk}
		if r := s.Result; r != nil {
			m.Shards[i].Outcomes, m.Shards[i].Outgoing, m.Shards[i].Delayed = r.Outcomes, r.Outgoing, r.Stats.DelayedLen
			m.Shards[i].Changes = r.Changes
		}
	}
	return m
}
