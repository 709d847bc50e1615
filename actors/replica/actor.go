// Package replica is the actor around the engine of a node that executes nothing. Its goroutine
// is the only one that changes the engine, in place of the chain's and the producer's actors.
//
//	in      Block from the follower of the writer; ChainHalted, StopProducing, DrainChain from
//	        the node; blocks that are on disk
//	out     BlockImported, BlockAccepted; ChainHalted
//	state   Actor: waiting blocks, and those on their way to disk
//	units   as in package engine
//	bound   engine.MaxAhead blocks on their way to disk; the sender of blocks waits for Done
//	errors  a known or overtaken block is skipped; one without its parent is handed back; any
//	        other error halts the node, since the writer's record contradicts itself or this
//	        chain
//	source  our own
package replica

import (
	"errors"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	chainactor "github.com/troupe-chain/troupe/actors/chain"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// ErrClosed rejects blocks after a halt or a stop. ErrReplica rejects what only the writer can
// do.
var (
	ErrClosed  = errors.New("replica: the node has halted or is stopping and imports no block")
	ErrReplica = errors.New("this node is a replica, which makes no blocks: send the request to the writer")
)

// Engine is what the actor drives: *engine.Engine.
type Engine interface {
	BeginExecuted(*engine.ExecutedBlock) (*engine.BlockImport, error)
	FinishImport(p *engine.BlockImport, stored func()) (*engine.Accepted, error)
	Stored() ([]*engine.Accepted, error)
	Ref(hash primitives.Hash) (storage.BlockRef, error)
}

// Block is an executed block of the writer. Done is called once, on the actor's goroutine: with
// nil when the block is on disk, or is skipped because it was or will be.
type Block struct {
	*engine.ExecutedBlock
	Done func(error)
}

// Out are the receivers of the actor's messages.
type Out struct {
	Adopted  messages.Sender[messages.BlockImported]
	Accepted messages.Sender[messages.BlockAccepted]
	Halted   messages.Sender[messages.ChainHalted]
}

// Options configure the actor.
type Options struct {
	Engine Engine
	Log    *logrus.Logger
	Out    Out
}

// Actor imports executed blocks.
type Actor struct {
	o        Options
	queue    []Block
	inFlight []imported // imported and not known to be on disk
	drains   []func(messages.Drained, error)
	closed   bool // no block is taken any more
	disk     messages.Sender[stored]
}

type imported struct {
	message *messages.BlockAccepted
	done    func(error)
}

// stored is a message to self, from any goroutine: imported blocks are on disk, or cannot get
// there.
type stored struct{}

// New returns the actor.
func New(o Options) *Actor { return &Actor{o: o, disk: func(stored) {}} }

// Receive handles lifecycle messages and passes the rest to Handle.
func (a *Actor) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
		root, pid := c.ActorSystem().Root, c.Self()
		a.disk = func(m stored) { root.Send(pid, m) }
		return
	}
	a.Handle(c.Message())
}

// Handle handles one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case Block:
		a.queue = append(a.queue, m)
		a.next()
	case stored:
		a.stored()
	case messages.ChainHalted:
		a.halt()
	case system.Request[messages.StopProducing, messages.Stopped]:
		m.Reply(messages.Stopped{}, nil)
	case system.Request[messages.DrainChain, messages.Drained]:
		a.closed, a.drains = true, append(a.drains, m.Reply)
		a.next()
		a.drained()
	case system.Answerable: // requests that only a node that makes blocks can serve
		m.Failed(ErrReplica)
	default: // lifecycle, and messages to a node that makes blocks
	}
}

// next imports blocks while there is room on the way to disk.
func (a *Actor) next() {
	for len(a.queue) > 0 && (a.closed || len(a.inFlight) < engine.MaxAhead) {
		g := a.queue[0]
		a.queue[0] = Block{}
		if a.queue = a.queue[1:]; a.closed {
			g.Done(ErrClosed)
			continue
		}
		a.importBlock(g)
	}
}

func (a *Actor) importBlock(g Block) {
	p, err := a.o.Engine.BeginExecuted(g.ExecutedBlock)
	switch {
	case err == nil:
	case engine.VerdictOf(err) == engine.VerdictStale:
		g.Done(nil)
		return
	case errors.Is(err, engine.ErrOrphan):
		if _, known := a.o.Engine.Ref(g.Ref.Hash); known == nil { // it is known, and its parent has left memory
			err = nil
		}
		g.Done(err)
		return
	default:
		a.fail(g, err)
		return
	}
	jobs := p.Jobs()
	var wg sync.WaitGroup
	for i := range jobs[1:] {
		wg.Go(jobs[i+1].Run)
	}
	jobs[0].Run()
	wg.Wait()
	if err := p.Err(); err != nil {
		p.Drop()
		a.fail(g, err)
		return
	}
	acc, err := a.o.Engine.FinishImport(p, func() { a.disk(stored{}) })
	if err != nil {
		p.Drop()
		if engine.VerdictOf(err) == engine.VerdictStale {
			g.Done(nil)
			return
		}
		a.fail(g, err)
		return
	}
	m := chainactor.Accepted(acc)
	a.inFlight = append(a.inFlight, imported{&m, g.Done})
	a.o.Out.Adopted(messages.BlockImported{BlockAccepted: &m})
}

// fail halts the node. The engine is unchanged.
func (a *Actor) fail(g Block, err error) {
	a.halt()
	a.o.Out.Halted(messages.ChainHalted{Height: g.Ref.Height, Block: g.Ref.Hash,
		Err: fmt.Errorf("the record of block %v is rejected: %w", g.Ref, err), Drop: func() {}})
	g.Done(err)
}

func (a *Actor) halt() {
	a.closed = true
	a.next()
	a.drained()
}

// stored reports the blocks that have reached the disk.
func (a *Actor) stored() {
	list, err := a.o.Engine.Stored()
	for i := range list {
		x := a.inFlight[0]
		a.inFlight[0] = imported{}
		a.inFlight = a.inFlight[1:]
		if x.message.Hash != list[i].Entry.Hash {
			panic(fmt.Sprintf("replica: block %v came to the disk, want %v", list[i].Entry.Hash, x.message.Hash))
		}
		a.o.Out.Accepted(*x.message)
		x.done(nil)
	}
	if err != nil { // a disk failure
		panic(fmt.Errorf("replica: %w", err))
	}
	a.next()
	a.drained()
}

// drained answers DrainChain once nothing is on its way to disk.
func (a *Actor) drained() {
	if len(a.inFlight) > 0 {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
	a.drains = nil
}
