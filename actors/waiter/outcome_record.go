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

// Records holds the known outcomes of awaited transactions: one record for each transaction and
// branch, shared by all its waiters and deleted with the last of them. Thousands may wait for a
// transaction with a thousand receipts. Safe for concurrent use.
type Records struct {
	maxOutcomes int64 // limit of outcomes
	mu          sync.Mutex
	m           map[key]*record
	outcomes    atomic.Int64
	lookups     atomic.Uint64
}

// key identifies a record. attempt separates waits that started after a reorganisation made an
// earlier answer invalid: until txtracker reports the reorganisation, the earlier record may hold
// outcomes of the replaced branch.
type key struct {
	tx      primitives.Hash
	branch  messages.Branch
	attempt int
}

// fewOutcomes is how many outcomes of a transaction are read even if Records is full.
const fewOutcomes = 64

// NewRecords returns an empty Records. outcomes limits the known outcomes. Each takes some 300
// bytes with txtracker's share, and as much again for watched ids without an outcome. At the limit,
// a wait that would read more than fewOutcomes from the store fails. Outcomes that txtracker
// reports are always added.
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

// release undoes acquire. The record is deleted with its last waiter.
func (s *Records) release(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiters--; r.waiters == 0 {
		delete(s.m, r.key)
		s.outcomes.Add(-int64(len(r.outcomes.rows))) // no other waiter uses it
	}
}

// record holds the known outcomes of one transaction. Its waiters may be at different blocks; each
// sees the outcomes up to its own position.
type record struct {
	key     key
	of      *Records // nil: one machine owns it alone
	waiters int      // guarded by Records.mu

	mu           sync.Mutex
	outcomes     table[knownOutcome]
	watched      table[struct{}]     // ids that txtracker watches
	heights      []primitives.Height // of blocks with outcomes, without duplicates
	lastProgress primitives.Height   // last block that txtracker reported; all waiters get the same reports
	read         bool                // the stored outcomes up to height upto are in outcomes
	upto         primitives.Height
	levels       []reached // recently computed levels of a large transaction
}

// knownOutcome is the part of an outcome that levels depend on. Logs, result and profile may be
// large and are not needed.
type knownOutcome struct {
	status  primitives.StatusKind
	sends   []primitives.Hash
	block   primitives.Hash
	height  primitives.Height
	refund  primitives.Hash
	outcome *primitives.OutcomeWithID // set only in a record that one machine owns
}

// reached is the level of the transaction at a position.
type reached struct {
	at    messages.Position
	level view.ExecutionLevel
}

// maxReached is how many levels are cached. Waiters are only a few blocks apart.
const maxReached = 8

func newRecord(k key) *record {
	r := &record{key: k}
	r.watched.put(k.tx, struct{}{})
	return r
}

// clear deletes the outcomes, because they may not be canonical.
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

// addProgress adds what txtracker reports of a block.
func (r *record) addProgress(m *messages.Progress) {
	if len(m.Executed) == 0 || r.of != nil && m.At.Head <= r.lastProgress {
		return
	}
	for i := range m.Executed {
		e := &m.Executed[i]
		r.put(e)
		for _, id := range e.Outcome.Outcome.ReceiptIDs {
			r.watched.put(id, struct{}{}) // txtracker watches them by itself
		}
	}
	r.lastProgress = m.At.Head
}

// readStored reads stored outcomes up to height head. It returns the ids without an outcome
// that the caller must watch; no other waiter will. Outcomes that another waiter has read are
// not read again.
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
	for _, id := range watch { // after the last possible error: a caller that gets an error watches nothing
		r.watched.put(id, struct{}{})
	}
	r.read, r.upto = true, max(r.upto, head)
	return watch, nil
}

// level returns how far the transaction had come as of a position.
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
