// Package txtracker tells waiters what happens to their transactions, each only what concerns
// it.
//
//	in      Watch, Unwatch from waiters; BlockAccepted, RolledBack from the chain;
//	        TransactionsDropped from the mempools
//	out     Progress to waiters; WatchAgain when it starts
//	state   Actor: waiters grouped by transaction; groups by watched id and by height to
//	        become final; waiters by access key and by expiry
//	units   heights in blocks
//	bound   the waiters that sessions allow; ids as their transactions have receipts, once for
//	        all waiters of one; drops while blocks are on their way to disk. A block costs a
//	        lookup for each outcome, a lookup for each changed access key while any is
//	        watched, and the waiters concerned. A reorganisation concerns all
//	errors  none
//	source  our own; nearcore polls instead (chain/jsonrpc/src/lib.rs tx_status_fetch)
//
// Its state can be rebuilt: after a failure it starts at the head and asks the waiters to
// repeat their watches, and they read from the store what they missed.
package txtracker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Out are the receivers of the actor's messages.
type Out struct {
	Progress func(messages.Address, messages.Progress)
	Again    messages.Sender[messages.WatchAgain]
}

// branches is the last branch number of the process.
var branches atomic.Uint64

func nextBranch() messages.Branch { return messages.Branch(branches.Add(1)) }

// Actor is the tracker.
type Actor struct {
	out     Out
	at      messages.Position
	branch  messages.Branch
	waiters map[messages.Address]*waiter
	groups  map[primitives.Hash]*group
	// mostly one group; more if a receipt is awaited as if it were a transaction
	byID    map[primitives.Hash][]*group
	byFinal map[primitives.Height]map[*group]struct{} // groups to tell when the block of this height is final
	byKey   map[string]*useHeap                       // by nonce
	expires useHeap                                   // by height
	touched []*group                                  // concerned by the block in work
	doubts  []*waiter                                 // concerned by the block in work
	dropped []messages.TransactionsDropped            // reported once the head has reached their tip
}

// group is the waiters of one transaction. They share everything that follows from it.
type group struct {
	hash    primitives.Hash
	waiters []*waiter
	ids     []primitives.Hash
	finals  []primitives.Height // its keys in byFinal
	news    []messages.Executed // of the block in work
	touched bool                // it is in Actor.touched
}

type waiter struct {
	address messages.Address
	group   *group
	index   int          // in the group
	use     messages.Use // empty Key: it is in neither heap
	place   [2]int       // in the heaps
	doubt   bool         // it is in Actor.doubts
}

// New returns an actor that knows the blocks up to at.
func New(at messages.Position, out Out) *Actor {
	// Outcomes of a branch count once it is canonical, and are read again then. An older block was
	// in the mailbox when this actor started at a later one.
	return &Actor{
		out: out, at: at, branch: nextBranch(), waiters: map[messages.Address]*waiter{}, groups: map[primitives.Hash]*group{}, byID: map[primitives.Hash][]*group{},
		byFinal: map[primitives.Height]map[*group]struct{}{}, byKey: map[string]*useHeap{}, expires: useHeap{which: byExpiry},
	}
}

// Receive handles lifecycle messages and passes the rest to Handle.
func (a *Actor) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
		a.out.Again(messages.WatchAgain{})
		return
	}
	a.Handle(c.Message())
}

// Handle handles one message.
func (a *Actor) Handle(msg any) {
	switch m := msg.(type) {
	case messages.Watch:
		a.watch(&m)
	case messages.Unwatch:
		a.unwatch(m.Waiter)
	case messages.BlockAccepted:
		a.applyBlock(&m)
	case messages.RolledBack:
		a.rolledBack(m.At)
	case messages.TransactionsDropped:
		if m.Tip > a.at.Head {
			a.dropped = append(a.dropped, m)
		} else {
			a.reportDropped(&m)
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("milestones actor: no case for %T", m))
	}
}

// reportDropped tells waiters of transactions that have left the pools.
func (a *Actor) reportDropped(m *messages.TransactionsDropped) {
	for _, x := range m.List {
		for _, g := range a.byID[x.Hash] {
			a.sendAll(g, messages.Progress{Dropped: x.Err, Nth: x.Nth})
		}
	}
}

// reportDueDrops reports the drops that waited for the block in work.
func (a *Actor) reportDueDrops() {
	a.dropped = slices.DeleteFunc(a.dropped, func(m messages.TransactionsDropped) bool {
		due := m.Tip <= a.at.Head
		if due {
			a.reportDropped(&m)
		}
		return due
	})
}

// Len returns the number of waiters, and of the ids, heights and keys that they wait for.
func (a *Actor) Len() (waiters, things int) {
	return len(a.waiters), len(a.byID) + len(a.byFinal) + len(a.byKey) + len(a.expires.list)
}

// send sends a message as of the current position.
func (a *Actor) send(w *waiter, m messages.Progress) {
	m.At, m.Branch = a.at, a.branch
	a.out.Progress(w.address, m)
}

func (a *Actor) sendAll(g *group, m messages.Progress) {
	for _, w := range g.waiters {
		a.send(w, m)
	}
}

func (a *Actor) watch(m *messages.Watch) {
	w := a.waiters[m.Waiter]
	if w == nil {
		g := a.groups[m.Hash]
		if g == nil {
			g = &group{hash: m.Hash}
			a.groups[m.Hash] = g
		}
		w = &waiter{address: m.Waiter, group: g, index: len(g.waiters)}
		g.waiters = append(g.waiters, w)
		a.waiters[m.Waiter] = w
	}
	g, fresh := w.group, false
	for _, id := range m.IDs {
		fresh = a.add(g, id) || fresh
	}
	for _, h := range m.Executed {
		a.awaitFinal(g, h)
	}
	if m.Use.Key != "" {
		a.removeUse(w)
		a.addUse(w, m.Use)
	}
	if fresh { // no waiter of the group was told of earlier outcomes of the new ids
		a.sendAll(g, messages.Progress{Watched: true})
	} else {
		a.send(w, messages.Progress{Watched: true})
	}
}

// add makes a group watch an id, and returns whether it did not before.
func (a *Actor) add(g *group, id primitives.Hash) (fresh bool) {
	at := a.byID[id]
	if slices.Contains(at, g) {
		return false
	}
	a.byID[id] = append(at, g)
	g.ids = append(g.ids, id)
	return true
}

func (a *Actor) awaitFinal(g *group, h primitives.Height) {
	if h <= a.at.Final || slices.Contains(g.finals, h) {
		return
	}
	at := a.byFinal[h]
	if at == nil {
		at = map[*group]struct{}{}
		a.byFinal[h] = at
	}
	at[g] = struct{}{}
	g.finals = append(g.finals, h)
}

// addUse puts a waiter into the heaps of its key and of expiry.
func (a *Actor) addUse(w *waiter, u messages.Use) {
	q := a.byKey[u.Key]
	if q == nil {
		q = &useHeap{which: byNonce}
		a.byKey[u.Key] = q
	}
	w.use = u
	q.push(w)
	a.expires.push(w)
}

// removeUse takes a waiter out of both heaps.
func (a *Actor) removeUse(w *waiter) {
	if w.use.Key == "" {
		return
	}
	q := a.byKey[w.use.Key]
	q.remove(w.place[byNonce])
	if len(q.list) == 0 {
		delete(a.byKey, w.use.Key)
	}
	a.expires.remove(w.place[byExpiry])
	w.use = messages.Use{}
}

func (a *Actor) unwatch(address messages.Address) {
	w := a.waiters[address]
	if w == nil {
		return
	}
	delete(a.waiters, address)
	a.removeUse(w)
	g, last := w.group, len(w.group.waiters)-1
	moved := g.waiters[last]
	g.waiters[w.index], moved.index = moved, w.index
	g.waiters[last] = nil
	if g.waiters = g.waiters[:last]; last == 0 {
		a.forget(g)
	}
}

// forget removes a group without waiters.
func (a *Actor) forget(g *group) {
	delete(a.groups, g.hash)
	for _, h := range g.finals {
		if at := a.byFinal[h]; at != nil {
			if delete(at, g); len(at) == 0 {
				delete(a.byFinal, h)
			}
		}
	}
	for _, x := range g.ids {
		if at := a.byID[x]; len(at) > 1 {
			a.byID[x] = slices.DeleteFunc(at, func(o *group) bool { return o == g })
		} else {
			delete(a.byID, x)
		}
	}
}

// ErrRolledBack ends waits for what a rollback removed.
var ErrRolledBack = errors.New("the chain was rolled back to a snapshot before this")

// rolledBack starts over at an earlier position of the chain.
func (a *Actor) rolledBack(at messages.Position) {
	a.at, a.branch, a.dropped = at, nextBranch(), nil
	for address, w := range a.waiters { // independent of each other, so the order does not matter
		a.send(w, messages.Progress{Lost: ErrRolledBack})
		a.unwatch(address)
	}
}

// touch notes that the block in work concerns a group.
func (a *Actor) touch(g *group) {
	if !g.touched {
		g.touched = true
		a.touched = append(a.touched, g)
	}
}

// markDoubt notes that the block in work concerns what a waiter's transaction depends on.
func (a *Actor) markDoubt(w *waiter) {
	a.removeUse(w)
	if !w.doubt {
		w.doubt = true
		a.doubts = append(a.doubts, w)
	}
}

func (a *Actor) applyBlock(m *messages.BlockAccepted) {
	if !m.IsHead || m.Height() <= a.at.Head {
		// What a branch executes counts once it is the chain, and then all is read again. A block
		// that is no news lay in the mailbox when this actor began at one that followed it.
		return
	}
	before := a.at.Final
	a.at = messages.Position{Head: m.Height(), Final: max(before, m.Final)}
	if m.Reorganised {
		a.branch = nextBranch()
	}
	defer a.reportDueDrops()
	if len(a.waiters) == 0 {
		return
	}
	a.noteOutcomes(m)
	a.noteKeyChanges(m)
	a.noteFinal(before)
	for len(a.expires.list) > 0 && a.expires.list[0].use.Expires <= a.at.Head {
		a.markDoubt(a.expires.list[0])
	}
	if m.Reorganised {
		for _, g := range a.groups { // independent of each other, so the order does not matter
			a.touch(g)
		}
	}
	for _, g := range a.touched {
		news := messages.Progress{Executed: g.news, Reorganised: m.Reorganised}
		for _, w := range g.waiters {
			news.Doubt = w.doubt
			a.send(w, news)
		}
	}
	for i, w := range a.doubts {
		if !w.group.touched {
			a.send(w, messages.Progress{Doubt: true})
		}
		w.doubt, a.doubts[i] = false, nil
	}
	for i, g := range a.touched {
		g.news, g.touched, a.touched[i] = nil, false, nil
	}
	a.touched, a.doubts = a.touched[:0], a.doubts[:0]
}

// noteOutcomes notes the outcomes of a block that are watched.
func (a *Actor) noteOutcomes(m *messages.BlockAccepted) {
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
			for _, g := range list {
				a.touch(g)
				if len(g.news) == 0 { // it is included now at the latest
					for _, w := range g.waiters {
						a.removeUse(w)
					}
				}
				g.news = append(g.news, e)
				a.awaitFinal(g, e.Height)
				for _, id := range o.Outcome.ReceiptIDs {
					a.add(g, id)
				}
			}
		}
	}
}

// noteKeyChanges notes nonces that another transaction or a delegate action has used, and
// deleted keys.
func (a *Actor) noteKeyChanges(m *messages.BlockAccepted) {
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
				a.markDoubt(w)
			}
		}
	}
}

// noteFinal notes the groups with blocks that have become final since before.
func (a *Actor) noteFinal(before primitives.Height) {
	each := func(h primitives.Height) {
		for g := range a.byFinal[h] { // independent of each other, so the order does not matter
			g.finals = slices.DeleteFunc(g.finals, func(x primitives.Height) bool { return x == h })
			a.touch(g)
		}
		delete(a.byFinal, h)
	}
	if a.at.Final-before > primitives.Height(len(a.byFinal)) { // heights were skipped
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

// systemReceipts returns the ids of the refunds that a block sends.
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
