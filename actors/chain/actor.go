// Package chain is the actor around the engine. Its goroutine is the only one that changes the
// engine.
//
//	in      MakeChunk, MakeBlock from the producer's side; TakeSnapshot, EndSnapshot, Rollback
//	        from the node; BlockReceived, ChunkReceivedAlone from the net; ChunkApplied from
//	        the shards
//	out     ChunkMade; ApplyChunk to the shards; BlockImported, then BlockAccepted once it is
//	        on disk; BlockRefused, ChunkRefused; BlockWanted, ChunksWanted; ChainHalted;
//	        RolledBack
//	state   Actor: the block in work (chunks without work are applied here), blocks to be
//	        made, received ones that wait for their turn, parent or chunks (chain/blockpool),
//	        blocks on their way to disk
//	units   as in package engine
//	bound   chain/blockpool's for what peers send; engine.MaxAhead blocks on their way to
//	        disk; senders of other messages wait for their answers
//	errors  by engine.VerdictOf: a bad block is refused, an overtaken one dropped, this node's
//	        own failure halts the chain; it is a panic if the engine may be half changed
//	source  our own
package chain

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Engine is what the actor drives: *engine.Engine.
type Engine interface {
	Precheck(b *primitives.Block) (engine.Prechecked, error)
	PrecheckBody(c *primitives.Chunk) (signed bool, need blockpool.Need, err error)
	NewChunk(parent primitives.Hash, shard primitives.ShardIndex, txs []*primitives.SignedTransaction,
		key primitives.SecretKey) (*primitives.Chunk, error)
	NewBlock(p *engine.Proposal, key primitives.SecretKey) (*primitives.Block, error)
	BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.BlockImport, error)
	FinishImport(p *engine.BlockImport, stored func()) (*engine.Accepted, error)
	Stored() ([]*engine.Accepted, error)
	NewRevertPoint() (*engine.RevertPoint, error)
	ShareRevertPoint(*engine.RevertPoint) (*engine.RevertPoint, error)
	EndRevertPoint(*engine.RevertPoint)
	Rewind(*engine.RevertPoint) error
	Head() *engine.BlockNode
	Final() storage.BlockRef
}

// Out are the receivers of the actor's messages.
type Out struct {
	ChunkMade  messages.Sender[messages.ChunkMade]
	Apply      func(primitives.ShardID, messages.ApplyChunk)
	Adopted    messages.Sender[messages.BlockImported]
	Accepted   messages.Sender[messages.BlockAccepted]
	Halted     messages.Sender[messages.ChainHalted]
	Captured   func() // called when a snapshot was taken, before the answer; nil: snapshots are never requested
	RolledBack messages.Sender[messages.RolledBack]
	// Refused, ChunkRefused, Wanted and ChunksWanted go to the net. nil: there is none.
	Refused      messages.Sender[messages.BlockRefused]
	ChunkRefused messages.Sender[messages.ChunkRefused]
	Wanted       messages.Sender[messages.BlockWanted]
	ChunksWanted messages.Sender[messages.ChunksWanted]
}

// Options configure the actor.
type Options struct {
	Engine Engine
	Keys   map[primitives.AccountID]primitives.SecretKey // of this node's validators
	Vote   primitives.ProtocolVersion                    // latest_protocol_version of blocks made here; 0: by the upgrade schedule
	Tip    primitives.Height                             // of the engine
	Final  primitives.Height                             // of the engine's last final block
	Clock  func() uint64                                 // ns, limits how often the net is asked; nil: time stands still
	Log    *logrus.Logger
	Out    Out
}

// Actor makes, imports and rolls back blocks.
type Actor struct {
	o         Options
	work      *work
	inFlight  []*messages.BlockAccepted // imported and not known to be on disk
	proposals []messages.MakeBlock
	pool      *blockpool.Pool                 // of received blocks
	tip       primitives.Height               // of the engine
	drains    []func(messages.Drained, error) // pending DrainChain requests
	whenIdle  []func()                        // to be run between two blocks
	era       messages.Era
	self      messages.Sender[next]
	disk      messages.Sender[stored]
	halted    bool // no block is started any more
}

// work is the block with chunks being applied.
type work struct {
	pending  *engine.BlockImport
	hash     primitives.Hash
	left     int // jobs
	produced bool
	from     string
}

// next is a message to self: start the next block after what is in the mailbox.
type next struct{}

// stored is a message to self, from any goroutine: imported blocks are on disk, or cannot get
// there.
type stored struct{}

// New returns the actor.
func New(o Options) *Actor {
	a := &Actor{o: o, tip: o.Tip, pool: blockpool.New(o.Tip, o.Final)}
	if a.o.Clock == nil {
		a.o.Clock = func() uint64 { return 0 }
	}
	a.self = func(next) { a.next() } // until it has a mailbox
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
	case messages.MakeChunk:
		a.makeChunk(&m)
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
	case messages.ChainHalted: // here or elsewhere
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

func (a *Actor) makeChunk(m *messages.MakeChunk) {
	if a.isClosing() || m.Era != a.era {
		return
	}
	c, err := a.o.Engine.NewChunk(m.Parent, m.Shard, m.Transactions, a.o.Keys[m.Producer])
	switch {
	case errors.Is(err, engine.ErrOrphan): // final blocks have overtaken it
		a.o.Log.WithField("shard", m.ShardID).Debug("chunk on a block that is gone")
	case err != nil:
		a.fail(fmt.Errorf("chain: produce the chunk of shard %d: %w", m.ShardID, err))
	default:
		a.o.Out.ChunkMade(messages.ChunkMade{Shard: m.Shard, Chunk: c, Era: a.era})
	}
}

// isClosing returns whether no block is started any more.
func (a *Actor) isClosing() bool { return len(a.drains) > 0 || a.halted }

// next starts blocks until one has jobs in work or too many are on their way to disk. Blocks of
// this node come first, since they would soon be too late.
func (a *Actor) next() {
	for a.work == nil && !a.isClosing() && len(a.whenIdle) == 0 && len(a.inFlight) < engine.MaxAhead {
		if len(a.proposals) > 0 {
			m := a.proposals[0]
			a.proposals[0] = messages.MakeBlock{}
			a.proposals = a.proposals[1:]
			a.makeBlock(&m)
			continue
		}
		b := a.pool.Next()
		if b == nil {
			return
		}
		a.beginImport(b)
	}
}

// makeBlock makes a block of this node. If a received block has overtaken it, it is dropped.
func (a *Actor) makeBlock(m *messages.MakeBlock) {
	b, err := a.o.Engine.NewBlock(&engine.Proposal{
		Parent: m.Parent, Height: m.Height, Timestamp: m.Timestamp, Chunks: m.Chunks, Endorsements: m.Endorsements,
		Approvals: m.Approvals, Vote: a.o.Vote, Patch: m.Patch, Mocks: m.Mocks,
	}, a.o.Keys[m.Producer])
	var p *engine.BlockImport
	if err == nil {
		p, err = a.o.Engine.BeginImport(b, m.Chunks, true)
	}
	if err == nil {
		a.applyChunks(p, true, "")
		return
	}
	a.ownBlockFailed(m.Height, err)
}

// ownBlockFailed handles the error of a block of this node. With a bad chunk of another
// producer it is treated like a received block.
func (a *Actor) ownBlockFailed(height primitives.Height, err error) {
	log := a.o.Log.WithError(err).WithField("height", height)
	switch {
	case errors.Is(err, engine.ErrOrphan), engine.VerdictOf(err) == engine.VerdictStale:
		log.Info("own block was overtaken")
	case errors.Is(err, engine.ErrChunk):
		log.Error("own block has a bad chunk of another producer")
	default:
		a.fail(fmt.Errorf("chain: block %d of this node: %w", height, err))
	}
}

// fail halts the chain for a failure of this node that has left the engine unchanged.
func (a *Actor) fail(err error) {
	a.halt()
	m := messages.ChainHalted{Err: err, Drop: func() {}}
	if f := (*engine.ApplyFailure)(nil); errors.As(err, &f) {
		m.Height, m.Block, m.Drop = f.Height, f.Block, f.Release
	}
	a.o.Out.Halted(m)
}

// applyChunks starts the chunks of a block: light ones here, the others on their shards.
func (a *Actor) applyChunks(p *engine.BlockImport, produced bool, from string) {
	hash := p.Block().Hash()
	jobs := p.Jobs()
	a.work = &work{pending: p, hash: hash, left: len(jobs), produced: produced, from: from}
	for i := range jobs {
		if jobs[i].Trivial() {
			jobs[i].Run()
			a.work.left--
		}
	}
	if a.work.left == 0 {
		a.finishImport()
		return
	}
	for i := range jobs {
		if jobs[i].Done() {
			continue
		}
		a.o.Out.Apply(jobs[i].ID,
			messages.ApplyChunk{Block: hash, Height: p.Block().Header.Height, Job: &jobs[i]})
	}
}

func (a *Actor) applied(block primitives.Hash) {
	if a.halted {
		return
	}
	if a.work == nil || a.work.hash != block {
		panic(fmt.Sprintf("chain actor: a chunk of %v was applied, which is not in work", block))
	}
	if a.work.left--; a.work.left == 0 {
		a.finishImport()
	}
}

// finishImport ends the work on a block after its jobs have all run.
func (a *Actor) finishImport() {
	w := a.work
	a.work = nil
	acc, err := a.o.Engine.FinishImport(w.pending, func() { a.disk(stored{}) })
	switch {
	case err == nil:
		m := Accepted(acc)
		a.inFlight = append(a.inFlight, &m)
		a.o.Out.Adopted(messages.BlockImported{BlockAccepted: &m})
		a.blockImported(acc)
	case errors.As(err, new(*engine.ApplyFailure)) && engine.VerdictOf(err) == engine.VerdictLocalFault:
		a.halt()
		a.o.Out.Halted(messages.ChainHalted{Height: w.pending.Block().Header.Height, Block: w.hash, Err: err,
			Drop: w.pending.Drop})
	case engine.VerdictOf(err) == engine.VerdictLocalFault:
		panic(fmt.Errorf("chain: import block %d: %w", w.pending.Block().Header.Height, err))
	case w.produced:
		w.pending.Drop()
		a.ownBlockFailed(w.pending.Block().Header.Height, err)
	default:
		w.pending.Drop()
		a.importFailed(w.pending.Block(), w.from, err)
	}
	a.drained()
	if blocks, _ := a.pool.Len(); len(a.proposals) > 0 || blocks > 0 {
		a.self(next{}) // what is in the mailbox, mostly chunks for the new tip, goes first
	}
}

// halt ends all work except on blocks on their way to disk. The application of chunks cannot be
// interrupted: their block stays as it is until the process ends.
func (a *Actor) halt() {
	a.halted, a.work, a.proposals = true, nil, nil
	a.pool.Clear()
	a.drained()
}

// stored reports the blocks that have reached the disk.
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
	// the node is stopping and no longer waits for room
	if errors.Is(err, storage.ErrFull) && !errors.Is(err, storage.ErrFailed) {
		a.inFlight = nil // the engine keeps them: the producer, which has not stopped, reads them
		a.fail(err)
		return
	}
	if err != nil {
		panic(fmt.Errorf("chain: %w", err))
	}
	a.drained()
	a.next()
}

// drained answers DrainChain once nothing is in work.
func (a *Actor) drained() {
	if a.work != nil || len(a.inFlight) > 0 {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
	a.runIdle()
}

// Accepted returns the message for an imported block.
func Accepted(a *engine.Accepted) messages.BlockAccepted {
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
