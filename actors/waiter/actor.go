package waiter

import (
	"fmt"
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
	// Check tells why the transaction can't be included any more, nil if it can.
	Check func(*primitives.SignedTransaction) *primitives.InvalidTxError
	// Pooled tells whether the transaction waits in a pool of this node.
	Pooled func(primitives.Hash) bool
	// FinalHeight is that of the last final block, for what was there before the first message.
	FinalHeight func() primitives.Height
	Watch       messages.Sender[messages.Watch]
	Unwatch     messages.Sender[messages.Unwatch]
}

// Actor waits for one transaction, answers once, and stops.
type Actor struct {
	o        Options
	core     *Core
	timer    *time.Timer
	every    bool // told of every block
	included bool // milestones knows
	answered bool
	tell     messages.Sender[messages.Progress]
	stop     func()
}

// expired is the timer's note to self.
type expired struct{}

// New returns the actor.
func New(o Options) *Actor {
	return &Actor{o: o, core: NewCore(o.Wait.Hash, o.Wait.Until, o.Wait.Tx != nil)}
}

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, self := c.ActorSystem().Root, c.Self()
		a.start(func(m messages.Progress) { root.Send(self, m) }, func() { root.Stop(self) })
		a.timer = time.AfterFunc(a.o.Timeout, func() { root.Send(self, expired{}) })
	case *actor.Stopping:
		a.end()
	default:
		a.Handle(c.Message())
	}
}

func (a *Actor) start(tell messages.Sender[messages.Progress], stop func()) {
	a.tell, a.stop = tell, stop
	a.every = a.o.Wait.Tx != nil && !a.o.Wait.Pooled
	a.watch(messages.Watch{IDs: []primitives.Hash{a.o.Wait.Hash}})
}

func (a *Actor) watch(w messages.Watch) {
	w.Waiter, w.Tell, w.EveryBlock, w.Included = a.o.Wait.Waiter, a.tell, a.every, a.core.Included()
	a.included = w.Included
	a.o.Watch(w)
}

// end stops the timer and the news; an unanswered wait stays so, since its client is gone.
func (a *Actor) end() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.o.Unwatch(messages.Unwatch{Waiter: a.o.Wait.Waiter})
}

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	if a.answered {
		return // the rest of the mailbox
	}
	switch m := msg.(type) {
	case messages.Progress:
		m.Final = max(m.Final, a.o.FinalHeight())
		if m.Dropped {
			a.every = true // no pool will say more
		}
		a.do(a.core.Step(&m), m.Dropped)
	case expired:
		a.answer(&view.LookupError{Kind: view.ErrTimeout, Level: a.core.Level()})
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("waiter actor: no case for %T", m))
	}
}

func (a *Actor) do(d Decision, rewatch bool) {
	var refused *primitives.InvalidTxError
	if d.Read && !a.every && a.o.Wait.Tx != nil && !a.core.Included() && !a.o.Pooled(a.o.Wait.Hash) {
		d.Check, rewatch, a.every = true, true, true // it was dropped before milestones knew who waits
	}
	if d.Check { // before the look: a block that makes the transaction invalid is stored before it is the head
		refused = a.o.Check(a.o.Wait.Tx)
	}
	if d.Read || refused != nil {
		ids, after, err := a.core.Read(a.o.Ledger)
		if err != nil {
			a.answer(err)
			return
		}
		d.Done = after.Done
		if len(ids) > 0 || a.core.Included() && !a.included {
			a.watch(messages.Watch{IDs: ids})
			rewatch = false
		}
	}
	switch {
	case d.Done:
		a.answer(nil)
	case refused != nil && !a.core.Included():
		a.answer(refused)
	case rewatch:
		a.watch(messages.Watch{})
	}
}

// answer replies once and ends the actor.
func (a *Actor) answer(err error) {
	a.answered = true
	a.o.Wait.Reply(messages.Awaited{Level: a.core.Level(), Err: err})
	a.stop()
}
