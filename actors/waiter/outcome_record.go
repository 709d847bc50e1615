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

// Records are what waiters know of their transactions: once a transaction and branch, for all who wait for it, as long as anybody does. Many may wait
// for one that has a thousand receipts. Safe for use by many goroutines.
type Records struct {
	maxOutcomes     int64 // outcomes
	mu       sync.Mutex
	m        map[key]*record
	outcomes atomic.Int64
	lookups  atomic.Uint64
}

// key names a record. Behind an answer that a reorganisation took away a waiter has another one: what those knew who began before may be of the branch
// that lost, as long as milestones has told nobody of that.
type key struct {
	tx     primitives.Hash
	branch messages.Branch
	attempt  int
}

// fewOutcomes are read for a wait where no more are to be known.
const fewOutcomes = 64

// NewRecords returns none yet. Outcomes bounds of how many is known at a time, some 300 bytes each with what milestones has of it, and as many again of those of
// which it was asked: where there are so many, a wait that would read more than a few is refused. What blocks execute meanwhile comes on top.
func NewRecords(outcomes int) *Records { return &Records{maxOutcomes: int64(outcomes), m: map[key]*record{}} }

// RecordStats are how many transactions are known of, how many of their outcomes, and how many were sought in the store since the beginning.
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

// acquire returns a record for one waiter more.
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

// release ends what take began.
func (s *Records) release(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiters--; r.waiters == 0 {
		delete(s.m, r.key)
		s.outcomes.Add(-int64(len(r.outcomes.rows))) // nobody else has it
	}
}

// record is what is known of a transaction, not all of it as of the same block: some waiters are ahead of others, and each looks at what was executed up
// to where it is itself.
type record struct {
	key     key
	of      *Records // nil: it is a single waiter's
	waiters int      // under the Records' mutex

	mu       sync.Mutex
	outcomes table[knownOutcome]
	watched    table[struct{}]     // ids for which milestones has been asked
	heights  []primitives.Height // of outcomes, each once
	lastProgress     primitives.Height   // of the last block of which milestones has told something: all are told the same
	read     bool                // what is stored up to upto is here
	upto     primitives.Height
	levels   []reached // of a large one, lately
}

// knownOutcome is what levels rest on of an outcome. Its logs, result and profile may be large, and are nothing to wait with.
type knownOutcome struct {
	status  primitives.StatusKind
	sends   []primitives.Hash
	block   primitives.Hash
	height  primitives.Height
	refund  primitives.Hash
	outcome *primitives.OutcomeWithID // of a single waiter's
}

// reached is the level as of a position.
type reached struct {
	at    messages.Position
	level view.ExecutionLevel
}

// maxReached is how many levels are remembered: waiters are a few blocks apart.
const maxReached = 8

func newRecord(k key) *record {
	r := &record{key: k}
	r.watched.put(k.tx, struct{}{})
	return r
}

// clear forgets what was executed: all of it may be untrue.
func (r *record) clear() {
	r.outcomes.clear()
	r.heights, r.levels, r.lastProgress, r.read, r.upto = nil, nil, 0, false, 0
}

// get returns an outcome as it is known as of a height.
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
	x := knownOutcome{status: e.Outcome.Status.Kind, sends: e.Outcome.ReceiptIDs, block: e.Block, height: e.Height, refund: e.Refund}
	if r.of == nil {
		x.outcome = e.Outcome
	}
	r.outcomes.put(e.Outcome.ID, x)
	if !slices.Contains(r.heights, e.Height) {
		r.heights = append(r.heights, e.Height)
	}
	r.levels = slices.DeleteFunc(r.levels, func(x reached) bool { return x.at.Head >= from })
}

// acquire takes up what milestones tells of a block.
func (r *record) addProgress(m *messages.Progress) {
	if len(m.Executed) == 0 || r.of != nil && m.At.Head <= r.lastProgress {
		return
	}
	for i := range m.Executed {
		e := &m.Executed[i]
		r.put(e)
		for _, id := range e.Outcome.Outcome.ReceiptIDs {
			r.watched.put(id, struct{}{}) // milestones does so by itself
		}
	}
	r.lastProgress = m.At.Head
}

// readStored reads what is stored up to a height, and returns the ids without an outcome for which milestones is to be asked by who gets them: nobody else does. What others have
// read is not sought again.
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
	for _, id := range watch { // not before: who finds an error asks for nothing
		r.watched.put(id, struct{}{})
	}
	r.read, r.upto = true, max(r.upto, head)
	return watch, nil
}

// level is how far the transaction had come as of a position.
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
