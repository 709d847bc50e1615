// Package producer is the shell around packages chain/doomslug and chain/production: it votes, gathers votes, chunks and
// endorsements for the head, and asks for the next block when that is this node's to make.
//
//	in      BlockAdopted, BlockAccepted; ChunkMade, ChunkReceived, ChunkEndorsed; ApprovalReceived; TransactionsWaiting, SubmitAgain, FinalityWanted; MineBlocks, PatchState, FastForward, MissChunks, Reorganise, MockVerification; CaptureClock, SetClock, SetProduction; StandStill, GoOn, WentBack, RestoreClock
//	out     ProduceChunk to the mempools, MakeBlock to the chain; ApprovalMade, EndorsementMade to the net
//	state   Actor: the head with what has come for its child; the doomslug tracker; the production scheduler; one timer
//	units   times in ns since the actor was made, timestamps of blocks in ns since 1970
//	bound   MaxParked votes and endorsements that are ahead of the head; the rest as an epoch has validators and shards
//	errors  bad votes and endorsements are dropped; an epoch that cannot be looked up ends the process
//	source  nearcore chain/client/src/client.rs:964, chain/client/src/client_actor.rs, chain_inclusion_tracker.rs
//
// One validator alone is the case n = 1 of the same code, with one difference: as nobody else has to see its chunks first, it
// makes them when the block is due and not when the head came, so that they hold what has arrived by then. Its votes leave the
// node in its blocks only, so it goes on from a block before that is on disk; where others vote, it waits for the disk.
package producer

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// MaxParked bounds the votes and endorsements for blocks that have not come yet.
const MaxParked = 4096

// Chain answers who is to do what; *engine.Engine does. It is asked on the actor's goroutine.
type Chain interface {
	Head() *engine.BlockNode
	Tip() *engine.BlockNode
	Imported(primitives.Hash) *engine.BlockNode
	Approvers(parent primitives.Hash) ([]chain.Approver, error)
	BlockProducer(parent primitives.Hash, height primitives.Height) (primitives.ValidatorStake, error)
	ChunkProducer(parent primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
	ChunkValidators(parent *engine.BlockNode, shard primitives.ShardID) ([]chain.Assigned, error)
	// ChildEpoch returns the epoch of a block's children, and its shards.
	ChildEpoch(parent primitives.Hash) (primitives.EpochID, primitives.ShardLayout, error)
	// Epoch tells where a block stands in its epoch.
	Epoch(block primitives.Hash) (production.Epoch, error)
}

// Out is whom the actor talks to.
type Out struct {
	ProduceChunk messages.Sender[messages.ProduceChunk]
	MakeBlock    messages.Sender[messages.MakeBlock]
	Approval     messages.Sender[messages.ApprovalMade]    // nil: there is no net
	Endorsement  messages.Sender[messages.EndorsementMade] // nil: there is no net
}

// Options are what the actor works with.
type Options struct {
	Chain  Chain
	Keys   map[primitives.AccountID]primitives.SecretKey // of this node's validators; none: it only follows
	Delays doomslug.Delays
	Rules  production.Rules
	Final  func() primitives.Height // of the last final block
	// Waiting tells whether a pool has something to offer, and asks to be told of the next that gets something.
	Waiting func() bool
	// Wanted tells whether somebody waits for blocks to be final; the first who does says so with FinalityWanted. nil: always.
	Wanted func() bool
	Clock  func() uint64   // ns since 1970, for blocks
	Begin  *messages.Clock // what time they have at first; nil: as Clock says
	// Mocked is told what contracts are told of signatures, wherever no block says it; nil: nobody asks.
	Mocked func(*primitives.Mocks)
	// LargestTarget is the greatest height ever voted for, as Persist left it. Persist is called before a vote leaves the
	// node; nil: votes are not remembered.
	LargestTarget primitives.Height
	Persist       func(primitives.Height) error
	Verify        func(primitives.Signature, []byte, primitives.PublicKey) bool
	Log           *logrus.Logger
	Out           Out
}

// Actor is the shell.
type Actor struct {
	o       Options
	begun   time.Time
	tracker *doomslug.Tracker
	sched   *production.Scheduler
	head    *head
	followed   []bool // by block that was adopted as the tip and is not accepted as the head: it is followed already
	held    bool   // the tracker's timers do not run
	stopped bool
	goals   []goal
	patches []patch
	forward forward
	missLeft    map[primitives.ShardID]uint64 // of how many blocks to come a shard's chunk is missing
	reorg    *reorg                         // nil: no other branch is asked for
	mocks   *primitives.Mocks             // what contracts are told in blocks; nil: the truth
	clock   clock
	era     messages.Era // of the chain
	paused   bool         // it is not known where the chain is
	deferred   []any        // what was asked for meanwhile
	parked   []any        // ApprovalReceived, ChunkEndorsed: ahead of the head
	timer   *time.Timer
	self    messages.Sender[tick]
}

// goal is a MineBlocks that is not answered.
type goal struct {
	left  uint64
	reply func(messages.BlocksMined, error)
}

// tick is the timer's note to self.
type tick struct{}

// New returns the actor; it is at the chain's head.
func New(o Options) *Actor {
	a := &Actor{o: o, begun: time.Now(), clock: clock{wall: o.Clock}}
	if o.Begin != nil {
		a.clock.restore(*o.Begin)
	}
	a.tracker = doomslug.New(o.Delays, o.LargestTarget, 0)
	a.sched = production.New(o.Rules, 0)
	a.self = func(tick) {}
	return a
}

func (a *Actor) now() int64 { return int64(time.Since(a.begun)) }

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, pid := c.ActorSystem().Root, c.Self()
		a.self = func(m tick) { root.Send(pid, m) }
		a.Start()
	case *actor.Stopping:
		if a.timer != nil {
			a.timer.Stop()
		}
	default:
		a.Handle(c.Message())
	}
}

// Start goes to the chain's head.
func (a *Actor) Start() {
	if e := a.o.Chain.Head(); e.Header().Timestamp > a.clock.now() { // it was fast-forwarded before the node started
		if _, sole := a.approvers(e.Hash); sole {
			a.clock.set(e.Header().Timestamp)
		}
	}
	a.begin()
}

// begin begins anew on the chain's head.
func (a *Actor) begin() {
	e := a.o.Chain.Head()
	busy := false
	for i := range e.Shards {
		busy = busy || len(e.Shards[i].Outgoing) > 0
	}
	a.step(production.Waiting{Any: a.o.Waiting()})
	a.updateWanted()
	a.step(production.Accepted{Height: e.Height(), Final: a.o.Final(), Busy: busy})
	approvers, sole := a.approvers(e.Hash)
	a.setHead(e, a.o.Final(), approvers, sole)
	a.advance()
}

// updateWanted asks whether somebody waits for blocks to be final.
func (a *Actor) updateWanted() { a.step(production.Wanted{Any: a.o.Wanted == nil || a.o.Wanted()}) }

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	if a.paused {
		a.handlePaused(msg)
		return
	}
	switch m := msg.(type) {
	case messages.BlockImported:
		a.blockImported(m.BlockAccepted)
	case messages.BlockAccepted:
		a.blockAccepted(&m)
	case messages.ChunkMade:
		if m.Era == a.era {
			a.chunk(m.Shard, m.Chunk, true)
		}
	case messages.ChunkReceived:
		a.chunk(m.Shard, m.Chunk, false)
	case messages.ChunkEndorsed:
		a.endorsed(m)
	case messages.ApprovalReceived:
		a.approval(m)
	case messages.TransactionsWaiting:
		a.step(production.Waiting{Any: true})
		a.advance()
	case messages.SubmitAgain:
		a.askAgain(m.Shard)
	case messages.FinalityWanted:
		a.updateWanted()
		a.advance()
	case tick:
		a.advance()
	case system.Request[messages.MineBlocks, messages.BlocksMined]:
		a.mine(m)
	case system.Request[messages.PatchState, messages.StatePatched]:
		a.patchState(m)
	case system.Request[messages.FastForward, messages.Forwarded]:
		a.fastForward(m)
	case system.Request[messages.MissChunks, messages.ChunksMissed]:
		a.missChunks(m)
	case system.Request[messages.Reorganise, messages.Reorganised]:
		a.reorganise(m)
	case system.Request[messages.MockVerification, messages.VerificationMocked]:
		err := a.requireSole()
		if err == nil {
			a.mock(m.Question.Mocks)
		}
		m.Reply(messages.VerificationMocked{}, err)
	case system.Request[messages.CaptureClock, messages.Clock]:
		a.captureClock(m)
	case system.Request[messages.SetClock, messages.Clock]:
		a.setClock(m)
	case system.Request[messages.SetProduction, messages.Production]:
		a.setProduction(m)
	case system.Request[messages.StandStill, messages.Stopped]:
		a.pause(m)
	case messages.GoOn, messages.RolledBack, messages.RestoreClock: // it goes, or has stopped
	case system.Request[messages.StopProducing, messages.Stopped]:
		a.stop(ErrStopped)
		m.Reply(messages.Stopped{}, nil)
	case messages.ChainHalted:
		a.stop(fmt.Errorf("%w: %w", ErrStopped, m.Err))
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("producer actor: no case for %T", m))
	}
}

// stop ends all work. Those who wait for blocks are told why.
func (a *Actor) stop(why error) {
	a.stopped = true
	for _, g := range a.goals {
		g.reply(messages.BlocksMined{}, why)
	}
	a.goals = nil
	a.refuseAll(why)
	if a.timer != nil {
		a.timer.Stop()
	}
}

func (a *Actor) step(ev production.Event) production.Out { return a.stepAt(ev, a.now()) }

func (a *Actor) stepAt(ev production.Event, now int64) production.Out {
	out, err := a.sched.Step(ev, now)
	if err != nil {
		panic(err) // only Mine can fail, and has its own path
	}
	return out
}

func (a *Actor) mine(m system.Request[messages.MineBlocks, messages.BlocksMined]) {
	if a.stopped {
		m.Reply(messages.BlocksMined{}, ErrStopped)
		return
	}
	if m.Question.Blocks == 0 {
		head := a.o.Chain.Head()
		m.Reply(messages.BlocksMined{Height: head.Height(), Hash: head.Hash}, nil)
		return
	}
	if _, err := a.sched.Step(production.Mine{Blocks: m.Question.Blocks}, a.now()); err != nil {
		m.Reply(messages.BlocksMined{}, err)
		return
	}
	left := a.sched.Left()
	for _, followed := range a.followed {
		if followed { // counted as made, and not told
			left++
		}
	}
	a.goals = append(a.goals, goal{left: left, reply: m.Reply})
	a.advance()
}

// blockImported goes on from a block that is not on disk yet, if nobody outside will hear of that.
func (a *Actor) blockImported(m *messages.BlockAccepted) {
	if !m.IsHead {
		return
	}
	approvers, sole := a.approvers(m.Hash)
	a.followed = append(a.followed, sole)
	if sole {
		a.follow(m, a.o.Chain.Tip(), approvers, true)
	}
}

// blockAccepted tells of a block that is on disk, and goes on from it, unless adopt did.
func (a *Actor) blockAccepted(m *messages.BlockAccepted) {
	if !m.IsHead {
		return
	}
	a.answerGoals(m)
	followed := false
	if len(a.followed) > 0 {
		followed, a.followed = a.followed[0], a.followed[1:]
	}
	if !followed {
		approvers, sole := a.approvers(m.Hash)
		a.follow(m, a.o.Chain.Head(), approvers, sole)
	}
	a.startBranch()
}

// answerGoals answers who waited for a block that is on disk.
func (a *Actor) answerGoals(m *messages.BlockAccepted) {
	left := a.goals[:0]
	for _, g := range a.goals {
		if g.left--; g.left == 0 {
			g.reply(messages.BlocksMined{Height: m.Height(), Hash: m.Hash}, nil)
			continue
		}
		left = append(left, g)
	}
	a.goals = left
	a.answerAccepted(m)
}

// follow makes a block the head, unless the chain is at top, beyond it: then top's own message is on its way.
func (a *Actor) follow(m *messages.BlockAccepted, top *engine.BlockNode, approvers []chain.Approver, sole bool) {
	a.step(production.Waiting{Any: a.o.Waiting()})
	a.updateWanted()
	forwarded := a.forward.target > 0 // what a fast-forward passes over leaves the final block behind: the head's is to follow
	a.step(production.Accepted{Height: m.Height(), Final: m.Final, Busy: m.Busy() || a.patchedAt(m.Height()) || forwarded,
		Fresh: m.Fresh() || forwarded, Pressing: m.Pressing()})
	e := a.o.Chain.Imported(m.Hash)
	if e == nil || e.Height() < top.Height() {
		return
	}
	a.setHead(e, m.Final, approvers, sole)
	if !sole {
		a.otherValidators()
	}
	a.updateDue()
	a.advance()
}

// advance votes if it is time, makes the block if all for it is there, and sets the timer for what time alone will bring.
func (a *Actor) advance() {
	if a.stopped || a.head == nil {
		return
	}
	now := a.now()
	out := a.stepAt(production.Tick{}, now)
	if out.Pace == production.Hold {
		a.held = true
		wait := a.make(now)
		a.arm(now, out.At, wait)
		return
	}
	if a.held { // the time that passed meanwhile is nobody's failure
		a.held = false
		a.tracker.Tip(a.head.hash, a.head.height, a.head.final, now)
	}
	a.delays(out.Interval)
	if out.Pace == production.Now && a.head.sole {
		a.askChunks() // they are made while this actor signs its vote
	}
	if to := a.nextHeight(); to > a.head.height+1 {
		if a.head.making == 0 && !a.reorg.isPending() && a.head.next != to {
			a.head.next = to
			a.vote(a.tracker.SkipTo(to, now), now)
		}
	}
	for _, p := range a.tracker.Tick(now, out.Pace == production.Now) {
		a.vote(p, now)
	}
	wait := a.make(now)
	a.arm(now, out.At, wait, a.tracker.Next())
}

// requireSole are the delays of a sole validator: it has nobody to wait for, so it skips no height.
const never = 1 << 48

// delays sets Doomslug's delays: the vote for a tip after interval, if that is set, and no skip before blocks may come.
func (a *Actor) delays(interval int64) {
	d := a.o.Delays
	if interval > 0 {
		d.Endorsement = interval
	}
	d.Skip = max(d.Skip, 4*d.Endorsement)
	d.MaxWait = max(d.MaxWait, d.Skip)
	if a.head.sole {
		d.Skip, d.MaxWait = never, never
	}
	a.tracker.SetDelays(d)
}

// arm sets the timer to the first of the times that are not 0 and lie ahead.
func (a *Actor) arm(now int64, times ...int64) {
	var first int64
	for _, t := range times {
		if t > 0 && (first == 0 || t < first) {
			first = t
		}
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if first == 0 || first-now >= never/2 {
		return
	}
	self := a.self
	a.timer = time.AfterFunc(time.Duration(max(first-now, 0)), func() { self(tick{}) })
}
