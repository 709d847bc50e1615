// Package txtracker is the actor that informs waiters about their transactions. Each waiter is
// informed only about its own transaction.
//
//	in      Watch, Unwatch from waiters; BlockAccepted, RolledBack from the chain;
//	        TransactionsDropped from the mempools
//	out     Progress to waiters; WatchAgain when it starts
//	state   Actor: waiters grouped by transaction; groups by watched id, and by height of a
//	        block that is not final; waiters by access key and by expiry
//	units   heights in blocks
//	bound   the waiters that sessions allow; watched ids: one for each receipt of an awaited
//	        transaction, shared by its waiters; maxHeld outcomes of each transaction; drops that
//	        wait for blocks on their way to disk. A block costs a lookup for each outcome, a lookup
//	        for each changed access key while any key is watched, and a message to each waiter
//	        concerned. A reorganisation concerns all waiters
//	errors  none
//	source  our own; nearcore polls instead (chain/jsonrpc/src/lib.rs tx_status_fetch)
//
// The state can be rebuilt. After a failure the actor starts at the head and sends WatchAgain. The
// waiters then repeat their watches, and read missed outcomes from the store.
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
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Name is the name of the actor.
const Name = "txtracker"

// Out sends the actor's messages.
type Out interface {
	Progress(messages.Address, messages.Progress)
	Again(messages.WatchAgain)
}

// branches is the last number that was given to a Branch in this process.
var branches atomic.Uint64

func nextBranch() messages.Branch { return messages.Branch(branches.Add(1)) }

// Actor is the tracker. Only its own goroutine may use it.
type Actor struct {
	out     Out
	at      messages.Position
	branch  messages.Branch
	waiters map[messages.Address]*waiter
	groups  map[primitives.Hash]*group
	// byID contains the groups by watched id. Most ids have one group. An id has several groups if
	// a client waits for a receipt's id as if that id were a transaction's.
	byID map[primitives.Hash][]*group
	// groups with outcomes in a block that is not final, by the block's height
	byFinal map[primitives.Height]map[*group]struct{}
	byKey   map[string]*useHeap            // waiters by access key, lowest nonce first
	expires useHeap                        // all waiters with a Use, lowest expiry height first
	touched []*group                       // groups that must be informed about the current block
	doubts  []*waiter                      // waiters whose Use the current block changed (see markDoubt)
	dropped []messages.TransactionsDropped // drops that the actor reports when the head reaches their Tip
}

// group contains the waiters of one transaction. The waiters share the ids of the transaction's
// receipts.
type group struct {
	hash    primitives.Hash
	waiters []*waiter
	ids     []primitives.Hash
	finals  []primitives.Height // keys in byFinal under which the group is stored
	news    []messages.Executed // outcomes of the group's transaction in the current block
	// held are outcomes that the waiters do not need yet (see mayHold). The waiters get these
	// outcomes with the next Progress about a block.
	held    []messages.Executed
	others  int  // number of waiters without Watch.FinalOnly
	touched bool // true: the group is in Actor.touched
}

type waiter struct {
	address messages.Address
	group   *group
	index   int          // index of the waiter in group.waiters
	use     messages.Use // access key, nonce and expiry of the transaction; empty Key: in no heap
	place   [2]int       // positions in the two heaps, indexed by byNonce and byExpiry
	doubt   bool         // true: the waiter is in Actor.doubts
	final   bool         // Watch.FinalOnly
}

// New returns an actor that knows the chain up to at. The node must send the actor all blocks after
// that position.
func New(at messages.Position, out Out) *Actor {
	// Outcomes of earlier blocks are not needed, because waiters read them from the store.
	return &Actor{
		out: out, at: at, branch: nextBranch(), waiters: map[messages.Address]*waiter{}, groups: map[primitives.Hash]*group{},
		byID:    map[primitives.Hash][]*group{},
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
		panic(fmt.Sprintf("txtracker actor: no case for %T", m))
	}
}

// reportDropped informs the waiters of dropped transactions.
func (a *Actor) reportDropped(m *messages.TransactionsDropped) {
	for _, x := range m.List {
		for _, g := range a.byID[x.Hash] {
			a.sendAll(g, messages.Progress{Dropped: x.Err, Nth: x.Nth})
		}
	}
}

// reportDueDrops reports the drops whose Tip the head has reached.
func (a *Actor) reportDueDrops() {
	a.dropped = slices.DeleteFunc(a.dropped, func(m messages.TransactionsDropped) bool {
		due := m.Tip <= a.at.Head
		if due {
			a.reportDropped(&m)
		}
		return due
	})
}

// Len returns the number of waiters, and the number of ids, heights and keys under which waiters
// are indexed.
func (a *Actor) Len() (waiters, things int) {
	return len(a.waiters), len(a.byID) + len(a.byFinal) + len(a.byKey) + len(a.expires.list)
}

// send sends a Progress with the current position and branch.
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
	if m.Begun != nil {
		m.Begun()
	}
	w := a.waiters[m.Waiter]
	if w == nil {
		g := a.groups[m.Hash]
		if g == nil {
			g = &group{hash: m.Hash}
			a.groups[m.Hash] = g
		}
		w = &waiter{address: m.Waiter, group: g, index: len(g.waiters), final: m.FinalOnly}
		if !w.final {
			g.others++
		}
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
	if fresh { // all waiters of the group must read outcomes of the new ids from the store
		for _, x := range g.waiters {
			if x != w {
				a.send(x, messages.Progress{Watched: true})
			}
		}
	}
	if !m.Quiet {
		a.send(w, messages.Progress{Watched: true})
	}
}

// add makes a group watch an id. add returns false if the group already watched that id.
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

// addUse adds a waiter to the heap of its access key and to the heap of expiry.
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

// removeUse removes a waiter from the heap of its access key and from the heap of expiry.
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
	if !w.final {
		w.group.others--
	}
	g, last := w.group, len(w.group.waiters)-1
	moved := g.waiters[last]
	g.waiters[w.index], moved.index = moved, w.index
	g.waiters[last] = nil
	if g.waiters = g.waiters[:last]; last == 0 {
		a.forget(g)
	}
}

// forget removes a group that has no waiters.
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

// ErrRolledBack is the error of waits that were open when the chain was rolled back to a snapshot.
var ErrRolledBack = errors.New("the chain was rolled back to an earlier snapshot during the wait")

// rolledBack moves the actor to an earlier position of the chain and ends all waits.
func (a *Actor) rolledBack(at messages.Position) {
	a.at, a.branch, a.dropped = at, nextBranch(), nil
	for address, w := range a.waiters { // any order will do: the waiters are independent
		a.send(w, messages.Progress{Lost: ErrRolledBack})
		a.unwatch(address)
	}
}

// touch marks a group as affected by the current block.
func (a *Actor) touch(g *group) {
	if !g.touched {
		g.touched = true
		a.touched = append(a.touched, g)
	}
}

// markDoubt records that the current block changed the key or expiry on which a waiter's
// transaction depends. markDoubt removes the waiter from the heap of its key and from the heap of
// expiry, so the waiter is informed once.
func (a *Actor) markDoubt(w *waiter) {
	a.removeUse(w)
	if !w.doubt {
		w.doubt = true
		a.doubts = append(a.doubts, w)
	}
}

func (a *Actor) applyBlock(m *messages.BlockAccepted) {
	if !m.IsHead || m.Height() <= a.at.Head {
		// Either the block is of a side branch: if that branch becomes canonical, waiters read the
		// outcomes of the branch from the store. Or the block was already in the mailbox when the
		// actor started, at a head that includes this block.
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
		for _, g := range a.groups { // any order will do: the groups are independent
			a.touch(g)
		}
	}
	for _, g := range a.touched {
		if m.Reorganised { // the blocks of held outcomes may not be canonical
			g.held = nil
		}
		if len(g.held) == 0 {
			g.held = g.news
		} else {
			g.held = append(g.held, g.news...)
		}
		if !m.Reorganised && a.mayHold(g) {
			continue
		}
		news := messages.Progress{Executed: g.held, Reorganised: m.Reorganised}
		g.held = nil
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

// maxHeld is the maximum number of outcomes that a group holds.
const maxHeld = 16

// mayHold returns whether the waiters of a group need no Progress about the current block. That is
// so if all of them wait for FINAL, and the transaction cannot be FINAL yet, because a block with
// one of its outcomes is not final. The actor always reports the block that includes the
// transaction, so that each waiter knows of the inclusion. So a transfer takes two reports instead
// of five.
func (a *Actor) mayHold(g *group) bool {
	if g.others > 0 || len(g.finals) == 0 || len(g.held) > maxHeld {
		return false
	}
	for i := range g.news {
		if g.news[i].Outcome.ID == g.hash {
			return false
		}
	}
	return !slices.ContainsFunc(a.doubts, func(w *waiter) bool { return w.group == g })
}

// noteOutcomes collects the block's outcomes whose ids are watched.
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
				if len(g.news) == 0 { // an included transaction needs no further check of its nonce
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

// noteKeyChanges marks the waiters whose transaction's nonce the block has used up, and the waiters
// whose Use.Key no longer has a nonce (see storedNonce).
func (a *Actor) noteKeyChanges(m *messages.BlockAccepted) {
	for s := range m.Shards {
		changes := m.Shards[s].Changes
		for i := range changes {
			if len(a.byKey) == 0 {
				return
			}
			key := changes[i].Key
			if c := primitives.TrieColumn(key[0]); c != primitives.ColAccessKey && c != primitives.ColAccount {
				continue
			}
			q := a.byKey[string(key)]
			if q == nil {
				continue
			}
			nonce, ok := storedNonce(key, changes[i].Last())
			for len(q.list) > 0 {
				w := q.list[0]
				if ok && nonce < w.use.Nonce {
					break
				}
				a.markDoubt(w)
			}
		}
	}
}

// storedNonce returns the nonce in the value of a Use.Key. storedNonce returns false if there is no
// nonce: the access key was deleted or, for a Use without an access key, the account was deleted or
// initialized.
func storedNonce(key, value []byte) (primitives.Nonce, bool) {
	if primitives.TrieColumn(key[0]) != primitives.ColAccount {
		if len(value) < 8 {
			return 0, false
		}
		return primitives.Nonce(binary.LittleEndian.Uint64(value)), true
	}
	var account primitives.Account
	if value == nil || borsh.Unmarshal(value, &account) != nil {
		return 0, false
	}
	return account.BootstrapNonce, !account.IsInitialized()
}

// noteFinal marks the groups with outcomes in blocks that have become final since height before.
func (a *Actor) noteFinal(before primitives.Height) {
	each := func(h primitives.Height) {
		for g := range a.byFinal[h] { // any order will do: the groups are independent
			g.finals = slices.DeleteFunc(g.finals, func(x primitives.Height) bool { return x == h })
			a.touch(g)
		}
		delete(a.byFinal, h)
	}
	// many new final heights: iterate over the map instead
	if a.at.Final-before > primitives.Height(len(a.byFinal)) {
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

// systemReceipts returns the ids of the refunds that a block creates.
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
