// Package milestones tells waiters what becomes of their transactions, each only what concerns it.
//
//	in      Watch, Unwatch from waiters; BlockAccepted, WentBack from the chain; TransactionsDropped from the mempools
//	out     Progress to waiters; WatchAgain when it begins
//	state   Actor: waiters, and by transaction or receipt, by height, by key and by the height of expiry who waits for it
//	units   heights in blocks
//	bound   the waiters that sessions allow; ids as their transactions have receipts. A block costs a look-up an outcome, and
//	        a look-up a changed access key while anybody watches one; beyond that only the waiters that it concerns. A
//	        reorganisation concerns all
//	errors  none
//	source  rpc.md 5.1
//
// All it knows can be had again: after a failure it begins at the head, asks the waiters to say again what they watch, and
// they read what they have missed.
package milestones

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Out is whom the actor talks to.
type Out struct {
	Progress func(messages.Address, messages.Progress)
	Again    messages.Sender[messages.WatchAgain]
}

// Actor is the register.
type Actor struct {
	out     Out
	at      messages.Position
	waiters map[messages.Address]*waiter
	byID    map[primitives.Hash]map[*waiter]struct{}   // many may wait for one thing, so it is no list
	byFinal map[primitives.Height]map[*waiter]struct{} // who is told when the block of this height is final
	byKey   map[string]*queue                          // by nonce
	expires queue                                      // by height
	touched []*waiter                                  // of the block in work
}

type waiter struct {
	address messages.Address
	ids     []primitives.Hash
	finals  []primitives.Height // of byFinal
	use     messages.Use        // Key is empty: it is in neither queue
	place   [2]int              // in the queues
	news    messages.Progress   // of the block in work
	told    bool                // it is in touched
}

// New returns the actor; it knows the blocks up to at.
func New(at messages.Position, out Out) *Actor {
	return &Actor{
		out: out, at: at, waiters: map[messages.Address]*waiter{}, byID: map[primitives.Hash]map[*waiter]struct{}{},
		byFinal: map[primitives.Height]map[*waiter]struct{}{}, byKey: map[string]*queue{}, expires: queue{which: byExpiry},
	}
}

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
		a.out.Again(messages.WatchAgain{})
		return
	}
	a.Handle(c.Message())
}

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.Watch:
		a.watch(&m)
	case messages.Unwatch:
		a.unwatch(m.Waiter)
	case messages.BlockAccepted:
		a.accept(&m)
	case messages.WentBack:
		a.wentBack(m.At)
	case messages.TransactionsDropped:
		for _, hash := range m.Hashes {
			for w := range a.byID[hash] { // each is told on its own, so the order does not matter
				a.out.Progress(w.address, messages.Progress{At: a.at, Dropped: true})
			}
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("milestones actor: no case for %T", m))
	}
}

// Len is the number of waiters and of what they wait for.
func (a *Actor) Len() (waiters, things int) {
	return len(a.waiters), len(a.byID) + len(a.byFinal) + len(a.byKey) + len(a.expires.list)
}

func (a *Actor) watch(m *messages.Watch) {
	w := a.waiters[m.Waiter]
	if w == nil {
		w = &waiter{address: m.Waiter}
		a.waiters[m.Waiter] = w
	}
	for _, id := range m.IDs {
		a.add(w, id)
	}
	for _, h := range m.Executed {
		a.awaitFinal(w, h)
	}
	if m.Use.Key != "" {
		a.unuse(w)
		a.use(w, m.Use)
	}
	a.out.Progress(w.address, messages.Progress{Watched: true, At: a.at})
}

func (a *Actor) add(w *waiter, id primitives.Hash) {
	at := a.byID[id]
	if at == nil {
		at = map[*waiter]struct{}{}
		a.byID[id] = at
	}
	if _, ok := at[w]; !ok {
		at[w] = struct{}{}
		w.ids = append(w.ids, id)
	}
}

func (a *Actor) awaitFinal(w *waiter, h primitives.Height) {
	if h <= a.at.Final || slices.Contains(w.finals, h) {
		return
	}
	at := a.byFinal[h]
	if at == nil {
		at = map[*waiter]struct{}{}
		a.byFinal[h] = at
	}
	at[w] = struct{}{}
	w.finals = append(w.finals, h)
}

// use puts a waiter into the queues of its key and of expiry.
func (a *Actor) use(w *waiter, u messages.Use) {
	q := a.byKey[u.Key]
	if q == nil {
		q = &queue{which: byNonce}
		a.byKey[u.Key] = q
	}
	w.use = u
	q.push(w)
	a.expires.push(w)
}

// unuse takes it out of both.
func (a *Actor) unuse(w *waiter) {
	if w.use.Key == "" {
		return
	}
	q := a.byKey[w.use.Key]
	q.pull(w.place[byNonce])
	if len(q.list) == 0 {
		delete(a.byKey, w.use.Key)
	}
	a.expires.pull(w.place[byExpiry])
	w.use = messages.Use{}
}

func (a *Actor) unwatch(address messages.Address) {
	w := a.waiters[address]
	if w == nil {
		return
	}
	delete(a.waiters, address)
	a.unuse(w)
	for _, h := range w.finals {
		if at := a.byFinal[h]; at != nil {
			if delete(at, w); len(at) == 0 {
				delete(a.byFinal, h)
			}
		}
	}
	for _, x := range w.ids {
		if at := a.byID[x]; len(at) > 1 {
			delete(at, w)
		} else {
			delete(a.byID, x)
		}
	}
}

// ErrWentBack ends waits for what has never been.
var ErrWentBack = errors.New("the chain went back to a snapshot, behind which nothing of this is known")

// wentBack begins anew at a position that the chain had before.
func (a *Actor) wentBack(at messages.Position) {
	a.at = at
	for address := range a.waiters { // each is told on its own, so the order does not matter
		a.out.Progress(address, messages.Progress{At: at, Lost: ErrWentBack})
		a.unwatch(address)
	}
}

// touch notes that a block concerns a waiter.
func (a *Actor) touch(w *waiter) *messages.Progress {
	if !w.told {
		w.told = true
		a.touched = append(a.touched, w)
	}
	return &w.news
}

func (a *Actor) accept(m *messages.BlockAccepted) {
	if !m.IsHead || m.Height() <= a.at.Head {
		// What a branch executes counts once it is the chain, and then all is read again. A block that is no news lay in the mailbox when
		// this actor began at one that followed it.
		return
	}
	before := a.at.Final
	a.at = messages.Position{Head: m.Height(), Final: max(before, m.Final)}
	if len(a.waiters) == 0 {
		return
	}
	a.executed(m)
	a.used(m)
	a.final(before)
	for len(a.expires.list) > 0 && a.expires.list[0].use.Expires <= a.at.Head {
		w := a.expires.list[0]
		a.unuse(w)
		a.touch(w).Doubt = true
	}
	if m.Reorganised {
		for _, w := range a.waiters { // each is told on its own, so the order does not matter
			a.touch(w).Reorganised = true
		}
	}
	for i, w := range a.touched {
		w.news.At = a.at
		a.out.Progress(w.address, w.news)
		w.told, w.news, a.touched[i] = false, messages.Progress{}, nil
	}
	a.touched = a.touched[:0]
}

// executed notes the outcomes of a block that somebody watches.
func (a *Actor) executed(m *messages.BlockAccepted) {
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
			for w := range list { // as above
				news := a.touch(w)
				news.Executed = append(news.Executed, e)
				a.unuse(w) // it is included
				a.awaitFinal(w, e.Height)
				for _, id := range o.Outcome.ReceiptIDs {
					a.add(w, id)
				}
			}
		}
	}
}

// used looks for nonces that somebody else's transaction, or a delegate action, has used, and for keys that are gone.
func (a *Actor) used(m *messages.BlockAccepted) {
	for s := range m.Shards {
		changes := m.Shards[s].Changes
		for i := range changes {
			if len(a.byKey) == 0 {
				return
			}
			key := changes[i].Key
			if key[0] != byte(primitives.ColAccessKey) {
				continue
			}
			q := a.byKey[string(key)]
			if q == nil {
				continue
			}
			value := changes[i].Last()
			for len(q.list) > 0 {
				w := q.list[0]
				if len(value) >= 8 && primitives.Nonce(binary.LittleEndian.Uint64(value)) < w.use.Nonce {
					break
				}
				a.unuse(w)
				a.touch(w).Doubt = true
			}
		}
	}
}

// final tells those whose blocks have become final since before.
func (a *Actor) final(before primitives.Height) {
	each := func(h primitives.Height) {
		for w := range a.byFinal[h] {
			w.finals = slices.DeleteFunc(w.finals, func(x primitives.Height) bool { return x == h })
			a.touch(w)
		}
		delete(a.byFinal, h)
	}
	if a.at.Final-before > primitives.Height(len(a.byFinal)) { // blocks were skipped
		for h := range a.byFinal {
			if h <= a.at.Final {
				each(h)
			}
		}
		return
	}
	for h := before + 1; h <= a.at.Final; h++ {
		each(h)
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
