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

// Options are what a waiter works with.
type Options struct {
	Wait    messages.AwaitTransaction
	Timeout time.Duration
	Ledger  Ledger
	// Records are what all waiters know. nil: it knows alone.
	Records *Records
	// Check tells by the head's state why the transaction can't be included any more, nil if it can; or what went wrong.
	Check func(*primitives.SignedTransaction) (*primitives.InvalidTxError, error)
	// Unused tells whether a transaction rests on a nonce that its key has not come to: then no block has it that milestones may have been told of.
	// nil, false: nothing is known.
	Unused func(*primitives.SignedTransaction) bool
	// UnusedAtHead tells the same as of the chain that readers see: what has used the nonce up, this transaction or another, is about to be shown.
	UnusedAtHead func(*primitives.SignedTransaction) bool
	// Use says what the transaction rests on.
	Use func(*primitives.SignedTransaction) messages.Use
	// Dropped returns whether the node has dropped a transaction and has not been sent it since. nil: it is asked nothing.
	Dropped func(primitives.Hash) bool
	// Known tells whether the chain that readers see, which milestones may be behind, has a transaction.
	Known   func(primitives.Hash) (bool, error)
	Watch   messages.Sender[messages.Watch]
	Unwatch messages.Sender[messages.Unwatch]
	Submit  messages.Sender[messages.SubmitTransactions]
	Reply   messages.Sender[messages.Awaited]
	// Begun is told when milestones knows of the waiter, Reached how far the transaction has come each time that there is news of it. nil: nobody asks.
	Begun   func()
	Reached func(view.ExecutionLevel)
}

// Actor waits for one transaction, answers once, and stops.
type Actor struct {
	o        Options
	core     *Machine
	timer    *time.Timer
	pooled   bool                // a pool has it, or is being asked to take it, and says when it drops it
	mempoolAnswered   bool                // the mempool has answered, or need not
	done     bool                // the level is reached, and the mempool's answer to come
	finalWatched     []primitives.Height // blocks of whose finality milestones knows to tell
	branch   messages.Branch     // of which it knows that
	asked    int                 // submissions that the mempool has not answered
	drops    uint64              // the last drop before a pool took it
	dropped  error               // why a pool dropped it last, until it is submitted again; nil: none has
	maybeIncluded     bool                // the transaction was in a block, of which milestones does not know any more
	answered bool
	stop     func()
}

// expired is the timer's note to self.
type expired struct{}

// New returns the actor.
func New(o Options) *Actor {
	a := &Actor{o: o, core: NewMachine(o.Wait.Hash, o.Wait.Until)}
	a.core.records, a.core.attempt = o.Records, o.Wait.Again
	return a
}

// Receive is the only way to the actor's state.
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

// start has the transaction watched before it is submitted, so that no block with it is missed.
func (a *Actor) start(stop func()) {
	a.stop = stop
	a.pooled, a.mempoolAnswered = a.o.Wait.Submit, !a.o.Wait.Submit
	a.watch([]primitives.Hash{a.o.Wait.Hash})
	if a.o.Wait.Submit {
		a.submit()
	}
}

func (a *Actor) submit() {
	a.dropped, a.pooled = nil, true
	a.asked++
	a.o.Submit(messages.SubmitTransactions{From: a.o.Wait.Waiter, Client: a.o.Wait.Client, Transactions: []*primitives.SignedTransaction{a.o.Wait.Tx}})
}

// resubmit submits once more, unless it is known what became of it. A pool that has it says so.
func (a *Actor) resubmit() {
	if a.pooled && a.o.Wait.Submit && !a.core.Included() && !a.maybeIncluded {
		a.submit()
	}
}

func (a *Actor) watch(ids []primitives.Hash) {
	w := messages.Watch{Waiter: a.o.Wait.Waiter, Hash: a.o.Wait.Hash, IDs: ids, Executed: a.core.Executed()}
	if a.o.Wait.Tx != nil && !a.pooled && !a.core.Included() {
		w.Use = a.o.Use(a.o.Wait.Tx)
	}
	a.o.Watch(w)
}

// end stops the timer and the news; an unanswered wait stays so, since its client is gone.
func (a *Actor) end() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.core.Leave() // first: what others find known milestones has been asked for, and has not forgotten with this one
	a.o.Unwatch(messages.Unwatch{Waiter: a.o.Wait.Waiter})
}

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	if a.answered {
		return // the rest of the mailbox
	}
	switch m := msg.(type) {
	case messages.Progress:
		a.progress(&m)
	case messages.Submitted:
		a.submitted(&m)
	case messages.WatchAgain:
		a.rewatch()
	case messages.SubmitAgain:
		a.asked = 0 // a mempool that has failed answers nothing
		a.resubmit()
	case expired:
		a.expire()
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("waiter actor: no case for %T", m))
	}
}

// rewatch is what a waiter does as milestones begins anew: a branch may have won of which milestones has told nobody, so that nothing is true of what was known before it is read once more.
func (a *Actor) rewatch() {
	a.resubmit() // that a pool dropped it may have been said while milestones knew nobody
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
		return // the answer is of the first block that satisfies the wait
	}
	a.done = false
	if m.Dropped != nil && !a.dropApplies(m) {
		m.Dropped = nil
	}
	if m.Watched && a.o.Begun != nil {
		a.o.Begun()
		a.o.Begun = nil
	}
	d := a.core.Step(m)
	if m.Watched && m.Dropped == nil && m.At.Head >= a.o.Wait.DroppedAt {
		m.Dropped, a.o.Wait.Dropped = a.o.Wait.Dropped, nil
	}
	if m.Dropped != nil {
		a.pooled, a.dropped = false, m.Dropped // no pool will say more
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
		if len(ids) > 0 || more && !d.Done { // others who wait for the transaction rest on it, also where this one is done
			a.watch(ids)
		}
		if !d.Done && (len(ids) > 0 || more) {
			return // it is read once more when that is confirmed
		}
	}
	if a.o.Reached != nil {
		a.o.Reached(d.Level)
	}
	switch {
	case d.Done && !a.mempoolAnswered:
		a.done = true // neard looks at a transaction first: one that was executed long ago is refused as expired
	case d.Done:
		a.answer(nil)
	case a.o.Wait.Tx == nil && a.dropped != nil && !a.core.Included():
		a.refuse(a.dropped)
	case a.o.Wait.Tx == nil || a.core.Included() || a.pooled:
	case d.Check || m.Reorganised: // to be told again, also of what was in a block that lost; the look follows
		a.watch(nil)
	case m.Watched:
		a.check()
	}
}

// dropApplies returns whether a drop ends what this waits for. One of another copy does not: while the mempool looks at this waiter's own, or after a
// pool has taken that; nor, where this waiter has sent none, if one has been sent, or has come into a pool, since.
func (a *Actor) dropApplies(m *messages.Progress) bool {
	if a.o.Wait.Submit {
		return a.asked == 0 && m.Nth > a.drops
	}
	return a.o.Dropped == nil || a.o.Dropped(a.o.Wait.Hash)
}

// isUnused tells whether nothing can be stored of the transaction: it is new. That takes a look at its key, where what is stored is sought among all
// that the chain has. Of one that is not submitted it says nothing: it may have run before its key was set back to a lower nonce.
func (a *Actor) isUnused() bool {
	return a.o.Wait.Submit && a.o.Wait.Tx != nil && a.o.Unused != nil && !a.core.Included() && a.o.Unused(a.o.Wait.Tx)
}

// usedAboveHead tells whether a block has used the nonce up that readers do not see yet. Of one that is not submitted nothing of that is known, as with unused.
func (a *Actor) usedAboveHead() bool {
	return a.o.Wait.Submit && a.o.UnusedAtHead != nil && !a.isUnused() && a.o.UnusedAtHead(a.o.Wait.Tx)
}

// noteUnwatched notes the blocks with outcomes that are not final, and tells whether there is one of which milestones has not been told. One
// may have become final since the last look while another has come, so their number says nothing.
func (a *Actor) noteUnwatched() (more bool) {
	for _, h := range a.core.Executed() {
		if !slices.Contains(a.finalWatched, h) {
			a.finalWatched, more = append(a.finalWatched, h), true
		}
	}
	return more
}

// check looks whether the transaction may still come. One that could, and was dropped, comes only if it is sent again.
func (a *Actor) check() {
	invalid, err := a.o.Check(a.o.Wait.Tx)
	switch {
	case err != nil:
		a.answer(err)
	case invalid != nil:
		a.refuse(invalid)
	case a.dropped != nil:
		a.refuse(a.dropped)
	}
}

// refuse ends the wait, unless the transaction is refused because a block has it, of which milestones will tell.
func (a *Actor) refuse(why error) {
	if a.isUnused() { // then none has it, and nobody looks
		a.answer(why)
		return
	}
	if a.usedAboveHead() { // what has used it up shows when milestones tells
		return
	}
	known, err := a.o.Known(a.o.Wait.Hash)
	switch {
	case err != nil:
		a.answer(err)
	case !known:
		a.answer(why)
	}
}

// submitted takes the mempool's answer.
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
			a.watch(nil) // it rests on its nonce from now on
		default:
			a.refuse(m.Err) // the nonce may be used by this very transaction: one that is sent again waits as the first did
		}
	default:
		a.answer(m.Err)
	}
	if a.done && !a.answered {
		a.answer(nil)
	}
}

// expire ends the wait when patience does: what can't come any more is refused, also where nothing was to be told of that.
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
	a.answer(&view.LookupError{Kind: view.ErrTimeout, Level: a.core.Level()})
}

// answer replies once and ends the actor.
func (a *Actor) answer(err error) {
	a.answered = true
	a.o.Reply(messages.Awaited{Level: a.core.Level(), At: a.core.At(), Err: err})
	a.stop()
}
