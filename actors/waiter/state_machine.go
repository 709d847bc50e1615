// Package waiter waits for one transaction: a small state machine fed with facts, and the actor around it.
//
//	in      messages.Progress from milestones, Submitted from the mempool; what is stored, read through a Ledger; the end of
//	        patience
//	out     Decision: what to watch, to read or to check next, or the answer: the level as of the first block that satisfies
//	        the wait
//	state   Records: the outcomes of each transaction known so far, for all who wait for it; Core: one wait, as of one block
//	units   heights in blocks
//	bound   one for each wait, bounded by the sessions; each ends at its timeout. Memory as the transactions that are waited for have
//	        receipts, however many wait for one
//	errors  view.ErrTimeout with the level reached, *primitives.InvalidTxError, the mempool's and the Ledger's errors
//	source  rpc.md 5.1, 5.2; nearcore chain/client/src/view_client_actor.rs:518, chain/jsonrpc/src/lib.rs tx_status_fetch
package waiter

import (
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Machine is the state machine of one wait. It is not safe for concurrent use.
type Machine struct {
	tx      primitives.Hash
	until   view.ExecutionLevel
	attempt   int
	records *Records // nil: it knows alone
	branch  messages.Branch
	rec       *record           // nil: nothing is known
	at      messages.Position // what is known is known as of this
}

// NewMachine returns the state of a wait for tx that knows alone.
func NewMachine(tx primitives.Hash, until view.ExecutionLevel) *Machine {
	return &Machine{tx: tx, until: until}
}

// Leave says that nothing more is to be known.
func (c *Machine) Leave() {
	if c.records != nil && c.rec != nil {
		c.records.release(c.rec)
	}
	c.rec = nil
}

// switchRecord goes to what is known of a branch.
func (c *Machine) switchRecord(m *messages.Progress) {
	switch {
	case c.records != nil && c.rec != nil && c.branch == m.Branch && !m.Reorganised:
	case c.records != nil:
		c.Leave()
		c.rec, c.branch = c.records.acquire(key{c.tx, m.Branch, c.attempt}), m.Branch
	case c.rec == nil:
		c.rec = newRecord(key{tx: c.tx})
	case m.Reorganised:
		c.rec.clear()
	}
}

// Decision is what the shell is to do, in this order.
type Decision struct {
	Read  bool // what is stored up to At, by Read
	Check bool // whether the transaction may still be included, if it is not
	Done  bool // the level waited for is reached, with the block At
	Level view.ExecutionLevel
}

// Step takes a fact. Facts come in the order of blocks, so the first that satisfies the wait is found.
func (c *Machine) Step(m *messages.Progress) Decision {
	c.at = m.At
	c.switchRecord(m)
	var d Decision
	d.Read = m.Watched || m.Reorganised
	d.Check = m.Doubt || m.Dropped != nil
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	c.rec.addProgress(m)
	d.Level = c.rec.level(c.at)
	d.Done = !d.Read && txstatus.Meets(d.Level, c.until)
	return d
}

// Forget begins anew: who told of all that is known does not know any more what he has told, nor whether it is true still.
func (c *Machine) Forget() { c.Leave() }

// At is the block as of which all is known.
func (c *Machine) At() messages.Position { return c.at }

// executed is what is known of an outcome, nil if nothing is.
func (c *Machine) executed(id primitives.Hash) *knownOutcome {
	if c.rec == nil {
		return nil
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	if e := c.rec.get(id, c.at.Head); e != nil {
		known := *e // the table may move
		return &known
	}
	return nil
}

// Included tells whether the transaction is known to be in a block.
func (c *Machine) Included() bool { return c.executed(c.tx) != nil }

// Since is the height of the block that the transaction is in, 0 if none is known.
func (c *Machine) Since() primitives.Height {
	if e := c.executed(c.tx); e != nil {
		return e.height
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
func (c *Machine) Read(l Ledger) (watch []primitives.Hash, d Decision, err error) {
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	if watch, err = c.rec.readStored(l, c.at.Head); err != nil {
		return nil, d, err
	}
	d.Level = c.rec.level(c.at)
	d.Done = txstatus.Meets(d.Level, c.until)
	return watch, d, nil
}

// Open are the ids that have no outcome yet.
func (c *Machine) Open() (out []primitives.Hash) {
	if c.rec == nil {
		return []primitives.Hash{c.tx}
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	for i := range c.rec.watched.rows {
		if id := c.rec.watched.rows[i].id; c.rec.outcomes.get(id) == nil {
			out = append(out, id)
		}
	}
	return out
}

// Executed are the heights of the blocks of outcomes that are not final.
func (c *Machine) Executed() (out []primitives.Height) {
	if c.rec == nil {
		return nil
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	for _, h := range c.rec.heights {
		if h > c.at.Final && h <= c.at.Head {
			out = append(out, h)
		}
	}
	return out
}

// Level is how far the transaction has come.
func (c *Machine) Level() view.ExecutionLevel {
	if c.rec == nil {
		return view.LevelNone
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	return c.rec.level(c.at)
}

// Outcome is part of txstatus.Source, of a Core that knows alone.
func (c *Machine) Outcome(id primitives.Hash) (view.OutcomeProof, bool) {
	e := c.executed(id)
	if e == nil || e.outcome == nil {
		return view.OutcomeProof{}, false
	}
	return view.OutcomeProof{OutcomeWithID: *e.outcome, BlockHash: e.block}, true
}

// IsRefund is part of txstatus.Source.
func (c *Machine) IsRefund(id primitives.Hash, parent *view.OutcomeProof) bool {
	e := c.executed(parent.ID)
	return e != nil && e.refund == id
}

// IsFinal is part of txstatus.Source. The outcomes are those of the current chain, so the height decides.
func (c *Machine) IsFinal(block primitives.Hash) bool {
	if c.rec == nil {
		return false
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	for i := range c.rec.outcomes.rows {
		if e := &c.rec.outcomes.rows[i].value; e.block == block {
			return e.height <= c.at.Final
		}
	}
	return false
}
