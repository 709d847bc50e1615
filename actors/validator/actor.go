// Package validator is the shell of a validator among validators: the one goroutine that steps engine/consensus, and with it changes the engine.
//
//	in      Heard: what peers say to it; BlockReceived, ApprovalReceived, ChunkEndorsed from the net; ChainHalted, StopProducing, DrainChain from
//	        the node; notes to self: time, jobs that have run, blocks that are on disk
//	out     BlockAdopted, BlockAccepted; what is to be sent, by a goroutine that has what was signed on disk first; BlockRefused; ChainHalted
//	state   Actor: the core, jobs under way, blocks on their way to the disk. File: what was signed. Life: what outlives a failure
//	units   ns since 1970
//	bound   Workers jobs run at once; what waits to be sent is what the core has said; the rest as engine/consensus has it
//	errors  of others are the core's; the core's own halt the node; a panic outside of the engine makes the actor anew, from what is on disk,
//	        one inside of it halts the node
//	source  our own; nearcore chain/client/src/client_actor.rs
package validator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	chainactor "github.com/troupe-chain/troupe/actors/chain"
	"github.com/troupe-chain/troupe/actors/producer"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Name is the actor's.
const Name = "validator"

// Out is whom the actor talks to.
type Out struct {
	Adopted  messages.Sender[messages.BlockImported]
	Accepted messages.Sender[messages.BlockAccepted]
	Halted   messages.Sender[messages.ChainHalted]
	Refused  messages.Sender[messages.BlockRefused]
	Again    func()                 // to the mempools: what they have is wanted once more
	Send     func([]consensus.Send) // from a goroutine of the actor's; what it rests on is on disk
}

// Options are what the actor works with.
type Options struct {
	Engine  *engine.Engine
	Account primitives.AccountID
	Key     primitives.SecretKey
	Journal    string // where it is kept what was signed
	// Floor is the greatest height that was voted for before there was that file.
	Floor   primitives.Height
	Delays  doomslug.Delays
	Eager   bool // blocks come as fast as they can while there is something to do
	Vote    primitives.ProtocolVersion
	Verify  func(primitives.Signature, []byte, primitives.PublicKey) bool
	Vouched func(primitives.Signature, []byte, primitives.PublicKey) // is told of what this validator has signed; nil: nobody is
	Known   func(*primitives.SignedTransaction) bool                 // its signature is right; nil: that is not remembered
	Holds   func(primitives.AccountID, primitives.ShardID) bool      // an account is known to hold a shard; nil: nobody is
	Seed    primitives.Hash                                          // orders the pools' groups
	Clock   func() uint64                                            // ns since 1970, of blocks
	Elapsed    func() time.Duration                                     // how much time has gone since some moment, evenly, by which it is waited; nil: the system's
	Workers int                                                      // jobs that run at once
	Life    *Life
	// Source has the shards that this node is to hold come in and go, of an engine that is Scheduled; nil: they stay.
	Source engine.PartSource
	Moves  *Moves // what others see of that; nil: nobody looks
	Log    *logrus.Logger
	Out    Out
}

// Life is what outlives an actor that fails, so that the next one knows how it finds the engine. The zero value is that of the first.
type Life struct {
	begun  bool
	key    *primitives.SecretKey // with which the account signs; nil: as in the options
	mutating atomic.Bool           // of a call that changes the engine
	lastImported   primitives.Hash       // the block that everybody was told of last
	// Steps counts events, Panics actors before this one.
	Steps, Panics atomic.Uint64
}

// Rekeyed says that the account signs with another key from here on, or with none; what it has signed stays where it is kept.
type Rekeyed struct{ Key primitives.SecretKey }

// Heard is what a peer says, and what gives back its place in the mailbox.
type Heard struct {
	consensus.Received
	Done func()
}

// The notes to self.
type (
	tick struct{ of *Actor }
	jobDone  struct {
		of  *Actor
		job uint64
		bad *jobPanic
	}
	stored struct{}
	journalFailed struct {
		of  *Actor
		err error
	}
)

// importAbandoner gives back what is in work.
type importAbandoner interface{ Abandon() }

type jobPanic struct {
	reason any
	stack  []byte
}

// Actor is the shell.
type Actor struct {
	o      Options
	core   *consensus.Node // nil: nothing is stepped any more
	retired   importAbandoner       // the core that was stepped before
	journal   *Journal
	outbox *outbox
	base   int64 // of now, when no time had gone
	now    int64 // ns; goes on evenly, whatever the clock is set to
	timer  *time.Timer
	self   func(any)

	jobs    []consensus.Job // that wait
	running int
	ended   chan struct{} // a job has; only looked at when the actor ends
	inFlight   []*messages.BlockAccepted
	drains  []func(messages.Drained, error)

	schedule *engine.Schedule     // nil: shards stay
	movesDue      bool                 // it may have something to do
	held     []primitives.ShardID // as the core knows
}

// New returns the actor.
func New(o Options) *Actor {
	return &Actor{o: o, self: func(any) {}, ended: make(chan struct{}, o.Workers)}
}

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, pid := c.ActorSystem().Root, c.Self()
		a.self = func(m any) { root.Send(pid, m) }
		a.start()
	case *actor.Stopping, *actor.Restarting:
		a.end()
	default:
		a.Handle(c.Message())
	}
}

// start begins on the engine's head, if the one before has left the engine whole.
func (a *Actor) start() {
	l, e := a.o.Life, a.o.Engine
	again := l.begun
	if again {
		l.Panics.Add(1)
		if l.mutating.Load() || e.Tip().Hash != l.lastImported {
			a.halt(errors.New("validator: it failed while it changed the chain"))
			return
		}
	}
	l.begun, l.lastImported = true, e.Tip().Hash
	if err := a.open(); err != nil {
		a.halt(err)
		return
	}
	if again { // what was on its way to the one before is lost
		a.stored()
		a.o.Out.Again()
	}
}

// open makes the core.
func (a *Actor) open() (err error) {
	if a.journal, err = OpenJournal(a.o.Journal); err != nil {
		return err
	}
	signed := a.journal.Row()
	if signed == nil && a.o.Floor > 0 {
		s := consensus.Signatures{Target: a.o.Floor, Block: a.o.Floor}
		signed = s.AppendBorsh(nil)
	}
	if a.o.Life.key != nil {
		a.o.Key = *a.o.Life.key
	}
	self := a.self
	if a.o.Elapsed == nil {
		begun := time.Now()
		a.o.Elapsed = func() time.Duration { return time.Since(begun) }
	}
	a.now = int64(a.o.Clock())
	a.base = a.now - int64(a.o.Elapsed())
	core, err := consensus.New(consensus.Options{
		Engine: guardedEngine{a.o.Engine, a.o.Life}, Account: a.o.Account, Key: a.o.Key, Delays: a.o.Delays, Eager: a.o.Eager, Vote: a.o.Vote, Signed: signed,
		Verify: a.o.Verify, OnSigned: a.o.Vouched, Known: a.o.Known, Holds: a.o.Holds, Random: rand.IntN, Seed: a.o.Seed, OnPersisted: func() { self(stored{}) }, Wall: a.o.Clock,
	}, a.now)
	if err != nil {
		return err
	}
	a.core = core
	a.outbox = newOutbox(a.o.Engine.Store(), a.journal.Write, a.o.Out.Send, func(err error) { self(journalFailed{a, err}) })
	a.timer = time.AfterFunc(time.Hour, func() { self(tick{a}) })
	a.do(core.Start(a.now))
	a.startSchedule()
	return nil
}

// end waits for the jobs under way, and gives back what they were for.
func (a *Actor) end() {
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.outbox != nil {
		a.outbox.close()
	}
	if a.journal != nil {
		a.journal.Close()
	}
	if a.schedule != nil {
		a.schedule.Close()
		a.schedule = nil
	}
	for ; a.running > 0; a.running-- {
		<-a.ended
	}
	a.stopCore()
	if a.retired != nil && !a.o.Life.mutating.Load() {
		a.retired.Abandon()
	}
	a.retired, a.outbox, a.journal = nil, nil, nil
}

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case Heard:
		m.Done()
		a.step(m.Received)
	case Rekeyed:
		a.o.Life.key = &m.Key
		a.step(consensus.KeyChanged{Key: m.Key})
	case messages.BlockReceived:
		if m.Taken != nil {
			m.Taken()
		}
		a.step(consensus.Received{From: consensus.Peer(m.From), Message: m.Block})
	case messages.ApprovalReceived:
		a.step(consensus.Received{Message: m.Approval})
	case messages.ChunkEndorsed:
		a.step(consensus.Received{Message: m.Endorsement})
	case tick:
		if m.of == a {
			a.step(consensus.Tick{})
		}
	case jobDone:
		if m.of == a {
			a.jobDone(&m)
		}
	case stored:
		a.movesDue = true
		a.stored()
	case continueMoves:
		if m.of == a {
			a.movesDue = true
			a.moveShards()
		}
	case journalFailed:
		if m.of == a {
			a.halt(fmt.Errorf("validator: what was signed can't be written: %w", m.err))
		}
	case messages.ChainHalted:
		a.stopCore()
	case system.Request[messages.StopProducing, messages.Stopped]:
		a.stopCore()
		m.Reply(messages.Stopped{}, nil)
	case system.Request[messages.DrainChain, messages.Drained]:
		a.stopCore()
		a.drains = append(a.drains, m.Reply)
		a.drained()
	case system.Answerable: // what a node may do that is alone
		m.Failed(producer.ErrShared)
	default: // lifecycle, and what concerns a node that is alone
	}
}

func (a *Actor) step(ev consensus.Event) {
	if a.core == nil {
		return
	}
	a.o.Life.Steps.Add(1)
	a.now = max(a.now, a.base+int64(a.o.Elapsed()))
	a.do(a.core.Step(a.now, ev))
	a.moveShards()
}

// do does what the core wants done.
func (a *Actor) do(out consensus.Out) {
	a.logStep(&out)
	a.outbox.put(out.Save, out.Send)
	for _, acc := range out.Imported {
		m := chainactor.Accepted(acc)
		a.inFlight = append(a.inFlight, &m)
		a.o.Out.Adopted(messages.BlockImported{BlockAccepted: &m})
		a.o.Life.lastImported = m.Hash
	}
	for _, acc := range out.Persisted {
		a.blockAccepted(acc)
	}
	for _, err := range out.Refused {
		var r *consensus.Refusal
		if errors.As(err, &r) {
			a.o.Out.Refused(messages.BlockRefused{Hash: r.Block, Height: r.Height, From: string(r.From), Err: r.Err})
		}
	}
	if out.Fatal != nil {
		a.halt(out.Fatal)
		return
	}
	a.jobs = append(a.jobs, out.Jobs...)
	a.run()
	if out.Wake > 0 {
		a.timer.Reset(time.Duration(max(out.Wake-a.now, 0)))
	}
}

// logStep puts what happened into the log.
func (a *Actor) logStep(out *consensus.Out) {
	for _, err := range out.Refused {
		a.o.Log.WithError(err).Info("refused")
	}
	if !a.o.Log.IsLevelEnabled(logrus.DebugLevel) {
		return
	}
	for _, n := range out.Notes {
		a.o.Log.WithError(n.Err).Debug(n.What)
	}
}

// run begins with jobs while there is room.
func (a *Actor) run() {
	for len(a.jobs) > 0 && a.running < a.o.Workers {
		j := a.jobs[0]
		a.jobs[0] = consensus.Job{}
		a.jobs = a.jobs[1:]
		a.running++
		self, ended := a.self, a.ended
		go func() {
			m := jobDone{of: a, job: j.ID}
			defer func() {
				if p := recover(); p != nil {
					m.bad = &jobPanic{p, debug.Stack()}
				}
				ended <- struct{}{}
				self(m)
			}()
			j.Run()
		}()
	}
}

func (a *Actor) jobDone(m *jobDone) {
	<-a.ended
	a.running--
	if m.bad != nil {
		panic(fmt.Sprintf("%v\n%s", m.bad.reason, m.bad.stack))
	}
	a.run()
	a.step(consensus.Done{Job: m.job})
	a.drained()
}

// stored goes on behind the blocks that have come to the disk.
func (a *Actor) stored() {
	if a.core != nil {
		a.step(consensus.Persisted{})
		return
	}
	list, err := a.o.Engine.Stored()
	for _, acc := range list {
		a.blockAccepted(acc)
	}
	if err != nil {
		a.halt(err)
		if errors.Is(err, storage.ErrFull) { // nobody waits for room any more: the node is being stopped
			a.o.Engine.Abandon()
			a.inFlight = nil
		}
	}
	a.drained()
}

// blockAccepted tells everybody of a block that is on disk.
func (a *Actor) blockAccepted(acc *engine.Accepted) {
	i := slices.IndexFunc(a.inFlight, func(m *messages.BlockAccepted) bool { return m.Hash == acc.Entry.Hash })
	if i < 0 { // it was adopted before a failure
		a.o.Out.Accepted(chainactor.Accepted(acc))
		return
	}
	m := a.inFlight[i]
	a.inFlight = slices.Delete(a.inFlight, i, i+1)
	a.o.Out.Accepted(*m)
}

// stopCore ends all work but on blocks that are on their way to the disk. What jobs under way are for is given back when they have ended.
func (a *Actor) stopCore() {
	if a.core == nil {
		return
	}
	a.retired, a.core, a.jobs = a.core, nil, nil
	a.timer.Stop()
}

// halt says that the node can't go on.
func (a *Actor) halt(err error) {
	a.stopCore()
	m := messages.ChainHalted{Err: err, Drop: func() {}}
	if f := (*engine.ApplyFailure)(nil); errors.As(err, &f) {
		m.Height, m.Block, m.Drop = f.Height, f.Block, f.Release
	}
	a.o.Out.Halted(m)
}

// drained answers those who wait for the end, once nothing is in work.
func (a *Actor) drained() {
	if e := a.o.Engine; a.core != nil || a.running > 0 || len(a.inFlight) > 0 || e.Tip().Hash != e.Head().Hash {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
	a.drains = nil
}
