// Package replica is the actor of a node that imports another node's executed blocks and executes
// nothing itself. It takes the place of the chain and producer actors. Only its goroutine changes
// the engine.
//
//	in      Block from the follower of the other node (the writer); ChainHalted,
//	        StopProducing, DrainChain from the node
//	out     BlockImported, BlockAccepted; ChainHalted
//	state   Actor: blocks that wait, and imported blocks that are not on disk
//	units   as in package engine
//	bound   engine.MaxAhead imported blocks that are not on disk; the sender of blocks waits
//	        for Done
//	errors  a known or stale block is skipped; a block without its parent is returned to its
//	        sender; any other error halts the node, because the writer's record contradicts
//	        itself or this chain
//	source  our own
package replica

import (
	"errors"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/chain"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// ErrClosed rejects blocks that arrive after a halt or a stop. ErrReplica rejects requests that
// only a node that makes blocks can serve.
var (
	ErrClosed  = errors.New("replica: the node has halted or is stopping and imports no block")
	ErrReplica = errors.New("this node is a replica, which makes no blocks: send the request to the writer")
)

// Engine is the part of *engine.Engine that the actor uses.
type Engine interface {
	BeginExecuted(*engine.ExecutedBlock) (*engine.BlockImport, error)
	FinishImport(p *engine.BlockImport, stored func()) (*engine.Imported, error)
	Stored() ([]*engine.Imported, error)
	Ref(hash primitives.Hash) (storage.BlockRef, error)
}

// Block is an executed block of the writer. The actor calls Done once, on its own goroutine: with
// nil when the block is on disk or was skipped as known or stale, else with the error.
type Block struct {
	*engine.ExecutedBlock
	Done func(error)
}

// Options configure the actor.
type Options struct {
	Engine Engine               // the chain; required
	Log    *logrus.Logger       // receives failures; required
	Out    messages.BlockSender // sends the actor's messages
}

// Actor imports executed blocks. Only its own goroutine may use it.
type Actor struct {
	o        Options
	queue    []Block
	inFlight []imported // imported blocks that may not be on disk yet, oldest first
	drains   []func(messages.Drained, error)
	closed   bool // true: the actor imports no further block
	disk     messages.Sender[stored]
}

type imported struct {
	message *messages.BlockAccepted
	done    func(error)
}

// stored is a message to self, sent from any goroutine. It means that imported blocks are on disk,
// or that writing them failed.
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
	default: // lifecycle; messages for the chain or producer actor
	}
}

// next imports waiting blocks, and pauses while engine.MaxAhead imported blocks are not on disk.
// Once the actor is closed, next rejects the waiting blocks with ErrClosed.
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
		// the replica has stored this block, but the block's parent is no longer in memory
		if _, known := a.o.Engine.Ref(g.Ref.Hash); known == nil {
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
	m := chain.Accepted(acc)
	a.inFlight = append(a.inFlight, imported{&m, g.Done})
	a.o.Out.Imported(messages.BlockImported{BlockAccepted: &m})
}

// fail halts the node because a block cannot be imported. The engine is unchanged.
func (a *Actor) fail(g Block, err error) {
	a.halt()
	a.o.Out.Halted(messages.ChainHalted{Height: g.Ref.Height, Block: g.Ref.Hash,
		Err: fmt.Errorf("this node refuses the record of block %v: %w", g.Ref, err), Drop: func() {}})
	g.Done(err)
}

func (a *Actor) halt() {
	a.closed = true
	a.next()
	a.drained()
}

// stored reports the blocks that are on disk now, in the order of their import.
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
	if err != nil { // the disk has failed
		panic(fmt.Errorf("replica: %w", err))
	}
	a.next()
	a.drained()
}

// drained answers pending DrainChain requests once all imported blocks are on disk.
func (a *Actor) drained() {
	if len(a.inFlight) > 0 {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
	a.drains = nil
}
