// Package waiter waits for one transaction: a small state machine fed with facts, and the actor around it.
//
//	in      messages.Progress from milestones, Submitted from the mempool; what is stored, read through a Ledger; the end of
//	        patience
//	out     Decision: what to watch, to read or to check next, or the answer: the level as of the first block that satisfies
//	        the wait
//	state   Core: the outcomes of one transaction known so far, as of one block
//	units   heights in blocks
//	bound   one for each wait, bounded by the sessions; memory as the transaction has receipts; each ends at its timeout
//	errors  view.ErrTimeout with the level reached, *primitives.InvalidTxError, the mempool's and the Ledger's errors
//	source  rpc.md 5.1, 5.2; nearcore chain/client/src/view_client_actor.rs:518, chain/jsonrpc/src/lib.rs tx_status_fetch
package waiter

import (
	"slices"

	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Core is the state machine. It is not safe for concurrent use.
type Core struct {
	tx       primitives.Hash
	until    view.ExecutionLevel
	outcomes table[messages.Executed]
	watched  table[struct{}]   // ids for which milestones has been asked
	at       messages.Position // what is known is known as of this
}

// NewCore returns the state of a wait for tx.
func NewCore(tx primitives.Hash, until view.ExecutionLevel) *Core {
	c := &Core{tx: tx, until: until}
	c.watched.put(tx, struct{}{})
	return c
}

// Decision is what the shell is to do, in this order.
type Decision struct {
	Read  bool // what is stored up to At, by Read
	Check bool // whether the transaction may still be included, if it is not
	Done  bool // the level waited for is reached, with the block At
	Level view.ExecutionLevel
}

// Step takes a fact. Facts come in the order of blocks, so the first that satisfies the wait is found.
func (c *Core) Step(m *messages.Progress) Decision {
	c.at = m.At
	var d Decision
	if m.Reorganised {
		c.outcomes.clear() // all of it may be untrue
		d.Read = true
	}
	for i := range m.Executed {
		e := &m.Executed[i]
		c.put(e)
		for _, id := range e.Outcome.Outcome.ReceiptIDs {
			c.watched.put(id, struct{}{}) // milestones does so by itself
		}
	}
	d.Read = d.Read || m.Watched
	d.Check = m.Doubt || m.Dropped
	d.Level = c.Level()
	d.Done = !d.Read && txstatus.Meets(d.Level, c.until)
	return d
}

// Forget begins anew: who told of all that is known does not know any more what he has told, nor whether it is true still.
func (c *Core) Forget() {
	c.outcomes.clear()
	c.watched.clear()
	c.watched.put(c.tx, struct{}{})
}

// At is the block as of which all is known.
func (c *Core) At() messages.Position { return c.at }

func (c *Core) put(e *messages.Executed) {
	c.outcomes.put(e.Outcome.ID, *e)
}

// Included tells whether the transaction is known to be in a block.
func (c *Core) Included() bool {
	return c.outcomes.get(c.tx) != nil
}

// Since is the height of the block that the transaction is in, 0 if none is known.
func (c *Core) Since() primitives.Height {
	if e := c.outcomes.get(c.tx); e != nil {
		return e.Height
	}
	return 0
}

// Ledger is what is stored of the current chain.
type Ledger interface {
	// Outcome returns the outcome of a transaction or receipt on the current chain, up to a height; false if there is none.
	Outcome(id primitives.Hash, upto primitives.Height) (messages.Executed, bool, error)
}

// Read takes up what is stored up to At. It returns the ids that are still to be watched: those receipts may be executed at any
// time, so the shell asks milestones to watch them and reads again once that is confirmed.
func (c *Core) Read(l Ledger) (watch []primitives.Hash, d Decision, err error) {
	stack := []primitives.Hash{c.tx}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		e := c.outcomes.get(id)
		if e == nil {
			stored, ok, err := l.Outcome(id, c.at.Head)
			if err != nil {
				return nil, d, err
			}
			if ok {
				c.put(&stored)
				e = &stored
			}
		}
		if e == nil {
			if c.watched.get(id) == nil {
				c.watched.put(id, struct{}{})
				watch = append(watch, id)
			}
			continue
		}
		stack = append(stack, e.Outcome.Outcome.ReceiptIDs...)
	}
	d.Level = c.Level()
	d.Done = txstatus.Meets(d.Level, c.until)
	return watch, d, nil
}

// Open are the ids that have no outcome yet.
func (c *Core) Open() (out []primitives.Hash) {
	for i := range c.watched.rows {
		if id := c.watched.rows[i].id; c.outcomes.get(id) == nil {
			out = append(out, id)
		}
	}
	return out
}

// Executed are the heights of the blocks of outcomes that are not final.
func (c *Core) Executed() (out []primitives.Height) {
	for i := range c.outcomes.rows {
		if h := c.outcomes.rows[i].of.Height; h > c.at.Final && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// Level is how far the transaction has come.
func (c *Core) Level() view.ExecutionLevel {
	if !c.Included() {
		return view.LevelNone
	}
	return txstatus.Reached(c.tx, func(id primitives.Hash) (x txstatus.Executed) {
		if e := c.outcomes.get(id); e != nil {
			x = txstatus.Executed{Outcome: e.Outcome, Final: e.Height <= c.at.Final, Refund: e.Refund}
		}
		return x
	})
}

// Outcome is part of txstatus.Source.
func (c *Core) Outcome(id primitives.Hash) (view.OutcomeProof, bool) {
	e := c.outcomes.get(id)
	if e == nil {
		return view.OutcomeProof{}, false
	}
	return view.OutcomeProof{OutcomeWithID: *e.Outcome, BlockHash: e.Block}, true
}

// IsRefund is part of txstatus.Source.
func (c *Core) IsRefund(id primitives.Hash, parent *view.OutcomeProof) bool {
	e := c.outcomes.get(parent.ID)
	return e != nil && e.Refund == id
}

// IsFinal is part of txstatus.Source. The outcomes are those of the current chain, so the height decides.
func (c *Core) IsFinal(block primitives.Hash) bool {
	for i := range c.outcomes.rows {
		if e := &c.outcomes.rows[i].of; e.Block == block {
			return e.Height <= c.at.Final
		}
	}
	return false
}
