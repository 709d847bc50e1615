package waiter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Chain is what a waiter reads of the chain. Its methods are safe for concurrent use.
type Chain interface {
	// Check returns why no block on the head can include the transaction, or nil if one can. The
	// error means a failure of this node.
	Check(tx *primitives.SignedTransaction) (*primitives.InvalidTxError, error)
	// Use returns the data on which the transaction's validity depends, for Watch.Use.
	Use(tx *primitives.SignedTransaction) messages.Use
	// IsUnused returns whether the transaction's nonce is above its key's nonce. If persisted is
	// false, it reads the state of the in-memory head: true then means that no block up to this
	// head includes the transaction. If persisted is true, it reads the state of the persisted
	// head, which readers see. If only the second is true, a block that is not on disk yet has used
	// the nonce, for this or another transaction. false may also mean unknown.
	IsUnused(tx *primitives.SignedTransaction, persisted bool) bool
	// IsIncluded returns whether the persisted chain includes the transaction. txtracker may not
	// have processed the including block yet.
	IsIncluded(tx primitives.Hash) (bool, error)
}

// Options configure a waiter.
type Options struct {
	// Wait is the client's request.
	Wait messages.AwaitTransaction
	// Timeout ends the wait, from the start of the actor. Required.
	Timeout time.Duration

	// What the waiter reads.

	// Ledger has the outcomes of the persisted chain. Required.
	Ledger Ledger
	// Records are shared by all waiters. nil: this waiter has its own.
	Records *Records
	// Chain may be nil if Wait has no transaction to submit and none to check.
	Chain Chain
	// Dropped returns whether the node has dropped the transaction and no copy was submitted since.
	// nil: never.
	Dropped func(primitives.Hash) bool

	// Out sends the waiter's messages. Required.
	Out Out

	// Events report the progress of the wait.
	Events Events
}

// Out sends the waiter's messages.
type Out interface {
	Watch(messages.Watch)               // to the transaction tracker
	Unwatch(messages.Unwatch)           // to the transaction tracker
	Submit(messages.SubmitTransactions) // to the mempool of the transaction's shard
	Reply(messages.Awaited)             // to the client, once
}

// Events are callbacks. A nil field is not called.
type Events struct {
	// Begun is called when txtracker handles a watch, on its goroutine.
	Begun func()
	// Reached is called with the level and the height of the head after each Progress, and when the
	// mempool accepts the transaction.
	Reached func(level view.ExecutionLevel, head primitives.Height)
}

// Actor waits for one transaction, replies once, and stops. Only its own goroutine may use it.
//
// # The wait protocol
//
// Problem: a client that waits for a level (wait_until) must get the status as of the first
// block that satisfies it, exactly once, although the transaction may be included between any
// two steps, pools may drop it, the chain may reorganise, and mempool and txtracker may
// restart.
//
// Invariants:
//   - The waiter sends Watch before it submits, so txtracker misses no block with the
//     transaction. txtracker confirms the watch only if the transaction may be in an earlier block.
//   - News comes in the order of blocks. The reply names the position of the first block that
//     satisfies the wait, and the status is that of this position.
//   - Outcomes from before the watch are read from the ledger, up to the position that Watched
//     confirms. Receipts found there are watched too, and the ledger is read again after that
//     watch is confirmed.
//   - A wait ends exactly once: by its level, a refusal, a drop, a rollback (Progress.Lost),
//     its timeout, or the end of its session.
//
// Levels:
//
//	INCLUDED             the transaction has an outcome in a block
//	EXECUTED_OPTIMISTIC  all its receipts but refunds have outcomes
//	INCLUDED_FINAL       the block of its outcome is final
//	EXECUTED             EXECUTED_OPTIMISTIC and INCLUDED_FINAL
//	FINAL                all outcomes exist and their blocks are final
//
// Outline:
//
//	start: Watch(hash), then SubmitTransactions if the waiter submits
//	Progress: Machine.Step; if it asks, read the ledger and watch receipts; reply if the level is met
//	Submitted: pooled, or rejected. A rejected nonce may have been used by this very
//	        transaction: then watch again, with confirmation, and wait for the block
//	Progress.Dropped: end with the reason, unless another copy is on its way (dropApplies)
//	Progress.Doubt: the nonce or expiry may be used up; Chain.Check decides
//	Reorganised: outcomes are read again; the wait goes on
//	WatchAgain, SubmitAgain: repeat the watch or the submission after a restart
//	timeout: the reason if the transaction has become invalid, else ErrTimeout with the level
//	        reached. A caller whose own deadline ends the wait, such as an RPC request, gets
//	        ErrTimeout at that deadline, 2 s before the waiter's timeout (node: lostAfter)
//
// The reply of a waiter that submits also waits for the mempool's answer. neard checks a
// transaction before it looks for its outcome. So a transaction that was executed long ago is
// rejected as expired.
//
// Rejected: polling the store, as nearcore does. It costs a read for each waiter and block, and may
// skip levels. Rejected: letting the chain wait until all waiters have replied.
type Actor struct {
	o               Options
	core            *Machine
	timer           *time.Timer
	pooled          bool                // true: a pool has the transaction, or the mempool is checking it
	mempoolAnswered bool                // true: the mempool has answered, or nothing was submitted
	done            bool                // true: the level is reached, but the mempool has not answered
	finalWatched    []primitives.Height // heights of blocks whose finality txtracker reports
	branch          messages.Branch     // branch for which finalWatched is valid
	asked           int                 // number of submissions that the mempool has not answered
	drops           uint64              // number of the last drop on the node before a pool accepted the transaction
	dropped         error               // reason of the pool's last drop; nil: not dropped, or submitted again since
	maybeIncluded   bool                // true: a block included the transaction before txtracker restarted
	unconfirmed     bool                // true: the watch is Quiet, and the mempool has not answered
	answered        bool
	stop            func()
}

// expired is the message to self that the timer sends.
type expired struct{}

// New returns the actor.
func New(o Options) *Actor {
	a := &Actor{o: o, core: NewMachine(o.Wait.Hash, o.Wait.Until)}
	a.core.records, a.core.attempt = o.Records, o.Wait.Again
	return a
}

// Receive handles lifecycle messages and passes the rest to Handle.
func (a *Actor) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, self := c.ActorSystem().Root, c.Self()
		a.start(func() { root.Stop(self) })
		a.timer = time.AfterFunc(a.o.Timeout, func() { root.Send(self, expired{}) })
	case *actor.Stopping:
		a.end()
	default:
		a.Handle(c.Message())
	}
}

// start watches the transaction, then submits it if requested. stop stops the actor.
func (a *Actor) start(stop func()) {
	a.stop = stop
	a.pooled, a.mempoolAnswered = a.o.Wait.Submit, !a.o.Wait.Submit
	if !a.o.Wait.Submit || a.o.Wait.Again > 0 { // a wait after a reorganisation may concern an included transaction
		a.watch([]primitives.Hash{a.o.Wait.Hash})
	} else {
		a.unconfirmed = true
		a.o.Out.Watch(messages.Watch{Waiter: a.o.Wait.Waiter, Hash: a.o.Wait.Hash, IDs: []primitives.Hash{a.o.Wait.Hash}, Quiet: true,
			FinalOnly: a.o.Wait.Until == view.LevelFinal, Begun: a.o.Events.Begun})
	}
	if a.o.Wait.Submit {
		a.submit()
	}
}

func (a *Actor) submit() {
	a.dropped, a.pooled = nil, true
	a.asked++
	a.o.Out.Submit(messages.SubmitTransactions{From: a.o.Wait.Waiter, Client: a.o.Wait.Client,
		Transactions: []*primitives.SignedTransaction{a.o.Wait.Tx}})
}

// resubmit submits the transaction again after a restart of the mempool, unless a block may include
// it. If a pool already has it, the mempool answers that it is pooled.
func (a *Actor) resubmit() {
	if a.pooled && a.o.Wait.Submit && !a.core.Included() && !a.maybeIncluded {
		a.submit()
	}
}

// watch sends a Watch that txtracker confirms.
func (a *Actor) watch(ids []primitives.Hash) {
	a.unconfirmed = false
	w := messages.Watch{Waiter: a.o.Wait.Waiter, Hash: a.o.Wait.Hash, IDs: ids, Executed: a.core.Executed(),
		FinalOnly: a.o.Wait.Until == view.LevelFinal, Begun: a.o.Events.Begun}
	if a.o.Wait.Tx != nil && !a.pooled && !a.core.Included() {
		w.Use = a.o.Chain.Use(a.o.Wait.Tx)
	}
	a.o.Out.Watch(w)
}

// end stops the timer and the watch. If the wait has no answer yet, the client has disconnected and
// gets none.
func (a *Actor) end() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.core.Leave() // leave first, because txtracker watches the record's ids only for this waiter
	a.o.Out.Unwatch(messages.Unwatch{Waiter: a.o.Wait.Waiter})
}

// Handle handles one message.
func (a *Actor) Handle(msg any) {
	if a.answered {
		return
	}
	switch m := msg.(type) {
	case messages.Progress:
		a.progress(&m)
	case messages.Submitted:
		a.submitted(&m)
	case messages.WatchAgain:
		a.rewatch()
	case messages.SubmitAgain:
		a.asked = 0 // the restarted mempool does not answer earlier submissions
		a.resubmit()
	case expired:
		a.expire()
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("waiter actor: no case for %T", m))
	}
}

// rewatch watches again after a restart of txtracker. A reorganisation may have been missed, so all
// outcomes are read again.
func (a *Actor) rewatch() {
	a.resubmit() // a drop may have been reported while txtracker did not know this waiter
	a.maybeIncluded = a.maybeIncluded || a.core.Included()
	a.done = false
	a.core.Forget()
	a.finalWatched = nil
	a.watch([]primitives.Hash{a.o.Wait.Hash})
}

func (a *Actor) progress(m *messages.Progress) {
	if m.Lost != nil {
		a.answer(m.Lost)
		return
	}
	if a.done && !m.Reorganised {
		return // reply for the first block that satisfies the wait
	}
	a.done = false
	if m.Dropped != nil && !a.dropApplies(m) {
		m.Dropped = nil
	}
	d := a.core.Step(m)
	if m.Watched && m.Dropped == nil && m.At.Head >= a.o.Wait.DroppedAt {
		m.Dropped, a.o.Wait.Dropped = a.o.Wait.Dropped, nil
	}
	if m.Dropped != nil {
		a.pooled, a.dropped = false, m.Dropped // no pool has the transaction, so no further drop will be reported
		if !a.o.Wait.Submit {
			a.dropped = view.UnknownTx(a.o.Wait.Hash, m.Dropped)
		}
	}
	if m.Reorganised || m.Branch != a.branch {
		a.finalWatched, a.branch = nil, m.Branch
	}
	read := d.Read && !a.isUnused()
	var ids []primitives.Hash
	if read {
		var after Decision
		var err error
		if ids, after, err = a.core.Read(a.o.Ledger); err != nil {
			a.answer(err)
			return
		}
		d.Done, d.Level = after.Done, after.Level
	}
	if d.Read && a.maybeIncluded {
		a.maybeIncluded = false
		a.resubmit()
	}
	if read {
		more := a.noteUnwatched()
		// Other waiters of the transaction rely on this watch, even if this wait is done.
		if len(ids) > 0 || more && !d.Done {
			a.watch(ids)
		}
		if !d.Done && (len(ids) > 0 || more) {
			return // read again after the watch is confirmed
		}
	}
	if a.o.Events.Reached != nil {
		a.o.Events.Reached(d.Level, m.At.Head)
	}
	switch {
	case d.Done && !a.mempoolAnswered:
		a.done = true // as in neard, a transaction that was executed long ago is rejected as expired
	case d.Done:
		a.answer(nil)
	case a.o.Wait.Tx == nil && a.dropped != nil && !a.core.Included():
		a.refuse(a.dropped)
	case a.o.Wait.Tx == nil || a.core.Included() || a.pooled:
	// Renew the watch. This is also needed if the transaction's block is no longer canonical. check
	// is called when the new watch is confirmed.
	case d.Check || m.Reorganised:
		a.watch(nil)
	case m.Watched:
		a.check()
	}
}

// dropApplies returns whether a reported drop ends this wait. The drop of another copy does not. A
// waiter that submits ignores drops while the mempool checks its copy, and drops from before a pool
// accepted its copy. A waiter that does not submit ignores a drop if a copy was submitted since.
func (a *Actor) dropApplies(m *messages.Progress) bool {
	if a.o.Wait.Submit {
		return a.asked == 0 && m.Nth > a.drops
	}
	return a.o.Dropped == nil || a.o.Dropped(a.o.Wait.Hash)
}

// isUnused returns whether the transaction's nonce is unused, so that no outcome can be stored.
// This costs one lookup of the key; a search for outcomes covers the whole chain. For a waiter that
// does not submit it returns false: its transaction may have been executed before its key was reset
// to a lower nonce.
func (a *Actor) isUnused() bool {
	return a.o.Wait.Submit && a.o.Wait.Tx != nil && !a.core.Included() && a.o.Chain.IsUnused(a.o.Wait.Tx, false)
}

// usedAboveHead returns whether a block that is not on disk yet has used the nonce. Like isUnused,
// it returns false for a waiter that does not submit.
func (a *Actor) usedAboveHead() bool {
	return a.o.Wait.Submit && !a.isUnused() && a.o.Chain.IsUnused(a.o.Wait.Tx, true)
}

// noteUnwatched adds to finalWatched the heights of blocks that have outcomes and are not final. It
// returns whether it added one. Comparing the numbers of heights would miss an added height if
// another block becomes final at the same time.
func (a *Actor) noteUnwatched() (more bool) {
	for _, h := range a.core.Executed() {
		if !slices.Contains(a.finalWatched, h) {
			a.finalWatched, more = append(a.finalWatched, h), true
		}
	}
	return more
}

// check ends the wait if the transaction can no longer be included. It also ends the wait for a
// dropped transaction that is still valid, because only another submission could bring it into a
// block.
func (a *Actor) check() {
	invalid, err := a.o.Chain.Check(a.o.Wait.Tx)
	switch {
	case err != nil:
		a.answer(err)
	case invalid != nil:
		a.refuse(invalid)
	case a.dropped != nil:
		a.refuse(a.dropped)
	}
}

// refuse ends the wait with the error why. If a block includes the transaction, it does nothing,
// because txtracker reports that block.
func (a *Actor) refuse(why error) {
	if a.isUnused() { // no block includes the transaction, so no search is needed
		a.answer(why)
		return
	}
	if a.usedAboveHead() { // txtracker reports the block that used the nonce
		return
	}
	known, err := a.o.Chain.IsIncluded(a.o.Wait.Hash)
	switch {
	case err != nil:
		a.answer(err)
	case !known:
		a.answer(why)
	}
}

// submitted handles the mempool's answer to a submission.
func (a *Actor) submitted(m *messages.Submitted) {
	first := !a.mempoolAnswered
	a.mempoolAnswered, a.asked = true, max(a.asked-1, 0)
	var invalid *primitives.InvalidTxError
	switch refused := errors.As(m.Err, &invalid); {
	case m.Pooled:
		a.dropped, a.drops = nil, m.Drops
	case a.core.Included() && !(refused && first):
	case refused:
		a.pooled = false
		switch {
		case invalid.Tag != primitives.TxInvalidNonce:
			a.answer(m.Err)
		case a.usedAboveHead():
			a.watch(nil) // after this call, a change of the nonce or the key causes a Doubt
		default:
			a.refuse(m.Err) // an earlier copy may have used the nonce; in that case the wait continues
		}
	default:
		a.answer(m.Err)
	}
	a.confirm(m)
	if a.done && !a.answered {
		a.answer(nil)
	}
}

// confirm decides after the mempool's answer whether the Quiet watch is enough. It is if the check
// found the nonce unused: the watch was sent before the check, so txtracker reports every block that
// can include the transaction. Otherwise the watch is sent again, and its confirmation leads to a read
// of stored outcomes.
func (a *Actor) confirm(m *messages.Submitted) {
	switch {
	case !a.unconfirmed || a.answered:
	case m.Pooled && !m.MaybeIncluded:
		a.unconfirmed = false
		if a.core.begin(a.o.Wait.Seen) && a.o.Events.Reached != nil {
			a.o.Events.Reached(view.LevelNone, a.o.Wait.Seen.Head)
		}
	default:
		a.watch(nil)
	}
}

// expire ends the wait at its timeout. If the transaction can no longer be included, the reply is
// that error, even if no message reported it before. A caller with a deadline has got ErrTimeout 2 s
// earlier, and does not see this reply.
func (a *Actor) expire() {
	if a.o.Wait.Tx != nil && !a.core.Included() {
		if a.check(); a.answered {
			return
		}
	}
	if a.done {
		a.answer(nil)
		return
	}
	a.answer(&view.LookupError{Kind: view.ErrTimeout, Level: a.core.Level(), Cause: view.TimeoutNotObserved})
}

// answer sends the reply and stops the actor.
func (a *Actor) answer(err error) {
	a.answered = true
	a.o.Out.Reply(messages.Awaited{Level: a.core.Level(), At: a.core.At(), Err: err})
	a.stop()
}
