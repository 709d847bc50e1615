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
	again  int
}

// NewRecords returns none yet.
func NewRecords() *Records { return &Records{m: map[key]*record{}} }

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

// take returns a record for one waiter more.
func (s *Records) take(k key) *record {
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

// leave ends what take began.
func (s *Records) leave(r *record) {
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
	outcomes table[messages.Executed]
	asked    table[struct{}]     // ids for which milestones has been asked
	heights  []primitives.Height // of outcomes, each once
	news     primitives.Height   // of the last block of which milestones has told something: all are told the same
	read     bool                // what is stored up to upto is here
	upto     primitives.Height
	levels   []reached // of a large one, lately
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
	r.asked.put(k.tx, struct{}{})
	return r
}

// clear forgets what was executed: all of it may be untrue.
func (r *record) clear() {
	r.outcomes.clear()
	r.heights, r.levels, r.news, r.read, r.upto = nil, nil, 0, false, 0
}

// get returns an outcome as it is known as of a height.
func (r *record) get(id primitives.Hash, head primitives.Height) *messages.Executed {
	if e := r.outcomes.get(id); e != nil && e.Height <= head {
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
	case before.Height == e.Height && before.Block == e.Block:
		return
	default:
		from = min(from, before.Height)
	}
	r.outcomes.put(e.Outcome.ID, *e)
	if !slices.Contains(r.heights, e.Height) {
		r.heights = append(r.heights, e.Height)
	}
	r.levels = slices.DeleteFunc(r.levels, func(x reached) bool { return x.at.Head >= from })
}

// take takes up what milestones tells of a block.
func (r *record) take(m *messages.Progress) {
	if len(m.Executed) == 0 || r.of != nil && m.At.Head <= r.news {
		return
	}
	for i := range m.Executed {
		e := &m.Executed[i]
		r.put(e)
		for _, id := range e.Outcome.Outcome.ReceiptIDs {
			r.asked.put(id, struct{}{}) // milestones does so by itself
		}
	}
	r.news = m.At.Head
}

// find reads what is stored up to a height, and returns the ids without an outcome for which milestones is to be asked. What others have read is not
// sought again.
func (r *record) find(l Ledger, head primitives.Height) (watch []primitives.Hash, err error) {
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
				r.of.lookups.Add(1)
			}
			stored, ok, err := l.Outcome(id, head)
			if err != nil {
				return nil, err
			}
			if ok {
				r.put(&stored)
				e = &stored
			}
		}
		switch {
		case e == nil && r.asked.get(id) == nil:
			r.asked.put(id, struct{}{})
			watch = append(watch, id)
		case e != nil:
			stack = append(stack, e.Outcome.Outcome.ReceiptIDs...)
		}
	}
	r.read, r.upto = true, max(r.upto, head)
	return watch, nil
}

// level is how far the transaction had come as of a position.
func (r *record) level(at messages.Position) view.ExecutionLevel {
	few := len(r.outcomes.rows) <= fewRows
	if !few {
		for _, x := range r.levels {
			if x.at == at {
				return x.level
			}
		}
	}
	level := txstatus.Reached(r.key.tx, func(id primitives.Hash) (x txstatus.Executed) {
		if e := r.get(id, at.Head); e != nil {
			x = txstatus.Executed{Outcome: e.Outcome, Final: e.Height <= at.Final, Refund: e.Refund}
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
