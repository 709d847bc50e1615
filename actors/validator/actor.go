// Package validator is the actor of a validator among other validators: the one goroutine that
// steps engine/consensus, and through it changes the engine.
//
//	in      Heard: what peers send to it; BlockReceived, ApprovalReceived, ChunkEndorsed from
//	        the net; ChainHalted, StopProducing, DrainChain from the node; messages to self:
//	        time, finished jobs, blocks on disk
//	out     BlockImported, BlockAccepted; messages to peers, sent by a goroutine that first
//	        has what was signed on disk; BlockRefused; ChainHalted
//	state   Actor: the core, jobs in work, blocks on their way to disk. Journal: what was
//	        signed. Life: what outlives a failure
//	units   ns since 1970
//	bound   Workers jobs run at once; the outbox holds what the core has sent; the rest as in
//	        engine/consensus
//	errors  those of peers are handled by the core; the core's own halt the node; a panic
//	        outside of a call that changes the engine restarts the actor from disk, one inside
//	        halts the node
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

// Name is the name of the actor.
const Name = "validator"

// Out are the receivers of the actor's messages.
type Out struct {
	Adopted  messages.Sender[messages.BlockImported]
	Accepted messages.Sender[messages.BlockAccepted]
	Halted   messages.Sender[messages.ChainHalted]
	Refused  messages.Sender[messages.BlockRefused]
	Again    func()                 // to the mempools: send your transactions again
	Send     func([]consensus.Send) // on a goroutine of the actor; what the messages depend on is on disk
}

// Options configure the actor.
type Options struct {
	Engine  *engine.Engine
	Account primitives.AccountID
	Key     primitives.SecretKey
	Journal string // path prefix of the signing journal
	// Floor is the greatest height voted for before there was a journal.
	Floor  primitives.Height
	Delays doomslug.Delays
	Eager  bool // blocks follow as fast as possible while there is something to do
	Vote   primitives.ProtocolVersion
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	// called with what this validator has signed; may be nil
	Vouched func(primitives.Signature, []byte, primitives.PublicKey)
	// returns whether a transaction's signature is known to be right; nil: never
	Known func(*primitives.SignedTransaction) bool
	// returns whether an account is known to hold a shard; nil: never
	Holds   func(primitives.AccountID, primitives.ShardID) bool
	Seed    primitives.Hash      // orders the pools' groups
	Clock   func() uint64        // ns since 1970, of blocks
	Elapsed func() time.Duration // monotonic time, for timers; nil: the system's
	Workers int                  // jobs that run at once
	Life    *Life
	// Source supplies the shards that this node must catch up, for an engine that is Scheduled.
	// nil: the shards do not change.
	Source engine.PartSource
	Moves  *Moves // published state of that; may be nil
	Log    *logrus.Logger
	Out    Out
}

// Life is what outlives an actor that fails. The zero value is for the first one.
type Life struct {
	begun        bool
	key          *primitives.SecretKey // signing key; nil: as in Options
	mutating     atomic.Bool           // a call that changes the engine is in work
	lastImported primitives.Hash       // the block reported last
	// Steps counts events, Panics failed actors.
	Steps, Panics atomic.Uint64
	// Counters count messages about chunks.
	Counters consensus.Counters
}

// Rekeyed makes the account sign with another key, or with none if it is zero. The journal
// stays.
type Rekeyed struct{ Key primitives.SecretKey }

// Heard is a message of a peer. Done gives back its place in the mailbox.
type Heard struct {
	consensus.Received
	Done func()
}

// Messages to self.
type (
	tick    struct{ of *Actor }
	jobDone struct {
		of  *Actor
		job uint64
		bad *jobPanic
	}
	stored        struct{}
	journalFailed struct {
		of  *Actor
		err error
	}
)

// importAbandoner releases a block in work.
type importAbandoner interface{ Abandon() }

type jobPanic struct {
	reason any
	stack  []byte
}

// Actor steps the consensus core and does what it asks for.
type Actor struct {
	o       Options
	core    *consensus.Node // nil: no longer stepped
	retired importAbandoner // the core that is no longer stepped
	journal *Journal
	outbox  *outbox
	base    int64 // now at Elapsed() = 0
	now     int64 // ns; monotonic, whatever the clock is set to
	timer   *time.Timer
	self    func(any)

	jobs     []consensus.Job // waiting
	running  int
	ended    chan struct{} // one for each finished job; read when the actor ends
	inFlight []*messages.BlockAccepted
	drains   []func(messages.Drained, error)

	schedule *engine.Schedule     // nil: the shards do not change
	movesDue bool                 // the schedule may have something to do
	held     []primitives.ShardID // shards that the core knows to be held
}

// New returns the actor.
func New(o Options) *Actor {
	return &Actor{o: o, self: func(any) {}, ended: make(chan struct{}, o.Workers)}
}

// Receive handles lifecycle messages and passes the rest to Handle.
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

// start starts at the engine's head, unless a failed predecessor may have left the engine half
// changed.
func (a *Actor) start() {
	l, e := a.o.Life, a.o.Engine
	again := l.begun
	if again {
		l.Panics.Add(1)
		if l.mutating.Load() || e.Tip().Hash != l.lastImported {
			a.halt(errors.New("validator: panic inside a call that changes the chain"))
			return
		}
	}
	l.begun, l.lastImported = true, e.Tip().Hash
	if err := a.open(); err != nil {
		a.halt(err)
		return
	}
	if again { // messages to the predecessor are lost
		a.stored()
		a.o.Out.Again()
	}
}

// open opens the journal and makes the core.
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
		Engine: guardedEngine{a.o.Engine,
			a.o.Life}, Account: a.o.Account, Key: a.o.Key, Delays: a.o.Delays, Eager: a.o.Eager, Vote: a.o.Vote, Signed: signed,
		Verify: a.o.Verify, OnSigned: a.o.Vouched, Known: a.o.Known, Holds: a.o.Holds, Random: rand.IntN, Seed: a.o.Seed, OnPersisted: func() { self(stored{}) }, Wall: a.o.Clock,
		Counters: &a.o.Life.Counters,
	}, a.now)
	if err != nil {
		return err
	}
	a.core = core
	a.outbox = newOutbox(a.o.Engine.Store(), a.journal.Write, a.o.Out.Send,
		func(err error) { self(journalFailed{a, err}) })
	a.timer = time.AfterFunc(time.Hour, func() { self(tick{a}) })
	a.do(core.Start(a.now))
	a.startSchedule()
	return nil
}

// end waits for the jobs in work, and releases what they were for.
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

// Handle handles one message.
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
			a.halt(fmt.Errorf("validator: write the signing journal: %w", m.err))
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
	case system.Answerable: // requests that only a sole validator can serve
		m.Failed(producer.ErrShared)
	default: // lifecycle, and messages to a sole validator
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

// do carries out what a step asks for.
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

// logStep logs what happened in a step.
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

// run starts waiting jobs while workers are free.
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

// stored goes on after blocks have reached the disk.
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
		if errors.Is(err, storage.ErrFull) { // the node is stopping and no longer waits for room
			a.o.Engine.Abandon()
			a.inFlight = nil
		}
	}
	a.drained()
}

// blockAccepted reports a block that is on disk.
func (a *Actor) blockAccepted(acc *engine.Accepted) {
	i := slices.IndexFunc(a.inFlight, func(m *messages.BlockAccepted) bool { return m.Hash == acc.Entry.Hash })
	if i < 0 { // imported before a failure
		a.o.Out.Accepted(chainactor.Accepted(acc))
		return
	}
	m := a.inFlight[i]
	a.inFlight = slices.Delete(a.inFlight, i, i+1)
	a.o.Out.Accepted(*m)
}

// stopCore ends all work except on blocks on their way to disk. Jobs in work are awaited by
// end.
func (a *Actor) stopCore() {
	if a.core == nil {
		return
	}
	a.retired, a.core, a.jobs = a.core, nil, nil
	a.timer.Stop()
}

// halt reports that the node cannot go on.
func (a *Actor) halt(err error) {
	a.stopCore()
	m := messages.ChainHalted{Err: err, Drop: func() {}}
	if f := (*engine.ApplyFailure)(nil); errors.As(err, &f) {
		m.Height, m.Block, m.Drop = f.Height, f.Block, f.Release
	}
	a.o.Out.Halted(m)
}

// drained answers DrainChain once nothing is in work.
func (a *Actor) drained() {
	if e := a.o.Engine; a.core != nil || a.running > 0 || len(a.inFlight) > 0 || e.Tip().Hash != e.Head().Hash {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
	a.drains = nil
}
