package waiter

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Records contains the known outcomes of awaited transactions. There is one record for each
// transaction and branch. All waiters of the transaction share the record, and release of the last
// waiter deletes it. Without sharing, memory would grow with the waiters times the receipts of a
// transaction: thousands of clients may wait for one transaction with a thousand receipts. Safe for
// concurrent use.
type Records struct {
	maxOutcomes int64 // maximum number of outcomes in all records
	mu          sync.Mutex
	m           map[key]*record
	outcomes    atomic.Int64
	lookups     atomic.Uint64
}

// key identifies a record. attempt separates waits that began after a reorganisation made the
// answer of a previous wait invalid. Until txtracker reports the reorganisation, the record of the
// previous attempt may contain outcomes of the replaced branch.
type key struct {
	tx      primitives.Hash
	branch  messages.Branch
	attempt int
}

// fewOutcomes is the number of outcomes of a transaction that are read even if Records is full.
const fewOutcomes = 64

// NewRecords returns an empty Records. outcomes is the maximum number of known outcomes. Each takes
// some 300 bytes, including txtracker's share. Watched ids without an outcome take as much again.
// At the maximum, a wait that would read more than fewOutcomes from the store fails. Outcomes that
// txtracker reports are always added.
func NewRecords(outcomes int) *Records {
	return &Records{maxOutcomes: int64(outcomes), m: map[key]*record{}}
}

// RecordStats counts known transactions and outcomes, and outcomes read from the store since the
// start.
type RecordStats struct {
	Transactions int
	Outcomes     int64
	Lookups      uint64
}

// Stats returns the counts.
func (s *Records) Stats() RecordStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return RecordStats{Transactions: len(s.m), Outcomes: s.outcomes.Load(), Lookups: s.lookups.Load()}
}

// acquire returns the record of k, and counts one more waiter.
func (s *Records) acquire(k key) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.m[k]
	if r == nil {
		r = newRecord(k)
		r.of = s
		s.m[k] = r
	}
	r.waiters++
	return r
}

// release undoes acquire. When the last waiter of a record has released it, release deletes the
// record.
func (s *Records) release(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiters--; r.waiters == 0 {
		delete(s.m, r.key)
		s.outcomes.Add(-int64(len(r.outcomes.rows))) // no other waiter uses the record
	}
}

// record contains the known outcomes of one transaction. Its waiters may be at different blocks.
// Each waiter sees only the outcomes up to its own position.
type record struct {
	key     key
	of      *Records // owner of the shared record; nil: only one Machine uses the record
	waiters int      // number of waiters that use the record; guarded by Records.mu

	mu       sync.Mutex
	outcomes table[knownOutcome]
	watched  table[struct{}]     // ids that txtracker watches
	heights  []primitives.Height // heights of blocks with outcomes, without duplicates
	// height of the last block that txtracker reported; all waiters get the same reports
	lastProgress primitives.Height
	read         bool // true: outcomes contains all stored outcomes up to height upto
	upto         primitives.Height
	levels       []reached // recently computed levels of a large transaction
}

// knownOutcome is the part of an outcome that determines levels. knownOutcome leaves out logs,
// result and profile, which may be large.
type knownOutcome struct {
	status  primitives.StatusKind
	sends   []primitives.Hash
	block   primitives.Hash
	height  primitives.Height
	refund  primitives.Hash
	outcome *primitives.OutcomeWithID // whole outcome; nil in a shared record
}

// reached is the level of the transaction at a position.
type reached struct {
	at    messages.Position
	level view.ExecutionLevel
}

// maxReached is the maximum number of cached levels. maxReached can be small, because the waiters
// of a record are only a few blocks apart.
const maxReached = 8

func newRecord(k key) *record {
	r := &record{key: k}
	r.watched.put(k.tx, struct{}{})
	return r
}

// clear deletes the outcomes. The waiter calls clear when the outcomes may not be canonical.
func (r *record) clear() {
	r.outcomes.clear()
	r.heights, r.levels, r.lastProgress, r.read, r.upto = nil, nil, 0, false, 0
}

// get returns an outcome in a block up to height head, or nil.
func (r *record) get(id primitives.Hash, head primitives.Height) *knownOutcome {
	if e := r.outcomes.get(id); e != nil && e.height <= head {
		return e
	}
	return nil
}

func (r *record) put(e *messages.Executed) {
	before := r.outcomes.get(e.Outcome.ID)
	from := e.Height
	switch {
	case before == nil:
		if r.of != nil {
			r.of.outcomes.Add(1)
		}
	case before.height == e.Height && before.block == e.Block:
		return
	default:
		from = min(from, before.height)
	}
	x := knownOutcome{status: e.Outcome.Status.Kind, sends: e.Outcome.ReceiptIDs, block: e.Block, height: e.Height,
		refund: e.Refund}
	if r.of == nil {
		x.outcome = e.Outcome
	}
	r.outcomes.put(e.Outcome.ID, x)
	if !slices.Contains(r.heights, e.Height) {
		r.heights = append(r.heights, e.Height)
	}
	r.levels = slices.DeleteFunc(r.levels, func(x reached) bool { return x.at.Head >= from })
}

// addProgress adds the outcomes in a report of txtracker.
func (r *record) addProgress(m *messages.Progress) {
	if len(m.Executed) == 0 || r.of != nil && m.At.Head <= r.lastProgress {
		return
	}
	for i := range m.Executed {
		e := &m.Executed[i]
		r.put(e)
		for _, id := range e.Outcome.Outcome.ReceiptIDs {
			r.watched.put(id, struct{}{}) // txtracker watches these ids without a request
		}
	}
	r.lastProgress = m.At.Head
}

// readStored reads stored outcomes up to height head. It returns the ids without an outcome that
// the caller must watch, because no other waiter of the record watches them. readStored does not
// repeat reads that another waiter of the record has made.
func (r *record) readStored(l Ledger, head primitives.Height) (watch []primitives.Hash, err error) {
	if r.of != nil && r.read && head <= r.upto {
		return nil, nil
	}
	stack := []primitives.Hash{r.key.tx}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		e := r.outcomes.get(id)
		if e == nil {
			if r.of != nil {
				if len(r.outcomes.rows) >= fewOutcomes && r.of.outcomes.Load() >= r.of.maxOutcomes {
					return nil, &view.LookupError{Kind: view.ErrTooManyRequests}
				}
				r.of.lookups.Add(1)
			}
			stored, ok, err := l.Outcome(id, head)
			if err != nil {
				return nil, err
			}
			if ok {
				r.put(&stored)
				e = r.outcomes.get(id)
			}
		}
		switch {
		case e == nil && r.watched.get(id) == nil:
			watch = append(watch, id)
		case e != nil:
			stack = append(stack, e.sends...)
		}
	}
	// Add the ids after the last possible error. A caller that gets an error watches nothing.
	for _, id := range watch {
		r.watched.put(id, struct{}{})
	}
	r.read, r.upto = true, max(r.upto, head)
	return watch, nil
}

// level returns the level of the transaction as of a position.
func (r *record) level(at messages.Position) view.ExecutionLevel {
	few := len(r.outcomes.rows) <= unindexedRows
	if !few {
		for _, x := range r.levels {
			if x.at == at {
				return x.level
			}
		}
	}
	level := txstatus.Reached(r.key.tx, func(id primitives.Hash) (x txstatus.Executed) {
		if e := r.get(id, at.Head); e != nil {
			x = txstatus.Executed{Known: true, Status: e.status, Sends: e.sends, Final: e.height <= at.Final, Refund: e.refund}
		}
		return x
	})
	if few {
		return level
	}
	if len(r.levels) == maxReached {
		r.levels = slices.Delete(r.levels, 0, 1)
	}
	r.levels = append(r.levels, reached{at, level})
	return level
}
