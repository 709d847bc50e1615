package node

import (
	"encoding/binary"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Span is a named period in a trace.
type Span struct {
	Name       string
	Begin, End time.Time
	Attributes [][2]string
	Failed     string // error text; empty: the span succeeded
}

// Trace shows where the time of one transaction was spent. The first span covers the whole. The
// spans of its parts follow, ordered by their begin.
//
// The node traces one in OneIn transactions. The hash determines whether a transaction is traced,
// so each stage decides this alone, without additional data in messages.
type Trace struct {
	ID    primitives.Hash // hash of the transaction
	Spans []Span
}

// stage is a point in the processing of a transaction.
type stage byte

const (
	submitted  stage = iota // a client has submitted the transaction
	routed                  // the session or waiter has sent the transaction to a mempool
	checkBegun              // the check of the transaction has begun
	checkEnded              // the check of the transaction has ended
	chosen                  // a chunk includes the transaction
	imported                // the transaction's block is in memory
	persisted               // the transaction's block is on disk
	numStages
)

// parts are the spans between two stages. A trace contains a span if the transaction passed both
// stages.
var parts = []struct {
	name     string
	from, to stage
}{
	{"session", submitted, routed}, {"mempool.queue", routed, checkBegun}, {"mempool.check", checkBegun,
		checkEnded}, {"mempool.wait", checkEnded, chosen}, {"chunk", chosen, imported}, {"store", imported, persisted},
}

// Limits of the traces that are not finished.
const (
	maxOpen    = 4096
	maxOpenAge = 5 * time.Minute
	// maxIdleAge is the maximum age of a trace if no client waits and no chunk has the transaction.
	// Most likely the transaction was rejected, which the tracer does not see.
	maxIdleAge  = 10 * time.Second
	sweepPeriod = time.Second // time between two removals of old traces
	maxApplied  = 256
)

// txTrace is the unfinished trace of a transaction.
type txTrace struct {
	at     [numStages]time.Time
	signer primitives.AccountID
	height primitives.Height
	shard  primitives.ShardID
	wait   bool // a client waits for the transaction
	apply  [2]time.Time
}

type shardOfBlock struct {
	block primitives.Hash
	shard primitives.ShardID
}

// tracer records traces. A nil *tracer is valid and records nothing. Safe for concurrent use.
type tracer struct {
	oneIn uint64
	out   func(*Trace)

	mu      sync.Mutex
	open    map[primitives.Hash]*txTrace
	swept   time.Time                     // time of the last removal of old traces
	applied map[shardOfBlock][2]time.Time // when applying a shard's chunk began and ended
}

func newTracer(oneIn uint64, out func(*Trace)) *tracer {
	if out == nil {
		return nil
	}
	return &tracer{oneIn: max(oneIn, 1), out: out, open: map[primitives.Hash]*txTrace{},
		applied: map[shardOfBlock][2]time.Time{}}
}

// sampled returns whether a transaction is traced.
func (s *tracer) sampled(id primitives.Hash) bool {
	return s != nil && binary.LittleEndian.Uint64(id[:])%s.oneIn == 0
}

// begin starts the trace of a transaction. wait says whether a client waits for the transaction.
func (s *tracer) begin(tx *primitives.SignedTransaction, wait bool) {
	if tx == nil || !s.sampled(tx.Hash()) {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxOpen && now.Sub(s.swept) >= sweepPeriod {
		s.swept = now
		for id, p := range s.open {
			limit := maxOpenAge
			if !p.wait && p.at[chosen].IsZero() {
				limit = maxIdleAge
			}
			if now.Sub(p.at[submitted]) > limit {
				delete(s.open, id)
			}
		}
	}
	// A second submission of the same transaction continues the open trace.
	if p := s.open[tx.Hash()]; p == nil && len(s.open) < maxOpen {
		p = &txTrace{signer: tx.SignerID, wait: wait}
		p.at[submitted] = now
		s.open[tx.Hash()] = p
	}
}

// mark records the time at which transactions reach a stage for the first time.
func (s *tracer) mark(txs []*primitives.SignedTransaction, at stage) {
	if s == nil {
		return
	}
	for _, tx := range txs {
		if id := tx.Hash(); s.sampled(id) {
			s.mu.Lock()
			if p := s.open[id]; p != nil && p.at[at].IsZero() {
				p.at[at] = time.Now()
			}
			s.mu.Unlock()
		}
	}
}

// applying records that a shard's chunk of a block was sent to the shard's actor or, if done is
// set, that the actor has applied the chunk.
func (s *tracer) applying(id primitives.ShardID, block primitives.Hash, done bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.applied) >= maxApplied {
		clear(s.applied) // most entries are of blocks that were dropped
	}
	key := shardOfBlock{block, id}
	x := s.applied[key]
	if done {
		x[1] = time.Now()
	} else {
		x[0] = time.Now()
	}
	s.applied[key] = x
}

// block records that a block was imported or persisted. When a block is persisted, method block
// ends the traces of the block's transactions for which no client waits.
func (s *tracer) block(m *messages.BlockAccepted, at stage) {
	if s == nil {
		return
	}
	for i := range m.Shards {
		x := &m.Shards[i]
		s.mu.Lock()
		applied := s.applied[shardOfBlock{m.Hash, x.ID}]
		if at == persisted {
			delete(s.applied, shardOfBlock{m.Hash, x.ID})
		}
		s.mu.Unlock()
		if x.Chunk == nil {
			continue
		}
		s.mark(x.Chunk.Transactions, at)
		for _, tx := range x.Chunk.Transactions {
			if id := tx.Hash(); s.sampled(id) {
				s.included(id, m.Height(), x.ID, applied, at == persisted)
			}
		}
	}
}

func (s *tracer) included(id primitives.Hash, height primitives.Height, shard primitives.ShardID,
	applied [2]time.Time, stored bool) {
	s.mu.Lock()
	p := s.open[id]
	over := false
	if p != nil {
		if p.height == 0 {
			p.height, p.shard, p.apply = height, shard, applied
		}
		over = stored && !p.wait
	}
	s.mu.Unlock()
	if over {
		s.end(id, nil)
	}
}

// end finishes a trace and passes the trace to out. err is the error that the client gets.
func (s *tracer) end(id primitives.Hash, err error) {
	if !s.sampled(id) {
		return
	}
	s.mu.Lock()
	p := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if p != nil {
		s.out(p.trace(id, time.Now(), err))
	}
}

// trace converts an unfinished trace to spans.
func (p *txTrace) trace(id primitives.Hash, now time.Time, err error) *Trace {
	root := Span{Name: "transaction", Begin: p.at[submitted], End: now,
		Attributes: [][2]string{{"near.tx", id.String()}, {"near.signer", string(p.signer)}}}
	if err != nil {
		root.Failed = err.Error()
	}
	if p.height != 0 {
		root.Attributes = append(root.Attributes, [2]string{"near.height", strconv.FormatUint(uint64(p.height), 10)},
			[2]string{"near.shard", strconv.FormatUint(uint64(p.shard), 10)})
	}
	t := &Trace{ID: id, Spans: []Span{root}}
	add := func(name string, from, to time.Time) {
		if !from.IsZero() && !to.Before(from) {
			t.Spans = append(t.Spans, Span{Name: name, Begin: from, End: to})
		}
	}
	for _, x := range parts {
		add(x.name, p.at[x.from], p.at[x.to])
		if x.to == imported {
			add("shard.apply", p.apply[0], p.apply[1])
		}
	}
	if p.wait && !p.at[persisted].IsZero() {
		add("waiter", p.at[persisted], now)
	}
	return t
}
