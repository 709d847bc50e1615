// Package chain is the shell around the engine: the one goroutine that changes it.
//
//	in      MakeChunk, MakeBlock from the producer's side; BlockReceived from the net; ChunkApplied from the shards
//	out     ChunkMade; ApplyChunk to the shards; BlockAdopted to who makes the next block, BlockAccepted to everybody once it
//	        is on disk; BlockRefused; ChainHalted
//	state   Actor: the block in work (what has nothing to run is applied here at once), those that wait for it, those on their way to the disk, those that wait for their parent
//	units   as package engine has them
//	bound   MaxOrphans blocks without a parent, MaxQueue received blocks, engine.MaxAhead on their way to the disk; the senders
//	        of the rest wait for their answers
//	errors  a bad block is refused; one that may be right and cannot be applied halts the chain (engine.Fault); whatever else the
//	        engine cannot do is a panic, as the state would be in doubt
//	source  our own
package chain

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/link"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of what others send.
const (
	MaxOrphans = 256
	MaxQueue   = 1024
)

// Engine is what the actor drives; *engine.Engine is it.
type Engine interface {
	NewChunk(parent primitives.Hash, shard primitives.ShardIndex, txs []*primitives.SignedTransaction, key primitives.SecretKey) (*primitives.Chunk, error)
	NewBlock(p *engine.Proposal, key primitives.SecretKey) (*primitives.Block, error)
	Begin(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.Pending, error)
	Adopt(p *engine.Pending, stored func()) (*engine.Accepted, error)
	Stored() ([]*engine.Accepted, error)
}

// Out is whom the actor talks to.
type Out struct {
	ChunkMade messages.Sender[messages.ChunkMade]
	Apply     func(primitives.ShardID, messages.ApplyChunk)
	Adopted   messages.Sender[messages.BlockAdopted]
	Accepted  messages.Sender[messages.BlockAccepted]
	Refused   messages.Sender[messages.BlockRefused] // nil: nobody asks
	Halted    messages.Sender[messages.ChainHalted]
}

// Options are what the actor works with.
type Options struct {
	Engine Engine
	Keys   map[primitives.AccountID]primitives.SecretKey // of this node's validators
	Vote   primitives.ProtocolVersion                    // latest_protocol_version of blocks made here
	Log    *logrus.Logger
	Out    Out
}

// Actor is the shell.
type Actor struct {
	o       Options
	work    *work
	ahead   []*messages.BlockAccepted       // adopted and not known to be on disk
	queue   []any                           // MakeBlock, messages.BlockReceived
	orphans map[primitives.Hash][]orphan    // by parent
	waiting int                             // number of orphans
	drains  []func(messages.Drained, error) // who waits for the end
	known   map[primitives.Hash]struct{}    // orphans by their own hash
	self    messages.Sender[next]
	disk    messages.Sender[stored]
	halted  bool // no block is begun any more
}

type orphan struct{ messages.BlockReceived }

// work is the block whose chunks are being applied.
type work struct {
	pending  *engine.Pending
	hash     primitives.Hash
	left     int // jobs
	produced bool
	from     string
}

// next is a note to self: begin with the next block, after what is in the mailbox.
type next struct{}

// stored is a note to self, from any goroutine: adopted blocks are on disk, or cannot come there.
type stored struct{}

// New returns the actor.
func New(o Options) *Actor {
	a := &Actor{o: o, orphans: map[primitives.Hash][]orphan{}, known: map[primitives.Hash]struct{}{}}
	a.self = func(next) { a.next() } // until it has a mailbox
	a.disk = func(stored) {}
	return a
}

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
		root, pid := c.ActorSystem().Root, c.Self()
		a.self = func(m next) { root.Send(pid, m) }
		a.disk = func(m stored) { root.Send(pid, m) }
		return
	}
	a.Handle(c.Message())
}

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.MakeChunk:
		a.makeChunk(&m)
	case messages.MakeBlock:
		a.enqueue(m)
	case messages.BlockReceived:
		if len(a.queue) < MaxQueue {
			a.enqueue(m)
		}
	case messages.ChunkApplied:
		a.applied(m.Block)
	case messages.ChainHalted: // elsewhere, or here
		a.halt()
	case next:
		a.next()
	case stored:
		a.stored()
	case link.Request[messages.DrainChain, messages.Drained]:
		a.drains = append(a.drains, m.Reply)
		a.drained()
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("chain actor: no case for %T", m))
	}
}

func (a *Actor) makeChunk(m *messages.MakeChunk) {
	if a.over() {
		return
	}
	c, err := a.o.Engine.NewChunk(m.Parent, m.Shard, m.Transactions, a.o.Keys[m.Producer])
	switch {
	case errors.Is(err, engine.ErrOrphan): // final blocks have overtaken it
		a.o.Log.WithField("shard", m.ShardID).Debug("chunk on a block that is gone")
	case err != nil:
		panic(fmt.Errorf("chain: make the chunk of shard %d: %w", m.ShardID, err))
	default:
		a.o.Out.ChunkMade(messages.ChunkMade{Shard: m.Shard, Chunk: c})
	}
}

func (a *Actor) enqueue(m any) {
	if a.over() {
		return
	}
	a.queue = append(a.queue, m)
	a.next()
}

// over tells whether no block is begun any more.
func (a *Actor) over() bool { return len(a.drains) > 0 || a.halted }

// next begins with blocks until one has jobs under way, or too many are on their way to the disk.
func (a *Actor) next() {
	for a.work == nil && len(a.queue) > 0 && !a.over() && len(a.ahead) < engine.MaxAhead {
		m := a.queue[0]
		a.queue[0] = nil
		a.queue = a.queue[1:]
		switch m := m.(type) {
		case messages.MakeBlock:
			a.make(&m)
		case messages.BlockReceived:
			a.begin(m)
		}
	}
}

// make makes a block of this node.
func (a *Actor) make(m *messages.MakeBlock) {
	b, err := a.o.Engine.NewBlock(&engine.Proposal{
		Parent: m.Parent, Height: m.Height, Timestamp: m.Timestamp, Chunks: m.Chunks, Endorsements: m.Endorsements,
		Approvals: m.Approvals, Vote: a.o.Vote,
	}, a.o.Keys[m.Producer])
	if errors.Is(err, engine.ErrOrphan) {
		return // final blocks have overtaken its parent
	}
	if err != nil {
		panic(fmt.Errorf("chain: make block %d: %w", m.Height, err))
	}
	p, err := a.o.Engine.Begin(b, m.Chunks, true)
	if err != nil {
		panic(fmt.Errorf("chain: own block %d: %w", m.Height, err))
	}
	a.start(p, true, "")
}

// begin judges a received block.
func (a *Actor) begin(m messages.BlockReceived) {
	hash := m.Block.Hash()
	p, err := a.o.Engine.Begin(m.Block, m.Chunks, false)
	switch {
	case err == nil:
		a.start(p, false, m.From)
	case errors.Is(err, engine.ErrKnown):
	case errors.Is(err, engine.ErrOrphan):
		a.park(hash, m)
	default:
		a.refuse(hash, m.From, err)
	}
}

func (a *Actor) refuse(hash primitives.Hash, from string, err error) {
	if a.o.Log.IsLevelEnabled(logrus.InfoLevel) {
		a.o.Log.WithError(err).WithFields(logrus.Fields{"block": hash, "peer": from}).Info("block refused")
	}
	if a.o.Out.Refused != nil {
		a.o.Out.Refused(messages.BlockRefused{Hash: hash, From: from, Err: err})
	}
}

// park keeps a block until its parent comes; beyond the bound it is dropped, and sync will bring it again.
func (a *Actor) park(hash primitives.Hash, m messages.BlockReceived) {
	if _, ok := a.known[hash]; ok || a.waiting >= MaxOrphans {
		return
	}
	a.known[hash] = struct{}{}
	parent := m.Block.Header.PrevHash
	a.orphans[parent] = append(a.orphans[parent], orphan{m})
	a.waiting++
}

func (a *Actor) start(p *engine.Pending, produced bool, from string) {
	hash := p.Block().Hash()
	jobs := p.Jobs()
	a.work = &work{pending: p, hash: hash, left: len(jobs), produced: produced, from: from}
	for i := range jobs {
		if jobs[i].Light() {
			jobs[i].Run()
			a.work.left--
		}
	}
	if a.work.left == 0 {
		a.adopt()
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
		a.adopt()
	}
}

// adopt ends the work on a block, all of whose jobs have run.
func (a *Actor) adopt() {
	w := a.work
	a.work = nil
	acc, err := a.o.Engine.Adopt(w.pending, func() { a.disk(stored{}) })
	switch {
	case err == nil:
		m := Accepted(acc)
		a.ahead = append(a.ahead, &m)
		a.o.Out.Adopted(messages.BlockAdopted{BlockAccepted: &m})
		a.unpark(acc)
	case !w.produced && (errors.Is(err, engine.ErrChunk) || errors.Is(err, engine.ErrOld)):
		w.pending.Drop()
		a.refuse(w.hash, w.from, err)
	case errors.As(err, new(*engine.Fault)):
		a.halt()
		a.o.Out.Halted(messages.ChainHalted{Height: w.pending.Block().Header.Height, Block: w.hash, Err: err, Drop: w.pending.Drop})
	default:
		panic(fmt.Errorf("chain: adopt block %d: %w", w.pending.Block().Header.Height, err))
	}
	a.drained()
	if len(a.queue) > 0 {
		a.self(next{}) // what the mailbox holds, above all chunks for the new tip, goes first
	}
}

// halt is the end of all work but that on blocks on their way to the disk. A block whose chunks are still being applied is kept as it
// is until the process ends, since that cannot be interrupted.
func (a *Actor) halt() {
	a.halted, a.work, a.queue, a.waiting = true, nil, nil, 0
	clear(a.orphans)
	clear(a.known)
	a.drained()
}

// stored tells everybody of the blocks that have come to the disk.
func (a *Actor) stored() {
	list, err := a.o.Engine.Stored()
	for i := range list {
		m := a.ahead[0]
		a.ahead[0] = nil
		a.ahead = a.ahead[1:]
		if m.Hash != list[i].Entry.Hash {
			panic(fmt.Sprintf("chain actor: block %v came to the disk, want %v", list[i].Entry.Hash, m.Hash))
		}
		a.o.Out.Accepted(*m)
	}
	if err != nil {
		panic(fmt.Errorf("chain: %w", err))
	}
	a.drained()
	a.next()
}

// unpark queues the blocks that waited for this one, and forgets those that final blocks have overtaken.
func (a *Actor) unpark(acc *engine.Accepted) {
	for _, o := range a.orphans[acc.Entry.Hash] {
		a.forget(o)
		a.queue = append(a.queue, o.BlockReceived)
	}
	delete(a.orphans, acc.Entry.Hash)
	if acc.Final == acc.OldFinal || a.waiting == 0 {
		return
	}
	for parent, list := range a.orphans {
		if list[0].Block.Header.Height <= acc.Final.Height {
			for _, o := range list {
				a.forget(o)
			}
			delete(a.orphans, parent)
		}
	}
}

func (a *Actor) forget(o orphan) {
	delete(a.known, o.Block.Hash())
	a.waiting--
}

// drained answers those who wait for the end, once nothing is in work.
func (a *Actor) drained() {
	if a.work != nil || len(a.ahead) > 0 {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
}

// Accepted puts what adopting a block did into a message.
func Accepted(a *engine.Accepted) messages.BlockAccepted {
	e := a.Entry
	m := messages.BlockAccepted{
		Block: e.Block, Hash: e.Hash, IsHead: a.IsHead, Reorganised: a.IsHead && a.OldHead.Hash != e.Header().PrevHash,
		Final: a.Final.Height, FinalHash: a.Final.Hash, Returned: a.Returned, Shards: make([]messages.ShardAccepted, len(e.Shards)),
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
