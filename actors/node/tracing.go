package node

import (
	"encoding/binary"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Spans of transactions: where the time of one in so many went, on its way through session, mempool, chunk, shard, disk and waiter. Which ones is told by
// their hashes, so that each place knows it by itself, and no message has to carry anything. Without Options.Traced nobody looks.

// Span is a part of a trace.
type Span struct {
	Name       string
	Begin, End time.Time
	Attributes [][2]string
	Failed     string // why; empty: it did not
}

// Trace is what became of a transaction: all of it first, then its parts by their beginning.
type Trace struct {
	ID    primitives.Hash // of the transaction
	Spans []Span
}

// stage is a moment of a transaction.
type stage byte

const (
	submitted stage = iota // to the node, by its client
	routed               // to a mempool, by the client's session or the transaction's waiter
	checkBegun               // at, from here on
	checkEnded               // the look has ended
	chosen               // for a chunk
	imported              // its block is the tip
	persisted               // its block is on disk
	numStages
)

// parts are the spans between steps; one is there if both ends are.
var parts = []struct {
	name     string
	from, to stage
}{
	{"session", submitted, routed}, {"mempool.queue", routed, checkBegun}, {"mempool.check", checkBegun, checkEnded}, {"mempool.wait", checkEnded, chosen}, {"chunk", chosen, imported}, {"store", imported, persisted},
}

// Bounds of what is kept of transactions that are on their way.
const (
	maxOpen    = 4096
	maxOpenAge = 5 * time.Minute
	maxIdleAge = 10 * time.Second // of one that nobody waits for and no chunk has: mostly it was refused, of which nobody is told
	sweepPeriod = time.Second      // for those that are open too long
	maxApplied = 256
)

// txTrace is what is known of one on its way.
type txTrace struct {
	at     [numStages]time.Time
	signer primitives.AccountID
	height primitives.Height
	shard  primitives.ShardID
	wait   bool // somebody waits for it
	apply  [2]time.Time
}

type shardOfBlock struct {
	block primitives.Hash
	shard primitives.ShardID
}

// tracer records passages. nil: nobody asks.
type tracer struct {
	oneIn uint64
	out   func(*Trace)

	mu      sync.Mutex
	open    map[primitives.Hash]*txTrace
	swept  time.Time                     // through open, for what is there too long
	applied map[shardOfBlock][2]time.Time // when a shard's actor was told to apply, and was done
}

func newTracer(oneIn uint64, out func(*Trace)) *tracer {
	if out == nil {
		return nil
	}
	return &tracer{oneIn: max(oneIn, 1), out: out, open: map[primitives.Hash]*txTrace{}, applied: map[shardOfBlock][2]time.Time{}}
}

// sampled tells whether a transaction is one of those that are followed.
func (s *tracer) sampled(id primitives.Hash) bool {
	return s != nil && binary.LittleEndian.Uint64(id[:])%s.oneIn == 0
}

// begin follows a transaction from here on.
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
	if p := s.open[tx.Hash()]; p == nil && len(s.open) < maxOpen { // who hands it in for the second time joins it
		p = &txTrace{signer: tx.SignerID, wait: wait}
		p.at[submitted] = now
		s.open[tx.Hash()] = p
	}
}

// mark notes when transactions came to a step for the first time.
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

// applying notes that a shard's actor was told to apply its part of a block, and done that it has.
func (s *tracer) applying(id primitives.ShardID, block primitives.Hash, done bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.applied) >= maxApplied {
		clear(s.applied) // of blocks that were dropped, mostly
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

// block notes a block that is the tip, or on disk; who waits for nothing has then come to its end.
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

func (s *tracer) included(id primitives.Hash, height primitives.Height, shard primitives.ShardID, applied [2]time.Time, stored bool) {
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

// end tells of a transaction: its client has his answer, or wants none.
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

// trace makes the spans of a passage.
func (p *txTrace) trace(id primitives.Hash, now time.Time, err error) *Trace {
	root := Span{Name: "transaction", Begin: p.at[submitted], End: now, Attributes: [][2]string{{"near.tx", id.String()}, {"near.signer", string(p.signer)}}}
	if err != nil {
		root.Failed = err.Error()
	}
	if p.height != 0 {
		root.Attributes = append(root.Attributes, [2]string{"near.height", strconv.FormatUint(uint64(p.height), 10)}, [2]string{"near.shard", strconv.FormatUint(uint64(p.shard), 10)})
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
