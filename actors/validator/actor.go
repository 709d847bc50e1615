// Package validator is the actor of a validator that shares the chain with other validators. Only
// its goroutine steps engine/consensus, so only its goroutine changes the engine.
//
//	in      Heard: messages of peers; BlockReceived from the network; ChainHalted,
//	        StopProducing, DrainChain from the node; messages to self: timer, finished jobs,
//	        blocks on disk
//	out     BlockImported, BlockAccepted; messages to peers, sent after the signing journal is
//	        on disk (outbox); BlockRefused; ChainHalted
//	state   Actor: the consensus core, its jobs, blocks on their way to disk. Journal: what
//	        was signed. Life: what survives a failure of the actor
//	units   ns since 1970
//	bound   Options.Workers concurrent jobs, and as many optimistic ones; the outbox holds what
//	        one journal write delays; otherwise the limits of consensus
//	errors  the core handles errors of peers; its own errors halt the node. A panic restarts
//	        the actor from disk, unless it happened in a call that changes the engine: that
//	        halts the node
//	source  our own; nearcore chain/client/src/client_actor.rs
package validator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/chain"
	"github.com/troupe-chain/troupe/actors/producer"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Name is the name of the actor.
const Name = "validator"

// Out sends the actor's messages.
type Out struct {
	messages.BlockSender
	PeerSender
}

// PeerSender sends to peers, and to the mempools that get the peers' transactions.
type PeerSender interface {
	Refused(messages.BlockRefused) // to the network actor
	// Signs reports the key with which the actor signs from now on; zero: it signs nothing. The actor
	// signs nothing before the first call.
	Signs(primitives.SecretKey)
	Again() // makes the mempools send their transactions again
	// Send sends to peers. The outbox calls Send on its goroutine when the journal is on disk.
	Send([]consensus.Send)
}

// Options configure the actor.
type Options struct {
	// Engine is the chain. Required. Only this actor changes it.
	Engine *engine.Engine

	// The validator.

	// Account is the validator's account. Empty: the node only follows the chain.
	Account primitives.AccountID
	// Key signs for Account. Zero: the account signs nothing, until Rekeyed.
	Key primitives.SecretKey
	// KeyWait says when Key may sign. The zero value means at once.
	KeyWait consensus.KeyWait
	// Journal is the path prefix of the signing journal. Required.
	Journal string
	// Vote is the latest_protocol_version of produced blocks. 0: it follows the upgrade schedule.
	Vote primitives.ProtocolVersion
	// Holds returns whether an account is known to have a shard's state, and therefore needs no
	// witness. nil: never.
	Holds func(primitives.AccountID, primitives.ShardID) bool
	// Seed determines the order of transaction groups in the pools. Each value is valid.
	Seed primitives.Hash

	// Time.

	// Delays are the timers of doomslug, in ns. They have no default.
	Delays doomslug.Delays
	// Eager makes blocks as fast as possible while transactions or receipts wait.
	Eager bool
	// Clock returns the time of the system's clock in ns since 1970, for the timestamps of blocks and
	// the wait of the key. Required.
	Clock func() uint64
	// Elapsed returns monotonic time for timers. It need not count the time for which the machine is
	// suspended. nil: the time since the actor started.
	Elapsed func() time.Duration
	// Workers is the maximum number of concurrent jobs. Required.
	Workers int
	// ChooseLimit is the maximum time for choosing the transactions of a chunk. 0: no limit.
	ChooseLimit time.Duration

	// Signatures.

	// Verifier verifies signatures of validators. nil: consensus.PlainVerifier.
	Verifier consensus.Verifier
	// Known returns whether the transaction's signature was already verified. nil: never.
	Known func(*primitives.SignedTransaction) bool

	// Changes of the tracked shards.

	// Source supplies the state of shards that this node must catch up, if the tracked shards
	// follow an engine.Schedule. nil: the tracked shards do not change.
	Source engine.PartSource
	// Moves receives the changes. nil: nothing receives them.
	Moves *Moves

	// Observers.

	// Life survives a failure of the actor. Required.
	Life *Life
	// Log receives failures and what the validator missed. Required.
	Log *logrus.Logger
	// Out sends the actor's messages.
	Out Out
}

// Life is the state that survives a failure of the actor. The next actor gets the same Life. The
// first actor gets the zero value.
type Life struct {
	begun        bool
	rekeyed      *Rekeyed // last Rekeyed; nil: the key in Options is in use
	waiting      atomic.Pointer[consensus.KeyWaiting]
	mutating     atomic.Bool     // true: a call that changes the engine has not returned yet
	lastImported primitives.Hash // hash of the last block sent with BlockImported
	// Steps counts events of the core, Panics failures of the actor.
	Steps, Panics atomic.Uint64
	// Counters count orphans, and messages about chunks that name an anchor.
	Counters consensus.Counters
}

// Waiting returns how long the validator's key signs nothing. Safe for concurrent use.
func (l *Life) Waiting() consensus.KeyWaiting {
	if w := l.waiting.Load(); w != nil {
		return *w
	}
	return consensus.KeyWaiting{}
}

// Rekeyed changes the account's signing key, and says when the new key may sign. With a zero Key the
// account signs nothing. The journal is kept.
type Rekeyed struct {
	Key  primitives.SecretKey
	Wait consensus.KeyWait
}

// Heard is a message of a peer, or, without From, a transaction that a mempool of this node has
// accepted. The core adds the transaction to its own pools, from which its chunks come. The actor
// calls Done when it has read the message, so that the peer may send the next message.
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
		// optimistic means that the job was one of runningSpare.
		optimistic bool
	}
	stored        struct{}
	journalFailed struct {
		of  *Actor
		err error
	}
)

// importAbandoner is the part of the core that releases a block whose import is unfinished.
type importAbandoner interface{ Abandon() }

type jobPanic struct {
	reason any
	stack  []byte
}

// Actor steps the consensus core and carries out the effects that the core returns. Only its own
// goroutine may use it.
type Actor struct {
	o       Options
	core    *consensus.Node      // consensus core; nil: not started, or stopped
	retired importAbandoner      // the stopped core, whose unfinished import end releases
	signs   primitives.SecretKey // key last reported with Out.Signs
	journal *Journal
	outbox  *outbox
	base    int64 // value of now when Elapsed() is 0
	now     int64 // current time in ns since 1970; monotonic after the start
	timer   *time.Timer
	self    func(any)

	jobs    []consensus.Job // jobs that wait for a worker
	running int             // running jobs that are not optimistic
	// spare are the optimistic jobs that wait, runningSpare those that run. Optimistic jobs use only
	// workers that no other job needs, and never delay the start of another job.
	spare        []consensus.Job
	runningSpare int
	ended        chan struct{} // receives one element for each finished job
	inFlight     []*messages.BlockAccepted
	drains       []func(messages.Drained, error)

	schedule *engine.Schedule     // schedule of the tracked shards; nil: the tracked shards do not change
	movesDue bool                 // true: schedule.Step may have work
	held     []primitives.ShardID // tracked shards as reported to the core
}

// New returns the actor.
func New(o Options) *Actor {
	return &Actor{o: o, self: func(any) {}, ended: make(chan struct{}, 2*o.Workers)}
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

// start creates the core at the engine's head. If the previous actor may have left the engine half
// changed, start halts the node instead.
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
	if again { // messages to a failed actor are lost, so repeat the effects that the lost messages would have had
		a.stored()
		a.o.Out.Again()
	}
}

// open opens the signing journal and makes the core.
func (a *Actor) open() (err error) {
	if a.journal, err = OpenJournal(a.o.Journal); err != nil {
		return err
	}
	signed := a.journal.Row()
	if r := a.o.Life.rekeyed; r != nil {
		a.o.Key, a.o.KeyWait = r.Key, r.Wait
	}
	self := a.self
	if a.o.Elapsed == nil {
		begun := time.Now()
		a.o.Elapsed = func() time.Duration { return time.Since(begun) }
	}
	a.now = int64(a.o.Clock())
	a.base = a.now - int64(a.o.Elapsed())
	core, err := consensus.New(consensus.Options{
		Engine: guardedEngine{a.o.Engine, a.o.Life}, HeaderChain: a.o.Engine.HeaderChain(),
		Witnesses: a.o.Engine.Witnesses(),
		Account:   a.o.Account, Key: a.o.Key, KeyWait: a.o.KeyWait, Vote: a.o.Vote, Signed: signed,
		Delays: a.o.Delays, Eager: a.o.Eager, Wall: a.o.Clock, ChooseTimer: a.chooseTimer(),
		Verifier: a.o.Verifier, Known: a.o.Known, Holds: a.o.Holds, Random: rand.IntN, Seed: a.o.Seed,
		OnPersisted: func() { self(stored{}) }, Counters: &a.o.Life.Counters,
		Elapsed: func() int64 { return int64(a.o.Elapsed()) },
	}, a.now)
	if err != nil {
		return err
	}
	a.core = core
	a.outbox = newOutbox(a.o.Engine.Store().DiskSpace(), a.journal, a.o.Out,
		func(err error) { self(journalFailed{a, err}) })
	a.timer = time.AfterFunc(time.Hour, func() { self(tick{a}) })
	a.do(core.Start(a.now))
	a.reportKey()
	a.startSchedule()
	return nil
}

// chooseTimer returns consensus.Options.ChooseTimer.
func (a *Actor) chooseTimer() func() func() bool {
	if a.o.ChooseLimit == 0 {
		return nil
	}
	return func() func() bool {
		begun := a.o.Elapsed()
		return func() bool { return a.o.Elapsed()-begun >= a.o.ChooseLimit }
	}
}

// end stops everything, waits for running jobs, and releases the unfinished import.
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
	for ; a.running+a.runningSpare > 0; a.running-- {
		<-a.ended
	}
	a.running, a.runningSpare = 0, 0
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
		a.o.Life.rekeyed = &m
		a.step(consensus.KeyChanged(m))
	case messages.BlockReceived:
		if m.Taken != nil {
			m.Taken()
		}
		a.step(consensus.Received{From: consensus.Peer(m.From), Message: m.Block})
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
	case system.Answerable: // requests that only a sole validator serves
		m.Failed(producer.ErrShared)
	default: // lifecycle; messages for a sole validator's actors
	}
}

func (a *Actor) step(ev consensus.Event) {
	if a.core == nil {
		return
	}
	a.o.Life.Steps.Add(1)
	a.now = max(a.now, a.base+int64(a.o.Elapsed()))
	a.do(a.core.Step(a.now, ev))
	a.reportKey()
	a.moveShards()
}

// reportKey reports changes of the key that signs, and of the time for which a new key waits.
func (a *Actor) reportKey() {
	if a.core == nil { // the step has failed
		return
	}
	now, was := a.core.KeyWaiting(), a.o.Life.Waiting()
	if now != was {
		a.o.Life.waiting.Store(&now)
		switch {
		case now.Key == "" || now.Key == was.Key && now.From == was.From:
		case now.From == 0:
			a.o.Log.Warnf("%s is new to this data folder, or has long not been used in it: %s signs nothing for %d blocks, "+
				"which are counted from the next new block (made after %s), so that it cannot contradict what it has signed "+
				"on another machine; `run --sign-from HEIGHT` ends the wait earlier",
				now.Key, a.o.Account, now.Left, time.Unix(0, int64(now.Seen)).UTC().Format(time.RFC3339))
		default:
			a.o.Log.Infof("%s signs nothing with %s up to block %d, for %d more blocks", a.o.Account, now.Key, now.From, now.Left)
		}
	}
	if key := a.core.SigningKey(); a.signs != key {
		a.signs = key
		if was.Key != "" && !key.IsZero() {
			a.o.Log.Infof("the wait is over: %s signs with %s", a.o.Account, key.PublicKey())
		}
		a.o.Out.Signs(key)
	}
}

// do carries out the effects of a step.
func (a *Actor) do(out consensus.Out) {
	a.logStep(&out)
	a.outbox.put(out.Save, out.Send)
	for _, acc := range out.Imported {
		m := chain.Accepted(acc)
		a.inFlight = append(a.inFlight, &m)
		a.o.Out.Imported(messages.BlockImported{BlockAccepted: &m})
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
	for _, j := range out.Jobs {
		if j.Optimistic {
			a.spare = append(a.spare, j)
		} else {
			a.jobs = append(a.jobs, j)
		}
	}
	a.run()
	if out.Wake > 0 {
		a.timer.Reset(time.Duration(max(out.Wake-a.now, 0)))
	}
}

// logStep logs the refusals and notes of a step.
func (a *Actor) logStep(out *consensus.Out) {
	for _, err := range out.Refused {
		a.o.Log.WithError(err).Info("input of the consensus rejected")
	}
	if !a.o.Log.IsLevelEnabled(logrus.DebugLevel) {
		return
	}
	for _, n := range out.Notes {
		a.o.Log.WithError(n.Err).Debug(n.What)
	}
}

// run starts waiting jobs while fewer than Options.Workers run, and optimistic jobs while fewer than
// that run in all.
func (a *Actor) run() {
	for len(a.jobs) > 0 && a.running < a.o.Workers {
		a.running++
		a.startFirst(&a.jobs)
	}
	for len(a.spare) > 0 && a.running+a.runningSpare < a.o.Workers {
		a.runningSpare++
		a.startFirst(&a.spare)
	}
}

// startFirst starts the first job of a queue.
func (a *Actor) startFirst(queue *[]consensus.Job) {
	j := (*queue)[0]
	(*queue)[0] = consensus.Job{}
	*queue = (*queue)[1:]
	self, ended := a.self, a.ended
	go func() {
		m := jobDone{of: a, job: j.ID, optimistic: j.Optimistic}
		defer func() {
			if p := parallel.Recovered(recover()); p != nil {
				m.bad = &jobPanic{p.Reason, p.Stack}
			}
			ended <- struct{}{}
			self(m)
		}()
		j.Run()
	}()
}

func (a *Actor) jobDone(m *jobDone) {
	<-a.ended
	if m.optimistic {
		a.runningSpare--
	} else {
		a.running--
	}
	if m.bad != nil {
		panic(fmt.Sprintf("%v\n%s", m.bad.reason, m.bad.stack))
	}
	a.run()
	a.step(consensus.Done{Job: m.job})
	a.drained()
}

// stored handles the engine's callback: blocks are on disk, or writing blocks failed.
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
		if errors.Is(err, storage.ErrFull) { // ErrFull is returned only while the node stops
			a.o.Engine.Abandon()
			a.inFlight = nil
		}
	}
	a.drained()
}

// blockAccepted sends BlockAccepted for a block that is on disk.
func (a *Actor) blockAccepted(acc *engine.Imported) {
	i := slices.IndexFunc(a.inFlight, func(m *messages.BlockAccepted) bool { return m.Hash == acc.Entry.Hash })
	if i < 0 { // the actor that imported this block has failed
		a.o.Out.Accepted(chain.Accepted(acc))
		return
	}
	m := a.inFlight[i]
	a.inFlight = slices.Delete(a.inFlight, i, i+1)
	a.o.Out.Accepted(*m)
}

// stopCore stops the core and drops waiting jobs. end waits for running jobs. Blocks that are being
// written to disk are still reported.
func (a *Actor) stopCore() {
	if a.core == nil {
		return
	}
	a.retired, a.core, a.jobs, a.spare = a.core, nil, nil, nil
	a.timer.Stop()
}

// halt stops the core and sends ChainHalted.
func (a *Actor) halt(err error) {
	a.stopCore()
	m := messages.ChainHalted{Err: err, Drop: func() {}}
	if f := (*engine.ApplyFailure)(nil); errors.As(err, &f) {
		m.Height, m.Block, m.Drop = f.Height, f.Block, f.Release
	}
	a.o.Out.Halted(m)
}

// drained answers pending DrainChain requests once no job runs and all imported blocks are on disk.
func (a *Actor) drained() {
	e := a.o.Engine
	if a.core != nil || a.running+a.runningSpare > 0 || len(a.inFlight) > 0 || e.Tip().Hash != e.Head().Hash {
		return
	}
	for _, reply := range a.drains {
		reply(messages.Drained{}, nil)
	}
	a.drains = nil
}
