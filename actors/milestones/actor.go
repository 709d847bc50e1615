// Package milestones tells waiters what becomes of their transactions, each only what concerns it.
//
//	in      Watch, Unwatch from waiters; BlockAccepted from the chain; TransactionsDropped from the mempools
//	out     Progress to waiters
//	state   Actor: waiters, and by transaction or receipt id who waits for it
//	units   heights in blocks
//	bound   the waiters that sessions allow; ids as their transactions have receipts; a block costs a look-up an outcome
//	errors  none
//	source  rpc.md 5.1
package milestones

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Actor is the register.
type Actor struct {
	waiters map[messages.WaiterID]*waiter
	byID    map[primitives.Hash][]*waiter
	final   primitives.Height
}

type waiter struct {
	id       messages.WaiterID
	tell     messages.Sender[messages.Progress]
	ids      []primitives.Hash
	included bool // the transaction is in a block: final blocks matter
	every    bool
	news     messages.Progress // of the block in work
	touched  bool
}

// New returns the actor.
func New() *Actor {
	return &Actor{waiters: map[messages.WaiterID]*waiter{}, byID: map[primitives.Hash][]*waiter{}}
}

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) { a.Handle(c.Message()) }

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.Watch:
		a.watch(&m)
	case messages.Unwatch:
		a.unwatch(m.Waiter)
	case messages.BlockAccepted:
		a.accept(&m)
	case messages.TransactionsDropped:
		for _, hash := range m.Hashes {
			for _, w := range a.byID[hash] {
				w.tell(messages.Progress{Final: a.final, Dropped: true})
			}
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("milestones actor: no case for %T", m))
	}
}

// Len is the number of waiters and of ids they wait for.
func (a *Actor) Len() (waiters, ids int) { return len(a.waiters), len(a.byID) }

func (a *Actor) watch(m *messages.Watch) {
	w := a.waiters[m.Waiter]
	if w == nil {
		w = &waiter{id: m.Waiter}
		a.waiters[m.Waiter] = w
	}
	w.tell, w.included, w.every = m.Tell, w.included || m.Included, m.EveryBlock
	for _, id := range m.IDs {
		a.add(w, id)
	}
	w.tell(messages.Progress{Watched: true, Final: a.final})
}

func (a *Actor) add(w *waiter, id primitives.Hash) {
	if list := a.byID[id]; !slices.Contains(list, w) {
		a.byID[id] = append(list, w)
		w.ids = append(w.ids, id)
	}
}

func (a *Actor) unwatch(id messages.WaiterID) {
	w := a.waiters[id]
	if w == nil {
		return
	}
	delete(a.waiters, id)
	for _, x := range w.ids {
		list := slices.DeleteFunc(a.byID[x], func(o *waiter) bool { return o == w })
		if len(list) == 0 {
			delete(a.byID, x)
		} else {
			a.byID[x] = list
		}
	}
}

func (a *Actor) accept(m *messages.BlockAccepted) {
	if !m.IsHead {
		return // what a branch executes counts once it is the chain, and then all is read again
	}
	moved := m.Final != a.final
	a.final = m.Final
	if len(a.waiters) == 0 {
		return
	}
	var touched []*waiter
	touch := func(w *waiter) {
		if !w.touched {
			w.touched, w.news = true, messages.Progress{Final: m.Final, NewHead: w.every, Reorganised: m.Reorganised}
			touched = append(touched, w)
		}
	}
	var refunds map[primitives.Hash]bool
	for s := range m.Shards {
		outcomes := m.Shards[s].Outcomes
		for i := range outcomes {
			o := &outcomes[i]
			list := a.byID[o.ID]
			if len(list) == 0 {
				continue
			}
			if refunds == nil {
				refunds = systemReceipts(m)
			}
			e := messages.Executed{Outcome: o, Block: m.Hash, Height: m.Height()}
			if n := len(o.Outcome.ReceiptIDs); n > 0 && refunds[o.Outcome.ReceiptIDs[n-1]] {
				e.Refund = o.Outcome.ReceiptIDs[n-1]
			}
			for _, w := range list {
				touch(w)
				w.included = true
				w.news.Executed = append(w.news.Executed, e)
				for _, id := range o.Outcome.ReceiptIDs {
					a.add(w, id)
				}
			}
		}
	}
	for _, w := range a.waiters { // each is told on its own, so the order does not matter
		if w.every || m.Reorganised || w.included && moved {
			touch(w)
		}
	}
	for _, w := range touched {
		w.touched = false
		w.tell(w.news)
		w.news = messages.Progress{}
	}
}

// systemReceipts are the ids of the refunds that a block sends.
func systemReceipts(m *messages.BlockAccepted) map[primitives.Hash]bool {
	out := map[primitives.Hash]bool{}
	for s := range m.Shards {
		for _, r := range m.Shards[s].Outgoing {
			if r.PredecessorID == primitives.SystemAccount {
				out[r.ID] = true
			}
		}
	}
	return out
}
