// Package waiter waits until one transaction has reached a level: a state machine, Machine, and the
// actor around it. The comment of Actor describes the protocol.
//
//	in      messages.Progress from txtracker, Submitted from the mempool; stored outcomes,
//	        read through a Ledger; the timeout
//	out     Decision: what to read or check next, or that the wait is over, with the level as
//	        of the first block that satisfies it
//	state   Records: the known outcomes of each transaction, shared by its waiters; Machine:
//	        one wait, as of one block
//	units   heights in blocks
//	bound   one actor for each wait, limited by the sessions; each ends at its timeout. Memory
//	        grows with the receipts of the awaited transactions, not with the waiters of each
//	errors  view.ErrTimeout with the level reached, *primitives.InvalidTxError, the errors of
//	        mempool and Ledger
//	source  nearcore chain/client/src/view_client_actor.rs:518, chain/jsonrpc/src/lib.rs
//	        tx_status_fetch
package waiter

import (
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Machine is the state machine of one wait. Not safe for concurrent use.
type Machine struct {
	tx      primitives.Hash
	until   view.ExecutionLevel
	attempt int
	records *Records // shared records; nil: the machine has its own record
	branch  messages.Branch
	rec     *record           // known outcomes of the transaction; nil: none
	at      messages.Position // position of the last Progress; results are for this position
}

// NewMachine returns a machine that waits for tx to reach until, with a record of its own.
func NewMachine(tx primitives.Hash, until view.ExecutionLevel) *Machine {
	return &Machine{tx: tx, until: until}
}

// Leave releases the record. After that no outcome is known.
func (c *Machine) Leave() {
	if c.records != nil && c.rec != nil {
		c.records.release(c.rec)
	}
	c.rec = nil
}

// switchRecord acquires the record of the branch that the Progress is about.
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

// Decision says what the actor must do next, in the order of the fields.
type Decision struct {
	Read  bool // true: call Machine.Read
	Check bool // true: if no block includes the transaction, check whether a block still can
	Done  bool // true: the level is reached with the block at At
	Level view.ExecutionLevel
}

// Step applies a Progress. The caller must apply the Progress messages in the order of blocks, so
// that the first block that satisfies the wait sets Done.
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

// Forget drops all outcomes after a restart of txtracker, because the dropped outcomes may not be
// canonical.
func (c *Machine) Forget() { c.Leave() }

// begin sets the position as of which no block includes the transaction. After a Progress, begin
// does nothing and returns false.
func (c *Machine) begin(at messages.Position) bool {
	if c.at != (messages.Position{}) {
		return false
	}
	c.at = at
	return true
}

// At returns the position of the last Progress. All results of the machine are as of this position.
func (c *Machine) At() messages.Position { return c.at }

// executed returns the known outcome of id as of the position, or nil.
func (c *Machine) executed(id primitives.Hash) *knownOutcome {
	if c.rec == nil {
		return nil
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	if e := c.rec.get(id, c.at.Head); e != nil {
		known := *e // copy, because the table may move its rows
		return &known
	}
	return nil
}

// Included returns whether the transaction is known to be in a block.
func (c *Machine) Included() bool { return c.executed(c.tx) != nil }

// Since returns the height of the block that includes the transaction, or 0 if none is known.
func (c *Machine) Since() primitives.Height {
	if e := c.executed(c.tx); e != nil {
		return e.height
	}
	return 0
}

// Ledger reads stored outcomes of the current chain.
type Ledger interface {
	// Outcome returns the outcome of a transaction or receipt on the current chain up to a height.
	// ok is false if there is none.
	Outcome(id primitives.Hash, upto primitives.Height) (messages.Executed, bool, error)
}

// Read reads stored outcomes up to the position. It returns the ids without an outcome that
// txtracker does not watch yet. The outcome of such an id may be stored at any time. So the caller
// must watch these ids, and must call Read again once txtracker has confirmed the watch.
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

// Open returns the watched ids that have no known outcome.
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

// Executed returns the heights of blocks with known outcomes that are not final.
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

// Level returns the level that the transaction has reached as of the position.
func (c *Machine) Level() view.ExecutionLevel {
	if c.rec == nil {
		return view.LevelNone
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	return c.rec.level(c.at)
}

// Outcome implements txstatus.Source. A machine that shares its record returns no outcomes.
func (c *Machine) Outcome(id primitives.Hash) (view.OutcomeProof, bool) {
	e := c.executed(id)
	if e == nil || e.outcome == nil {
		return view.OutcomeProof{}, false
	}
	return view.OutcomeProof{OutcomeWithID: *e.outcome, BlockHash: e.block}, true
}

// IsRefund implements txstatus.Source.
func (c *Machine) IsRefund(id primitives.Hash, parent *view.OutcomeProof) bool {
	e := c.executed(parent.ID)
	return e != nil && e.refund == id
}

// IsFinal implements txstatus.Source. All known outcomes are canonical, so IsFinal only compares
// the block's height with the final height.
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
