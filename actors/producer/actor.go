// Package producer is the actor that produces the blocks of a chain whose validators are in this
// node. It signs approvals (votes) of these validators, collects chunks for the child of the head,
// endorses the chunks, and requests the next block from the chain actor when one of the validators
// is the block producer. The rules are in packages chain/doomslug and chain/production. If
// validators of other nodes take part, package actors/validator does this work instead.
//
//	in      BlockImported, BlockAccepted; ChunkMade; TransactionsWaiting, SubmitAgain,
//	        FinalityWanted; requests of sandboxes: MineBlocks, PatchState, FastForward,
//	        MissChunks, Reorganise, MockVerification, CaptureClock, SetClock, SetProduction;
//	        StandStill, GoOn, RolledBack, RestoreClock
//	out     ProduceChunk to the mempools that have transactions, MakeBlock to the chain
//	state   Actor: the head, with the chunks and endorsements for its child; the doomslug
//	        tracker; the production scheduler; one timer
//	units   times in ns since the actor was made; timestamps of blocks in ns since 1970
//	bound   the validators and shards of an epoch
//	errors  if an epoch cannot be looked up, the actor panics
//	source  nearcore chain/client/src/client.rs:964, chain/client/src/client_actor.rs,
//	        chain_inclusion_tracker.rs
//
// Usually the node has all validators of the chain (it is the sole validator). In that case the
// producer requests chunks when the block is due and not when the head arrives, so that the chunks
// include transactions that arrive in between. It then also builds on blocks that are not on disk
// yet. If some validators are absent, the producer skips their heights and produces blocks as long
// as the node's own validators have more than two thirds of the stake; in that case it waits until
// the head is on disk.
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
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Chain is the part of *engine.Engine that the producer reads. The actor calls all methods except
// NewChunk on its own goroutine.
type Chain interface {
	Blocks
	Validators
	Epochs
	// NewChunk builds and signs a chunk. The actor calls NewChunk from several goroutines at once.
	NewChunk(parent primitives.Hash, shard primitives.ShardIndex, txs []*primitives.SignedTransaction,
		key primitives.SecretKey) (*primitives.Chunk, error)
}

// Blocks finds the blocks to build on.
type Blocks interface {
	Head() *engine.BlockNode
	Tip() *engine.BlockNode
	Imported(primitives.Hash) *engine.BlockNode
	// Final returns the last final block on disk.
	Final() storage.BlockRef
}

// Validators says which validators approve, produce and endorse the child of a block.
type Validators interface {
	Approvers(parent primitives.Hash) ([]chain.Approver, error)
	BlockProducer(parent primitives.Hash, height primitives.Height) (primitives.ValidatorStake, error)
	ChunkProducer(parent primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
	ChunkValidators(parent *engine.BlockNode, shard primitives.ShardID) ([]chain.Assigned, error)
}

// Epochs places blocks in epochs.
type Epochs interface {
	// ChildEpoch returns the epoch of a block's children, and the shard layout of that epoch.
	ChildEpoch(parent primitives.Hash) (primitives.EpochID, primitives.ShardLayout, error)
	// Epoch returns the position of a block in its epoch.
	Epoch(block primitives.Hash) (production.Epoch, error)
}

// Demand is what waits for blocks. Its methods are safe for concurrent use.
type Demand interface {
	// IsIdle returns whether a shard's pool has no transaction for the next chunk. If IsIdle returns
	// true, the actor makes the chunk itself.
	IsIdle(primitives.ShardID) bool
	// HasTransactions returns whether a pool has transactions for a chunk. If it returns false, the
	// actor gets messages.TransactionsWaiting as soon as a pool has one.
	HasTransactions() bool
	// WantsFinality returns whether a client waits for finality. If it returns false, the actor
	// gets messages.FinalityWanted when the next client waits for finality.
	WantsFinality() bool
}

// Out sends the actor's messages.
type Out interface {
	ProduceChunk(messages.ProduceChunk)
	MakeBlock(messages.MakeBlock)
	// Mocked passes on the signature checks that the sandbox mocks, each time the set changes, so
	// that view calls mock these checks too.
	Mocked(*primitives.Mocks)
}

// Options configure the actor.
type Options struct {
	// Chain is what the producer reads of the chain. Required.
	Chain Chain
	// Keys are the signing keys of this node's validators. Empty: the node makes no blocks.
	Keys map[primitives.AccountID]primitives.SecretKey

	// Times gets engine.ProduceChunkTime of the chunks that the actor makes itself. nil: not measured.
	Times *metrics.Set

	// When blocks are made.

	// Delays are the timers of doomslug, in ns. They have no default.
	Delays doomslug.Delays
	// Rules are the mode and pace of production.
	Rules production.Rules
	// Clock returns ns since 1970 for the timestamps of blocks. Required.
	Clock func() uint64
	// Begin is the initial state of the sandbox clock. nil: the sandbox clock follows Clock.
	Begin *messages.Clock
	// Stopped is the reason why the actor makes no blocks until it is restarted. The actor answers
	// all requests with this error. nil: the actor makes blocks.
	Stopped error

	// Demand says what waits for blocks. Required.
	Demand Demand

	// Observers.

	// Log receives failures and what the sandbox is told. Required.
	Log *logrus.Logger
	// Out sends the actor's messages.
	Out Out
}

// Actor approves and makes blocks. Only its own goroutine may use it.
type Actor struct {
	o        Options
	begun    time.Time
	doomslug *doomslug.Tracker
	sched    *production.Scheduler
	head     *head
	// followed has one entry for each block that was imported as the tip but is not on disk yet.
	// The entry is true if the producer already builds on this block.
	followed []bool
	held     bool // true: block production is paused, so doomslug's timers are stopped
	stopped  bool
	goals    []goal // pending MineBlocks requests
	patches  []patch
	forward  forward
	missLeft map[primitives.ShardID]uint64 // number of next blocks without a new chunk, by shard
	reorg    *reorg                        // pending Reorganise request; nil: none
	mocks    *primitives.Mocks             // mocked signature verification of contracts; nil: none
	clock    clock
	era      messages.Era // number of the chain's rollbacks, sent with MakeBlock and ProduceChunk
	paused   bool         // true: a rollback is in progress, so the actor must not read the chain
	deferred []any        // requests that arrived while paused is true
	timer    *time.Timer
	self     messages.Sender[tick]
}

// goal is a MineBlocks request that has not been answered yet.
type goal struct {
	left  uint64
	reply func(messages.BlocksMined, error)
}

// tick is the timer's message to self.
type tick struct{}

// New returns the actor. Call Start, or let Receive do it, to begin at the chain's head.
func New(o Options) *Actor {
	a := &Actor{o: o, begun: time.Now(), clock: clock{wall: o.Clock}}
	if o.Begin != nil {
		a.clock.restore(*o.Begin)
	}
	a.doomslug = doomslug.New(o.Delays, 0, 0)
	a.sched = production.New(o.Rules, 0)
	a.self = func(tick) {}
	return a
}

func (a *Actor) now() int64 { return int64(time.Since(a.begun)) }

// Receive handles lifecycle messages and passes the rest to Handle.
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

// Start starts at the chain's head.
func (a *Actor) Start() {
	if a.o.Stopped != nil {
		a.stop(fmt.Errorf("%w: %w", ErrStopped, a.o.Stopped))
		return
	}
	// If the chain was fast-forwarded before a restart, the head's timestamp is ahead of the clock.
	if e := a.o.Chain.Head(); e.Header().Timestamp > a.clock.now() {
		if _, sole := a.approvers(e.Hash); sole {
			a.clock.set(e.Header().Timestamp)
		}
	}
	a.begin()
}

// begin starts over at the chain's head.
func (a *Actor) begin() {
	e := a.o.Chain.Head()
	busy := false
	for i := range e.Shards {
		busy = busy || len(e.Shards[i].Outgoing) > 0
	}
	a.step(production.Waiting{Any: a.o.Demand.HasTransactions()})
	a.updateWanted()
	a.step(production.Accepted{Height: e.Height(), Final: a.o.Chain.Final().Height, Busy: busy})
	approvers, sole := a.approvers(e.Hash)
	a.setHead(e, a.o.Chain.Final().Height, approvers, sole)
	a.advance()
}

// updateWanted informs the scheduler whether a client waits for finality.
func (a *Actor) updateWanted() { a.step(production.Wanted{Any: a.o.Demand.WantsFinality()}) }

// Handle handles one message.
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
			a.chunk(m.Shard, m.Chunk)
		}
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
	case messages.GoOn, messages.RolledBack, messages.RestoreClock: // ignored: no rollback is in progress, or production has stopped
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

// stop ends block production. Pending requests are answered with why.
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
		panic(err) // cannot fail: only Mine returns errors, and Mine does not use step
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
		if followed { // the scheduler has already counted this block
			left++
		}
	}
	a.goals = append(a.goals, goal{left: left, reply: m.Reply})
	a.advance()
}

// blockImported makes an imported block the head before that block is on disk, if this node is the
// sole validator.
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

// blockAccepted answers the requests that waited for this block to be on disk. It makes the block
// the head unless blockImported has already done so.
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

// answerGoals answers requests that waited for an accepted block.
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

// follow makes a block the head, unless top, the newest block of the chain, is higher. In that case
// a message about top will follow.
func (a *Actor) follow(m *messages.BlockAccepted, top *engine.BlockNode, approvers []chain.Approver, sole bool) {
	a.step(production.Waiting{Any: a.o.Demand.HasTransactions()})
	a.updateWanted()
	forwarded := a.forward.target > 0 // skipped heights delay finality, so another block must follow
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

// advance sends approvals that are due, makes the block if everything for it has arrived, and sets
// the timer.
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
	if a.held { // time on hold must not cause skipped heights
		a.held = false
		a.doomslug.Tip(a.head.hash, a.head.height, a.head.final, now)
	}
	a.delays(out.Interval)
	if out.Pace == production.Now && a.head.sole {
		a.askChunks() // request chunks first, so that they are made while this goroutine signs the approval
	}
	if to := a.nextHeight(); to > a.head.height+1 {
		if a.head.making == 0 && !a.reorg.isPending() && a.head.next != to {
			a.head.next = to
			a.vote(a.doomslug.SkipTo(to, now), now)
		}
	}
	for _, p := range a.doomslug.Tick(now, out.Pace == production.Now) {
		a.vote(p, now)
	}
	wait := a.make(now)
	a.arm(now, out.At, wait, a.doomslug.Next())
}

// never is the skip delay of a sole validator in ns. A sole validator has no other producer to
// skip.
const never = 1 << 48

// delays sets doomslug's delays. If interval is above 0, interval becomes the endorsement delay of
// a new tip. The skip delay is at least four times the endorsement delay.
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
	a.doomslug.SetDelays(d)
}

// arm sets the timer to the earliest of times, ignoring zeros. If all times are zero, arm stops the
// timer.
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
